#!/usr/bin/env bash
# hdrhistogram 7.6.0 (crates.io).
#
# Guess: a histogram with small counters (u16, to save room) stops counting in a bucket that is
# full, and its quantiles then lean towards the other buckets.
# Seen: the bucket stops at 65,535 and the total goes on, so the counts no longer reach it. A
# quantile that the counts do not reach is 0, without an error: 200,000 samples of 5,000 us and
# 1,000 of 9,000 us give a median of 0 and a 99th percentile of 0, while max() and the mean look
# ordinary. record() returned Ok each time; the documentation speaks of saturated counts only.
# So a long-running histogram needs counters that cannot fill in its lifetime, u64 where in doubt,
# and an alert on a quantile must not take 0 for fast.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/src"
cat > "$dir/Cargo.toml" <<'TOML'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[dependencies]
hdrhistogram = { version = "=7.6.0", default-features = false }
[profile.dev]
debug = 0
[workspace]
TOML
cat > "$dir/src/main.rs" <<'RUST'
use hdrhistogram::{Counter, Histogram};

/// Fills a histogram with counters of one width and shows it.
fn show<T: Counter>(width: &str) {
    let mut histogram = Histogram::<T>::new(3).unwrap();
    for _ in 0..200_000 {
        histogram.record(5_000).unwrap();
    }
    for _ in 0..1_000 {
        histogram.record(9_000).unwrap();
    }
    let [median, most] = [0.5, 0.99].map(|quantile| histogram.value_at_quantile(quantile));
    let (total, highest) = (histogram.len(), histogram.max());
    println!("{width}: {total} samples, median {median}, 99 % {most}, highest {highest}");
}

fn main() {
    show::<u64>("u64");
    show::<u16>("u16");
}
RUST
(cd "$dir" && cargo build --quiet)
seen=$("$dir/target/debug/probe")
printf '%s\n' "$seen"
expected="u64: 201000 samples, median 5003, 99 % 5003, highest 9007
u16: 201000 samples, median 0, 99 % 0, highest 9007"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
