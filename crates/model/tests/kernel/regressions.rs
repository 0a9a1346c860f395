//! Scripts that once showed a difference between model and kernel, or that must not.

use hearth_model::regressions::{self, Script};
use hearth_model::{Op, Outcome, System, bytes, compare};

use crate::mount::{Kernel, Kind, check_machine};

/// This is what makes random scripts as root safe.
#[test]
fn no_path_leads_out_of_the_mount() {
    check_machine();
    let mut kernel = Kernel::start(Kind::Tmpfs);
    let inode = |kernel: &mut Kernel, path: &str| {
        let stat = Op::Stat {
            dirfd: libc::AT_FDCWD,
            path: bytes(path),
            flags: 0,
        };
        match kernel.apply(1, &stat) {
            Outcome::Attr(attr) => attr.ino,
            other => panic!("stat of {path}: {other:?}"),
        }
    };
    let root = inode(&mut kernel, "/");
    let make = Op::MakeDir {
        dirfd: libc::AT_FDCWD,
        path: bytes("d"),
        mode: 0o777,
    };
    assert_eq!(kernel.apply(1, &make), Outcome::Done);
    assert_eq!(
        kernel.apply(1, &Op::ChangeRoot { path: bytes("d") }),
        Outcome::Done
    );
    // The current directory is now outside the root, where ".." is not confined by it.
    for path in ["..", "../..", "../../../.."] {
        assert_eq!(inode(&mut kernel, path), root);
    }
    for path in ["../tmp", "../../proc", "/proc", "../../etc"] {
        let stat = Op::Stat {
            dirfd: libc::AT_FDCWD,
            path: bytes(path),
            flags: 0,
        };
        assert_eq!(kernel.apply(1, &stat), Outcome::Error(libc::ENOENT));
    }
}

#[test]
fn every_regression_script_agrees_with_the_kernel() {
    check_machine();
    agree(Kind::Tmpfs, regressions::all());
    agree(Kind::Ext4, regressions::holes::scripts());
}

fn agree(kind: Kind, scripts: Vec<Script>) {
    // ext4 has a directory of its own in it, so trees are not compared.
    let tree_every = usize::from(kind == Kind::Tmpfs);
    for (fact, steps) in scripts {
        if let Err(difference) = compare(&mut Kernel::start(kind), &steps, tree_every) {
            panic!("{fact}: {difference}");
        }
    }
}

/// Regression: a walk that the kernel restarts because of mounts counts its links anew.
#[test]
fn forty_symlinks_are_followed_while_another_thread_mounts() {
    check_machine();
    let mut scripts = regressions::all().into_iter();
    let (_, links) = scripts
        .find(|(fact, _)| fact.starts_with("40 symbolic links"))
        .expect("a script of links");
    let compare_often = || {
        (0..50)
            .map(|_| compare(&mut Kernel::start(Kind::Tmpfs), &links, 1))
            .find_map(Result::err)
    };
    let difference = std::thread::scope(|scope| {
        let comparison = scope.spawn(compare_often);
        while !comparison.is_finished() {
            drop(Kernel::start(Kind::Tmpfs));
        }
        comparison.join().expect("the comparison ends")
    });
    assert!(difference.is_none(), "{}", difference.expect("it is some"));
}
