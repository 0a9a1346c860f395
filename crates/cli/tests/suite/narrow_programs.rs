//! Programs of 32 bits that were built without flags for large files: their `off_t` has 32 bits,
//! and so has what they can hold of a position in a directory.

use crate::harness;

use harness::{Mounted, Transport, program, shell, succeed};
use std::path::Path;

harness::on_both_transports!(a_program_of_32_bits_lists_a_large_directory_and_goes_back_in_it);

fn a_program_of_32_bits_lists_a_large_directory_and_goes_back_in_it(transport: Transport) {
    list(&Mounted::new(transport, ""));
}

#[test]
fn a_program_of_32_bits_lists_a_store_and_goes_back_in_it() {
    list(&Mounted::new(Transport::Dev, "create,memory=32M"));
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
