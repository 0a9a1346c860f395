//! The watch over what others change, where it cannot keep up.

#![allow(clippy::unwrap_used)]

use hearth::{Observer, ROOT, Volume};
use hearth_host::{HostOptions, HostVfs};
use hearth_sync::primitive::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use hearth_sync::primitive::{Arc, thread};
use hearth_testing::place::Place;
use hearth_testing::threads::SetOnDrop;
use std::fs;
use std::ops::Range;
use std::process::Command;
use std::time::{Duration, Instant};

/// A front end that takes its time.
struct Slow {
    goes_on: AtomicBool,
    /// How often the root was announced.
    roots: AtomicUsize,
}

impl Observer for Slow {
    fn entry_changed(&self, _parent: u64, _name: &[u8]) {}

    fn inode_changed(&self, ino: u64, _data: Option<Range<u64>>) {
        self.roots.fetch_add(usize::from(ino == ROOT), SeqCst);
        while !self.goes_on.load(SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Once, everything but the root was taken for changed.
#[test]
fn the_root_is_announced_too_when_events_were_lost() {
    let place = Place::new("overflow").unwrap();
    let source = place.directory("source").unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "tmpfs"]).arg(&source);
    assert!(mount.status().unwrap().success());
    let volume = Volume::builder().build().unwrap();
    let slow = Arc::new(Slow {
        goes_on: AtomicBool::new(true),
        roots: AtomicUsize::new(0),
    });
    volume.observe(Arc::clone(&slow) as Arc<dyn Observer>);
    let vfs = HostVfs::open(&source, HostOptions::default(), &volume).unwrap();
    let vfs = vfs.watched(&source, &volume).unwrap();

    slow.goes_on.store(false, SeqCst);
    // Behind `vfs`, whose end waits for the observer.
    let waits = SetOnDrop(&slow.goes_on);
    let mut mkdir = Command::new("mkdir");
    assert!(mkdir.arg(source.join("d")).status().unwrap().success());
    until("the root", || slow.roots.load(SeqCst) == 1);
    // What this process does itself is skipped, and takes room in the queue all the same.
    let most = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap();
    for n in 0..=most.trim().parse::<u32>().unwrap() {
        fs::File::create(source.join(n.to_string())).unwrap();
    }
    drop(waits);
    until("the root once more", || slow.roots.load(SeqCst) > 1);
    drop(vfs);
}
