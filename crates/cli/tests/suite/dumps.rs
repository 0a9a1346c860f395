//! Dumps of odd volumes, and loads that do not do all that is asked of them.

use crate::harness::{refused, said, shell, succeed};
use crate::place::Place;

fn run(place: &Place, script: &str) -> String {
    let mut shell = shell(place.path(), script);
    succeed(shell.env("HEARTH", env!("CARGO_BIN_EXE_hearth")))
}

/// Once, one touch made every later dump of the volume unloadable, and the dump did not say so.
#[test]
fn the_first_and_the_last_time_of_all_come_back_from_a_dump() {
    let place = Place::with_volume("");
    place.mount("store:v", "");
    run(
        &place,
        "touch -d @-9223372036854775808 m/first; touch -d @9223372036854775807 m/last",
    );
    let times = "stat -c '%X %x %Y %y' m/first m/last";
    let before = run(&place, times);
    assert!(before.contains("-9223372036854775808"), "{before}");
    assert!(before.contains(" 9223372036854775807"), "{before}");
    place.unmount();
    place.done("dump v d.tar");
    place.done("load d.tar store:w");
    place.mount("store:w", "");
    assert_eq!(run(&place, times), before);
    place.unmount();
}

/// Once, such a pipeline had status 0, and what was kept was no dump.
#[test]
fn a_dump_whose_reader_ends_before_it_fails() {
    let place = Place::with_volume("");
    place.mount("store:v", "");
    run(&place, "head -c 3000000 /dev/urandom > m/f");
    place.unmount();
    let piped = "set +e; \"$HEARTH\" dump v - | head -c 100000 > part; echo ${PIPESTATUS[0]} >&2";
    let mut piped = shell(place.path(), piped);
    let said = said(piped.env("HEARTH", env!("CARGO_BIN_EXE_hearth")));
    assert!(said.err.ends_with("\n1\n"), "{said:?}");
    assert!(
        said.err.contains("ended before it; take it again"),
        "{said:?}"
    );
}

/// Once, they were dropped without a word.
#[test]
fn a_load_into_a_made_volume_refuses_the_options_of_mkfs() {
    let place = Place::with_volume("");
    place.done("dump v d.tar");
    place.done("mkfs w");
    for option in ["size=1G", "compress=zstd"] {
        let typed = format!("load d.tar store:w -o {option}");
        let name = option.split('=').next().unwrap();
        let words = ["w: a volume already", name, "hearth mkfs"];
        refused(&typed, &place.say(&typed), 1, &words);
    }
    place.done("load d.tar store:w");
    place.done("load d.tar store:x -o size=1G,compress=zstd");
}
