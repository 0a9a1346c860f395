//! Scripts: calls of the model, larger writes, syncs, and what a store does by itself.

use hearth_model::strategy::{Abilities, script as calls};
use hearth_model::{Fill, Op, PROCESSES};
use hearth_store::disk::simulated::Dice;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const ABILITIES: Abilities = Abilities {
    ranges: true,
    projects: true,
    direct: true,
};

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// A call of a process.
    Call(usize, Op),
    /// A sync of the whole volume.
    Sync,
    /// Everything that can go leaves memory.
    Forget,
    /// Idle work, all of it.
    Tidy,
    /// What was committed moves into tables.
    Checkpoint,
    /// The witness gets the last epoch.
    Witness,
}

/// The script of a seed.
pub fn script(seed: u64) -> Vec<Step> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let drawn = calls(ABILITIES, 20..80).new_tree(&mut runner);
    let drawn = drawn.expect("a script can always be drawn").current();
    let mut dice = Dice(seed ^ 0x7363_7269_7074);
    let mut steps = Vec::new();
    for (p, op) in drawn {
        between(&mut dice, &mut steps);
        steps.push(Step::Call(p, op));
    }
    steps.push(Step::Sync);
    steps
}

/// What happens between two calls, if anything.
fn between(dice: &mut Dice, steps: &mut Vec<Step>) {
    // Not the observer, who opens nothing.
    let p = 1 + dice.below(PROCESSES.len() as u64 - 1) as usize;
    let fd = dice.below(3) as i32;
    let more = match dice.below(28) {
        0 => Step::Sync,
        1..=4 => Step::Call(
            p,
            Op::Sync {
                fd,
                data_only: dice.coin(),
            },
        ),
        5 => Step::Forget,
        6 | 7 => Step::Tidy,
        8 => Step::Checkpoint,
        9 => Step::Witness,
        10..=12 => Step::Call(p, large_write(fd, dice)),
        _ => return,
    };
    steps.push(more);
}

/// More than rides in a frame, so that it goes to a segment at once.
fn large_write(fd: i32, dice: &mut Dice) -> Op {
    let data = Fill {
        seed: 1 + dice.below(249) as u8,
        len: 66_000 + dice.below(40_000) as usize,
    };
    let offset = dice.below(30_000) as i64;
    Op::WriteAt { fd, data, offset }
}

/// A script, one step a line.
pub fn listing(steps: &[Step]) -> String {
    let lines = steps.iter().map(|step| format!("    {step:?},\n"));
    lines.collect()
}
