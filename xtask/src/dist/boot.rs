//! The system of [`super::trial`] with its systemd running as process 1, in namespaces of its own:
//! processes, mounts, network, control groups. It has a `/dev` of its own and may not change the
//! kernel's settings, so nothing of it is seen on the machine.

use super::boot_facts::BOOTS;
use super::{folder, script};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Makes the namespaces' mounts over the tree `$1`, at `$2`, and becomes systemd. It says first
/// which process it is for those who are outside.
const INIT: &str = r#"
read -r pid _ < /proc/self/stat
mount --bind "$1" "$2"
cd "$2"
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty fuse autofs; do
    # A kernel may be built without automounts.
    test $node != autofs || test -e /dev/autofs || continue
    touch dev/$node
    mount --bind /dev/$node dev/$node
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
# The journal is kept, and tells boots apart by this.
mkdir -p var/log/journal
cat proc/sys/kernel/random/uuid > run/boot-id
mount --bind run/boot-id proc/sys/kernel/random/boot_id
mkdir -p old
pivot_root . old
umount -l old
rmdir old
echo $pid
exec env -i container=hearth-trial PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --show-status=no < /dev/null > /dev/null 2>&1
"#;

/// How long a system may take to go down: longer than its units may take to stop.
const DOWN: Duration = Duration::from_secs(60);

/// A system that runs.
struct Booted {
    unshare: Child,
    /// The number of its process 1.
    pid: String,
}

/// Boots the tree `root` as often as there are lists of facts; each that holds adds to `passed`.
///
/// # Errors
/// The first fact that is none, after the system's own messages.
pub fn all(root: &Path, passed: &mut u32) -> Result<(), String> {
    let groups = Groups::new()?;
    for (how, facts) in BOOTS {
        println!("\n-- systemd runs: {how}");
        let mut system = Booted::start(root, &groups)?;
        for (fact, text) in *facts {
            println!("\n-- systemd: {fact}");
            let holds = script::run(&mut system.inside(), text);
            if let Err(error) = holds {
                let journal = "journalctl --no-pager --output=short-monotonic | tail -60";
                let _ = script::run(&mut system.inside(), journal);
                return Err(format!("{fact}: {error}"));
            }
            *passed += 1;
        }
        system.ends()?;
    }
    Ok(())
}

impl Booted {
    fn start(root: &Path, groups: &Groups) -> Result<Booted, String> {
        let place = folder("booted");
        std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let enter = "echo $$ > \"$0\"/cgroup.procs; exec unshare --mount --pid --fork \
                     --kill-child --net --uts --ipc --cgroup bash -euc \"$@\"";
        let mut sh = Command::new("sh");
        sh.args(["-ec", enter]).arg(&groups.own).arg(INIT);
        sh.arg("init").arg(root).arg(&place).stdout(Stdio::piped());
        let mut unshare = sh.spawn().map_err(|error| format!("sh: {error}"))?;
        let mut pid = String::new();
        if let Some(said) = unshare.stdout.take() {
            let _ = BufReader::new(said).read_line(&mut pid);
        }
        let pid = pid.trim().to_owned();
        let system = Booted { unshare, pid };
        if system.pid.is_empty() {
            return Err("the namespaces of a system cannot be made here".to_owned());
        }
        Ok(system)
    }

    /// What runs another command in the system.
    fn inside(&self) -> Command {
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &self.pid]).args([
            "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--root", "--wd",
        ]);
        enter
    }

    /// Waits until the system is down, as the last fact has asked for.
    fn ends(&mut self) -> Result<(), String> {
        let asked = Instant::now();
        while asked.elapsed() < DOWN {
            match self.unshare.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Ok(Some(_)) => return Ok(()),
                Err(error) => return Err(format!("unshare: {error}")),
            }
        }
        Err(format!("the system is not down after {DOWN:?}"))
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        // Its process 1 and all others are killed with it.
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

/// The control group that the systems run in, so that theirs are below it.
struct Groups {
    own: PathBuf,
}

impl Groups {
    fn new() -> Result<Groups, String> {
        let all = folder("cgroup");
        std::fs::create_dir_all(&all).map_err(|error| format!("{}: {error}", all.display()))?;
        // Of this mount namespace alone. What a killed run has left is empty by then.
        let make = "mount -t cgroup2 cgroup2 \"$0\"
            find \"$0\" -depth -path '*/hearth-trial.*' -type d -mmin +10 \
                -exec rmdir {} + 2> /dev/null || true
            own=\"$0/hearth-trial.$(cat /proc/sys/kernel/random/uuid)\"
            mkdir \"$own\"
            echo \"$own\"";
        let own = super::stage::output(Command::new("sh").args(["-ec", make]).arg(&all))?;
        let own = PathBuf::from(own.trim());
        Ok(Groups { own })
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // Killed processes are gone a moment later.
        let remove = "for i in $(seq 100); do
                find \"$0\" -depth -type d -exec rmdir {} + 2> /dev/null || true
                test -e \"$0\" || exit 0
                sleep 0.1
            done";
        let _ = Command::new("sh")
            .args(["-c", remove])
            .arg(&self.own)
            .status();
    }
}
