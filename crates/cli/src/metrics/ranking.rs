//! Which tenants of a mount have numbers of their own, and the sum of the others.
//!
//! The sum is a counter that never falls: it grows by what a tenant did until it got numbers of its
//! own, and since it lost them. So a tenant that gets or loses them makes no step in the rate of
//! anybody. It begins at 0: what was counted before belongs to other tenants after each start, and
//! would be a step.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Instant;

/// Seconds in which use counts half.
const HALF_LIFE: f64 = 3600.0;
/// A tenant with numbers gives way only to one that used so many times as much.
const LEAD: f64 = 1.25;

/// Counters of a tenant.
pub type Counts = Vec<u64>;

/// The tenants of one mount as of the last scrape.
#[derive(Debug, Default)]
pub struct TenantRanking {
    known: HashMap<String, RankedTenant>,
    other: Counts,
    last: Option<Instant>,
    /// Whether the sum has what was counted before the first scrape.
    counts_before: bool,
}

#[derive(Debug, Default)]
struct RankedTenant {
    counts: Counts,
    /// Use of late.
    used: f64,
    named: bool,
}

impl TenantRanking {
    /// Nobody is known yet. `counts_before`: the sum begins with the mount.
    pub fn new(counts_before: bool) -> TenantRanking {
        TenantRanking {
            counts_before,
            ..TenantRanking::default()
        }
    }

    /// Takes what the tenants have counted by `now`; the element `by` of their counts says who
    /// used most. Returns those with numbers of their own, at most `limit` places in `tenants`,
    /// the greatest user first.
    pub fn update(
        &mut self,
        now: Instant,
        tenants: &[(String, Counts)],
        by: usize,
        limit: usize,
    ) -> Vec<usize> {
        let since = self.last.replace(now);
        let passed = since.map_or(0.0, |last| now.duration_since(last).as_secs_f64());
        let decay = 0.5f64.powf(passed / HALF_LIFE);
        let mut before = std::mem::take(&mut self.known);
        let mut rows: Vec<(usize, RankedTenant, Counts)> = Vec::with_capacity(tenants.len());
        for (place, (name, counts)) in tenants.iter().enumerate() {
            let old = before.remove(name).unwrap_or_default();
            let new = growth(counts, &old.counts);
            let used = old.used * decay + new[by] as f64;
            let counts = counts.clone();
            let named = old.named;
            rows.push((
                place,
                RankedTenant {
                    counts,
                    used,
                    named,
                },
                new,
            ));
        }
        let weight = |known: &RankedTenant| known.used * if known.named { LEAD } else { 1.0 };
        rows.sort_by(|(a, x, _), (b, y, _)| descending(weight(x), weight(y)).then(a.cmp(b)));
        for (rank, (place, mut known, new)) in rows.into_iter().enumerate() {
            let was_named = std::mem::replace(&mut known.named, rank < limit);
            if !known.named {
                self.other.resize(self.other.len().max(new.len()), 0);
            }
            let is_counted = since.is_some() || self.counts_before && !known.named;
            if is_counted && !(was_named && known.named) {
                for (sum, new) in self.other.iter_mut().zip(&new) {
                    *sum += new;
                }
            }
            self.known.insert(tenants[place].0.clone(), known);
        }
        let named = |place: &usize| self.known[&tenants[*place].0].named;
        let mut places: Vec<usize> = (0..tenants.len()).filter(named).collect();
        let used = |place: usize| self.known[&tenants[place].0].used;
        places.sort_by(|&a, &b| descending(used(a), used(b)).then(a.cmp(&b)));
        places
    }

    /// What the others did, if there ever were any.
    pub fn other(&self) -> Option<&Counts> {
        (!self.other.is_empty()).then_some(&self.other)
    }
}

/// What was counted after `old`; all of it where a counter fell, because the tenant or its daemon
/// began anew.
fn growth(new: &Counts, old: &Counts) -> Counts {
    let grew = |(at, new): (usize, &u64)| new.checked_sub(old.get(at).copied().unwrap_or(0));
    let all: Option<Counts> = new.iter().enumerate().map(grew).collect();
    all.unwrap_or_else(|| new.clone())
}

fn descending(a: f64, b: f64) -> Ordering {
    b.total_cmp(&a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn tenants(of: &[(&str, u64)]) -> Vec<(String, Counts)> {
        let one = |(name, count): &(&str, u64)| ((*name).to_owned(), vec![*count, 1]);
        of.iter().map(one).collect()
    }

    fn named(ranking: &mut TenantRanking, at: Instant, of: &[(&str, u64)]) -> Vec<String> {
        let of = tenants(of);
        let places = ranking.update(at, &of, 0, 2);
        places
            .into_iter()
            .map(|place| of[place].0.clone())
            .collect()
    }

    #[test]
    fn the_sum_of_the_others_never_falls_and_counts_nothing_twice() {
        let (mut ranking, t) = (TenantRanking::default(), Instant::now());
        assert_eq!(
            named(&mut ranking, t, &[("a", 9), ("b", 8), ("c", 5)]),
            ["a", "b"]
        );
        assert_eq!(ranking.other().unwrap()[0], 0);
        // c passes b by far and takes its place: its own numbers begin behind what brought it
        // there.
        let of = [("a", 9), ("b", 8), ("c", 50)];
        assert_eq!(named(&mut ranking, t, &of), ["c", "a"]);
        assert_eq!(ranking.other().unwrap()[0], 45);
        // From now on b's work is that of the others.
        let of = [("a", 9), ("b", 9), ("c", 51)];
        assert_eq!(named(&mut ranking, t, &of), ["c", "a"]);
        assert_eq!(ranking.other().unwrap()[0], 46);
        // A daemon that began anew.
        let of = [("a", 9), ("b", 1), ("c", 52)];
        assert_eq!(named(&mut ranking, t, &of), ["c", "a"]);
        assert_eq!(ranking.other().unwrap()[0], 47);
    }

    #[test]
    fn a_little_more_use_takes_nobody_his_place() {
        let (mut ranking, t) = (TenantRanking::default(), Instant::now());
        assert_eq!(
            named(&mut ranking, t, &[("a", 90), ("b", 80), ("c", 70)]),
            ["a", "b"]
        );
        assert_eq!(
            named(&mut ranking, t, &[("a", 90), ("b", 80), ("c", 85)]),
            ["a", "b"]
        );
        assert_eq!(
            named(&mut ranking, t, &[("a", 90), ("b", 80), ("c", 120)]),
            ["c", "a"]
        );
    }

    #[test]
    fn use_of_long_ago_counts_less_than_use_of_now() {
        let (mut ranking, t) = (TenantRanking::default(), Instant::now());
        let old = [("a", 1_000_000), ("b", 1_000_000), ("c", 0)];
        assert_eq!(named(&mut ranking, t, &old), ["a", "b"]);
        let day = t + Duration::from_secs(86_400);
        let new = [("a", 1_000_000), ("b", 1_000_000), ("c", 1_000)];
        assert_eq!(named(&mut ranking, day, &new)[0], "c");
    }

    #[test]
    fn without_others_there_is_no_sum_and_without_a_limit_of_names_no_names() {
        let (mut ranking, t) = (TenantRanking::default(), Instant::now());
        assert_eq!(named(&mut ranking, t, &[("a", 9)]), ["a"]);
        assert_eq!(ranking.other(), None);
        let mut none = TenantRanking::new(true);
        assert!(
            none.update(t, &tenants(&[("a", 9), ("b", 1)]), 0, 0)
                .is_empty()
        );
        assert_eq!(none.other().unwrap()[0], 10);
    }
}
