//! Stores that earlier builds made, kept in this repository: every later build opens them.
//!
//! `HEARTH_KEEP=DIR` puts stores of this build there, to be kept when the format gets a version.

use super::sample::{LIMITED, make, open, see, writer};
use hearth_store::OpenMode;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Archives, and whether the store is encrypted.
const KEPT: [(&str, bool); 2] = [
    ("store-1.tar.gz", false),
    ("store-1-encrypted.tar.gz", true),
];

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/stores/kept")
        .join(name)
}

fn tar(how: &str, archive: &Path, dir: &Path) {
    let mut tar = Command::new("tar");
    tar.arg(how).arg(archive).arg("-C").arg(dir);
    if how == "-czf" {
        tar.args(["--sort=name", "--owner=0", "--group=0", "--mtime=@0", "."]);
    }
    let ended = tar.status().unwrap();
    assert!(ended.success(), "tar {how} {}: {ended}", archive.display());
}

/// Cuts journals of the engine, which are preallocated and count for nothing.
fn empty_journals(dir: &Path) {
    for entry in std::fs::read_dir(dir.join("engine")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "jnl") {
            std::fs::write(path, b"").unwrap();
        }
    }
}

#[test]
fn stores_of_earlier_builds_open_with_all_that_is_in_them() {
    for (name, encrypted) in KEPT {
        let new = tempfile::tempdir().unwrap();
        make(new.path(), encrypted);
        let opened = open(new.path(), OpenMode::ReadOnly, encrypted).unwrap();
        let expected = see(&opened.volume);
        assert!(expected.len() > 10, "{expected:?}");
        drop(opened);
        if let Ok(to) = std::env::var("HEARTH_KEEP") {
            empty_journals(new.path());
            tar("-czf", &Path::new(&to).join(name), new.path());
        }

        let old = tempfile::tempdir().unwrap();
        tar("-xzf", &kept(name), old.path());
        for mode in [OpenMode::ReadOnly, writer(), OpenMode::ReadOnly] {
            let opened = open(old.path(), mode.clone(), encrypted);
            let opened = opened.unwrap_or_else(|why| panic!("{name}, {mode:?}: {why}"));
            assert!(see(&opened.volume) == expected, "{name}, {mode:?}");
            let limited = opened.volume.quota().get(LIMITED.0).unwrap();
            assert_eq!(limited.bytes.hard, Some(LIMITED.1), "{name}, {mode:?}");
            let quota = opened.volume.quota().check().unwrap();
            assert!(quota.is_clean(), "{name}, {mode:?}: {quota:?}");
            while hearth::backend::Backend::tidy(&*opened.store) {}
            opened.volume.close().unwrap();
            assert!(opened.lines.lock().unwrap().is_empty(), "{name}, {mode:?}");
        }
    }
}
