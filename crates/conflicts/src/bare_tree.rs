//! The tree of the small state in the reference model.

use super::argument::{CHUNK, PAGE, XATTR, path};
use super::case::Case;
use super::operation::{Dir, Name, Place};
use hearth_model::{Bytes, CWD, Fill, Model, Op, Outcome, SetTime, Target, bytes};

/// When the state was last changed.
const MADE: SetTime = SetTime::At(1_000, 0);

/// Returns the tree with `dirs`, all of it unchanged for long.
pub fn fixture(dirs: &[Dir]) -> Model {
    let mut model = Model::new();
    let p = model.add_process(0, 0, &[]);
    for &dir in dirs {
        make_dir(&mut model, p, dir.path());
        for name in Name::ALL {
            make(&mut model, p, Place { dir, name }, 0);
        }
    }
    settle(&mut model, p, dirs);
    model.apply(p, &Op::Exit);
    model
}

/// Returns stand-ins for the names that every call needs anew.
pub fn extra_names(model: &mut Model, case: &Case, count: usize) {
    let varying = case.varying();
    if count < 2 || varying.is_empty() {
        return;
    }
    let p = model.add_process(0, 0, &[]);
    for place in varying {
        for i in 1..count {
            make(model, p, place, i);
        }
    }
    settle(model, p, &case.dirs());
    model.apply(p, &Op::Exit);
}

fn make_dir(model: &mut Model, p: usize, path: &str) {
    let path = bytes(path);
    let (dirfd, mode) = (CWD, 0o755);
    model.apply(p, &Op::MakeDir { dirfd, path, mode });
}

fn make(model: &mut Model, p: usize, place: Place, i: usize) {
    let at = path(place, i);
    match place.name {
        Name::File | Name::File2 => {
            let opened = model.apply(p, &open_op(&at, libc::O_CREAT | libc::O_RDWR));
            let Outcome::Fd(fd) = opened else {
                unreachable!("a new file can be made: {opened:?}")
            };
            for page in 0..2 {
                let data = Fill {
                    seed: 1,
                    len: CHUNK,
                };
                let offset = page * PAGE as i64;
                model.apply(p, &Op::WriteAt { fd, data, offset });
            }
            let len = 2 * PAGE as i64;
            model.apply(p, &Op::TruncateFd { fd, len });
            model.apply(p, &Op::Close { fd });
            let set = Op::SetXattr {
                target: Target::Path(bytes(&at)),
                name: bytes(XATTR),
                value: Bytes(vec![0; CHUNK]),
                flags: 0,
            };
            model.apply(p, &set);
            touch(model, p, &at);
        }
        Name::Link => {
            let target = bytes("f");
            let (dirfd, path) = (CWD, bytes(at));
            model.apply(
                p,
                &Op::Symlink {
                    target,
                    dirfd,
                    path,
                },
            );
        }
        Name::Empty | Name::Empty2 => make_dir(model, p, &at),
        // The first is a directory of the state.
        Name::Sub if i > 0 => {
            make_dir(model, p, &at);
            let path = bytes(format!("{at}/f"));
            let (dirfd, mode, rdev) = (CWD, 0o100644, 0);
            model.apply(
                p,
                &Op::MakeNode {
                    dirfd,
                    path,
                    mode,
                    rdev,
                },
            );
        }
        Name::Sub | Name::Missing | Name::Missing2 | Name::Itself => {}
    }
}

/// Makes the directories as old as the files.
fn settle(model: &mut Model, p: usize, dirs: &[Dir]) {
    for dir in dirs {
        touch(model, p, dir.path());
    }
}

fn touch(model: &mut Model, p: usize, path: &str) {
    let set = Op::SetTimes {
        dirfd: CWD,
        path: bytes(path),
        times: [SetTime::Now, MADE],
        flags: 0,
    };
    model.apply(p, &set);
}

/// Returns the operation that opens a path.
pub fn open_op(path: impl AsRef<[u8]>, flags: i32) -> Op {
    Op::Open {
        dirfd: CWD,
        path: bytes(path),
        flags,
        mode: 0o644,
    }
}
