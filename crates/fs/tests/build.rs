//! Settings that make no volume: refused with the reason, and nothing is left running.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::{BuildError, Errno, Volume};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn what_cannot_be_built_is_refused_with_what_was_asked_and_what_to_give() {
    let before = threads();
    let builders = [
        (Volume::builder().workers(1025), "1025", "at most 1,024"),
        (Volume::builder().seats(1025), "1025", "at most 1,024"),
        (Volume::builder().size(4095), "4095", "at least a page"),
        (Volume::builder().inodes(0), "0 inodes", "at least 1"),
    ];
    for (builder, asked, remedy) in builders {
        let error: BuildError = builder.build().err().unwrap();
        let text = error.to_string();
        assert!(text.contains(asked) && text.contains(remedy), "{text}");
        assert_eq!(Errno::from(error), Errno::EINVAL);
    }
    assert_eq!(threads(), before);
    let volume = Volume::builder().workers(3).seats(1).build().unwrap();
    assert_eq!(threads(), before + 3);
    drop(volume);
}
