//! Lock requests that wait on a mount, against the model: each on a thread of its own process.
//! Which of them are decided after a step, and how, the model says; that all others wait, the
//! volume's own count.

use super::asked::{Asked, LONG};
use super::harness::{self, Mounted, Transport};
use super::mount::{self, Kernel};
use super::{cases, inside, runner};
use hearth_model::strategy::waiting_script;
use hearth_model::{
    Fate, Op, Outcome, System, Turn, Waiter, compare_waiting, listing_of_turns, reduced,
    regressions,
};
use proptest::strategy::{Strategy, ValueTree};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

harness::on_both_transports!(
    requests_that_wait_are_decided_when_the_model_says_so_and_wait_until_then,
    requests_that_wait_are_decided_so_while_all_others_are_suspended,
    every_script_that_waits_agrees_on_a_mount,
);

const SCRIPTS: u32 = 120;

/// Processes on a mount, and their lock calls that are under way.
struct Waiting<'a> {
    kernel: Kernel,
    mounted: &'a Mounted,
    calls: BTreeMap<u64, Asked>,
}

impl System for Waiting<'_> {
    fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        self.kernel.apply(p, op)
    }

    fn is_mounted(&self) -> bool {
        self.kernel.is_mounted()
    }
}

impl Waiter for Waiting<'_> {
    fn ask(&mut self, ticket: u64, p: usize, op: &Op) {
        self.calls.insert(ticket, self.kernel.ask(p, op));
    }

    fn interrupt(&mut self, ticket: u64) {
        self.calls[&ticket].interrupt();
    }

    fn answer(&mut self, ticket: u64) -> Option<Outcome> {
        self.calls.remove(&ticket)?.answer()
    }

    fn waits(&mut self, many: usize, open: usize) -> bool {
        assert_eq!(self.calls.len(), many, "calls that have not answered");
        let limit = Instant::now() + LONG;
        while Counts::now(self.mounted) != (Counts { many, open }) {
            if Instant::now() > limit {
                return false;
            }
            thread::sleep(Duration::from_micros(200));
        }
        self.calls.values().all(Asked::is_under_way)
    }
}

/// Nobody is left behind by a script that went wrong.
impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        for (_, call) in std::mem::take(&mut self.calls) {
            call.interrupt();
            let _ = call.answer();
        }
    }
}

/// What the daemon knows of.
#[derive(PartialEq)]
struct Counts {
    /// Requests that wait.
    many: usize,
    /// Open file descriptions.
    open: usize,
}

impl Counts {
    fn now(mounted: &Mounted) -> Counts {
        let text = std::fs::read_to_string(mounted.at(".hearth/stats")).expect("statistics");
        let number = |key: &str| -> u64 {
            let of = |line: &str| line.strip_prefix(key)?.trim().parse().ok();
            text.lines().find_map(of).unwrap_or(0)
        };
        let done = |op: &str| {
            let all = number(&format!("hearth_op_seconds_count{{op=\"{op}\"}}"));
            all - number(&format!("hearth_op_errors_total{{op=\"{op}\"}}"))
        };
        let opened = done("open") + done("create");
        Counts {
            many: number("hearth_lock_waiters ") as usize,
            // This very text is open as well.
            open: (opened - done("release") - 1) as usize,
        }
    }
}

fn run(
    mounted: &Mounted,
    number: &Cell<usize>,
    turns: &[Turn],
) -> Result<BTreeMap<Fate, u64>, String> {
    number.set(number.get() + 1);
    let mut waiting = Waiting {
        kernel: inside(mounted, number.get()),
        mounted,
        calls: BTreeMap::new(),
    };
    compare_waiting(&mut waiting, turns).map_err(|difference| difference.to_string())
}

fn requests_that_wait_are_decided_when_the_model_says_so_and_wait_until_then(transport: Transport) {
    random(transport, "");
}

fn requests_that_wait_are_decided_so_while_all_others_are_suspended(transport: Transport) {
    random(transport, "park=every");
}

fn random(transport: Transport, options: &str) {
    mount::check_machine();
    let mounted = Mounted::new(transport, options);
    let (scripts, mut runner, number) = (waiting_script(1..60), runner(), Cell::new(0));
    let sum = RefCell::new(BTreeMap::new());
    let check = |turns: &[Turn]| {
        for (fate, times) in run(&mounted, &number, turns)? {
            *sum.borrow_mut().entry(fate).or_insert(0) += times;
        }
        Ok::<(), String>(())
    };
    let mut steps = 0;
    for _ in 0..cases(SCRIPTS) {
        let turns = scripts.new_tree(&mut runner).expect("a script").current();
        steps += turns.len();
        if let Err(first) = check(&turns) {
            let (why, turns) = reduced(&turns, first, check);
            panic!(
                "seed {}: {why}\n{}",
                harness::seed(),
                listing_of_turns(&turns)
            );
        }
    }
    let sum = sum.take();
    println!("{steps} steps: {sum:?}");
    // What FUSE does with a descriptor that is closed meanwhile has tests of its own.
    for fate in Fate::ALL.into_iter().filter(|fate| *fate != Fate::Closed) {
        assert!(sum.contains_key(&fate), "{fate:?} never came: {sum:?}");
    }
}

fn every_script_that_waits_agrees_on_a_mount(transport: Transport) {
    mount::check_machine();
    let (mounted, number) = (Mounted::new(transport, ""), Cell::new(0));
    for (fact, turns) in regressions::waiting() {
        if let Err(difference) = run(&mounted, &number, &turns) {
            panic!("{fact}: {difference}");
        }
    }
}
