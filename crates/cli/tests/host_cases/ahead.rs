//! Space that was asked for in advance, behind the end of a file.

use crate::harness::{Below, Mounted, Transport};
use crate::quotas::{done, used};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

#[test]
fn blocks_behind_the_end_of_a_file_hide_no_holes_on_tmpfs() {
    hidden(&Below::tmpfs());
}

#[test]
fn blocks_behind_the_end_of_a_file_hide_no_holes_on_ext4() {
    hidden(&Below::ext4());
}

#[test]
fn blocks_behind_the_end_of_a_file_hide_no_holes_on_xfs() {
    hidden(&Below::xfs());
}

#[test]
fn blocks_behind_the_end_of_a_file_hide_no_holes_on_btrfs() {
    hidden(&Below::btrfs());
}

/// Once, blocks that were allocated far behind the end of a file were taken for those that a write
/// needs: it reserved nothing, and the limit was passed.
fn hidden(below: &Below) {
    let state = below.path().with_file_name("state");
    let options = format!("quota=wait,state={}", state.display());
    let mounted = Mounted::over(Transport::Dev, below.path(), &options);
    mounted.shell("mkdir p");
    done(&mounted, "project @/p 9");
    let limit: u64 = 4 << 20;
    done(&mounted, &format!("set project:9 --hard {limit} @"));
    // One grows, the other has a hole of its size.
    for (name, size) in [("grows", 0), ("sparse", 64 << 20)] {
        let ahead = format!("truncate -s {size} p/{name} && fallocate -n -o 1G -l 2M p/{name}");
        mounted.shell(&ahead);
        let open = || {
            let path = mounted.at(format!("p/{name}"));
            OpenOptions::new().write(true).open(path).unwrap()
        };
        let file = open();
        let mut at = 0;
        let refused = loop {
            match file.write_all_at(&[1; 65536], at) {
                Ok(()) => at += 65536,
                Err(error) => break error,
            }
            assert!(at <= limit, "{name}: {at} bytes with 2 MiB behind them");
        };
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        // What the host takes for its own in between is not the user's.
        let expected = limit - (2 << 20);
        assert!(at >= expected - (256 << 10), "{name}: {at} of {expected}");
        let (used, _) = used(&mounted, "project:9");
        assert!(used <= limit + (64 << 10), "{name}: {used} of {limit}");
        // What is allocated ahead is written to at the limit.
        file.set_len(0).unwrap();
        drop(file);
        mounted.shell(&format!(
            "rm p/{name}; touch p/{name}; fallocate -n -l 4M p/{name}"
        ));
        open().write_all_at(&[1; 1 << 20], 0).unwrap();
        mounted.shell(&format!("rm p/{name}"));
    }
    done(&mounted, "check @");
    mounted.unmount();
}
