//! The results of lock requests that wait.
//!
//! A request waits for held locks, never for another request. When a held lock changes, the
//! requests for that file are visited in the order of their arrival. First a request without a
//! conflict is granted, then a request that waits for itself is refused.

use crate::locks::{Owner, Wish};
use crate::model::Model;
use crate::node::NodeId;
use crate::op::LockKind;
use crate::outcome::Outcome;
use crate::process::FileId;
use crate::waiting_lock::WaitingLock;

impl Model {
    /// Returns the requests that wait, oldest first: number and process.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, usize)> {
        self.waiting_locks
            .iter()
            .map(|one| (one.ticket, one.process))
    }

    /// Returns the results of requests that waited, since the last call.
    pub fn ended(&mut self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut self.ended)
    }

    /// Ends the wait of a request with `EINTR`, if it waits.
    pub fn interrupt(&mut self, ticket: u64) {
        if let Some(at) = self
            .waiting_locks
            .iter()
            .position(|one| one.ticket == ticket)
        {
            self.waiting_locks.remove(at);
            self.ended.push((ticket, Outcome::Error(libc::EINTR)));
        }
    }

    /// Returns whether the outcome is unspecified when process `p` closes a descriptor of `file`
    /// (the last one if `gone`): a request for a lock of this description waits through it.
    ///
    /// FUSE does not take back what a process gets through a descriptor that it has closed
    /// meanwhile, and keeps the description until the call has ended.
    pub(crate) fn may_not_close(&self, p: usize, file: FileId, gone: bool) -> bool {
        let mut through = self.waiting_locks.iter().filter(|one| one.file == file);
        match self.is_mounted {
            true => through.any(|one| gone || one.process == p),
            false => gone && through.any(|one| one.deadlock_owner().is_none()),
        }
    }

    /// Decides the requests that wait for a lock of `node`.
    pub(crate) fn decide_waiting(&mut self, node: NodeId) {
        loop {
            let mut given_back = Vec::new();
            while self.grant_waiting(node, &mut given_back) {}
            self.refuse_circles(node);
            if given_back.is_empty() {
                return;
            }
            let locks = self.locks.entry(node).or_default();
            for wish in given_back {
                if let Wish::Record {
                    owner, start, end, ..
                } = wish
                {
                    locks.set(owner, LockKind::Unlock, start, end);
                }
            }
        }
    }

    fn waiting_at(&self, node: NodeId) -> Vec<WaitingLock> {
        let those = self.waiting_locks.iter().filter(|one| one.node == node);
        those.copied().collect()
    }

    fn end_wait(&mut self, one: &WaitingLock, outcome: Outcome) {
        self.waiting_locks
            .retain(|other| other.ticket != one.ticket);
        self.ended.push((one.ticket, outcome));
    }

    /// Visits each request once; returns whether one was granted. A process that has closed the
    /// descriptor meanwhile has to release the lock.
    fn grant_waiting(&mut self, node: NodeId, given_back: &mut Vec<Wish>) -> bool {
        let before = self.ended.len();
        for one in self.waiting_at(node) {
            let locks = self.locks.entry(node).or_default();
            if !locks.is_free(one.wish) {
                continue;
            }
            locks.grant(one.wish);
            let now = self.slot(one.process, one.fd).map(|slot| slot.file);
            let outcome = match one.deadlock_owner() {
                Some(_) if now != Ok(one.file) => {
                    given_back.push(one.wish);
                    Outcome::Error(libc::EBADF)
                }
                _ => Outcome::Done,
            };
            self.end_wait(&one, outcome);
        }
        self.ended.len() > before
    }

    fn refuse_circles(&mut self, node: NodeId) {
        for one in self.waiting_at(node) {
            if self.would_wait_for_itself(&one) {
                self.end_wait(&one, Outcome::Error(libc::EDEADLK));
            }
        }
    }

    /// Returns the waiter for deadlock detection. Any process may release locks of descriptions, so
    /// no process waits for itself through them, unless the system cannot tell that they are such.
    fn in_a_circle(&self, one: &WaitingLock) -> Option<Owner> {
        match one.wish {
            Wish::Record { owner, .. } if self.is_mounted => Some(owner),
            _ => one.deadlock_owner(),
        }
    }

    /// Returns whether a chain of waits leads from the conflicting owners of `one` back to its
    /// owner.
    pub(crate) fn would_wait_for_itself(&self, one: &WaitingLock) -> bool {
        let Some(deadlock_owner) = self.in_a_circle(one) else {
            return false;
        };
        let mut open = self.in_the_way(one);
        let mut seen = Vec::new();
        while let Some(owner) = open.pop() {
            if owner == deadlock_owner {
                return true;
            }
            if !seen.contains(&owner) {
                seen.push(owner);
                let others = self.waiting_locks.iter();
                let his = others.filter(|other| self.in_a_circle(other) == Some(owner));
                open.extend(his.flat_map(|other| self.in_the_way(other)));
            }
        }
        false
    }

    fn in_the_way(&self, one: &WaitingLock) -> Vec<Owner> {
        let locks = self.locks.get(&one.node);
        locks.map_or_else(Vec::new, |locks| locks.blockers(one.wish))
    }
}
