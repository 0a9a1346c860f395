//! The control files below `/.hearth`: plain text to look at, and tunables to write.
//!
//! They are inodes like others, with numbers from [`CONTROL`] on, a text that is made when the file
//! is opened, and a directory that lookup finds and listings of the root do not show. What one open
//! of a control file says is its [`Dialogue`]; `.hearth/ask` answers questions (see [`ask`]).

mod ask;
mod dialogue;
mod heat;
mod locks;
mod quota;
mod sched;
mod stats;
mod tunables;

use crate::attr::{Kind, Target};
use crate::directory::{Change, Directory, Hashed};
use crate::errno::{Errno, Result};
use crate::flags;
use crate::inode::{Body, Fields, Inode, Node, NodeExt};
use crate::number::{CONTROL, ROOT};
use crate::volume::{Core, Volume};
use hearth_sync::epoch::pin;

pub(crate) use ask::{Question, answer};
pub(crate) use dialogue::Dialogue;

/// Name of the directory in the root.
pub(crate) const NAME: &[u8] = b".hearth";

/// Whether `name` in `parent` is taken by the control directory.
pub(crate) fn reserves(parent: &Node, name: &[u8]) -> bool {
    parent.number() == ROOT && name == NAME
}

/// A file below `.hearth`; its index in [`FILES`] is what the inode holds.
struct ControlFile {
    /// Path below `.hearth`.
    path: &'static str,
    render: fn(&Core) -> String,
    takes: Takes,
    /// Whether only the owner of the volume may look.
    private: bool,
}

/// What a write to a control file is.
enum Takes {
    Nothing,
    /// A new value; `EINVAL` for nonsense, which changes nothing.
    Setting(fn(&Core, &str) -> Result<()>),
    /// A question; everybody may ask, and who may do what is decided by question.
    Question,
    /// Lines, in as many writes as it takes, the last of which ends with the line `end`. Only then
    /// they are taken, all or none of them, and what is read on says how it went.
    Lines(TakeLines),
}

type TakeLines = fn(&Volume, &str) -> std::result::Result<String, ask::NoAnswer>;

/// The text of control file `file` as of now.
fn text(file: usize, core: &Core) -> Box<[u8]> {
    (FILES[file].render)(core).into_bytes().into()
}

static FILES: &[ControlFile] = &[
    ControlFile {
        path: "version",
        render: version,
        takes: Takes::Nothing,
        private: false,
    },
    ControlFile {
        path: "ask",
        render: ask::hint,
        takes: Takes::Question,
        private: false,
    },
    ControlFile {
        path: "stats",
        render: stats::render,
        takes: Takes::Nothing,
        private: false,
    },
    ControlFile {
        path: "quota/report.json",
        render: quota::all,
        takes: Takes::Nothing,
        private: true,
    },
    ControlFile {
        path: "quota/events",
        render: quota::events,
        takes: Takes::Nothing,
        private: true,
    },
    ControlFile {
        path: "heat/status.json",
        render: heat::status_text,
        takes: Takes::Nothing,
        private: false,
    },
    ControlFile {
        path: "heat/top.json",
        render: heat::top_text,
        takes: Takes::Nothing,
        private: true,
    },
    ControlFile {
        path: "heat/ranges.json",
        render: heat::ranges_text,
        takes: Takes::Nothing,
        private: true,
    },
    ControlFile {
        path: "heat/tenants.json",
        render: heat::tenants_text,
        takes: Takes::Nothing,
        private: true,
    },
    ControlFile {
        path: "heat/histogram.json",
        render: heat::histogram_text,
        takes: Takes::Nothing,
        private: true,
    },
    ControlFile {
        path: "heat/what-if.json",
        render: heat::what_if_text,
        takes: Takes::Nothing,
        private: true,
    },
    ControlFile {
        path: "heat/map.json",
        render: heat::map_text,
        takes: Takes::Nothing,
        private: true,
    },
    ControlFile {
        path: "heat/import",
        render: heat::import_hint,
        takes: Takes::Lines(heat::import),
        private: true,
    },
    ControlFile {
        path: "locks",
        render: locks::table,
        takes: Takes::Setting(locks::switch),
        private: false,
    },
    ControlFile {
        path: "locks.json",
        render: locks::json,
        takes: Takes::Nothing,
        private: false,
    },
    ControlFile {
        path: "sched",
        render: sched::table,
        takes: Takes::Nothing,
        private: false,
    },
    ControlFile {
        path: "sched.json",
        render: sched::json,
        takes: Takes::Nothing,
        private: false,
    },
    ControlFile {
        path: "sys/fs/memory-budget",
        render: tunables::memory_budget,
        takes: Takes::Setting(tunables::set_memory_budget),
        private: false,
    },
    ControlFile {
        path: "sys/fs/hot-track",
        render: tunables::hot_track,
        takes: Takes::Setting(tunables::set_hot_track),
        private: false,
    },
    ControlFile {
        path: "sys/fs/hot-update-interval",
        render: tunables::hot_update_interval,
        takes: Takes::Setting(tunables::set_hot_update_interval),
        private: false,
    },
    ControlFile {
        path: "sys/fs/hot-mem-high-thresh",
        render: tunables::hot_mem_high_thresh,
        takes: Takes::Setting(tunables::set_hot_mem_high_thresh),
        private: false,
    },
    ControlFile {
        path: "sys/fs/atime",
        render: tunables::atime,
        takes: Takes::Setting(tunables::set_atime),
        private: false,
    },
    ControlFile {
        path: "sys/fs/read-only",
        render: tunables::read_only,
        takes: Takes::Setting(tunables::set_read_only),
        private: false,
    },
];

fn version(_core: &Core) -> String {
    format!("hearth {}\n", env!("CARGO_PKG_VERSION"))
}

/// Makes the control files of a new volume.
pub(crate) fn build(core: &Core) -> Result<()> {
    let mut next = CONTROL;
    let root = make_directory(core, &mut next, ROOT)?;
    for (index, file) in FILES.iter().enumerate() {
        let mut parent = root;
        let mut parts = file.path.split('/').peekable();
        while let Some(part) = parts.next() {
            parent = match (find(core, parent, part), parts.peek()) {
                (Some(ino), _) => ino,
                (None, Some(_)) => {
                    let ino = make_directory(core, &mut next, parent)?;
                    add(core, parent, part, ino, Kind::Directory)?;
                    ino
                }
                (None, None) => {
                    let perm = match (&file.takes, file.private) {
                        (Takes::Question, _) => 0o666,
                        (Takes::Lines(_), _) => 0o600,
                        (Takes::Setting(_), _) => 0o644,
                        (Takes::Nothing, false) => 0o444,
                        (Takes::Nothing, true) => 0o400,
                    };
                    let ino = make(core, &mut next, Kind::File, perm, Body::Control(index))?;
                    add(core, parent, part, ino, Kind::File)?;
                    ino
                }
            };
        }
    }
    Ok(())
}

fn make_directory(core: &Core, next: &mut u64, parent: u64) -> Result<u64> {
    let body = Body::Directory(Box::new(Directory::new(parent, true)));
    make(core, next, Kind::Directory, 0o555, body)
}

fn make(core: &Core, next: &mut u64, kind: Kind, perm: u16, body: Body) -> Result<u64> {
    let ino = *next;
    *next += 1;
    let mut fields = Fields::new(perm, core.owner.0, core.owner.1, core.now());
    if kind == Kind::Directory {
        fields.flags = flags::IMMUTABLE;
    }
    let node = core
        .inodes
        .insert_at(ino, 0, |_, _| Inode::new(kind, &fields, body));
    core.keep_forever(node.map_err(|_| Errno::EEXIST)?);
    Ok(ino)
}

fn find(core: &Core, parent: u64, name: &str) -> Option<u64> {
    let g = pin();
    let directory = core.inodes.get(parent, &g)?.directory()?;
    match directory.lookup(name.as_bytes(), core.hash(name.as_bytes()), &g) {
        crate::directory::Look::Hit(entry) => Some(entry.ino()),
        _ => None,
    }
}

fn add(core: &Core, parent: u64, name: &str, ino: u64, kind: Kind) -> Result<()> {
    let g = pin();
    let node = core.inodes.get(parent, &g).ok_or(Errno::ENOENT)?;
    let directory = node.directory().ok_or(Errno::ENOTDIR)?;
    let at = Hashed {
        name: name.as_bytes(),
        hash: core.hash(name.as_bytes()),
    };
    let locked = directory.lock(at, &g).map_err(|_| Errno::ENOENT)?;
    locked.apply(
        Change {
            at,
            to: Some(Target {
                ino,
                generation: 0,
                kind,
            }),
        },
        &g,
    );
    node.count_entry(1, kind == Kind::Directory, core.now());
    Ok(())
}
