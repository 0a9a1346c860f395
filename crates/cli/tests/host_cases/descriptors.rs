//! Descriptors of the daemon: whoever keeps files open does not stop the others.

use super::case::run;
use crate::harness::{Below, hearth, shell, succeed};
use std::path::Path;

/// A daemon with few descriptors, with the right to open by handle or without.
fn mount(below: &Below, place: &Path, with_handles: bool, options: &str) {
    let right = match with_handles {
        true => "",
        false => "setpriv --bounding-set -dac_read_search",
    };
    let mut mount = shell(
        below.path(),
        &format!(
            "ulimit -n $((80 + 2 * $(nproc))); exec {right} \"$HEARTH\" mount \
             -o transport=dev{options} \"host:$PWD\" \"$MNT\""
        ),
    );
    mount.env("HEARTH", env!("CARGO_BIN_EXE_hearth"));
    succeed(mount.env("MNT", place));
}

/// Opens files until that is refused, removes half of their names and reads them all. With a word
/// it says how many there were; else it waits for the end of its input.
const HOLDER: &str = r#"
import os, sys, errno
held = []
try:
    while True:
        held.append(os.open(f"{sys.argv[1]}{len(held)}", os.O_CREAT | os.O_RDWR))
except OSError as e:
    print(errno.errorcode[e.errno], "after some" if len(held) > 2 else len(held))
for fd in held:
    os.write(fd, b"held")
for at in range(0, len(held), 2):
    os.unlink(f"{sys.argv[1]}{at}")
assert all(os.pread(fd, 9, 0) == b"held" for fd in held)
print("goes on", flush=True)
sys.stdin.read()
"#;

/// Once, the lookups, listings and removals of everybody were `EMFILE` then.
#[test]
fn files_that_are_kept_open_leave_descriptors_for_the_calls_of_everybody() {
    let below = Below::ext4();
    let place = below.outside("place");
    for with_handles in [true, false] {
        mount(&below, &place, with_handles, "");
        let mut script = run(
            below.path(),
            &place,
            r#"
            rm -rf *; mkdir -m 1777 d d/e d/e/f; chmod 1777 .; touch d/a d/b d/e/f/g; echo v > v
            coproc A { U /usr/bin/python3 -c "$HOLDER" a; }
            a=$A_PID; exec 8>&${A[1]}; read -u ${A[0]} x; echo $x; read -u ${A[0]} x; echo $x
            # Who has them open opens nothing more, and does the rest.
            for i in 1 2 3 4 5 6; do U stat -c %s d/a v > /dev/null & done
            U ls d | tr '\n' ' '; U mkdir d/u; U mv d/u d/e/; U rmdir d/e/u; U ln -s x l; U rm l
            for who in V env; do
                (for i in 1 2 3 4 5 6; do $who stat -c %s d/a v > /dev/null & done; wait)
                $who ls d | tr '\n' ' '; $who find d -name g; $who cat v
                $who touch d/$who; $who mv d/$who d/e/; $who rm d/e/$who; $who ln -s x l; $who rm l
            done
            V /usr/bin/python3 -c "$HOLDER" b < /dev/null | sed 's/ .*//'
            # Root takes the last places of files, and still finds a directory open.
            /usr/bin/python3 -c "$HOLDER" c < /dev/null | sed 's/ .*//'; ls d | wc -l
            eval "exec 8>&- ${A[1]}>&-"; wait $a
            V /usr/bin/python3 -c "$HOLDER" b < /dev/null
            "#,
        );
        let said = succeed(script.env("HOLDER", HOLDER));
        let one = "a b e d/e/f/g\nv\n";
        let expected = format!(
            "ENFILE after some\ngoes on\na b e {one}{one}ENFILE\ngoes\nENFILE\ngoes\n3\n\
             ENFILE after some\ngoes on\n"
        );
        assert_eq!(said, expected, "with handles: {with_handles}");
        let stats = std::fs::read_to_string(place.join(".hearth/stats")).unwrap();
        assert!(
            stats.contains("\nhearth_opens_refused_total 4\n"),
            "{stats}"
        );
        succeed(hearth().arg("umount").arg(&place));
    }
}

/// Once, anybody could make a tree that no mount with quotas could be counted of, and whose walk
/// left no descriptors for calls.
#[test]
fn a_tree_that_is_deeper_than_there_are_descriptors_is_counted() {
    let below = Below::tmpfs();
    let (place, state) = (below.outside("place"), below.outside("state"));
    succeed(&mut shell(
        below.path(),
        "for i in $(seq 250); do mkdir d z; echo > z/f; cd d; done; head -c 20k /dev/zero > leaf",
    ));
    for with_handles in [true, false] {
        let options = format!(",quota=wait,hot_track,state={}", state.display());
        mount(&below, &place, with_handles, &options);
        let hearth = |words: &[&str]| succeed(hearth().args(words));
        let path = place.to_str().unwrap();
        let walked = "752 inodes walked, 0 of them open without a name\n";
        assert_eq!(hearth(&["quota", "check", path]), walked);
        let project = hearth(&["quota", "project", &format!("{path}/d"), "7"]);
        assert!(project.contains("749 inodes"), "{project}");
        assert_eq!(hearth(&["quota", "check", path]), walked);
        hearth(&["quota", "project", &format!("{path}/d"), "0"]);
        hearth(&["umount", path]);
        std::fs::remove_dir_all(&state).unwrap();
        std::fs::create_dir(&state).unwrap();
    }
}
