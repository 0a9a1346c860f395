//! Changes of projects, by those who may, and what stays in them, above all where the filesystem
//! keeps no project ids: a file belongs there to the project of its directory, or to the one that
//! is written down.

use crate::harness::{Below, Mounted, Transport, program, said, shell, succeed};
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

/// Ends the mount and mounts it again: cleanly, or with all counted anew.
fn again(mounted: &Mounted, below: &Below, is_killed: bool) {
    match is_killed {
        true => {
            mounted.kill();
            succeed(program("umount").arg("-l").arg(mounted.path()));
        }
        false => mounted.unmount(),
    }
    mounted.mount_again(Transport::Dev, &options(below));
}

/// Once, the name outside said after the next mount that the file is of no project: it grew without
/// a limit, and what it had had stayed charged when it was gone.
#[test]
fn what_is_linked_out_of_a_project_stays_in_it() {
    for (below, is_killed) in [
        (Below::ext4(), false),
        (Below::ext4(), true),
        (Below::tmpfs(), false),
    ] {
        let mounted = over(&below);
        mounted.shell("mkdir p out; chmod 1777 p out");
        done(&mounted, "project @/p 7");
        done(&mounted, "set project:7 --hard 1MiB @");
        let user = |script: &str| user_shell(USER, &mounted.at("."), script);
        let linked = user("head -c 100000 /dev/zero > p/f && ln p/f out/f && mkdir out/d");
        assert!(linked.success(), "{linked:?}");
        mounted.shell("xfs_io -T -c 'pwrite -q 0 4096' -c 'flink out/unnamed' p");
        assert_eq!(used(&mounted, "project:7"), (102_400 + 4096, 3));
        again(&mounted, &below, is_killed);
        assert_eq!(used(&mounted, "project:7"), (102_400 + 4096, 3));
        let grown = user("head -c 20000000 /dev/zero >> out/f");
        assert!(grown.err.contains("No space left on device"), "{grown:?}");
        assert_eq!(used(&mounted, "project:7"), (1 << 20, 3));
        done(&mounted, "check @");
        // One name after the other; a file of its project may come back.
        mounted.shell("rm p/f; ln out/f out/d/f; mv out/f p/g; rm out/d/f p/g out/unnamed");
        assert_eq!(used(&mounted, "project:7"), (0, 1));
        done(&mounted, "check @");
        mounted.shell("head -c 1048576 /dev/zero > p/all");
        mounted.unmount();
    }
}

/// Once, a file that had a name outside when its tree became a project was of it by one name alone.
#[test]
fn what_has_a_name_outside_is_of_the_project_that_its_tree_becomes() {
    let below = Below::ext4();
    let make = "mkdir t out other; head -c 8192 /dev/zero > t/f; ln t/f out/f; ln t/f out/g; \
                head -c 4096 /dev/zero > t/in; ln t/in t/too";
    succeed(&mut shell(below.path(), make));
    let mounted = over(&below);
    let holds = |who: &str, expected: (u64, u64)| {
        assert_eq!(used(&mounted, who), expected, "{who}");
        done(&mounted, "check @");
    };
    done(&mounted, "project @/t 7");
    holds("project:7", (12288, 3));
    for is_killed in [false, true] {
        again(&mounted, &below, is_killed);
        holds("project:7", (12288, 3));
        mounted.shell("head -c 4096 /dev/zero >> out/g; truncate -s 8192 t/f");
        holds("project:7", (12288, 3));
    }
    // Whoever changes a tree last has it.
    done(&mounted, "project @/out 8");
    holds("project:8", (8192, 2));
    holds("project:7", (4096, 2));
    again(&mounted, &below, true);
    holds("project:8", (8192, 2));
    done(&mounted, "project @/t 0");
    done(&mounted, "project @/out 0");
    again(&mounted, &below, false);
    holds("project:7", (0, 0));
    holds("project:8", (0, 0));
    mounted.unmount();
}

/// Once, it left its project where what it was exchanged with had a line of its own.
#[test]
fn what_is_exchanged_out_of_a_project_stays_in_it() {
    let below = Below::ext4();
    let mounted = over(&below);
    mounted.shell("mkdir p out");
    done(&mounted, "project @/p 7");
    mounted.shell("head -c 4096 /dev/zero > p/a; head -c 8192 /dev/zero > p/b; mv p/a out/a");
    let exchange = "my ($a, $b) = ('p/b', 'out/a'); \
                    syscall(316, -100, $a, -100, $b, 2) == 0 or die $!";
    succeed(
        program("perl")
            .args(["-e", exchange])
            .current_dir(mounted.path()),
    );
    for is_killed in [false, true] {
        again(&mounted, &below, is_killed);
        mounted.shell("truncate -s 0 out/a; head -c 8192 /dev/zero > out/a");
        assert_eq!(used(&mounted, "project:7"), (12288, 3));
        done(&mounted, "check @");
    }
    mounted.unmount();
}
