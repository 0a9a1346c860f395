//! Whole stores in real directories: stores of earlier builds, and damage in each kind of file.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "stores/damage.rs"]
mod damage;
#[path = "stores/forks.rs"]
mod forks;
#[path = "stores/formats.rs"]
mod formats;
#[path = "stores/sample.rs"]
mod sample;
