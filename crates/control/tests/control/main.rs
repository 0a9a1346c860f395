//! The control files of a volume, read and written through the library.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in what its tests share as well"
)]

mod ask;
mod files;
mod fixture;
mod heat_reports;
mod locks;
mod tunables;
