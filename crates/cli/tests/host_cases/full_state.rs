//! A state directory without room: what would be gone with the mount is refused.

use crate::harness::{Below, Mounted, Transport, until};
use crate::quotas::{USER, done, quota, record, refused, used, user_shell};
use std::fs;

/// HR39. Once, limits and projects were set, and the next mount had none of them.
#[test]
fn limits_and_projects_that_cannot_be_kept_are_refused() {
    let (below, state) = (Below::tmpfs(), Below::tmpfs_with("size=256k"));
    let options = format!("quota=wait,state={}", state.path().display());
    let mounted = Mounted::over(Transport::Dev, below.path(), &options);
    mounted
        .shell("mkdir p q out; chmod 1777 p; head -c 4096 /dev/zero > p/f; cd q; touch {1..300}");
    done(&mounted, &format!("set user:{USER} --soft 4KiB @"));
    done(&mounted, "project @/q 5");
    let ballast = state.at("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).unwrap_err();
    let place = state.path().to_str().unwrap();
    let words = ["cannot be kept in", place, "quota", "ENOSPC"];
    // What is left of the last page is room for some, and fewer of long lines.
    let limit = 9_000_000_000_000_000_u64;
    let set = |id: u32| {
        let all = ["hard", "soft", "inodes-hard", "inodes-soft"];
        let all = all.map(|name| format!("--{name} {limit}")).join(" ");
        format!("set user:{id} {all} @")
    };
    let sets = (2000..2200).map(|id| (id, quota(&mounted, &set(id))));
    let (id, said) = sets.into_iter().find(|(_, said)| !said.success()).unwrap();
    refused(&set(id), &said, 1, &words);
    assert!(id > 2000, "{said:?}");
    let hard = |id: u32| record(&mounted, &format!("user:{id}"))["bytes"]["hard"].as_u64();
    let are_kept = || assert_eq!((hard(id - 1), hard(id)), (Some(limit), None));
    are_kept();
    let moved = mounted.shell("for i in {1..300}; do mv q/$i out 2>&1 || break; done");
    assert!(moved.contains("No space left on device"), "{moved}");
    let linked = mounted.shell("ln q/300 out/linked 2>&1 || true");
    assert!(linked.contains("No space left on device"), "{linked}");
    let set = mounted.shell("chattr -p 7 p/f 2>&1 || true");
    assert!(set.contains("No space left on device"), "{set}");
    let typed = "project @/p 7";
    refused(typed, &quota(&mounted, typed), 1, &words);
    assert_eq!(used(&mounted, "project:7"), (0, 0));
    assert_eq!(used(&mounted, "project:5"), (0, 301));
    done(&mounted, "check @");
    // Nobody asks for the end of a grace period, and it holds.
    let grown = user_shell(USER, &mounted.at("p"), "head -c 8192 /dev/zero > u");
    assert!(grown.success(), "{grown:?}");
    let ends = || record(&mounted, &format!("user:{USER}"))["bytes"]["deadline"].as_i64();
    let end = ends();
    assert!(end.is_some());
    until("the log tells", || {
        let log = mounted.log();
        log.contains("quota settings cannot be kept in") && log.contains("until the unmount")
    });
    fs::remove_file(&ballast).unwrap();
    mounted.unmount();
    mounted.mount_again(Transport::Dev, &options);
    are_kept();
    assert_eq!(ends(), end);
    assert_eq!(used(&mounted, "project:5"), (0, 301));
    done(&mounted, "project @/p 7");
    assert_eq!(used(&mounted, "project:7"), (4096 + 8192, 3));
    done(&mounted, "check @");
    mounted.unmount();
}
