//! Who changes projects, where the filesystem keeps project ids and where it keeps none.

use crate::harness::{Below, Mounted, Transport, said, shell};
use crate::quotas::{USER, done, used, user_shell};

/// A mount with the state beside the directory.
fn over(below: &Below) -> Mounted {
    Mounted::over(Transport::Dev, below.path(), &options(below))
}

fn options(below: &Below) -> String {
    let state = below.path().with_file_name("state");
    format!("quota=wait,state={}", state.display())
}

/// Once, whoever owned a file of a directory of the host took it out of its project, or into that
/// of others, which it filled.
#[test]
fn only_root_and_the_owner_of_the_volume_change_projects() {
    for (below, keeps_ids) in [
        (Below::tmpfs(), false),
        (Below::ext4(), false),
        (Below::xfs(), true),
    ] {
        let mounted = over(&below);
        mounted.shell(&format!("mkdir p; chown {USER} p"));
        done(&mounted, "project @/p 7");
        done(&mounted, "set project:7 --hard 64KiB @");
        let user = |script: &str| user_shell(USER, &mounted.at("p"), script);
        let made = user("head -c 60000 /dev/zero > f && mkdir d");
        assert!(made.success(), "{made:?}");
        let inherit = if keeps_ids { "-P" } else { "+P" };
        for typed in [
            "chattr -p 0 f",
            "chattr -p 9 f",
            "chattr -p 0 .",
            "chattr -p 9 d",
            "xfs_io -r -c 'chproj 9' f",
            "xfs_io -r -c 'chattr -P' d",
            &format!("chattr {inherit} d"),
        ] {
            let refused = user(typed);
            let is_told = refused.err.contains("Operation not permitted");
            assert!(is_told, "{typed}: {refused:?}");
        }
        let own = user("chattr +d f && xfs_io -r -c 'chattr +d' d && lsattr -d f d");
        assert_eq!(
            own.out.matches('d').count(),
            3,
            "flags of one's own: {own:?}"
        );
        let more = user("head -c 600000 /dev/zero > f2");
        assert!(more.err.contains("No space left on device"), "{more:?}");
        assert_eq!(used(&mounted, "project:7"), (65536, 4));
        assert_eq!(used(&mounted, "project:9"), (0, 0));
        // Root may, beyond a limit as well, but for the id that stands for none.
        done(&mounted, "set project:9 --hard 4KiB @");
        mounted.shell("chattr -p 9 p/f");
        assert_eq!(used(&mounted, "project:9"), (61440, 1));
        let none = said(&mut shell(&mounted.at("p"), "chattr -p 4294967295 f"));
        assert!(none.err.contains("Invalid argument"), "{none:?}");
        done(&mounted, "check @");
        mounted.unmount();
    }
}
