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
    ("python3", "python3"),
];

/// Crate, version, program.
const TOOLS: &[(&str, &str)] = &[("pjdfstest", "0.2.2"), ("fsx", "0.3.2")];

/// Looks at licences, sources and known faults of dependencies.
const CHECKER: (&str, &str) = ("cargo-deny", "0.20.2");

/// Installs all that is missing.
pub fn everything() -> Result<(), String> {
    packages(|_| true)?;
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
