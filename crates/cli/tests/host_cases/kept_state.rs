//! A power cut of the disk with the state directory.

use crate::harness::{Below, Mounted, Transport, program, succeed};
use crate::quotas::{USER, done, record, used};
use hearth_testing::forgetting::{Forgetting, Options};

/// Once, nothing waited for that disk: limits and projects were acknowledged and gone.
#[test]
fn limits_and_projects_that_were_acknowledged_outlive_a_power_cut() {
    let below = Below::tmpfs();
    let (behind, at) = (below.outside("behind"), below.outside("disk"));
    let disk = Forgetting::mount(&behind, &at, Options::default());
    let mut disk = disk.expect("the forgetting filesystem is mounted");
    let options = format!("quota=wait,state={}/state", at.display());
    let mounted = Mounted::over(Transport::Dev, below.path(), &options);
    mounted.shell("mkdir p q; touch q/f; ln q/f out");
    done(&mounted, &format!("set user:{USER} --hard 1MiB @"));
    done(&mounted, "project @/p 7");
    done(&mounted, "project @/q 8");
    mounted.shell("chattr -p 9 out");
    mounted.kill();
    succeed(program("umount").arg("-l").arg(mounted.path()));
    disk.cut(None).expect("the disk loses its power");
    mounted.mount_again(Transport::Dev, &options);
    assert_eq!(
        record(&mounted, &format!("user:{USER}"))["bytes"]["hard"],
        1 << 20
    );
    let projects = ["project:7", "project:8", "project:9"].map(|who| used(&mounted, who).1);
    assert_eq!(projects, [1, 1, 1]);
    done(&mounted, "check @");
    mounted.unmount();
}
