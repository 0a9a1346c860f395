//! Which owners wait for each other in a circle: the strongly connected parts of the wait-for
//! graph, by Tarjan's algorithm. It looks at each edge once, whatever the number of requests that
//! are asked about.

use std::collections::HashMap;

/// The parts of a graph that can be reached from some owners.
pub(super) struct Circles {
    reached: HashMap<u64, Reached>,
}

struct Reached {
    /// How many owners were reached before.
    order: usize,
    /// The lowest order that is known to be reached from here and to lead here. In the end all
    /// owners of a part have the same.
    low: usize,
    /// Its part may have more owners.
    is_open: bool,
}

impl Circles {
    /// Follows the edges that `targets` gives, from each of `owners` on.
    pub(super) fn from<T: Iterator<Item = u64>>(
        owners: impl Iterator<Item = u64>,
        targets: impl Fn(u64) -> T,
    ) -> Circles {
        let mut circles = Circles {
            reached: HashMap::new(),
        };
        let mut open = Vec::new();
        for first in owners.filter(|owner| targets(*owner).next().is_some()) {
            if circles.reach(first, &mut open) {
                circles.follow((first, targets(first)), &targets, &mut open);
            }
        }
        circles
    }

    /// Whether both wait for each other, perhaps through others.
    pub(super) fn has(&self, one: u64, other: u64) -> bool {
        let part = |owner| self.reached.get(&owner).map(|reached| reached.low);
        part(one).is_some_and(|of_one| part(other) == Some(of_one))
    }

    /// Notes that `owner` is reached; false if it was before.
    fn reach(&mut self, owner: u64, open: &mut Vec<u64>) -> bool {
        let order = self.reached.len();
        let new = Reached {
            order,
            low: order,
            is_open: true,
        };
        let is_new = !self.reached.contains_key(&owner);
        if is_new {
            self.reached.insert(owner, new);
            open.push(owner);
        }
        is_new
    }

    /// Follows everything behind `first`. Without recursion: chains may be long.
    fn follow<T: Iterator<Item = u64>>(
        &mut self,
        first: (u64, T),
        targets: &impl Fn(u64) -> T,
        open: &mut Vec<u64>,
    ) {
        let mut path = vec![first];
        while let Some((owner, left)) = path.last_mut() {
            let owner = *owner;
            if let Some(next) = left.next() {
                match self.reach(next, open) {
                    true => path.push((next, targets(next))),
                    false => self.lower(owner, next, |reached| reached.order),
                }
                continue;
            }
            path.pop();
            if let Some(&(above, _)) = path.last() {
                self.lower(above, owner, |reached| reached.low);
            }
            self.close(owner, open);
        }
    }

    /// `owner` leads to `next`.
    fn lower(&mut self, owner: u64, next: u64, to: impl Fn(&Reached) -> usize) {
        let found = self.reached.get(&next).filter(|reached| reached.is_open);
        if let Some(low) = found.map(to)
            && let Some(reached) = self.reached.get_mut(&owner)
        {
            reached.low = reached.low.min(low);
        }
    }

    /// Everything behind `owner` was followed. If nothing leads from there to who was reached
    /// before, the part is complete.
    fn close(&mut self, owner: u64, open: &mut Vec<u64>) {
        let first = &self.reached[&owner];
        let order = first.order;
        if first.low < order {
            return;
        }
        while let Some(of_part) = open.pop() {
            if let Some(reached) = self.reached.get_mut(&of_part) {
                (reached.low, reached.is_open) = (order, false);
            }
            if of_part == owner {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWNERS: u64 = 8;

    /// Whether edges lead from `one` to `other`.
    fn leads(edges: &[(u64, u64)], one: u64, other: u64) -> bool {
        let mut seen = vec![one];
        let mut at = 0;
        while let Some(&here) = seen.get(at) {
            for &(from, to) in edges {
                if from == here && !seen.contains(&to) {
                    seen.push(to);
                }
            }
            at += 1;
        }
        seen.contains(&other)
    }

    proptest! {
        #[test]
        fn owners_are_in_a_circle_if_each_leads_to_the_other(
            edges in prop::collection::vec((0..OWNERS, 0..OWNERS), 0..20),
            asked in prop::collection::vec(0..OWNERS, 1..4),
        ) {
            let of = |owner| edges.iter().filter(move |edge| edge.0 == owner);
            let targets = |owner| of(owner).map(|edge| edge.1);
            let circles = Circles::from(asked.iter().copied(), targets);
            let is_waiting = |owner| targets(owner).next().is_some();
            for one in asked.into_iter().filter(|one| is_waiting(*one)) {
                for other in (0..OWNERS).filter(|other| *other != one) {
                    let both = leads(&edges, one, other) && leads(&edges, other, one);
                    prop_assert_eq!(circles.has(one, other), both, "{} and {}", one, other);
                }
            }
        }
    }
}
