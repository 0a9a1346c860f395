//! An observer that panics.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::{Credentials, Observer, Volume};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

struct Panics;

impl Observer for Panics {
    fn entry_changed(&self, _: u64, _: &[u8]) {
        panic!("an observer");
    }

    fn inode_changed(&self, _: u64, _: Option<Range<u64>>) {
        panic!("an observer");
    }
}

/// Once, such a file was held for ever.
#[test]
fn a_file_whose_open_ends_with_the_panic_of_an_observer_is_not_held() {
    let volume = Volume::memory();
    let p = volume.process(Credentials::root());
    volume.observe(Arc::new(Panics));
    let free = p.statfs("/").unwrap().ffree;
    for flags in [NEW, NEW | libc::O_EXCL] {
        let opened = catch_unwind(AssertUnwindSafe(|| p.open("/f", flags, 0o644)));
        assert!(opened.is_err(), "the observer panics");
        assert_eq!(p.open_fds(), []);
        let removed = catch_unwind(AssertUnwindSafe(|| p.unlink("/f")));
        assert!(removed.is_err(), "the observer panics");
        assert_eq!(p.statfs("/").unwrap().ffree, free, "the file is gone");
    }
}
