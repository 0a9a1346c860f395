//! How long single calls take beside somebody who writes much.

use super::site::{Site, noise};
use crate::failure::Context;
use crate::histogram::Histogram;
use crate::stats::Metric;
use crate::watchdog::beat;
use crate::while_running::while_running;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

pub const P99: Metric = ("us_p99", "us, p99");
pub const P999: Metric = ("us_p99_9", "us, p99.9");
pub const ALONE: &str = "fsync of a small file, alone";
pub const BESIDE: &str = "fsync of a small file, beside 1 GiB of dirty data";
pub const CREATES: &str = "create, while flushing";

const SYNCS: usize = 400;
const CREATED: usize = 20_000;
const DIRTY_MIB: usize = 1_024;

/// p99 of a small file's fsync, in microseconds.
pub fn alone(site: &Site<'_>) -> Result<f64, String> {
    syncs(site, "alone", &|| false)
}

/// p99 of it while another task writes 1 GiB that nobody syncs, and after that.
pub fn beside(site: &Site<'_>) -> Result<f64, String> {
    let path = site.root.join("dirty");
    let block = noise(1 << 20);
    let write = || {
        let mut file = File::create(&path).at(&path)?;
        (0..DIRTY_MIB / site.part).try_for_each(|_| file.write_all(&block).at(&path))
    };
    let done = while_running(write, |goes_on| syncs(site, "beside", goes_on));
    let _ = std::fs::remove_file(&path);
    done.map(|(_, p99)| p99)
}

/// p99.9 of creates while another task writes and syncs 32 MiB again and again.
pub fn creates(site: &Site<'_>) -> Result<f64, String> {
    let (big, root) = (site.root.join("flushed"), site.root.join("created"));
    std::fs::create_dir(&root).at(&root)?;
    let block = noise(1 << 20);
    let create = || {
        let mut seen = Histogram::new();
        for n in 0..CREATED / site.part {
            let name = root.join(n.to_string());
            let begin = Instant::now();
            File::create(&name).at(&name)?;
            seen.add(begin.elapsed().as_nanos() as u64);
        }
        Ok(seen.percentile(0.999) as f64 / 1e3)
    };
    let write = |goes_on: &dyn Fn() -> bool| {
        while goes_on() {
            let mut file = File::create(&big).at(&big)?;
            (0..32).try_for_each(|_| file.write_all(&block).at(&big))?;
            file.sync_all().at(&big)?;
        }
        Ok(())
    };
    while_running(create, write).map(|(p999, ())| p999)
}

/// p99 over a number of syncs, and over more for as long as it `goes_on`.
fn syncs(site: &Site<'_>, name: &str, goes_on: &dyn Fn() -> bool) -> Result<f64, String> {
    let path = site.root.join(name);
    let file = File::create(&path).at(&path)?;
    let (mut seen, mut n) = (Histogram::new(), 0_u64);
    while (n as usize) < SYNCS / site.part || goes_on() {
        beat();
        file.write_all_at(&[n as u8; 4096], n % 16 * 4096)
            .at(&path)?;
        let begin = Instant::now();
        file.sync_all().at(&path)?;
        seen.add(begin.elapsed().as_nanos() as u64);
        n += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(seen.percentile(0.99) as f64 / 1e3)
}
