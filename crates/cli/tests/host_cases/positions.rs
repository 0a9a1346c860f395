//! Positions in directories below a mount: programs of 32 bits hold 31 bits of one.

use crate::harness::{Below, Mounted, Transport, program, shell, succeed, until};
use rustix::fs::{RawDir, SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// overlayfs over two directories of one filesystem.
struct Overlay {
    path: PathBuf,
    // Dropped after it is unmounted.
    layers: Below,
}

impl Overlay {
    fn over(layers: Below) -> Overlay {
        succeed(&mut shell(
            layers.path(),
            "mkdir lower upper work; chmod 777 lower upper",
        ));
        let path = layers.outside("overlay");
        Overlay { path, layers }
    }

    fn mount(&self) {
        let at = |name: &str| self.layers.at(name).display().to_string();
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            at("lower"),
            at("upper"),
            at("work")
        );
        let mut mount = program("mount");
        mount.args(["-t", "overlay", "-o", &options, "hearth-suite"]);
        succeed(mount.arg(&self.path));
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let umount = || {
            let done = program("umount").arg(&self.path).output();
            done.is_ok_and(|done| done.status.success()) || std::thread::panicking()
        };
        until("the overlay goes", umount);
    }
}

/// A name, and the position behind it.
type Place = (Vec<u8>, u64);

/// The entries that `most` bytes hold, from a position on.
fn read(file: &File, from: u64, most: usize) -> Vec<Place> {
    seek(file, SeekFrom::Start(from)).unwrap();
    let (mut buffer, mut read) = (vec![MaybeUninit::uninit(); most], Vec::new());
    let mut raw = RawDir::new(file, &mut buffer);
    while let Some(entry) = raw.next() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_bytes().to_vec();
        read.push((name, entry.next_entry_cookie()));
        if raw.is_buffer_empty() {
            break;
        }
    }
    read
}

/// All entries, `most` bytes a call.
fn list(file: &File, most: usize) -> Vec<Place> {
    let mut all: Vec<Place> = Vec::new();
    loop {
        let from = all.last().map_or(0, |&(_, position)| position);
        let more = read(file, from, most);
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

fn are_narrow(all: &[Place]) -> bool {
    all.iter().all(|&(_, position)| position < 1 << 31)
}

/// A listing of `directory` shows `count` names, each once and with a position of 31 bits, to which
/// the same and another open file go back.
fn goes_back(directory: &Path, count: usize) {
    for most in [32 << 10, 300] {
        let file = File::open(directory).unwrap();
        let all = list(&file, most);
        let seen = directory.display();
        assert!(are_narrow(&all), "{seen}: {:?}", &all[..10.min(all.len())]);
        let mut names: Vec<&Vec<u8>> = all.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(
            (names.len(), all.len()),
            (count, count),
            "{seen}, {most} bytes"
        );
        let other = File::open(directory).unwrap();
        for at in (0..count - 1).step_by(97) {
            for file in [&file, &other] {
                let next = read(file, all[at].1, 300);
                assert_eq!(next[0].0, all[at + 1].0, "{seen}, behind entry {at}");
            }
        }
        let end = all[count - 1].1;
        assert!(read(&other, end, 300).is_empty(), "{seen}, at the end");
    }
}

/// A merged directory has positions of its own; one of a single layer those of the layer.
#[test]
fn an_overlay_of_ext4_is_listed_in_31_bits_and_goes_back() {
    let overlay = Overlay::over(Below::ext4());
    let fill = "mkdir -p lower/both lower/one upper/both upper/other lower/empty
        (cd lower/one; seq 3000 | xargs touch); (cd upper/other; seq 3000 | xargs touch)
        (cd lower/both; seq 1500 | xargs touch); (cd upper/both; seq 1501 3000 | xargs touch)";
    succeed(&mut shell(overlay.layers.path(), fill));
    overlay.mount();
    let is_narrow = |name| {
        are_narrow(&list(
            &File::open(overlay.path.join(name)).unwrap(),
            32 << 10,
        ))
    };
    let below = ["one", "other", "empty", "both"].map(is_narrow);
    assert_eq!(
        below,
        [false, false, false, true],
        "this test tells nothing"
    );
    let mounted = Mounted::over(Transport::Dev, &overlay.path, "");
    for name in ["one", "other", "both"] {
        goes_back(&mounted.at(name), 3002);
    }
    goes_back(&mounted.at("empty"), 2);
    // What is made through the mount, and what a directory of one layer becomes when it is changed:
    // also for who has it open, and begins again.
    let open = File::open(mounted.at("one")).unwrap();
    assert_eq!(list(&open, 32 << 10).len(), 3002);
    mounted.shell("mkdir new; cd new; seq 3000 | xargs touch; cd ../one; touch more");
    goes_back(&mounted.at("new"), 3002);
    goes_back(&mounted.at("one"), 3003);
    let again = list(&open, 300);
    assert!(again.len() == 3003 && are_narrow(&again), "{again:?}");
    assert_eq!(read(&open, again[2000].1, 300)[0].0, again[2001].0);
}

#[test]
fn small_directories_of_ext4_are_listed_in_31_bits_and_go_back() {
    let below = Below::ext4();
    let fill = "for n in 0 1 2 3 5 10 50 100; do
        mkdir d$n; (cd d$n; seq $n | xargs -r touch); done
        mkdir was; cd was; seq 3000 | xargs touch; seq 2999 | xargs rm; mkdir ../gone
        cd ../gone; seq 3000 | xargs touch; seq 3000 | xargs rm";
    succeed(&mut shell(below.path(), fill));
    let mounted = Mounted::over(Transport::Dev, below.path(), "");
    for names in [0, 1, 2, 3, 5, 10, 50, 100] {
        goes_back(&mounted.at(format!("d{names}")), names + 2);
    }
    goes_back(&mounted.at("was"), 3);
    goes_back(&mounted.at("gone"), 2);
}

/// Why an open directory shows nothing from a position on.
fn refusal(file: &File, from: u64) -> Option<Errno> {
    seek(file, SeekFrom::Start(from)).unwrap();
    let mut buffer = vec![MaybeUninit::uninit(); 300];
    let mut raw = RawDir::new(file, &mut buffer);
    raw.next().and_then(Result::err)
}

/// ext4 refuses to go to a position of such a directory; `getdents(2)` says why.
#[test]
fn a_directory_that_others_removed_is_not_there_at_any_position() {
    let below = Below::ext4();
    succeed(&mut shell(
        below.path(),
        "mkdir d; cd d; seq 10 | xargs touch",
    ));
    let mounted = Mounted::over(Transport::Dev, below.path(), "");
    let [first, other, direct] = [mounted.at("d"), mounted.at("d"), below.at("d")]
        .map(|directory| File::open(directory).unwrap());
    let behind = read(&first, 0, 300)[3].1;
    succeed(&mut shell(below.path(), "rm -r d"));
    assert_eq!(refusal(&other, behind), Some(Errno::NOENT));
    assert_eq!(refusal(&first, behind), Some(Errno::NOENT));
    assert_eq!(refusal(&first, 0), Some(Errno::NOENT));
    assert_eq!(refusal(&direct, 0), Some(Errno::NOENT));
}
