//! Choices that can be made again.

pub use hearth_testing::random::Random;

/// What random choices start from: `HEARTH_SEED`, or always the same.
pub fn seed() -> u64 {
    match std::env::var("HEARTH_SEED") {
        Ok(text) => text.parse().expect("HEARTH_SEED is a number"),
        Err(_) => 1,
    }
}
