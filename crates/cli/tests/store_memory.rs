//! The memory of a daemon stays under `memory=` and the allowance that `docs/options.md` names,
//! with a tree of ten times the memory: while it is made, listed, read cold, and removed. A program
//! of its own, because it measures.
#![allow(clippy::unwrap_used)]

#[path = "harness/mod.rs"]
mod harness;

use harness::{Mounted, Transport};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;
const MEMORY: u64 = 24 * MIB;
/// What the program takes beside `memory=`: see "Memory of the daemon" in `docs/options.md`.
const ALLOWANCE: u64 = 192 * MIB;

/// Small files, in directories of this many, and the bytes of each.
const FILES: u64 = 16_000;
const EACH: u64 = 500;
const SMALL: usize = 4096;
/// Bytes of a large file.
const LARGE: u64 = 180 * MIB;
const PIECE: usize = 1 << 20;

// Inodes, names and pages of the tree are ten times the memory.
const _: () = assert!(FILES * (4160 + 384 + 100) + LARGE > 10 * MEMORY);

struct Tree<'m>(&'m Mounted);

impl Tree<'_> {
    fn directory(&self, number: u64) -> PathBuf {
        self.0.at(format!("d{}", number / EACH))
    }

    fn file(&self, number: u64) -> PathBuf {
        self.directory(number).join(format!("file-{number}"))
    }

    fn make(&self) {
        for number in 0..FILES {
            if number % EACH == 0 {
                fs::create_dir(self.directory(number)).unwrap();
            }
            fs::write(self.file(number), small(number)).unwrap();
        }
        let large = fs::File::create(self.0.at("large")).unwrap();
        for at in (0..LARGE).step_by(PIECE) {
            large.write_all_at(&piece(at), at).unwrap();
        }
        large.sync_all().unwrap();
    }

    fn list(&self) {
        let mut count = 0;
        for directory in fs::read_dir(self.0.path()).unwrap() {
            let directory = directory.unwrap();
            if !directory.file_type().unwrap().is_dir() {
                continue;
            }
            for entry in fs::read_dir(directory.path()).unwrap() {
                count += u64::from(entry.unwrap().metadata().unwrap().len() == SMALL as u64);
            }
        }
        assert_eq!(count, FILES);
    }

    fn read(&self) {
        for number in 0..FILES {
            assert_eq!(fs::read(self.file(number)).unwrap(), small(number));
        }
        let large = fs::File::open(self.0.at("large")).unwrap();
        let mut bytes = vec![0; PIECE];
        for at in (0..LARGE).step_by(PIECE) {
            large.read_exact_at(&mut bytes, at).unwrap();
            assert!(bytes == piece(at), "at {at}");
        }
    }

    /// Fails if the daemon had more memory at any time than it may have.
    fn check(&self, when: &str) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.daemon())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: u64 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        let (most, had) = ((MEMORY + ALLOWANCE) / MIB, kib / 1024);
        println!("{when}: {had} MiB of {most}");
        assert!(had <= most, "{when}: {had} MiB of {most}");
    }
}

fn small(number: u64) -> Vec<u8> {
    let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    word.repeat(SMALL / word.len())
}

fn piece(at: u64) -> Vec<u8> {
    let mut word = at + 1;
    let next = |_| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    };
    (0..PIECE / 8).flat_map(next).collect()
}

#[test]
fn memory_has_a_bound_with_a_tree_of_ten_times_as_much() {
    let options = format!("create,memory={MEMORY}");
    let mounted = Mounted::new(Transport::Dev, &options);
    let tree = Tree(&mounted);
    tree.check("empty");
    tree.make();
    tree.check("made");
    tree.list();
    tree.check("listed");
    mounted.unmount();
    mounted.mount_again(Transport::Dev, &options);
    tree.list();
    tree.check("listed cold");
    tree.read();
    tree.check("read cold");
    mounted.shell("rm -r d1* large");
    tree.check("removed");
}
