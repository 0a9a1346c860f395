//! A small store with one of everything, and what is read of it.

use hearth::{
    Credentials, Errno, Kind, LimitChange, LimitUpdate, Process, QuotaId, QuotaKind, Volume,
};
use hearth_store::backend::{MakeOptions, StoreBackend, StoreOptions};
use hearth_store::codec::{Compression, Costs, Passphrase};
use hearth_store::{OpenMode, Troubles};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A user whose use is limited, and to how many bytes.
pub const LIMITED: (QuotaId, u64) = (
    QuotaId {
        kind: QuotaKind::User,
        id: 1000,
    },
    64 << 20,
);
/// How long the witness is waited for.
const WITNESS: Duration = Duration::from_secs(20);

pub fn passphrase() -> Passphrase {
    Passphrase::new(b"correct horse".to_vec()).unwrap()
}

/// A store that is open, and the lines that it wrote about errors.
pub struct Opened {
    pub store: Arc<StoreBackend>,
    pub volume: Volume,
    pub lines: Arc<Mutex<Vec<String>>>,
}

/// Opens the store in `dir`; the error is what a person is told.
pub fn open(dir: &Path, mode: OpenMode, encrypted: bool) -> Result<Opened, String> {
    let is_read_only = mode == OpenMode::ReadOnly;
    let options = StoreOptions {
        passphrase: encrypted.then(passphrase),
        ..StoreOptions::new(mode)
    };
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let to = Arc::clone(&lines);
    let troubles = Troubles::new(move |line| to.lock().unwrap().push(line.to_owned()));
    let store = StoreBackend::open(dir, options).map_err(|error| error.to_string())?;
    let store = Arc::new(store.with_troubles(Arc::new(troubles)));
    let builder = Volume::builder().workers(0).read_only(is_read_only);
    let volume = builder.backend(Arc::clone(&store)).build();
    let volume = volume.map_err(|error| {
        let lines = lines.lock().unwrap();
        format!("{error}: {}", lines.join("; "))
    })?;
    Ok(Opened {
        store,
        volume,
        lines,
    })
}

pub fn writer() -> OpenMode {
    OpenMode::Write {
        who: "a test".to_owned(),
    }
}

/// Makes a store in `dir`: a part of it in tables and segments, the rest in the log, killed.
pub fn make(dir: &Path, encrypted: bool) {
    let options = MakeOptions {
        compression: if encrypted {
            Compression::Zstd(3)
        } else {
            Compression::Lz4
        },
        passphrase: encrypted.then(passphrase),
        costs: Costs {
            memory: 64,
            passes: 1,
            lanes: 1,
        },
        log_len: 128 << 10,
        ..MakeOptions::default()
    };
    StoreBackend::mkfs(dir, &options).unwrap();
    let opened = open(dir, writer(), encrypted).unwrap();
    let root = opened.volume.process(Credentials::root());
    early(&opened.volume, &root);
    opened.volume.sync().unwrap();
    opened.store.kv().checkpoint().unwrap();
    late(&root);
    let before = std::fs::read(dir.join("witness")).unwrap();
    opened.volume.sync().unwrap();
    // The last epoch counts as acknowledged for who looks at the directory when the witness has
    // it, a second later.
    let begun = Instant::now();
    while std::fs::read(dir.join("witness")).unwrap() == before {
        assert!(begun.elapsed() < WITNESS, "the witness is not written");
        std::thread::sleep(Duration::from_millis(20));
    }
    opened.volume.abandon();
}

fn early(volume: &Volume, root: &Process) {
    root.mkdir("/d", 0o751).unwrap();
    root.mkdir("/d/below", 0o700).unwrap();
    write(root, "/d/small", &text(100, 1));
    write(root, "/d/pages", &text(20_000, 2));
    write(root, "/d/stored", &text(200_000, 3));
    write(root, "/d/noise", &noise(5000));
    write(root, "/d/old", &text(5000, 4));
    write(root, "/gone", &text(80_000, 5));
    root.truncate("/d/pages", 40_000).unwrap();
    let fd = root
        .open("/sparse", libc::O_CREAT | libc::O_RDWR, 0o600)
        .unwrap();
    root.pwrite(fd, &text(4096, 6), 500_000).unwrap();
    root.ftruncate(fd, 1 << 20).unwrap();
    root.close(fd).unwrap();
    root.symlink("d/small", "/link").unwrap();
    root.link("/d/small", "/hard").unwrap();
    root.mknod("/fifo", libc::S_IFIFO | 0o640, 0).unwrap();
    root.setxattr("/d/small", b"user.note", b"kept", 0).unwrap();
    root.chown("/d/pages", Some(1000), Some(100)).unwrap();
    let limit = LimitChange {
        bytes_hard: LimitUpdate::To(LIMITED.1),
        ..LimitChange::default()
    };
    volume.quota().set(LIMITED.0, &limit).unwrap();
}

fn late(root: &Process) {
    write(root, "/d/new", &text(7000, 7));
    root.rename("/d/new", "/d/old").unwrap();
    root.unlink("/gone").unwrap();
    write(root, "/late", &text(70_000, 8));
    root.chmod("/d/below", 0o1777).unwrap();
}

fn write(root: &Process, path: &str, bytes: &[u8]) {
    let fd = root
        .open(path, libc::O_CREAT | libc::O_RDWR, 0o644)
        .unwrap();
    assert_eq!(root.write(fd, bytes), Ok(bytes.len()));
    root.close(fd).unwrap();
}

/// Bytes that a codec packs.
fn text(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at / 7 % 61) as u8 ^ seed).collect()
}

/// Bytes that no codec packs.
fn noise(len: usize) -> Vec<u8> {
    let mut dice = hearth_store::disk::simulated::Dice(9);
    (0..len).map(|_| dice.below(256) as u8).collect()
}

/// What is seen of one path; what cannot be read is an errno.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub attrs: Result<Vec<u64>, Errno>,
    pub bytes: Result<Vec<u8>, Errno>,
}

/// Everything that is seen of a volume.
pub fn see(volume: &Volume) -> BTreeMap<Vec<u8>, Seen> {
    let root = volume.process(Credentials::root());
    let mut seen = BTreeMap::new();
    let mut left = vec![b"/".to_vec()];
    while let Some(path) = left.pop() {
        let attr = root.lstat(&path);
        let bytes = match attr.clone().map(|attr| attr.kind) {
            Ok(Kind::Directory) => root.read_dir(&path).map(|entries| {
                let names = entries.iter().map(|entry| entry.name.to_vec());
                let mut names: Vec<_> = names.filter(|n| *n != b"." && *n != b"..").collect();
                names.sort();
                for name in &names {
                    let slash: &[u8] = if path == b"/" { b"" } else { b"/" };
                    left.push([&path[..], slash, name].concat());
                }
                names.join(&b'\n')
            }),
            Ok(Kind::File) => read(&root, &path),
            Ok(Kind::Symlink) => root.readlink(&path),
            Ok(_) => Ok(Vec::new()),
            Err(errno) => Err(errno),
        };
        let attrs = attr.map(|attr| {
            let owner = [attr.uid.into(), attr.gid.into()];
            let more = [attr.perm.into(), attr.nlink.into(), attr.size];
            [&owner[..], &more].concat()
        });
        seen.insert(path, Seen { attrs, bytes });
    }
    seen
}

fn read(root: &Process, path: &[u8]) -> Result<Vec<u8>, Errno> {
    let fd = root.open(path, libc::O_RDONLY, 0)?;
    let mut bytes = Vec::new();
    let mut part = vec![0; 16 << 10];
    let ended = loop {
        match root.pread(fd, &mut part, bytes.len() as u64) {
            Ok(0) => break Ok(()),
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(errno) => break Err(errno),
        }
    };
    root.close(fd)?;
    let note = root.getxattr(path, b"user.note");
    ended?;
    match note {
        Ok(note) => bytes.extend(note),
        Err(Errno::ENODATA) => {}
        Err(errno) => return Err(errno),
    }
    Ok(bytes)
}
