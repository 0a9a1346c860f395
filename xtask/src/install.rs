//! Installing what the suites need: Debian packages and test programs from the registry.

use crate::{place, process};
use std::process::Command;

/// Debian package and a program of it.
const PACKAGES: &[(&str, &str)] = &[
    ("fuse3", "fusermount3"),
    ("fsmark", "fs_mark"),
    ("dbench", "dbench"),
    ("fio", "fio"),
    ("stress-ng", "stress-ng"),
    ("attr", "setfattr"),
    ("acl", "setfacl"),
    ("git", "git"),
    ("gcc", "gcc"),
    // For programs of 32 bits, which it has no program of its own for.
    ("gcc-multilib", "/usr/lib32/crt1.o"),
    ("make", "make"),
    ("sqlite3", "sqlite3"),
    ("rsync", "rsync"),
    ("tar", "tar"),
    ("e2fsprogs", "mkfs.ext4"),
    ("valgrind", "valgrind"),
    // Commands of the SDET scripts.
    ("cpio", "cpio"),
    ("diffutils", "diff"),
    ("ed", "ed"),
    ("findutils", "find"),
    ("groff-base", "nroff"),
    ("spell", "spell"),
    ("time", "time"),
    ("xfsprogs", "xfs_io"),
    ("user-mode-linux", "linux.uml"),
    ("quota", "repquota"),
    // Filesystems below host volumes, and others who serve a directory.
    ("xfsprogs", "mkfs.xfs"),
    ("btrfs-progs", "mkfs.btrfs"),
    ("bindfs", "bindfs"),
    ("libcap2-bin", "setcap"),
    ("postgresql", "pgbench"),
    // A real terminal, for what is drawn on one.
    ("tmux", "tmux"),
    ("python3", "python3"),
    // The Debian package, and a system to try it in.
    ("debhelper", "dh"),
    ("dpkg-dev", "dpkg-buildpackage"),
    ("lintian", "lintian"),
    ("debootstrap", "debootstrap"),
];

/// Debian package and programs of it that need nothing else of it: they go into `target/tools`,
/// because the package, once installed, starts a service of its own.
const UNPACKED: &[(&str, &[&str])] = &[("prometheus", &["prometheus", "promtool"])];

/// Crate, version, program.
const TOOLS: &[(&str, &str)] = &[("pjdfstest", "0.2.2"), ("fsx", "0.3.2")];

/// Looks at licences, sources and known faults of dependencies.
const CHECKER: (&str, &str) = ("cargo-deny", "0.20.2");

/// Lists what a program is made of, for `cargo xtask dist`.
const LISTER: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// Installs all that is missing.
pub fn everything() -> Result<(), String> {
    packages(|_| true)?;
    UNPACKED
        .iter()
        .try_for_each(|(package, programs)| unpacked(package, programs))?;
    tools()
}

/// Installs the Debian packages that are missing among those with a wanted program.
pub fn packages(is_wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    let wanted = || PACKAGES.iter().filter(|(_, program)| is_wanted(program));
    let missing: Vec<&str> = wanted()
        .filter(|(_, program)| process::installed(program).is_none())
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        println!("Debian packages: all {} are installed", wanted().count());
        return Ok(());
    }
    let list = missing.join(" ");
    if !process::is_root() || process::installed("apt-get").is_none() {
        return Err(format!(
            "missing: {list}; install them: sudo apt-get install {list}"
        ));
    }
    println!("installing Debian packages: {list}");
    let mut update = Command::new("apt-get");
    process::run(update.args(["-qq", "update"]))?;
    let mut install = Command::new("apt-get");
    install
        .args(["-qq", "-y", "--no-install-recommends", "install"])
        .args(&missing)
        .env("DEBIAN_FRONTEND", "noninteractive");
    process::run(&mut install)
}

/// Takes programs out of a Debian package, which is not installed by that.
fn unpacked(package: &str, programs: &[&str]) -> Result<(), String> {
    let bin = place::tools().join("bin");
    if programs.iter().all(|program| bin.join(program).is_file()) {
        println!("programs of {package}: installed");
        return Ok(());
    }
    println!(
        "taking {} out of {package} into target/tools",
        programs.join(", ")
    );
    let whole = place::tools().join("package");
    let failed = |error: std::io::Error| format!("{}: {error}", whole.display());
    // What an interrupted run has left.
    let _ = std::fs::remove_dir_all(&whole);
    std::fs::create_dir_all(&whole).map_err(failed)?;
    std::fs::create_dir_all(&bin).map_err(failed)?;
    if process::is_root() {
        process::run(Command::new("apt-get").args(["-qq", "update"]))?;
    }
    let mut download = Command::new("apt-get");
    // The user that apt downloads as may not write here.
    download.args(["-qq", "-o", "APT::Sandbox::User=root", "download", package]);
    process::run(download.current_dir(&whole))?;
    let mut files = std::fs::read_dir(&whole).map_err(failed)?;
    let file = files.next().ok_or("apt-get has downloaded nothing")?;
    let file = file.map_err(failed)?.path();
    let mut unpack = Command::new("dpkg-deb");
    process::run(unpack.arg("-x").arg(file).arg(&whole))?;
    for program in programs {
        let from = whole.join("usr/bin").join(program);
        std::fs::rename(from, bin.join(program)).map_err(failed)?;
    }
    std::fs::remove_dir_all(&whole).map_err(failed)
}

/// One program of each Debian package.
#[cfg(test)]
pub fn programs() -> impl Iterator<Item = &'static str> {
    PACKAGES.iter().map(|(_, program)| *program)
}

/// Installs the test programs that are missing into `target/tools`.
pub fn tools() -> Result<(), String> {
    crates(TOOLS)
}

/// Installs what `cargo xtask check` needs and no test does; it takes minutes to build.
pub fn checker() -> Result<(), String> {
    crates(&[CHECKER])
}

/// Installs what lists the components of a release; it takes minutes to build.
pub fn lister() -> Result<(), String> {
    crates(&[LISTER])
}

fn crates(wanted: &[(&str, &str)]) -> Result<(), String> {
    let root = place::tools();
    let have = std::fs::read_to_string(root.join(".crates.toml")).unwrap_or_default();
    for (name, version) in wanted {
        if have.contains(&format!("\"{name} {version} ")) && root.join("bin").join(name).is_file() {
            println!("{name} {version}: installed");
            continue;
        }
        println!("installing {name} {version} into target/tools");
        let mut install = process::cargo();
        install
            .args(["install", "--locked", "--quiet", "--root"])
            .arg(&root)
            .arg(format!("{name}@{version}"))
            .env_remove("CARGO_TARGET_DIR");
        process::run(&mut install)?;
    }
    Ok(())
}
