//! Users who act as others of `/etc/subuid`, as containers without root do.

use super::case::run;
use crate::harness::{Below, succeed};

/// Once, cores were shared by the number of the caller: whoever has 65,536 numbers had as many
/// shares. And nobody's requests were counted on a mount over a directory.
#[test]
fn a_subordinate_id_has_its_share_of_cores_with_its_user() {
    let below = Below::tmpfs();
    let place = below.outside("place");
    let etc = below.outside("etc");
    let script = r#"
        cp -a /etc/. "$ETC"; mount --bind "$ETC" /etc
        echo 1000:100000:65536 > /etc/subuid
        "$HEARTH" mount -o attr_timeout=0,entry_timeout=0 "host:$S" "$M" > /dev/null
        for id in 1000 1001 100005 165535 165536; do
            setpriv --reuid $id --regid $id --clear-groups stat "$M/file" > /dev/null
        done
        "$HEARTH" sched "$M" --json > "$ETC/shown"
        "$HEARTH" umount "$M"
        python3 -c '
import json, sys
shown = json.load(sys.stdin)["tenants"]
users = (t["tenant"] for t in shown if t["requests"])
print(*sorted(user for user in users if user != "system"))' < "$ETC/shown""#;
    std::fs::write(below.at("file"), "").unwrap();
    let mut inside = run(
        below.path(),
        &place,
        r#"exec unshare -m bash -euo pipefail -c "$SCRIPT""#,
    );
    inside.env("SCRIPT", script).env("ETC", &etc);
    let said = succeed(inside.env("HEARTH", env!("CARGO_BIN_EXE_hearth")));
    assert_eq!(said, "user:0 user:1000 user:1001 user:165536\n");
}
