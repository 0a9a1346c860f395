//! What a quota counts and refuses, rule by rule: the same script on a mounted volume, on ext4 and
//! on XFS with quotas on. Few kernels have all of these, so Linux is asked in a kernel of its own
//! (User Mode Linux), which takes minutes. `docs/quota-rules.md` has the answers of all, and
//! which scripts gave them; `HEARTH_LINUX=1` asks Linux again, `HEARTH_RECORD=1` writes them anew.

use crate::harness;

use ::hearth::{Credentials, QuotaId, Volume};
use harness::{Mounted, Private, Transport, hearth, program, succeed};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const BEGIN: &str = "<!-- recorded by crates/cli/tests/suite/quota_rules.rs -->\n";
/// What the rules are, and what asks Linux: what it answered belongs to these.
const SCRIPTS: [&str; 3] = ["rules.sh", "linux.sh", "xstate.c"];

#[test]
fn every_rule_is_as_recorded_beside_ext4_and_xfs() {
    let hearth = on_hearth();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/quota-rules.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, recorded) = text
        .split_once(BEGIN)
        .expect("the page has a recorded part");
    let has = |name: &str| std::env::var_os(name).is_some();
    if !has("HEARTH_RECORD") && !has("HEARTH_LINUX") {
        let answers = |row: &str| row.split(" | ").take(2).map(plain).collect::<Vec<_>>();
        let now = hearth.lines().map(|row| {
            let name = row.split('\t').next().unwrap().to_owned();
            vec![name, cell(row)]
        });
        let then = recorded.lines().skip_while(|row| !row.starts_with("|---"));
        let then = then.skip(1).map(answers);
        assert_eq!(now.collect::<Vec<_>>(), then.collect::<Vec<_>>());
        let scripts = format!("Of these scripts: {}.", digest());
        assert!(recorded.starts_with(&scripts), "HEARTH_RECORD=1: {scripts}");
        return;
    }
    let table = beside_linux(&hearth);
    if has("HEARTH_RECORD") {
        std::fs::write(&page, format!("{before}{BEGIN}{table}")).unwrap();
    } else {
        for (now, then) in table.lines().zip(recorded.lines()) {
            assert_eq!(now, then, "HEARTH_RECORD=1 records what is so now");
        }
        assert_eq!(table.lines().count(), recorded.lines().count());
    }
}

/// A field of a recorded row without what marks it.
fn plain(field: &str) -> String {
    field.trim_matches(['|', ' ', '*']).to_owned()
}

/// The first half of the SHA-256 of the scripts.
fn digest() -> String {
    let mut sum = program("bash");
    sum.args(["-c", "cat \"$@\" | sha256sum | head -c 32", "bash"]);
    succeed(sum.args(SCRIPTS.map(|name| scripts().join(name))))
}

/// The page's table: what Hearth answered, and what ext4 and XFS answer.
fn beside_linux(hearth: &str) -> String {
    let (ext4, xfs) = on_linux();
    let mut table = format!("Of these scripts: {}.\n\n", digest());
    table.push_str("| | Hearth | ext4 | XFS |\n|---|---|---|---|\n");
    let rows = hearth.lines().zip(ext4.lines()).zip(xfs.lines());
    let mut rules = 0;
    for ((hearth, ext4), xfs) in rows {
        let name = |row: &str| row.split('\t').next().unwrap().to_owned();
        assert!(
            name(hearth) == name(ext4) && name(ext4) == name(xfs),
            "{hearth}\n{ext4}\n{xfs}"
        );
        let cells = [hearth, ext4, xfs].map(cell);
        let differs = cells.iter().any(|cell| *cell != cells[0]);
        let mark = if differs { "**" } else { "" };
        let [hearth_cell, ext4_cell, xfs_cell] = cells;
        writeln!(
            table,
            "| {mark}{}{mark} | {hearth_cell} | {ext4_cell} | {xfs_cell} |",
            name(hearth)
        )
        .unwrap();
        rules += 1;
    }
    assert!(rules > 70 && rules == hearth.lines().count() && rules == xfs.lines().count());
    table
}

/// `+12 KiB, 1 inode`, `EDQUOT`.
fn cell(row: &str) -> String {
    let fields: Vec<&str> = row.split('\t').collect();
    let [_, kib, inodes, outcome] = fields[..] else {
        panic!("no row: {row}");
    };
    let mut parts = Vec::new();
    if kib != "+0" {
        parts.push(format!("{kib} KiB"));
    }
    if inodes != "+0" {
        let s = if matches!(inodes, "+1" | "-1") {
            ""
        } else {
            "s"
        };
        parts.push(format!("{inodes} inode{s}"));
    }
    if outcome != "done" {
        parts.push(outcome.to_owned());
    }
    match parts.is_empty() {
        true => "0".to_owned(),
        false => parts.join(", "),
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quota_rules")
}

fn on_hearth() -> String {
    let mounted = Mounted::new(Transport::Dev, "");
    let mut script = program("bash");
    script.arg(scripts().join("hearth.sh"));
    script.env("HERE", mounted.path()).env("SCRIPTS", scripts());
    script.env("HEARTH", hearth().get_program());
    let rows = succeed(&mut script);
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
    let mut rows = rows;
    for row in in_library() {
        let name = row.split('\t').next().unwrap();
        let refused = format!("{name}\t+0\t+0\tfailed: fallocate: Operation not supported");
        assert!(rows.lines().any(|row| row == refused), "{refused}\n{rows}");
        rows = rows.replace(&refused, &row);
    }
    rows
}

/// The rows of what the kernel's FUSE does not pass on, from the library: a file of ten blocks.
fn in_library() -> [String; 2] {
    const BLOCK: u64 = 4096;
    let volume = Volume::memory();
    let root = volume.process(Credentials::root());
    root.mkdir("/d", 0o777).unwrap();
    root.chmod("/d", 0o777).unwrap();
    let user = volume.process(Credentials::user(1000, 1000));
    let flags = libc::O_CREAT | libc::O_RDWR;
    let fd = user.open("/d/b", flags, 0o644).unwrap();
    user.pwrite(fd, &[7; 10 * BLOCK as usize], 0).unwrap();
    let used = || {
        let record = volume.quota().get(QuotaId::user(1000)).unwrap();
        (record.bytes.used as i64, record.inodes.used as i64)
    };
    let rules = [
        ("four blocks collapsed", libc::FALLOC_FL_COLLAPSE_RANGE, 0),
        (
            "four blocks of hole inserted",
            libc::FALLOC_FL_INSERT_RANGE,
            BLOCK,
        ),
    ];
    let rows = rules.map(|(name, mode, off)| {
        let before = used();
        user.fallocate(fd, mode, off, 4 * BLOCK).unwrap();
        let (kib, inodes) = ((used().0 - before.0) / 1024, used().1 - before.1);
        format!("{name}\t{kib:+}\t{inodes:+}\tdone")
    });
    assert!(volume.quota().check().unwrap().is_clean());
    rows
}

/// What ext4 and XFS do.
fn on_linux() -> (String, String) {
    let private = Private::new();
    let at = |name: &str| private.path().join(name).display().to_string();
    let (ext4, xfs) = (at("ext4.img"), at("xfs.img"));
    for (image, bytes) in [(&ext4, 256 << 20), (&xfs, 400 << 20)] {
        std::fs::File::create(image)
            .unwrap()
            .set_len(bytes)
            .unwrap();
    }
    let kinds = "quotatype=usrquota:grpquota:prjquota";
    let mut mkfs = program("mkfs.ext4");
    succeed(mkfs.args([
        "-q",
        "-b",
        "4096",
        "-O",
        "quota,project",
        "-E",
        kinds,
        &ext4,
    ]));
    succeed(program("mkfs.xfs").args(["-q", &xfs]));
    let init = at("init");
    let (out, scripts) = (private.path().display(), scripts());
    let source = scripts.join("xstate.c");
    let scripts = scripts.display();
    let text =
        format!("#!/bin/bash\nexport OUT='{out}' SCRIPTS='{scripts}'\n. '{scripts}/linux.sh'\n");
    std::fs::write(&init, text).unwrap();
    succeed(program("chmod").args(["+x", &init]));
    let registers = at("xstate.so");
    let mut compiler = program("gcc");
    compiler.args(["-shared", "-fPIC", "-O2", "-o", &registers]);
    succeed(compiler.arg(source));
    let mut kernel = Command::new("timeout");
    kernel.env("LD_PRELOAD", &registers);
    kernel.args(["-s", "KILL", "900", "linux.uml", "mem=256M", "quiet", "rw"]);
    kernel.args([
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "con=null",
        "con0=null,fd:1",
    ]);
    kernel
        .arg(format!("ubd0={ext4}"))
        .arg(format!("ubd1={xfs}"))
        .arg(format!("init={init}"));
    let console = kernel
        .output()
        .expect("linux.uml; cargo xtask install-tools installs it");
    let rows = |name: &str| {
        let errors = std::fs::read_to_string(at(&format!("{name}.err"))).unwrap_or_default();
        let rows = std::fs::read_to_string(at(name)).unwrap_or_default();
        let console = String::from_utf8_lossy(&console.stdout);
        assert!(!rows.is_empty(), "{name}: {errors}\n{console}");
        rows
    };
    (rows("ext4"), rows("xfs"))
}
