//! 64 shells that create, rename and delete in one directory; the tree is checked at the end.

use crate::harness;

use harness::{Mounted, Transport};
use std::collections::BTreeSet;

harness::on_both_transports!(a_crowd_in_one_directory_leaves_the_right_tree);

const SHELLS: u32 = 64;
const ROUNDS: u32 = 11;

/// Each shell keeps one file of each odd round, and all fight for the names `shared` and `won-N`.
fn a_crowd_in_one_directory_leaves_the_right_tree(transport: Transport) {
    let mount = Mounted::new(transport, "");
    let before = mount.stat("hearth_inodes");
    let wins = mount.shell(&format!(
        "mkdir crowd; cd crowd
             one() {{
                 for k in $(seq 1 {ROUNDS}); do
                     echo \"$1 $k\" > new-$1-$k
                     mv new-$1-$k kept-$1-$k
                     if mkdir won-$k 2> /dev/null; then echo won $k; fi
                     echo \"$1\" > mine-$1; mv -f mine-$1 shared
                     mkdir dir-$1; rmdir dir-$1
                     [ $((k % 2)) -eq 1 ] || rm kept-$1-$k
                 done
             }}
             pids=
             for s in $(seq 1 {SHELLS}); do one $s & pids=\"$pids $!\"; done
             for p in $pids; do wait $p; done"
    ));
    assert_eq!(
        wins.lines().count(),
        ROUNDS as usize,
        "mkdir has one winner: {wins}"
    );
    let mut expected = BTreeSet::from(["shared".to_owned()]);
    expected.extend((1..=ROUNDS).map(|k| format!("won-{k}")));
    for k in (1..=ROUNDS).step_by(2) {
        expected.extend((1..=SHELLS).map(|s| format!("kept-{s}-{k}")));
    }
    let crowd = mount.path().join("crowd");
    let listed: Vec<String> = std::fs::read_dir(&crowd)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let names: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(names.len(), listed.len(), "a name is listed twice");
    assert_eq!(names, expected);
    for name in names.iter().filter(|name| name.starts_with("kept-")) {
        let text = std::fs::read_to_string(crowd.join(name)).unwrap();
        assert_eq!(name.replace("kept-", ""), text.trim().replace(' ', "-"));
    }
    let links = mount.shell("stat -c %h crowd");
    assert_eq!(
        links.trim(),
        (ROUNDS + 2).to_string(),
        "links of the directory"
    );
    let made = mount.stat("hearth_inodes") - before;
    assert_eq!(
        made,
        expected.len() as f64 + 1.0,
        "inodes that were made and stayed"
    );
    mount.shell("rm -r crowd; test -z \"$(ls -A)\"");
}
