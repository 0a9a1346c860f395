//! Running random scripts against a check.

use super::{Abilities, script};
use crate::compare::listing;
use crate::op::Op;
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use std::ops::Range;

/// Gives `check` a seed and a script of about `len` steps, as often as `config` says.
///
/// # Panics
/// If a check fails: with what it said, the seed, and a script that was made as short as possible.
pub fn run_scripts(
    config: ProptestConfig,
    (abilities, len): (Abilities, Range<usize>),
    check: impl Fn(u64, &[(usize, Op)]) -> Result<(), String>,
) {
    let config = ProptestConfig {
        failure_persistence: None,
        ..config
    };
    let input = (any::<u64>(), script(abilities, len));
    let result = TestRunner::new(config).run(&input, |(seed, steps)| {
        check(seed, &steps).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, (seed, steps))) => {
            panic!("{why}\nseed {seed}\n{}", listing(&steps))
        }
        Err(error) => panic!("{error}"),
    }
}
