//! What comes of lock requests that wait.
//!
//! A request waits for what is held, never for another request. Whenever something held changes,
//! those that wait for a lock of that file are looked at in the order of their coming: first
//! whoever has nothing in the way any more is granted its lock, then whoever waits for itself is
//! refused.

use crate::locks::{Owner, Wish};
use crate::model::Model;
use crate::node::NodeId;
use crate::op::LockKind;
use crate::outcome::Outcome;
use crate::parked::Parked;
use crate::process::FileId;

impl Model {
    /// Requests that wait, oldest first: number and process.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, usize)> {
        self.parked.iter().map(|one| (one.ticket, one.process))
    }

    /// What came of requests that waited, since the last call.
    pub fn ended(&mut self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut self.ended)
    }

    /// Ends the wait of a request with `EINTR`; nothing if it does not wait.
    pub fn interrupt(&mut self, ticket: u64) {
        if let Some(at) = self.parked.iter().position(|one| one.ticket == ticket) {
            self.parked.remove(at);
            self.ended.push((ticket, Outcome::Error(libc::EINTR)));
        }
    }

    /// Whether somebody waits for a lock of this description through it.
    pub(crate) fn is_waited_through(&self, file: FileId) -> bool {
        let mut others = self.parked.iter().filter(|one| one.asker().is_none());
        others.any(|one| one.file == file)
    }

    /// Decides what waits for a lock of `node`.
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

    fn waiting_at(&self, node: NodeId) -> Vec<Parked> {
        let those = self.parked.iter().filter(|one| one.node == node);
        those.copied().collect()
    }

    fn end_wait(&mut self, one: &Parked, outcome: Outcome) {
        self.parked.retain(|other| other.ticket != one.ticket);
        self.ended.push((one.ticket, outcome));
    }

    /// Looks once at each request; whether one was granted. A process that has closed the
    /// descriptor meanwhile has to give the lock back.
    fn grant_waiting(&mut self, node: NodeId, given_back: &mut Vec<Wish>) -> bool {
        let before = self.ended.len();
        for one in self.waiting_at(node) {
            let locks = self.locks.entry(node).or_default();
            if !locks.is_free(one.wish) {
                continue;
            }
            locks.grant(one.wish);
            let now = self.slot(one.process, one.fd).map(|slot| slot.file);
            let outcome = match one.asker() {
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

    /// Whether a chain of waits leads from those in the way of `one` back to its process. Locks of
    /// descriptions may be given up by any process: nobody waits for himself through them.
    pub(crate) fn would_wait_for_itself(&self, one: &Parked) -> bool {
        let Some(asker) = one.asker() else {
            return false;
        };
        let mut open = self.in_the_way(one);
        let mut seen = Vec::new();
        while let Some(owner) = open.pop() {
            if owner == asker {
                return true;
            }
            if !seen.contains(&owner) {
                seen.push(owner);
                let others = self.parked.iter();
                let his = others.filter(|other| other.asker() == Some(owner));
                open.extend(his.flat_map(|other| self.in_the_way(other)));
            }
        }
        false
    }

    fn in_the_way(&self, one: &Parked) -> Vec<Owner> {
        let locks = self.locks.get(&one.node);
        locks.map_or_else(Vec::new, |locks| locks.blockers(one.wish))
    }
}
