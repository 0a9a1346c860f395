//! The model against the kernel: random scripts on the model and, through system calls, on a
//! fresh tmpfs must agree in every outcome and in the whole tree.
//!
//! Needs root: it mounts, changes root and credentials. See `mount` for why it cannot do harm.

mod asked;
mod calls;
mod lock_calls;
mod mount;
mod regressions;
mod statx;
mod worker;

use hearth_model::strategy::{Abilities, data_script, script};
use hearth_model::{Difference, Op, compare, listing, reduce};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestError, TestRunner};

use crate::mount::{Kernel, Kind};

/// Steps between two comparisons of the trees.
const TREE_EVERY: usize = 16;

/// Runs one script on model and kernel.
fn check(kind: Kind, steps: &[(usize, Op)]) -> Result<(), Difference> {
    let tree_every = if kind == Kind::Tmpfs { TREE_EVERY } else { 0 };
    compare(&mut Kernel::start(kind), steps, tree_every)
}

fn random_scripts(kind: Kind, cases: u32, scripts: impl Strategy<Value = Vec<(usize, Op)>>) {
    mount::check_machine();
    let cases = std::env::var("HEARTH_MODEL_CASES").map_or(cases, |v| v.parse().expect("a number"));
    let persistence = FileFailurePersistence::Direct("tests/kernel/seeds.txt");
    let config = ProptestConfig {
        cases,
        max_shrink_iters: 500,
        failure_persistence: Some(Box::new(persistence)),
        ..ProptestConfig::default()
    };
    let result = TestRunner::new(config).run(&scripts, |steps| {
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
    random_scripts(
        Kind::Tmpfs,
        1000,
        script(
            Abilities {
                ranges: false,
                projects: false,
                direct: true,
            },
            1..100,
        ),
    );
}

/// tmpfs cannot shift ranges.
#[test]
fn model_and_ext4_agree_on_file_contents() {
    random_scripts(Kind::Ext4, 120, data_script(1..80));
}
