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

/// Once, such a dump was nowhere, and had status 0: the start of the program puts `/dev/null` where
/// there is no standard output. What a verb does besides it does all the same.
#[test]
fn a_verb_whose_product_has_no_standard_output_to_go_to_fails() {
    let place = Place::with_volume("");
    let closed = |typed: &str| {
        let mut shell = shell(place.path(), &format!("\"$HEARTH\" {typed} >&-"));
        said(shell.env("HEARTH", env!("CARGO_BIN_EXE_hearth")))
    };
    for typed in [
        "dump v -",
        "info v",
        "info v --json",
        "completions bash",
        "version",
        "mount --help",
    ] {
        refused(typed, &closed(typed), 1, &["standard output", "Bad file"]);
    }
    for typed in ["mkfs w", "fsck v", "dump v d.tar", "load d.tar store:x"] {
        let said = closed(typed);
        assert!(said.success() && said.err.is_empty(), "{typed}: {said:?}");
    }
    // Others put the same device there, and mean it.
    let mut thrown = place.hearth("dump v -");
    thrown.stdout(std::process::Stdio::null());
    assert!(thrown.status().unwrap().success());
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

/// Once, they ran as whoever had loaded them.
#[test]
fn a_user_who_loads_a_dump_gets_no_setuid_files_of_others() {
    let place = Place::with_volume("");
    place.mount("store:v", "");
    run(
        &place,
        "cd m; touch both group plain user own; mkdir directory
        chown 1234:1235 both group plain user directory; chown 65534:65534 own
        chmod 6755 both own; chmod 2755 group; chmod 4755 user; chmod 2775 directory
        mkfifo pipe; chown 1234:1235 pipe; chmod 4711 pipe",
    );
    place.unmount();
    place.done("dump v d.tar");
    let loaded = "mkdir -m 777 open
        setpriv --reuid 65534 --regid 65534 --clear-groups \"$HEARTH\" load - open/p < d.tar";
    let loaded = run(&place, loaded);
    let left_out = "left out: setuid and setgid bits of 4 files, the first is 'both'";
    assert!(loaded.contains(left_out), "{loaded}");
    let modes = "cd open/p; stat -c '%n %a %u' *";
    let wanted = "both 755 65534\ndirectory 2775 65534\ngroup 755 65534\nown 6755 65534\n\
        pipe 711 65534\nplain 644 65534\nuser 755 65534\n";
    assert_eq!(run(&place, modes), wanted);
    // Who may give files away gets all of it.
    place.done("load d.tar q");
    let modes = "cd q; stat -c '%n %a %u' both group user own pipe";
    let wanted = "both 6755 1234\ngroup 2755 1234\nuser 4755 1234\nown 6755 65534\n\
        pipe 4711 1234\n";
    assert_eq!(run(&place, modes), wanted);
}
