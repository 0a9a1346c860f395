//! The model against the kernel: random scripts on the model and, through system calls, on a
//! fresh tmpfs must agree in every outcome and in the whole tree.
//!
//! Needs root: it mounts, changes root and credentials. See `mount` for why it cannot do harm.

mod calls;
mod mount;
mod regressions;
mod worker;

use hearth_model::strategy::{Abilities, script};
use hearth_model::{Difference, Op, compare, listing, reduce};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestError, TestRunner};

use crate::mount::Kernel;

/// Steps between two comparisons of the trees.
const TREE_EVERY: usize = 16;

/// Runs one script on model and kernel.
fn check(kind: mount::Kind, steps: &[(usize, Op)]) -> Result<(), Difference> {
    let mut kernel = Kernel::start(kind);
    compare(&mut kernel, steps, TREE_EVERY)
}

fn random_scripts(kind: mount::Kind, abilities: Abilities, cases: u32, regressions: &'static str) {
    let cases = std::env::var("HEARTH_MODEL_CASES").map_or(cases, |v| v.parse().unwrap());
    let persistence = FileFailurePersistence::Direct(regressions);
    let config = ProptestConfig {
        cases,
        max_shrink_iters: 500,
        failure_persistence: Some(Box::new(persistence)),
        ..ProptestConfig::default()
    };
    let result = TestRunner::new(config).run(&script(abilities, 1..100), |steps| {
        check(kind, &steps).map_err(|d| TestCaseError::fail(d.to_string()))
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(_, steps)) => {
            let steps = reduce(&steps, |steps| check(kind, steps).is_err());
            let why = check(kind, &steps).expect_err("it failed before");
            panic!("{why}\n{}", listing(&steps))
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn model_and_tmpfs_agree_on_random_scripts() {
    mount::check_machine();
    let abilities = Abilities { ranges: false, projects: false };
    random_scripts(mount::Kind::Tmpfs, abilities, 1000, "tests/kernel/tmpfs.regressions");
}
