//! The package in a system of its own: a small Debian in a tmpfs, in namespaces of mounts and
//! processes that end with this program. So nothing stays mounted and no daemon stays, whatever
//! fails.

use super::{boot, folder, package, read, script, stage};
use crate::parts::{self, Part};
use crate::{place, process};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is true of the package, and the script that fails if it is not. They run in this order in
/// one system, whose mount points are `/srv/data` and `/srv/more`.
const FACTS: &[(&str, &str)] = &[
    (
        "it installs from its file alone and starts nothing",
        r#"
        find / -xdev -not -path '/var/lib/dpkg/*' | sort > /tmp/before
        dpkg --install /hearth.deb
        test "$(dpkg-query -W -f '${Status}' hearth)" = 'install ok installed'
        ! cat /proc/[0-9]*/comm | grep -qx hearth
        test -z "$(find /etc/systemd -name 'hearth*')"
        "#,
    ),
    (
        "pages, completions, helpers and the example are where they are looked for",
        r#"
        for page in man1/hearth man1/hearth-mount man1/hearth-quota-set man8/mount.hearth \
                    man8/mount.fuse.hearth; do
            zcat /usr/share/man/$page.*.gz | grep -q '^\.TH'
        done
        bash -n /usr/share/bash-completion/completions/hearth.bash
        grep -q '^#compdef hearth' /usr/share/zsh/vendor-completions/_hearth
        grep -q 'complete -c hearth' /usr/share/fish/vendor_completions.d/hearth.fish
        for helper in mount.hearth mount.fuse.hearth; do
            test "$(realpath /usr/sbin/$helper)" = /usr/bin/hearth
        done
        # The example mounts nothing before it is filled in, and is right when it is.
        ! hearth mount --config /etc/hearth/example.toml 2> said
        grep -q 'no mount point; add a line mountpoint' said; rm said
        mkdir -p /srv/data /srv/more /srv/files
        sed -n 's/^#\([a-z]* = \)/\1/p' /etc/hearth/example.toml > /etc/hearth/data.toml
        hearth mount --config /etc/hearth/data.toml -o transport=dev
        test "$(findmnt -n -o FSTYPE /srv/data)" = fuse.hearth
        hearth umount --config /etc/hearth/data.toml
        "#,
    ),
    (
        "it serves its callers with the capabilities that the unit leaves it",
        r#"
        unit=/lib/systemd/system/hearth@.service
        caps=$(sed -n 's/^CapabilityBoundingSet=~//p' $unit | tr ' A-Z' '\na-z' | sed 's/^cap_/-/')
        test $(wc -l <<< "$caps") -gt 10
        unit_like() { setpriv --no-new-privs --bounding-set "$(paste -sd, <<< "$caps")" "$@"; }
        unit_like hearth mount --config /etc/hearth/data.toml -o transport=dev
        ! grep -q 'CapBnd:.*1ffffffffff' /proc/$(cat /srv/data/.hearth/pid)/status
        mkdir -m 777 /srv/data/open
        nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        nobody sh -c 'umask 77; echo mine > /srv/data/open/mine; chmod u+s /srv/data/open/mine'
        test "$(stat -c '%u %a' /srv/files/open/mine)" = '65534 4600'
        ! nobody touch /srv/data/closed
        mknod /srv/data/null c 1 3
        test "$(stat -c '%t %T' /srv/files/null)" = '1 3'
        chown 1000:1000 /srv/data/null
        hearth umount --config /etc/hearth/data.toml
        rm -r /var/lib/hearth
        "#,
    ),
    (
        "a file of /etc/hearth mounts, and mount(8) mounts by either type",
        r#"
        hearth mkfs store:/srv/volume
        printf '%s\n' 'mountpoint = "/srv/data"' 'source = "store:/srv/volume"' \
            'options = ["transport=dev", "hot_track"]' > /etc/hearth/data.toml
        hearth mount --config /etc/hearth/data.toml
        echo kept > /srv/data/file
        for type in hearth fuse.hearth; do
            mount -t $type memory: /srv/more -o transport=dev
            findmnt -n -o FSTYPE /srv/more | grep -qx fuse.hearth
            umount /srv/more
        done
        "#,
    ),
    (
        "names of users are known",
        r#"
        hearth quota set user:backup --hard 1MiB /srv/data
        hearth quota report /srv/data | grep -w backup
        ! hearth quota set user:nosuchuser --hard 1MiB /srv/data 2> /tmp/said
        grep "no user 'nosuchuser' on this machine" /tmp/said
        "#,
    ),
    (
        "an upgrade leaves the daemon that serves, until its unmount",
        r#"
        pid=$(cat /srv/data/.hearth/pid)
        exec 3>> /srv/data/file
        dpkg --install /hearth.deb
        test "$(cat /srv/data/.hearth/pid)" = $pid
        ! grep -hE 'hearth@|(systemctl|invoke).* (re|try-re)?start' /var/lib/dpkg/info/hearth.p*
        readlink /proc/$pid/exe | grep -q '(deleted)'
        echo more >&3; exec 3>&-
        hearth stats /srv/data > /dev/null
        hearth umount --config /etc/hearth/data.toml
        ! readlink /proc/$pid/exe
        hearth mount --config /etc/hearth/data.toml
        test "$(cat /srv/data/file)" = "$(printf 'kept\nmore')"
        test "$(realpath /proc/$(cat /srv/data/.hearth/pid)/exe)" = /usr/bin/hearth
        "#,
    ),
    (
        "a removal leaves the mount, which umount(8) ends",
        r#"
        pid=$(cat /srv/data/.hearth/pid)
        dpkg --remove hearth
        ! test -e /usr/bin/hearth
        grep -q kept /srv/data/file
        umount /srv/data
        for i in $(seq 300); do readlink /proc/$pid/exe > /tmp/said || break; sleep 0.1; done
        ! readlink /proc/$pid/exe
        "#,
    ),
    (
        "a purge leaves nothing",
        r#"
        test -f /etc/hearth/example.toml
        rm -r /srv/* /etc/hearth/data.toml /tmp/said
        dpkg --purge hearth
        find / -xdev -not -path '/var/lib/dpkg/*' | sort > /tmp/after
        sed -i '/^\/tmp\/\(before\|after\)$/d' /tmp/before /tmp/after
        diff /tmp/before /tmp/after
        "#,
    ),
];

/// What `cargo xtask test` runs beside the test programs.
pub fn part() -> Part {
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "cargo".into()));
    command.args(["dist", "--try"]);
    Part {
        name: "the Debian package".to_owned(),
        command,
        again: "cargo xtask dist --try".to_owned(),
        alone: false,
        rank: parts::LAST,
    }
}

/// Makes the package of the program that the tests have built, and tries it.
///
/// # Errors
/// The first fact that is none.
pub fn run() -> Result<(), String> {
    if !process::is_root() {
        return Err("the package is tried by root; use sudo".to_owned());
    }
    let package = package::of_tests()?;
    units()?;
    of(&package)
}

/// Tries a package.
///
/// # Errors
/// The first fact that is none.
pub fn of(package: &Path) -> Result<(), String> {
    let base = base()?;
    let root = folder("root");
    std::fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let own = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    apart.arg(own).args(["dist", "--inside"]);
    process::run(apart.arg(package).arg(base).arg(root))
}

/// The part that runs in the namespaces.
///
/// # Errors
/// Those of [`run`].
pub fn inside(package: &Path, base: &Path, root: &Path) -> Result<(), String> {
    let at = |place: &str| root.join(place);
    let command = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    };
    forget_mounts();
    process::run(command(&["mount", "-t", "tmpfs", "tmpfs"]).arg(root))?;
    process::run(command(&["tar", "-xf"]).arg(base).arg("-C").arg(root))?;
    process::run(command(&["mount", "--rbind", "/dev"]).arg(at("dev")))?;
    process::run(command(&["mount", "--rbind", "/sys"]).arg(at("sys")))?;
    process::run(command(&["mount", "-t", "proc", "proc"]).arg(at("proc")))?;
    process::run(command(&["cp"]).arg(package).arg(at("hearth.deb")))?;
    let mut passed = 0;
    let mut failed = Ok(());
    for (fact, script) in FACTS {
        println!("\n-- {fact}");
        failed = holds(root, script).map_err(|error| format!("{fact}: {error}"));
        if failed.is_err() {
            break;
        }
        passed += 1;
    }
    if failed.is_ok() {
        failed = boot::all(root, &mut passed);
    }
    // What failed is counted by whoever reads how this ends.
    println!("\ntest result: ok. {passed} passed; 0 failed;");
    failed
}

/// Gives up this namespace's copies of the mounts of Hearth: whoever unmounts one outside waits for
/// the daemon, which serves its copies.
fn forget_mounts() {
    let mut umount = Command::new("umount");
    // It fails where there is none.
    let _ = umount
        .args(["-a", "-l", "-c", "-t", "fuse.hearth"])
        .status();
}

/// Runs a script in the system. Nobody waits for the daemons there: one that has ended has a
/// process without a program.
fn holds(root: &Path, script: &str) -> Result<(), String> {
    script::run(Command::new("chroot").arg(root), script)
}

/// A small Debian of this machine's release, made once. Its systemd runs only in [`boot`].
fn base() -> Result<PathBuf, String> {
    let release = read(Path::new("/etc/os-release"))?;
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = name.ok_or("/etc/os-release names no release of Debian")?;
    let tools = place::tools();
    let packed = tools.join(format!("chroot-{name}-systemd.tar"));
    if packed.is_file() {
        return Ok(packed);
    }
    println!("making a small Debian ({name}) in target/tools, once");
    let tree = tools.join("chroot");
    // What an interrupted run has left; debootstrap has taken its mounts away.
    let _ = std::fs::remove_dir_all(&tree);
    std::fs::create_dir_all(&tools).map_err(|error| format!("{}: {error}", tools.display()))?;
    let mut make = Command::new("unshare");
    let alone = "umount -a -l -c -t fuse.hearth; exec debootstrap \"$@\"";
    make.args(["--mount", "sh", "-c", alone, "sh"]);
    make.args(["--variant=minbase", "--include=systemd", name]);
    // Hundreds of lines; what fails is on standard error and in its log.
    make.stdout(Stdio::null());
    process::run(make.arg(&tree).arg("http://deb.debian.org/debian"))?;
    let part = tools.join("chroot.part");
    let mut pack = Command::new("tar");
    pack.args([
        "--exclude=./var/cache/apt/archives/*.deb",
        "--exclude=./var/lib/apt/lists/*",
    ]);
    process::run(pack.arg("-cf").arg(&part).arg("-C").arg(&tree).arg("."))?;
    std::fs::rename(&part, &packed).map_err(|error| format!("{}: {error}", packed.display()))?;
    std::fs::remove_dir_all(&tree).map_err(|error| format!("{}: {error}", tree.display()))?;
    Ok(packed)
}

/// Asks systemd whether the units are right, where it is installed; they need not be running. An
/// unknown key is a line of its own, and no failure.
fn units() -> Result<(), String> {
    if process::installed("systemd-analyze").is_none() {
        println!("systemd is not installed: its units are not verified");
        return Ok(());
    }
    // Beside the targets that every system has, since a unit that it names has to be there.
    let whole = folder("dev/units");
    let join = "cp -a hearth/debian/hearth units && cp -n /lib/systemd/system/*.target \
                units/lib/systemd/system/";
    let mut copy = Command::new("sh");
    process::run(copy.args(["-c", join]).current_dir(folder("dev")))?;
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--root"]).arg(&whole);
    verify.args(["hearth@data.service", "hearth-metrics.service"]);
    let line = process::line(&verify);
    println!("$ {line}");
    let said = verify
        .output()
        .map_err(|error| format!("`{line}`: {error}"))?;
    let lines = String::from_utf8_lossy(&said.stderr).into_owned();
    let ours: Vec<&str> = lines
        .lines()
        .filter(|line| line.contains("hearth"))
        .collect();
    if !said.status.success() || !ours.is_empty() {
        return Err(format!("`{line}` ended with {}: {lines}", said.status));
    }
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--threshold=60", "--no-pager"]);
    let unit = whole.join("lib/systemd/system/hearth@.service");
    stage::output(security.arg(unit)).map(drop)
}
