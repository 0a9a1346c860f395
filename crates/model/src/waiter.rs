//! Comparing with a system whose lock requests wait.

use std::collections::{BTreeMap, BTreeSet};

use crate::agree::Numbers;
use crate::compare::{Difference, beside, compare_call};
use crate::model::Model;
use crate::op::Op;
use crate::outcome::Outcome;
use crate::system::{OBSERVER, System};
use crate::turn::Turn;

/// A system whose lock requests wait, each on a thread of its own.
pub trait Waiter: System {
    /// Begins a lock call of process `p` that may wait, under the name `ticket`.
    fn ask(&mut self, ticket: u64, p: usize, op: &Op);

    /// Interrupts a call if it waits.
    fn interrupt(&mut self, ticket: u64);

    /// Returns the result of a call. Waits for it, and returns `None` after a long time.
    fn answer(&mut self, ticket: u64) -> Option<Outcome>;

    /// Returns whether all calls without a result wait, `many` of them, while there are `open` open
    /// file descriptions. Polls until it is so, and gives up after a long time. The second
    /// condition is for a system that learns of a last close a moment later.
    fn waits(&mut self, many: usize, open: usize) -> bool;
}

/// The possible results of a lock call that may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Fate {
    HadAtOnce,
    RefusedAtOnce,
    DeadlockAtOnce,
    Granted,
    DeadlockLater,
    Interrupted,
    /// The descriptor was closed while it waited.
    Closed,
}

impl Fate {
    /// Returns every possible result.
    pub const ALL: [Fate; 7] = [
        Fate::HadAtOnce,
        Fate::RefusedAtOnce,
        Fate::DeadlockAtOnce,
        Fate::Granted,
        Fate::DeadlockLater,
        Fate::Interrupted,
        Fate::Closed,
    ];

    fn at_once(outcome: &Outcome) -> Fate {
        match outcome {
            Outcome::Error(libc::EDEADLK) => Fate::DeadlockAtOnce,
            Outcome::Error(_) => Fate::RefusedAtOnce,
            _ => Fate::HadAtOnce,
        }
    }

    fn later(outcome: &Outcome) -> Fate {
        match outcome {
            Outcome::Error(libc::EDEADLK) => Fate::DeadlockLater,
            Outcome::Error(libc::EINTR) => Fate::Interrupted,
            Outcome::Error(_) => Fate::Closed,
            _ => Fate::Granted,
        }
    }
}

/// Runs a script on `waiter` and on the model. After every step each request that the model has
/// decided must have ended with an equal outcome, and all others must wait. At the end the waiting
/// ones are interrupted and every process ends. Returns the events of requests.
pub fn compare_waiting<W: Waiter>(
    waiter: &mut W,
    script: &[Turn],
) -> Result<BTreeMap<Fate, u64>, Difference> {
    let mut pair = Pair {
        model: beside(&*waiter),
        waiter,
        numbers: Numbers::default(),
        live: BTreeSet::new(),
        is_open: false,
        met: BTreeMap::new(),
    };
    for (step, turn) in script.iter().enumerate() {
        let differ = |what| Difference {
            step,
            what: format!("{turn:?}\n{what}"),
        };
        pair.step(turn).map_err(differ)?;
        if pair.is_open {
            return Ok(pair.met);
        }
    }
    let differ = |what| Difference {
        step: script.len(),
        what: format!("when all end: {what}"),
    };
    pair.end().map_err(differ)?;
    Ok(pair.met)
}

struct Pair<'a, W> {
    model: Model,
    waiter: &'a mut W,
    numbers: Numbers,
    /// Calls without a result.
    live: BTreeSet<u64>,
    /// A lock was released by its own thread, beside another that was, or beside the record locks
    /// of a description that ended in the same step. Which is first decides who comes next.
    is_open: bool,
    met: BTreeMap<Fate, u64>,
}

impl<W: Waiter> Pair<'_, W> {
    fn step(&mut self, turn: &Turn) -> Result<(), String> {
        match turn {
            Turn::Call(p, op) => {
                compare_call(&mut self.model, self.waiter, &mut self.numbers, (*p, op))?;
            }
            Turn::Ask(p, op) => self.ask(*p, op)?,
            Turn::Interrupt(p) => {
                let oldest = self.model.waiting().find(|(_, process)| process == p);
                if let Some((ticket, _)) = oldest {
                    self.model.interrupt(ticket);
                    self.waiter.interrupt(ticket);
                }
            }
        }
        self.settle()
    }

    fn ask(&mut self, p: usize, op: &Op) -> Result<(), String> {
        match self.model.ask(p, op) {
            Some(Outcome::Unspecified) => Ok(()),
            Some(expected) => {
                *self.met.entry(Fate::at_once(&expected)).or_default() += 1;
                // Not a number of the model: those are never 0.
                self.waiter.ask(0, p, op);
                self.hear(0, &expected)
            }
            None => {
                let (ticket, _) = self.model.waiting().last().ok_or("nobody waits")?;
                self.waiter.ask(ticket, p, op);
                self.live.insert(ticket);
                Ok(())
            }
        }
    }

    /// Collects the results that the model has decided, and checks that the others wait.
    fn settle(&mut self) -> Result<(), String> {
        let ended = self.model.ended();
        let back = ended
            .iter()
            .filter(|(_, how)| *how == Outcome::Error(libc::EBADF));
        let others = usize::from(std::mem::take(&mut self.model.ended_unlocked));
        if back.count() + others > 1 {
            self.is_open = true;
            return Ok(());
        }
        for (ticket, expected) in ended {
            *self.met.entry(Fate::later(&expected)).or_default() += 1;
            self.live.remove(&ticket);
            self.hear(ticket, &expected)?;
        }
        let (many, open) = (self.live.len(), self.model.files.len());
        match self.waiter.waits(many, open) {
            true => Ok(()),
            false => Err(format!(
                "it is not so that {many} requests wait and {open} files are open"
            )),
        }
    }

    fn hear(&mut self, ticket: u64, expected: &Outcome) -> Result<(), String> {
        match self.waiter.answer(ticket) {
            Some(found) if expected.agrees(&found, &mut self.numbers) => Ok(()),
            found => Err(format!(
                "a request that may wait\n  expected {expected:?}\n  found    {found:?}"
            )),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        for (ticket, _) in self.model.waiting().collect::<Vec<_>>() {
            self.model.interrupt(ticket);
            self.waiter.interrupt(ticket);
            self.settle()?;
            if self.is_open {
                return Ok(());
            }
        }
        for p in (0..self.model.processes.len()).filter(|p| *p != OBSERVER) {
            compare_call(
                &mut self.model,
                self.waiter,
                &mut self.numbers,
                (p, &Op::Exit),
            )?;
        }
        self.settle()
    }
}
