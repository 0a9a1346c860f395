use super::*;

/// Accesses counted and what they stand for, of `times`.
fn count(epochs: &SampleEpochs, times: u64, weight: u64) -> (u64, u64) {
    let (mut counted, mut sum) = (0, 0);
    for _ in 0..times {
        if let Some(epoch) = epochs.counts() {
            counted += 1;
            sum += epoch.weight();
            epoch.draw(weight);
        }
    }
    (counted, sum)
}

fn on() -> SampleEpochs {
    let epochs = SampleEpochs::off();
    epochs.switch(true);
    epochs
}

#[test]
fn a_sample_stands_for_all() {
    let epochs = on();
    assert_eq!(count(&epochs, 1000, 1), (1000, 1000));
    let (counted, sum) = count(&epochs, 4_000_000, 64);
    assert!(counted.abs_diff(4_000_000 / 64) < 2000, "{counted}");
    assert!(sum.abs_diff(4_000_000) < 130_000, "{sum}");
}

#[test]
fn the_approximate_logarithm_and_its_factor_keep_their_bounds() {
    let mut random = 1u64;
    for _ in 0..100_000 {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        for random in [random | 1, random >> 40 | 1, !0 - (random >> 40)] {
            let exact = -(random as f64 / 2f64.powi(64)).ln();
            assert!((exponential(random) - exact).abs() <= 1.1e-5, "{random}");
        }
    }
    for weight in [4, 16, 64, 256, 1024] {
        let exact = -1.0 / (-1.0 / weight as f64).ln_1p();
        assert!((geometric_factor(weight) - exact).abs() < 1e-3, "{weight}");
    }
}

/// What makes a draw end early without loss, and a pattern of accesses not escape.
#[test]
fn each_access_has_the_same_chance_whatever_was_skipped_before() {
    let epochs = on();
    let epoch = std::iter::repeat_with(|| epochs.counts()).flatten().next();
    let epoch = epoch.unwrap();
    for weight in [4u64, 64] {
        let draws = 200_000;
        let mut reached = [0u64; 200];
        for _ in 0..draws {
            epoch.draw(weight);
            let passes = SAMPLER.with(|sampler| sampler.skips.get()) as usize;
            reached[..(passes + 1).min(200)]
                .iter_mut()
                .for_each(|n| *n += 1);
        }
        for pair in reached.windows(2).take_while(|pair| pair[0] > 20_000) {
            let ended = (pair[0] - pair[1]) as f64 / pair[0] as f64 * weight as f64;
            let error = 6.0 * (weight as f64 / pair[0] as f64).sqrt();
            assert!((ended - 1.0).abs() < error, "{weight}: {ended} of {pair:?}");
        }
    }
}

/// Once, an access that was none took the draw away from one that was, which then counted with
/// the whole weight: files read to their ends showed twice as many accesses.
#[test]
fn reads_at_the_end_of_a_file_do_not_count_for_other_accesses() {
    let epochs = on();
    let (all, mut sum) = (2_000_000u64, 0);
    for access in 0..2 * all {
        let Some(epoch) = epochs.counts() else {
            continue;
        };
        if access % 2 == 0 {
            sum += epoch.weight();
            epoch.draw(64);
        } else {
            epoch.redraw();
        }
    }
    assert!(sum.abs_diff(all) < all / 20, "{sum} of {all}");
}

#[test]
fn two_kinds_that_alternate_are_sampled_alike() {
    let epochs = on();
    let mut sums = [0u64; 2];
    for access in 0..4_000_000 {
        if let Some(epoch) = epochs.counts() {
            sums[access % 2] += epoch.weight();
            epoch.draw(16);
        }
    }
    for sum in sums {
        assert!(sum.abs_diff(2_000_000) < 60_000, "{sums:?}");
    }
}

/// Once, who ended a draw early lost up to half of what it stood for.
#[test]
fn draws_that_end_early_cost_nothing() {
    let epochs = on();
    let (runs, length) = (40_000, 50);
    let mut sum = 0;
    for _ in 0..runs {
        epochs.renew();
        for access in 0..length {
            if let Some(epoch) = epochs.counts() {
                // The first of a epoch counts for itself.
                sum += if access == 0 { 1 } else { epoch.weight() };
                epoch.draw(256);
            }
        }
    }
    let all: u64 = runs * length;
    assert!(sum.abs_diff(all) < all / 20, "{sum} of {all}");
}

#[test]
fn a_draw_ends_with_its_epoch_and_belongs_to_one_volume() {
    let (epochs, other) = (on(), on());
    let pass = |epochs: &SampleEpochs| epochs.counts().is_none();
    while !pass(&epochs) {
        epochs
            .counts()
            .into_iter()
            .for_each(|epoch| epoch.draw(1 << 40));
    }
    assert!(!pass(&other), "another volume");
    assert!(other.counts().is_some_and(|epoch| epoch.weight() == 1));
    assert!(pass(&epochs));
    epochs.renew();
    assert!(epochs.counts().is_some_and(|epoch| epoch.weight() == 1));
    while !pass(&epochs) {
        epochs
            .counts()
            .into_iter()
            .for_each(|epoch| epoch.draw(1 << 40));
    }
    epochs.switch(false);
    epochs.renew();
    assert!(pass(&epochs) && !epochs.is_on(), "nothing is counted");
    epochs.switch(true);
    assert!(!pass(&epochs), "on again is a new epoch");
}
