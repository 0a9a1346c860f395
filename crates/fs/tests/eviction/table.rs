//! The memory of the inode table itself.

use hearth::backend::TestBackend;
use hearth::{Credentials, Volume};
use std::sync::Arc;

/// Inodes whose numbers share a block of memory of the table.
const BLOCK: u64 = 1024;
const BLOCKS: u64 = 48;
const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

/// Once, a sweep that follows new files never came back to what it had passed: a file that was open
/// then kept the memory of a thousand.
#[test]
fn files_that_were_open_when_a_sweep_passed_keep_no_memory_for_ever() {
    let volume = Volume::builder()
        .backend(Arc::new(TestBackend::new()))
        .memory_budget(1 << 20);
    let volume = volume
        .build()
        .expect("a new backend has nothing that could fail");
    let root = volume.process(Credentials::root());
    let mut made = 0_u64;
    let mut fill = |blocks: u64, open: bool| {
        let mut opened = Vec::new();
        for n in 0..blocks * BLOCK {
            if n % 512 == 0 {
                root.mkdir(format!("/{}", made / 512), 0o755)
                    .expect("a new name");
            }
            let fd = root
                .open(format!("/{}/{made}", made / 512), NEW, 0o600)
                .expect("a new name");
            match open && n % BLOCK == 0 {
                true => opened.push(fd),
                false => root.close(fd).expect("it is open"),
            }
            made += 1;
        }
        opened
    };
    for fd in fill(BLOCKS, true) {
        root.close(fd).expect("it is open");
    }
    let with_open_files = volume.gauges().inode_table_bytes;
    let least = BLOCKS * BLOCK * 256;
    assert!(with_open_files > least, "{with_open_files} bytes");
    fill(BLOCKS, false);
    // What is in use, and what the sweep has passed and not looked at again yet.
    let at_last = volume.gauges().inode_table_bytes;
    assert!(
        at_last < with_open_files * 2 / 3,
        "{at_last} of {with_open_files}"
    );
}
