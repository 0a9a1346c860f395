//! Where Hearth is not Linux, or the library not the mount, on purpose.

#![allow(clippy::unwrap_used)]

mod harness;

use std::fs;
use std::os::unix::fs::{FileTypeExt, chown};
use std::path::Path;
use std::process::Command;

/// Runs a script as an ordinary user in this directory; whether it worked.
fn works_for_a_user(directory: &Path, script: &str) -> bool {
    let mut user = Command::new("setpriv");
    user.args(["--reuid=1000", "--regid=1000", "--clear-groups"]);
    user.args(["timeout", "20", "bash", "-ec", script]);
    user.current_dir(directory).status().unwrap().success()
}

on_both_transports! {
    /// Through the library there is nothing behind them.
    fn a_fifo_is_opened_by_the_kernel(mounted, "") {
        let directory = mounted.path().join("d");
        fs::create_dir(&directory).unwrap();
        chown(&directory, Some(1000), Some(1000)).unwrap();
        let talk = "mkfifo fifo; echo text > fifo & [ \"$(cat fifo)\" = text ]; wait";
        assert!(works_for_a_user(&directory, talk));
        let kind = fs::metadata(directory.join("fifo")).unwrap().file_type();
        assert!(kind.is_fifo());
    }

    fn a_file_becomes_immutable_or_append_only_by_the_superuser_alone(mounted, "") {
        let path = mounted.path().join("f");
        fs::write(&path, b"").unwrap();
        chown(&path, Some(1000), Some(1000)).unwrap();
        for flag in ["a", "i"] {
            let owner = |sign: &str| {
                works_for_a_user(mounted.path(), &format!("chattr {sign}{flag} f 2> /dev/null"))
            };
            let root = |sign: &str| {
                let mut chattr = Command::new("chattr");
                chattr.arg(format!("{sign}{flag}")).arg(&path).status().unwrap().success()
            };
            assert!(!owner("+") && root("+"), "{flag}");
            assert!(!owner("-") && root("-"), "{flag}");
        }
        assert!(works_for_a_user(mounted.path(), "chattr +d f"));
    }
}
