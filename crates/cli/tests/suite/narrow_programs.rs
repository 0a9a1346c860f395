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

/// Two names of one hash, which is rare, so it is looked for: of ext4 without a mount of Hearth.
#[test]
fn a_directory_of_ext4_is_listed_whole_where_names_have_one_hash() {
    let below = Below::ext4();
    succeed(&mut shell(
        below.path(),
        "mkdir many; cd many; seq -f %06.0f 60000 | xargs touch",
    ));
    let mounted = Mounted::over(Transport::Dev, below.path(), "");
    let listed = |directory: &Path, most: usize| -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        let file = std::fs::File::open(directory).expect("a directory");
        let mut buffer = vec![std::mem::MaybeUninit::uninit(); most];
        let mut raw = rustix::fs::RawDir::new(&file, &mut buffer);
        while let Some(entry) = raw.next() {
            let entry = entry.expect("an entry");
            assert!(entry.next_entry_cookie() < 1 << 31, "31 bits");
            names.push(entry.file_name().to_bytes().to_vec());
        }
        names
    };
    // One entry a call: a listing that stops behind every one.
    let (by_one, at_once) = (
        listed(&mounted.at("many"), 48),
        listed(&mounted.at("many"), 32 << 10),
    );
    assert_eq!(by_one.len(), 60_002);
    let sorted = |mut names: Vec<Vec<u8>>| {
        names.sort();
        names.dedup();
        names.len()
    };
    assert!(by_one == at_once);
    assert_eq!(sorted(by_one), 60_002);
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
