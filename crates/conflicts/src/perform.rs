//! A call on the library, prepared before the window.

use super::argument::{CHUNK, PAGE, XATTR, flags, length, lock, mode, modified, record};
use super::operation::Operation;
use super::verb::Verb;
use hearth::{Errno, Fd, LockKind, LockSpec, Process, SetTime, Time};

/// A prepared call.
pub struct Call {
    /// The operation.
    pub op: Operation,
    /// The path of its object.
    pub on: Vec<u8>,
    /// The second path.
    pub to: Vec<u8>,
    /// Descriptor.
    pub fd: Fd,
    /// The descriptor that `dup2` replaces.
    pub to_fd: Fd,
}

/// Buffers of a side for its calls: memory of its own thread.
#[derive(Default)]
pub struct CallBuffers {
    /// What is read and written.
    pub chunk: [u8; CHUNK],
    /// Processes that will end.
    pub ending: Vec<Option<Process>>,
    /// Processes that were forked.
    pub children: Vec<Process>,
}

impl Call {
    /// Makes the call, for the `i`-th time.
    ///
    /// # Errors
    /// The errno of the library.
    pub fn make(&self, p: &Process, buffers: &mut CallBuffers, i: usize) -> Result<(), Errno> {
        match self.op.verb {
            verb if verb.has_descriptor() => self.on_descriptor(p, buffers),
            Verb::Fork => {
                buffers.children.push(p.fork());
                Ok(())
            }
            Verb::Exit => {
                drop(buffers.ending[i].take());
                Ok(())
            }
            _ => self.on_path(p),
        }
    }

    fn on_descriptor(&self, p: &Process, buffers: &mut CallBuffers) -> Result<(), Errno> {
        let (fd, at) = (self.fd, u64::from(self.op.choice) * PAGE);
        match self.op.verb {
            Verb::Close => p.close(fd),
            Verb::Read => p.read(fd, &mut buffers.chunk).map(seen),
            Verb::PRead => p.pread(fd, &mut buffers.chunk, at).map(seen),
            Verb::Write | Verb::Append => p.write(fd, &self.data()).map(seen),
            Verb::PWrite => p.pwrite(fd, &self.data(), at).map(seen),
            Verb::FStat => p.fstat(fd).map(seen),
            Verb::LSeek => p.lseek(fd, at as i64, libc::SEEK_SET).map(seen),
            Verb::Dup => p.dup(fd).map(seen),
            Verb::Dup2 => p.dup2(fd, self.to_fd).map(seen),
            Verb::FLock => p.flock(fd, lock(&self.op)),
            Verb::SetLock => p.set_lock(fd, &self.record(), None),
            verb => unreachable!("{} has no descriptor", verb.name()),
        }
    }

    fn on_path(&self, p: &Process) -> Result<(), Errno> {
        let (on, to) = (&self.on, &self.to);
        let open = |more: i32| p.open(on, flags(&self.op) | more, 0o644).map(seen);
        match self.op.verb {
            Verb::Open => open(0),
            Verb::CreateNew | Verb::CreateExisting => open(libc::O_CREAT),
            Verb::Exclusive => open(libc::O_CREAT | libc::O_EXCL),
            Verb::Stat => p.stat(on).map(seen),
            Verb::Truncate => p.truncate(on, length(&self.op)),
            Verb::Link => p.link(on, to),
            Verb::Unlink => p.unlink(on),
            Verb::Rename => p.rename(on, to),
            Verb::MkDir => p.mkdir(on, 0o755),
            Verb::RmDir => p.rmdir(on),
            Verb::ReadDir => p.read_dir(on).map(seen),
            Verb::Symlink => p.symlink("f", on),
            Verb::ReadLink => p.readlink(on).map(seen),
            Verb::ChMod => p.chmod(on, mode(&self.op) as u16),
            Verb::UTimens => {
                let time = Time {
                    sec: modified(&self.op),
                    nsec: 0,
                };
                p.utimensat(libc::AT_FDCWD, on, None, Some(SetTime::At(time)), 0)
            }
            Verb::Access => p.access(on, 4),
            Verb::GetXattr => p.getxattr(on, XATTR.as_bytes()).map(seen),
            Verb::SetXattr => p.setxattr(on, XATTR.as_bytes(), &self.value(), 0),
            Verb::StatFs => p.statfs(on).map(seen),
            verb => unreachable!("{} has no path", verb.name()),
        }
    }

    /// Returns the bytes that a write stores.
    fn data(&self) -> [u8; CHUNK] {
        std::array::from_fn(|i| 2 + self.op.value + i as u8)
    }

    fn record(&self) -> LockSpec {
        let (kind, start) = record(&self.op);
        LockSpec {
            kind: match kind {
                hearth_model::LockKind::Read => LockKind::Read,
                hearth_model::LockKind::Write => LockKind::Write,
                hearth_model::LockKind::Unlock => LockKind::Unlock,
            },
            whence: libc::SEEK_SET,
            start: start as i64,
            len: PAGE as i64,
        }
    }

    fn value(&self) -> [u8; CHUNK] {
        [1 + self.op.value; CHUNK]
    }
}

/// Keeps a result that must be computed although it is not used.
fn seen<T>(answer: T) {
    std::hint::black_box(answer);
}
