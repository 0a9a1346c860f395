//! Programs of 32 bits that were built without flags for large files: their `off_t` has 32 bits,
//! and so has what they can hold of a position in a directory.

use crate::harness;

use harness::{Below, Mounted, Transport, program, shell, succeed};
use std::path::Path;

harness::on_both_transports!(a_program_of_32_bits_lists_a_large_directory_and_goes_back_in_it);

fn a_program_of_32_bits_lists_a_large_directory_and_goes_back_in_it(transport: Transport) {
    list(&Mounted::new(transport, ""));
}

#[test]
fn a_program_of_32_bits_lists_a_store_and_goes_back_in_it() {
    list(&Mounted::new(Transport::Dev, "create,memory=32M"));
}

/// Its positions have 63 bits.
#[test]
fn a_program_of_32_bits_lists_a_directory_of_ext4_and_goes_back_in_it() {
    let below = Below::ext4();
    list(&Mounted::over(Transport::Dev, below.path(), ""));
}

/// The entries of a directory, `most` bytes a call, each with the position behind it.
fn positions(directory: &Path, most: usize) -> Vec<(Vec<u8>, u64)> {
    let mut entries = Vec::new();
    let file = std::fs::File::open(directory).expect("a directory");
    let mut buffer = vec![std::mem::MaybeUninit::uninit(); most];
    let mut raw = rustix::fs::RawDir::new(&file, &mut buffer);
    while let Some(entry) = raw.next() {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_bytes().to_vec();
        entries.push((name, entry.next_entry_cookie()));
    }
    entries
}

/// Names that ext4 gives one hash are rare, so some are looked for below.
#[test]
fn a_directory_of_ext4_is_listed_whole_where_names_have_one_hash() {
    let below = Below::ext4();
    let place = |name: &str| below.at(name);
    let mut pairs: Vec<Vec<u8>> = Vec::new();
    for batch in 0.. {
        // Nearly all inodes of the filesystem.
        let made = format!("mkdir many; cd many; seq -f {batch}-%.0f 60000 | xargs touch");
        succeed(&mut shell(below.path(), &made));
        let all = positions(&place("many"), 32 << 10);
        // A position is the next name's.
        for three in all
            .windows(3)
            .filter(|three| three[0].1 >> 32 == three[1].1 >> 32)
        {
            pairs.extend([three[1].0.clone(), three[2].0.clone()]);
        }
        succeed(&mut shell(below.path(), "rm -r many"));
        if !pairs.is_empty() {
            break;
        }
    }
    std::fs::create_dir(place("pairs")).expect("a directory");
    let others = (0..40).map(|n| format!("other{n}").into_bytes());
    let mut wanted: Vec<Vec<u8>> = pairs.into_iter().chain(others).collect();
    for name in &wanted {
        let name = std::str::from_utf8(name).expect("digits and letters");
        std::fs::write(place("pairs").join(name), "").expect("a new file");
    }
    wanted.extend([b".".to_vec(), b"..".to_vec()]);
    wanted.sort();
    // One entry a call: a listing that stops behind every one.
    for most in [48, 32 << 10] {
        // A new one, for the kernel keeps a listing.
        let mounted = Mounted::over(Transport::Dev, below.path(), "");
        let entries = positions(&mounted.at("pairs"), most);
        let is_narrow = |&(_, position): &(Vec<u8>, u64)| position < 1 << 31;
        assert!(entries.iter().all(is_narrow), "{entries:?}");
        let mut names: Vec<Vec<u8>> = entries.into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, wanted, "{most} bytes a call");
        mounted.unmount();
    }
}

fn list(mounted: &Mounted) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/c/list32.c");
    let built = mounted.outside("built").join("list32");
    let mut gcc = program("gcc");
    gcc.args(["-m32", "-O1", "-Wall", "-o"]).arg(&built);
    succeed(gcc.arg(source));
    succeed(&mut shell(
        mounted.path(),
        "mkdir many; cd many; seq 3000 | xargs touch",
    ));
    let listed = succeed(program(built.to_str().unwrap()).arg(mounted.at("many")));
    assert_eq!(listed, "3002 entries\nevery position holds\n");
}
