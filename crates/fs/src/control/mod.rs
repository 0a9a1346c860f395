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
use crate::directory::{Directory, EntryChange, Hashed};
use crate::errno::{Errno, Result};
use crate::flags;
use crate::inode::{Body, Fields, InodeExt, InodeInner};
use crate::number::{CONTROL, ROOT};
use crate::superblock::{ControlFiles, OpenControl, Superblock};
use crate::volume::Volume;
use hearth_sync::epoch::pin;

use dialogue::Dialogue;

/// A file below `.hearth`; its index in [`FILES`] is what the inode holds.
struct ControlFile {
    /// Path below `.hearth`.
    path: &'static str,
    render: fn(&Superblock) -> String,
    takes: Takes,
    /// Whether only the owner of the volume may look.
    private: bool,
    /// Whether making the text takes as long as the volume is large. Then it is made for the first
    /// read, like something that must be loaded.
    walks: bool,
}

/// What a write to a control file is.
enum Takes {
    Nothing,
    /// A new value; `EINVAL` for nonsense, which changes nothing, and the reason is read on.
    Setting(Setting),
    /// A question; everybody may ask, and who may do what is decided by question.
    Question,
    /// Lines, in as many writes as it takes, the last of which ends with the line `end`. Only then
    /// they are taken, all or none of them, and what is read on says how it went.
    Lines(TakeLines),
}

struct Setting {
    set: fn(&Superblock, &str) -> Result<()>,
    /// What `set` takes, as it follows "expected".
    expected: &'static str,
}

type TakeLines = fn(&Volume, &str) -> std::result::Result<String, ask::NoAnswer>;

impl ControlFile {
    /// A file that everybody may look at and nobody writes.
    const fn new(path: &'static str, render: fn(&Superblock) -> String) -> ControlFile {
        ControlFile {
            path,
            render,
            takes: Takes::Nothing,
            private: false,
            walks: false,
        }
    }

    const fn takes(mut self, takes: Takes) -> ControlFile {
        self.takes = takes;
        self
    }

    const fn sets(
        self,
        set: fn(&Superblock, &str) -> Result<()>,
        expected: &'static str,
    ) -> ControlFile {
        self.takes(Takes::Setting(Setting { set, expected }))
    }

    const fn private(mut self) -> ControlFile {
        self.private = true;
        self
    }

    const fn walks(mut self) -> ControlFile {
        self.walks = true;
        self
    }
}

/// What operations open the control files by.
struct Sessions;

impl ControlFiles for Sessions {
    fn open(&self, file: usize, sb: &Superblock) -> OpenControl {
        OpenControl(Dialogue::begin(file, sb))
    }
}

/// The text of control file `file` as of now.
fn text(file: usize, sb: &Superblock) -> Box<[u8]> {
    (FILES[file].render)(sb).into_bytes().into()
}

static FILES: &[ControlFile] = &[
    ControlFile::new("version", version),
    ControlFile::new("ask", ask::hint).takes(Takes::Question),
    // Asks every directory for its names.
    ControlFile::new("stats", stats::render).walks(),
    ControlFile::new("quota/report.json", quota::all).private(),
    ControlFile::new("quota/events", quota::events).private(),
    ControlFile::new("heat/status.json", heat::status_text),
    ControlFile::new("heat/top.json", heat::top_text)
        .private()
        .walks(),
    ControlFile::new("heat/ranges.json", heat::ranges_text)
        .private()
        .walks(),
    ControlFile::new("heat/tenants.json", heat::tenants_text)
        .private()
        .walks(),
    ControlFile::new("heat/histogram.json", heat::histogram_text)
        .private()
        .walks(),
    ControlFile::new("heat/what-if.json", heat::what_if_text)
        .private()
        .walks(),
    ControlFile::new("heat/map.json", heat::map_text)
        .private()
        .walks(),
    ControlFile::new("heat/import", heat::import_hint)
        .takes(Takes::Lines(heat::import))
        .private(),
    ControlFile::new("locks", locks::table).sets(locks::switch, "on, exact, off or reset"),
    ControlFile::new("locks.json", locks::json),
    ControlFile::new("sched", sched::table),
    ControlFile::new("sched.json", sched::json),
    ControlFile::new("sys/help", tunables::help),
    ControlFile::new("sys/fs/memory-budget", tunables::memory_budget).sets(
        tunables::set_memory_budget,
        "bytes, at least 65536, or 0 for no budget",
    ),
    ControlFile::new("sys/fs/hot-track", tunables::hot_track)
        .sets(tunables::set_hot_track, "0 or 1"),
    ControlFile::new("sys/fs/hot-update-interval", tunables::hot_update_interval)
        .sets(tunables::set_hot_update_interval, "seconds, 1 to 86400"),
    ControlFile::new("sys/fs/hot-half-lives", tunables::hot_half_lives).sets(
        tunables::set_hot_half_lives,
        "two numbers of seconds, 1 to 31536000, the smaller first",
    ),
    ControlFile::new("sys/fs/hot-mem-high-thresh", tunables::hot_mem_high_thresh).sets(
        tunables::set_hot_mem_high_thresh,
        "MiB, 1 to 1048576, or 0 for no limit",
    ),
    ControlFile::new("sys/fs/atime", tunables::atime)
        .sets(tunables::set_atime, "relatime, strictatime or noatime"),
    ControlFile::new("sys/fs/read-only", tunables::read_only)
        .sets(tunables::set_read_only, "0 or 1"),
];

fn version(_core: &Superblock) -> String {
    format!("hearth {}\n", env!("CARGO_PKG_VERSION"))
}

/// Makes the control files of a new volume.
pub(crate) fn build(sb: &Superblock) -> Result<()> {
    sb.control.set(Box::new(Sessions));
    let mut next = CONTROL;
    let root = make_directory(sb, &mut next, ROOT)?;
    for (index, file) in FILES.iter().enumerate() {
        let mut parent = root;
        let mut parts = file.path.split('/').peekable();
        while let Some(part) = parts.next() {
            parent = match (find(sb, parent, part), parts.peek()) {
                (Some(ino), _) => ino,
                (None, Some(_)) => {
                    let ino = make_directory(sb, &mut next, parent)?;
                    add(sb, parent, part, ino, Kind::Directory)?;
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
                    let ino = make(sb, &mut next, Kind::File, perm, Body::Control(index))?;
                    add(sb, parent, part, ino, Kind::File)?;
                    ino
                }
            };
        }
    }
    Ok(())
}

fn make_directory(sb: &Superblock, next: &mut u64, parent: u64) -> Result<u64> {
    let body = Body::Directory(Box::new(Directory::new(parent, true)));
    make(sb, next, Kind::Directory, 0o555, body)
}

fn make(sb: &Superblock, next: &mut u64, kind: Kind, perm: u16, body: Body) -> Result<u64> {
    let ino = *next;
    *next += 1;
    let mut fields = Fields::new(perm, sb.options.owner.0, sb.options.owner.1, sb.now());
    if kind == Kind::Directory {
        fields.flags = flags::IMMUTABLE;
    }
    let inode = sb.objects.inodes.insert_at(ino, 0, |number, generation| {
        InodeInner::new((number, generation), kind, &fields, body)
    });
    sb.pin_forever(inode.map_err(|_| Errno::EEXIST)?);
    Ok(ino)
}

fn find(sb: &Superblock, parent: u64, name: &str) -> Option<u64> {
    let g = pin();
    let directory = sb.objects.inodes.get(parent, &g)?.directory()?;
    match directory.lookup(name.as_bytes(), sb.hash(name.as_bytes()), &g) {
        crate::directory::Lookup::Hit(entry) => Some(entry.ino()),
        _ => None,
    }
}

fn add(sb: &Superblock, parent: u64, name: &str, ino: u64, kind: Kind) -> Result<()> {
    let g = pin();
    let inode = sb.objects.inodes.get(parent, &g).ok_or(Errno::ENOENT)?;
    let directory = inode.directory().ok_or(Errno::ENOTDIR)?;
    let at = Hashed {
        name: name.as_bytes(),
        hash: sb.hash(name.as_bytes()),
    };
    let locked = directory.lock(at, &g).map_err(|_| Errno::ENOENT)?;
    locked.apply(
        EntryChange {
            at,
            to: Some(Target {
                ino,
                generation: 0,
                kind,
            }),
        },
        &g,
    );
    inode.count_entry(1, kind == Kind::Directory, sb.now());
    Ok(())
}
