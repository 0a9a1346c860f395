//! Facts about volumes, on simulated and on real disks.

mod cases;
mod crashes;
mod damage;
mod failing;
mod harness;
mod large;
mod mending;
mod merging;
mod real;
mod space;
mod unreadable;
