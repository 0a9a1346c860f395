//! The files that a volume consists of are for their owner alone.

use crate::harness::{said, shell, succeed};
use crate::place::Place;

const AS_OTHER: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

fn run(place: &Place, script: &str) -> String {
    let mut shell = shell(place.path(), script);
    succeed(shell.env("HEARTH", env!("CARGO_BIN_EXE_hearth")))
}

/// What others than the owner may do anything with. The engine makes its files as the umask has it,
/// in a folder that is its owner's.
fn open_to_others(place: &Place, within: &str) -> String {
    run(
        place,
        &format!("find {within} -path '*/engine/*' -prune -o -perm /077 -print"),
    )
}

/// Once, everybody could read all that a volume holds, past the modes of its files.
#[test]
fn nobody_but_its_owner_reads_what_a_volume_keeps() {
    let place = Place::new();
    run(
        &place,
        "umask 0; mkdir given; chmod 755 given
        for v in new given; do
            \"$HEARTH\" mkfs store:$v
            \"$HEARTH\" mount -o transport=dev --log log store:$v \"$PWD/m\"
            head -c 3000000 /dev/urandom > m/f; head -c 100 /dev/urandom > m/g; mkdir m/d
            \"$HEARTH\" sync m
            \"$HEARTH\" umount m
            \"$HEARTH\" dump $v $v.tar
            \"$HEARTH\" load $v.tar store:$v-loaded
        done",
    );
    place.until_gone();
    for within in ["new", "new.tar", "new-loaded", "given.tar", "given-loaded"] {
        assert_eq!(open_to_others(&place, within), "", "{within}");
    }
    // Whoever made the directory has chosen its mode.
    assert_eq!(run(&place, "stat -c %a given"), "755\n");
    assert_eq!(open_to_others(&place, "given/*"), "");
}

/// Volumes of older versions were made for everybody to read.
#[test]
fn a_volume_of_an_older_version_is_closed_to_others_when_it_is_opened_for_writing() {
    let place = Place::with_volume("");
    place.mount("store:v", "");
    place.unmount();
    run(&place, "chmod -R go+rX v");
    place.mount("store:v", "ro");
    place.unmount();
    assert_ne!(
        open_to_others(&place, "v/*"),
        "",
        "a reader changes nothing"
    );
    place.mount("store:v", "");
    place.unmount();
    let left = open_to_others(&place, "v/*");
    let left = left.lines().filter(|path| {
        let inside = ["v/log/", "v/segments/"];
        !inside.iter().any(|folder| path.starts_with(folder))
    });
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&str>::new());
    assert_eq!(
        run(&place, "stat -c %a v v/log v/segments"),
        "755\n700\n700\n"
    );
}

/// Once, a lock of the file by anybody who could read it kept every writer out.
#[test]
fn another_user_keeps_no_writer_out() {
    let place = Place::new();
    run(&place, "mkdir v; chmod 755 v; \"$HEARTH\" mkfs v");
    let taken = format!("{AS_OTHER} flock -n v/lock true");
    let refused = |place: &Place| {
        let said = said(&mut shell(place.path(), &taken));
        assert!(said.err.contains("Permission denied"), "{said:?}");
    };
    refused(&place);
    // That of an older version is closed by the first writer.
    run(&place, "chmod 644 v/lock");
    place.mount("store:v", "");
    refused(&place);
    place.unmount();
    refused(&place);
}
