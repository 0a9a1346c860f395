//! What a switch costs, by blocks of runs with it and without it on the same volume.

use crate::pair::{Pair, Side};
use std::fmt;

/// Runs of a side in a block. In a block the sides stand as off, on, on, off, or the other way
/// round: what goes on steadily meanwhile is the same on both.
pub const RUNS: usize = 2;

/// How many times as fast with it, and a 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The estimate of Hodges and Lehmann, over the logarithms of the blocks.
    pub ratio: f64,
    /// The interval's ends, by Wilcoxon's signed ranks.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

/// What an interval says of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is at the bound or above.
    Met,
    /// The bound is within it.
    Undecided,
    /// All of it is below.
    Missed,
}

impl Effect {
    /// Of what each run took per operation.
    pub fn of(took: &Pair) -> Effect {
        let blocks = |side| took.all(side).chunks_exact(RUNS).map(mean_log);
        let faster: Vec<f64> = blocks(Side::Without)
            .zip(blocks(Side::With))
            .map(|(without, with)| without - with)
            .collect();
        let [low, ratio, high] = hodges_lehmann(&faster).map(f64::exp);
        match faster.len() {
            // One block says nothing of how far it is off.
            1 => Effect {
                ratio,
                low: 0.0,
                high: f64::INFINITY,
            },
            _ => Effect { ratio, low, high },
        }
    }

    /// Half the width of the interval.
    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// What it says of a bound.
    pub fn outcome(&self, enough: f64) -> Outcome {
        if self.low >= enough {
            Outcome::Met
        } else if self.high >= enough {
            Outcome::Undecided
        } else {
            Outcome::Missed
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Effect { ratio, low, high } = self;
        match high.is_finite() {
            true => write!(f, "{ratio:.3} ({low:.3} to {high:.3})"),
            false => write!(f, "{ratio:.3} (one block)"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Met => "met",
            Outcome::Undecided => "undecided",
            Outcome::Missed => "MISSED",
        })
    }
}

fn mean_log(values: &[f64]) -> f64 {
    values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64
}

/// The median of the Walsh averages (means of two, each with itself too) between the ends of its
/// 95 % interval: hardly touched by a few that are far away, and as sure as the mean where none
/// are (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3.2 and 3.3, in the normal
/// approximation; of fewer than six samples their whole range).
///
/// # Panics
/// Without samples.
fn hodges_lehmann(samples: &[f64]) -> [f64; 3] {
    let mut walsh: Vec<f64> = Vec::new();
    for (at, one) in samples.iter().enumerate() {
        walsh.extend(samples[at..].iter().map(|other| (one + other) / 2.0));
    }
    walsh.sort_by(f64::total_cmp);
    let count = walsh.len();
    let middle = (walsh[count / 2] + walsh[(count - 1) / 2]) / 2.0;
    let n = samples.len() as f64;
    let mean = n * (n + 1.0) / 4.0;
    let deviation = (mean * (2.0 * n + 1.0) / 6.0).sqrt();
    // Below 0 it is 0.
    let outside = (mean - 1.96 * deviation) as usize;
    [walsh[outside], middle, walsh[count - 1 - outside]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat_bench::random::Random;

    #[test]
    fn the_estimate_is_that_of_the_textbook() {
        // Walsh averages: 1, 1.5, 2, 2, 2.5, 3.
        assert_eq!(hodges_lehmann(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        let mut ten: Vec<f64> = (1..=10).map(f64::from).collect();
        // n = 10: eight of the 55 averages lie outside at either end.
        assert_eq!(hodges_lehmann(&ten), [3.0, 5.5, 8.0]);
        ten[9] = 1e6;
        assert!(hodges_lehmann(&ten)[1] < 6.5, "one that is far away");
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_truth() {
        let mut random = Random::new(7);
        let held = (0..2000).filter(|_| {
            let samples: Vec<f64> = (0..32).map(|_| random.normal()).collect();
            let [low, _, high] = hodges_lehmann(&samples);
            low <= 0.0 && high >= 0.0
        });
        let held = held.count();
        assert!((1860..=1940).contains(&held), "{held} of 2000");
    }

    #[test]
    fn blocks_are_compared_and_not_runs() {
        let mut took = Pair::default();
        // The machine slows down by a tenth from run to run; on costs a twentieth.
        let mut slow = 1.0;
        for block in 0..8 {
            for with in [
                block % 2 == 0,
                block % 2 != 0,
                block % 2 != 0,
                block % 2 == 0,
            ] {
                match with {
                    true => took.push(Side::With, slow * 1.05),
                    false => took.push(Side::Without, slow),
                }
                slow *= 1.1;
            }
        }
        let effect = Effect::of(&took);
        assert!((effect.ratio - 1.0 / 1.05).abs() < 1e-9, "{effect}");
        assert!(effect.half() < 1e-9);
        assert_eq!(effect.outcome(0.99), Outcome::Missed);
        assert_eq!(effect.outcome(0.95), Outcome::Met);
        let wide = Effect {
            ratio: 1.0,
            low: 0.98,
            high: 1.02,
        };
        assert_eq!(wide.outcome(0.99), Outcome::Undecided);
    }
}
