//! What waits for a worker: each tenant has a queue, and they are served in turn.

use hearth::TenantId;
use std::collections::{HashMap, VecDeque};

/// Queues of tenants. However much one has put in, each other has every second place or better.
pub(crate) struct Rounds<T> {
    /// Tenants that wait; the first is served next.
    order: VecDeque<TenantId>,
    /// Not empty, for each of them.
    queues: HashMap<TenantId, VecDeque<T>>,
    len: usize,
}

impl<T> Rounds<T> {
    /// Puts something behind all else of its tenant.
    pub fn push(&mut self, tenant: TenantId, value: T) {
        let queue = self.queues.entry(tenant).or_default();
        if queue.is_empty() {
            self.order.push_back(tenant);
        }
        queue.push_back(value);
        self.len += 1;
    }

    /// Takes the first of the tenant whose turn it is, which then waits for all others.
    pub fn pop(&mut self) -> Option<T> {
        let tenant = self.order.pop_front()?;
        let queue = self.queues.get_mut(&tenant)?;
        let value = queue.pop_front();
        match queue.is_empty() {
            true => drop(self.queues.remove(&tenant)),
            false => self.order.push_back(tenant),
        }
        self.len -= usize::from(value.is_some());
        value
    }

    /// How much waits, of all tenants.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T> Default for Rounds<T> {
    fn default() -> Rounds<T> {
        Rounds {
            order: VecDeque::new(),
            queues: HashMap::new(),
            len: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_served_in_turn_and_each_in_its_order() {
        let mut rounds = Rounds::default();
        for value in 10..14 {
            rounds.push(TenantId::User(1), value);
        }
        rounds.push(TenantId::User(2), 20);
        rounds.push(TenantId::Project(1), 30);
        rounds.push(TenantId::User(2), 21);
        assert_eq!(rounds.len(), 7);
        let order: Vec<i32> = std::iter::from_fn(|| rounds.pop()).collect();
        assert_eq!(order, [10, 20, 30, 11, 21, 12, 13]);
        assert!(rounds.is_empty() && rounds.queues.is_empty());
    }

    #[test]
    fn who_comes_back_waits_for_those_who_wait() {
        let mut rounds = Rounds::default();
        for value in 0..3 {
            rounds.push(TenantId::User(1), ("much", value));
            rounds.push(TenantId::User(2), ("little", value));
            assert_eq!(rounds.pop().map(|(whose, _)| whose), Some("much"));
            assert_eq!(rounds.pop().map(|(whose, _)| whose), Some("little"));
            assert_eq!(rounds.pop(), None);
        }
    }
}
