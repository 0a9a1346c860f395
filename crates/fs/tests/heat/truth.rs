//! What heat says of a long trace against what the trace says of itself.

use crate::one_core::stay_on_one_core;
use crate::{create, tracked};
use hearth::heat::HeatRank;
use std::collections::HashMap;
use std::time::Duration;

const PAGE: u64 = 4096;
const FILES: usize = 100_000;
const ACCESSES: u64 = 1_000_000;
/// Accesses between two passes of the background.
const STEP: u64 = 400;
/// What passes in each: the whole trace takes ten hours.
const PASSES: Duration = Duration::from_millis(14_400);
const HALF_LIFE: f64 = 3600.0;

/// The trace: Zipf over the files, the same everywhere.
struct Trace {
    /// Sums of the weights up to each file.
    sums: Vec<f64>,
    state: u64,
}

impl Trace {
    fn new() -> Trace {
        let add = |sum: &mut f64, rank: usize| {
            *sum += 1.0 / rank as f64;
            Some(*sum)
        };
        Trace {
            sums: (1..=FILES).scan(0.0, add).collect(),
            state: 0x1234_5678_9abc_def1,
        }
    }

    fn next(&mut self) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let share = (self.state >> 11) as f64 / (1u64 << 53) as f64;
        let pick = share * self.sums[FILES - 1];
        let file = self.sums.partition_point(|&sum| sum < pick);
        // Neighbours in rank are no neighbours in the tree.
        file.min(FILES - 1) * 7919 % FILES
    }
}

#[test]
fn the_hottest_of_a_zipf_trace_and_the_what_if_curve_are_exact() {
    let (volume, process, hand) = tracked();
    process.set_fd_limit(16 + FILES as u32).unwrap();
    for directory in 0..FILES / 1000 {
        process.mkdir(format!("/{directory}"), 0o755).unwrap();
    }
    let name = |n: usize| format!("/{}/{n}", n / 1000);
    let fds: Vec<i32> = (0..FILES).map(|n| create(&process, name(n), 0)).collect();
    let mut file_of = HashMap::new();
    for (file, &fd) in fds.iter().enumerate() {
        process.ftruncate(fd, 1).unwrap();
        file_of.insert(process.fstat(fd).unwrap().ino, file);
    }
    let mut trace = Trace::new();
    let (mut decayed, mut plain) = (vec![0.0f64; FILES], vec![0u64; FILES]);
    let factor = 0.5f64.powf(PASSES.as_secs_f64() / HALF_LIFE);
    for access in 1..=ACCESSES {
        let file = trace.next();
        assert_eq!(process.pread(fds[file], &mut [0], 0), Ok(1));
        decayed[file] += 1.0;
        plain[file] += 1;
        if access % STEP == 0 {
            volume.run_background_once();
            hand.pass(PASSES);
            decayed.iter_mut().for_each(|count| *count *= factor);
        }
    }
    let gauges = volume.heat().gauges();
    assert_eq!(gauges.dropped, 0);
    let touched = plain.iter().filter(|&&count| count > 0).count() as u64;
    assert_eq!((gauges.files, gauges.ranges), (touched, touched));

    let top = volume.heat().top_files(HeatRank::Reads, 1000, None);
    assert_eq!(top.len(), 1000);
    let mut order: Vec<f64> = decayed.clone();
    order.sort_by(|a, b| b.total_cmp(a));
    for (place, row) in top.iter().enumerate() {
        let file = file_of[&row.ino];
        let (got, due) = (decayed[file], order[place]);
        assert!(
            (got - due).abs() <= 0.01 * due,
            "place {place}: {got} for {due}"
        );
        // What it says of itself is what was done.
        let rate = row.stats.reads_per_second;
        let exact = got * std::f64::consts::LN_2 / HALF_LIFE;
        assert!((rate - exact).abs() <= 1e-6 * exact, "{rate} for {exact}");
        assert_eq!(row.stats.reads, plain[file]);
    }

    plain.sort_unstable_by(|a, b| b.cmp(a));
    let sizes = [1, 3, 10, 100, 1000, 10_000, 100_000].map(|files| files * PAGE);
    let curve = volume.heat().what_if(&sizes);
    for point in &curve.points {
        // Each has one byte, which takes a page.
        let held = (point.bytes / PAGE) as usize;
        let share = plain[..held].iter().sum::<u64>() as f64 / ACCESSES as f64;
        assert!((point.reads - share).abs() < 0.02, "{point:?} for {share}");
    }
    assert_eq!(curve.recorded_bytes, touched * PAGE);
}

/// At full speed it is a sample: what it says of a file is within what the design page says, and
/// what it takes is what the allowances give, however fast the reads are. Every second read finds
/// the end of its file, which is no access: once, such reads made the others count twice. It stays
/// on one core: one that it only visits sees few accesses in a period and may record each of them.
#[test]
fn a_sample_at_full_speed_says_what_was_read_within_its_error_and_takes_no_more_than_allowed() {
    const SAMPLED: usize = 16;
    const READS: u64 = 3_200_000;
    /// In 100 ms.
    const SPEED: u64 = 100_000;
    /// Most that one recording stands for at this speed: four times what the allowance asks for.
    const WEIGHT: f64 = 1024.0;
    stay_on_one_core();
    let (volume, process, hand) = tracked();
    let fds: Vec<i32> = (0..SAMPLED)
        .map(|n| create(&process, format!("/{n}"), 0))
        .collect();
    let mut reads = HashMap::new();
    fds.iter().for_each(|&fd| process.ftruncate(fd, 1).unwrap());
    let mut state = 1u64;
    for read in 1..=READS {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        // The lower ones more often.
        let file = ((state >> 60) & (state >> 56) & 15) as usize;
        assert_eq!(process.pread(fds[file], &mut [0], 0), Ok(1));
        assert_eq!(process.pread(fds[file], &mut [0], 1), Ok(0));
        *reads
            .entry(process.fstat(fds[file]).unwrap().ino)
            .or_insert(0u64) += 1;
        if read % SPEED == 0 {
            volume.run_background_once();
            hand.pass(Duration::from_millis(100));
        }
    }
    let error = |n: u64| 5.0 * (n as f64 * WEIGHT).sqrt();
    let mut sum = 0;
    for (ino, &exact) in &reads {
        let got = volume.heat().file(*ino).unwrap().stats.reads;
        let off = got.abs_diff(exact) as f64;
        assert!(off <= error(exact), "{got} for {exact}");
        sum += got;
        // It says that it is a sample.
        let seen = got - volume.heat().file(*ino).unwrap().stats.estimated;
        assert!(seen > 0 && seen < got / 4, "{seen} of {got} seen");
    }
    assert!(
        sum.abs_diff(READS) as f64 <= error(READS),
        "{sum} for {READS}"
    );
    let gauges = volume.heat().gauges();
    assert_eq!((gauges.accesses, gauges.dropped), (sum, 0));
    // What a core begins with, and again at the first fold, what each period brings, and the steps
    // of those that were too fast. Then one in 1,024 of all, empty ones too.
    let of_core = 2 * 32_768 + READS / SPEED * (512 + 5 * 128);
    let most = of_core + 2 * (2 * READS) / 1024;
    assert!(gauges.recorded < most, "{} of {most}", gauges.recorded);
}

/// Up to 100,000 accesses a second of a core each of them counts, also of so many files that every
/// other access takes the place of another file in the table of the core. Once, who read 2,000
/// files at any speed saw estimates.
#[test]
fn below_a_hundred_thousand_accesses_a_second_counts_are_exact() {
    const FEW: usize = 2_000;
    /// In 10 ms.
    const SPEED: u64 = 900;
    let (volume, process, hand) = tracked();
    process.set_fd_limit(16 + FEW as u32).unwrap();
    let fds: Vec<i32> = (0..FEW)
        .map(|n| create(&process, format!("/{n}"), 0))
        .collect();
    fds.iter().for_each(|&fd| process.ftruncate(fd, 1).unwrap());
    let mut trace = Trace::new();
    let mut plain = vec![0u64; FEW];
    for read in 1..=200 * SPEED {
        let file = trace.next() % FEW;
        assert_eq!(process.pread(fds[file], &mut [0], 0), Ok(1));
        plain[file] += 1;
        if read % SPEED == 0 {
            volume.run_background_once();
            hand.pass(Duration::from_millis(10));
        }
    }
    for (file, &fd) in fds.iter().enumerate().filter(|&(file, _)| plain[file] > 0) {
        let stats = volume
            .heat()
            .file(process.fstat(fd).unwrap().ino)
            .unwrap()
            .stats;
        assert_eq!((stats.reads, stats.estimated), (plain[file], 0), "{file}");
    }
    assert_eq!(volume.heat().gauges().dropped, 0);
}
