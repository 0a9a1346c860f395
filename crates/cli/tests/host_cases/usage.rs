//! What is used and what is left.

use crate::case::Case;
use crate::harness::{Below, hearth, shell, succeed};

#[test]
fn hr81_room_is_that_of_the_directory() {
    Case::on(Below::ext4).agrees(
        "hr81",
        r##"
stat -f -c '%b %d %l %s %S' . | cut -d' ' -f1,3-; mkdir -p sub; df --output=size . | tail -1
room() { stat -f -c '%b %f %a %c %d %l %s' "$1"; }
[ "$(room .)" = "$(room $S)" ] && echo same
"##,
    );
}

/// The daemon's own limit does not matter.
#[test]
fn hr82_the_limit_of_a_files_size_is_the_callers() {
    Case::on(Below::ext4).agrees(
        "hr82",
        r##"
    (ulimit -f 1024; exec head -c 2M /dev/zero > f) || echo $?
    stat -c %s f
    (ulimit -f 1024; trap '' XFSZ; try head -c 2M /dev/zero | wc -c
     for c in "truncate -s 3M f" "fallocate -l 3M f" "truncate -s 1000 f"; do try $c; done)
    stat -c %s f
"##,
    );
    let below = Below::ext4();
    let place = below.outside("place");
    let mut mount = shell(
        below.path(),
        "ulimit -S -f 1; exec \"$HEARTH\" mount -o transport=dev \"$PWD\" \"$MNT\"",
    );
    mount.env("HEARTH", env!("CARGO_BIN_EXE_hearth"));
    succeed(mount.env("MNT", &place));
    std::fs::write(place.join("f"), vec![1; 1 << 20]).unwrap();
    assert_eq!(std::fs::read(below.at("f")).unwrap().len(), 1 << 20);
    succeed(hearth().arg("umount").arg(&place));
}
