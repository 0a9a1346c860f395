//! Open volumes: each store once in a process.
//!
//! Lock order:
//! ```text
//! python.volumes     the table, held while a volume is opened or closed
//!   python.mounts    sessions of a volume
//!     anything of the volume
//! ```
//! Nobody waits for the interpreter's lock while holding one of these, so they may be waited for
//! with it.

use crate::error;
use crate::fork::{self, Held};
use crate::unwritten;
use hearth::{Errno, Source, Volume, VolumeOptions};
use hearth_fuse::{MountError, Session};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::path::PathBuf;

lock_class!(VolumesLock = "python.volumes", 1);
lock_class!(MountsLock = "python.mounts", 2);

static TABLE: Lock<VolumesLock, Vec<Row>> = Lock::new(Vec::new());

/// An open volume and whose handles it has.
struct Row {
    /// The directory of a store.
    directory: Option<PathBuf>,
    options: VolumeOptions,
    /// The interpreter of each handle.
    users: Vec<Interpreter>,
    opened: Arc<Opened>,
}

/// An interpreter of this process, which may have several: by the address of its module `sys`,
/// which lives as long.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Interpreter(usize);

impl Interpreter {
    /// The one that this thread is in.
    pub fn of(py: Python<'_>) -> PyResult<Interpreter> {
        Ok(Interpreter(py.import("sys")?.as_ptr().addr()))
    }
}

/// An open volume.
pub struct Opened {
    volume: Volume,
    /// Whether a call that moves little may wait all the same. Only becomes true.
    may_wait: AtomicBool,
    /// Mounts that this process serves.
    sessions: Lock<MountsLock, Vec<Arc<Session>>>,
}

/// One use of an open volume. The last one that ends closes the volume.
pub struct Handle {
    opened: Arc<Opened>,
    /// The source as it was given.
    source: String,
    /// The interpreter that uses it.
    interpreter: Interpreter,
    /// Whether this use has ended. Only becomes true, under the table's lock.
    closed: AtomicBool,
}

/// A use that objects of Python share: it ends with the last of them.
pub type SharedHandle = Arc<Held<Handle>>;

impl Handle {
    /// Opens the volume of `source`, or takes another use of it.
    pub fn open(
        interpreter: Interpreter,
        source: &str,
        create: bool,
        read_only: bool,
    ) -> PyResult<Handle> {
        let (place, mut options) = parsed(source)?;
        options.store.create |= create && matches!(place, Source::Store(_));
        options.read_only |= read_only;
        let taken = place.takes(&options);
        taken.map_err(|error| error::because_at(Errno::EINVAL, error, source))?;
        let mut table = TABLE.lock();
        if let Some(row) = table.iter_mut().find(|row| row.is_of(&place)) {
            // Once it is there, `create` says nothing.
            options.store.create = row.options.store.create;
            if row.options != options {
                let why = "this process has it open with other options: use the same, or close \
                           it first";
                return Err(error::because_at(Errno::EBUSY, why, source));
            }
            row.users.push(interpreter);
            return Ok(Handle::of(&row.opened, interpreter, source));
        }
        fork::note_opening();
        let volume = build(&place, &options, source)?;
        let directory = match &place {
            Source::Store(directory) => std::fs::canonicalize(directory).ok(),
            Source::Memory | Source::Host(_) => None,
        };
        let opened = Arc::new(Opened {
            may_wait: AtomicBool::new(directory.is_some()),
            volume,
            sessions: Lock::new(Vec::new()),
        });
        let handle = Handle::of(&opened, interpreter, source);
        table.push(Row {
            directory,
            options,
            users: vec![interpreter],
            opened,
        });
        Ok(handle)
    }

    fn of(opened: &Arc<Opened>, interpreter: Interpreter, source: &str) -> Handle {
        Handle {
            opened: Arc::clone(opened),
            source: source.to_owned(),
            interpreter,
            closed: AtomicBool::new(false),
        }
    }

    /// The volume, unless this use has ended or the process is a fork. Two loads.
    #[inline]
    pub fn opened(&self) -> PyResult<&Opened> {
        // Relaxed: a call beside the close may still run, and the volume then refuses it.
        if fork::is_forked() {
            return Err(error::forked());
        }
        match self.closed.load(Ordering::Relaxed) {
            false => Ok(&self.opened),
            true => Err(error::closed()),
        }
    }

    /// The source as it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether [`Handle::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Ends this use; the last one closes the volume. Doing it again does nothing.
    pub fn close(&self) -> Result<(), CloseError> {
        let mut table = TABLE.lock();
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let is_own = |row: &Row| Arc::ptr_eq(&row.opened, &self.opened);
        let Some(at) = table.iter().position(is_own) else {
            // Closed with everything, at the end of the interpreter.
            return Ok(());
        };
        let users = &mut table[at].users;
        // None is there where everything of the interpreter was closed, at its end.
        if let Some(own) = users.iter().position(|user| *user == self.interpreter) {
            users.swap_remove(own);
        }
        if !users.is_empty() {
            return Ok(());
        }
        let row = table.swap_remove(at);
        row.opened.end()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is there to be told; `close` tells. Without the interpreter's lock, unless the
        // interpreter is gone.
        let close = || drop(self.close());
        if Python::try_attach(|py| py.detach(close)).is_none() {
            close();
        }
    }
}

/// Why a volume did not end well.
pub enum CloseError {
    /// What changed last may not be durable.
    Volume(Errno),
    /// A mount could not be taken away.
    Mount(MountError),
}

impl CloseError {
    pub fn into_python(self) -> PyErr {
        match self {
            CloseError::Volume(errno) => error::of(errno),
            CloseError::Mount(error) => error::of_mount(&error, ""),
        }
    }
}

impl Opened {
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Whether a call that moves little may wait for a disk or for the kernel. Relaxed: see
    /// [`Opened::mount`].
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.may_wait.load(Ordering::Relaxed)
    }

    /// Serves a mount of the volume until it is unmounted. One that somebody else has unmounted is
    /// not in the way.
    pub fn mount(
        &self,
        begin: impl FnOnce(Volume) -> Result<Session, MountError>,
    ) -> Result<Arc<Session>, MountError> {
        // Before the kernel can cache anything. A call that has not seen it began before the
        // mount, and has nothing to tell the kernel.
        self.may_wait.store(true, Ordering::SeqCst);
        let sessions = self.sessions.lock().clone();
        for gone in sessions.iter().filter(|session| session.has_ended()) {
            self.forget(gone);
        }
        let session = Arc::new(begin(self.volume.clone())?);
        self.sessions.lock().push(Arc::clone(&session));
        Ok(session)
    }

    /// Takes a mount away.
    pub fn unmount(&self, session: &Arc<Session>) -> Result<(), MountError> {
        session.unmount()?;
        self.forget(session);
        Ok(())
    }

    fn forget(&self, session: &Arc<Session>) {
        let is_other = |other: &Arc<Session>| !Arc::ptr_eq(other, session);
        self.sessions.lock().retain(is_other);
    }

    /// Unmounts and closes.
    fn end(&self) -> Result<(), CloseError> {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        for session in sessions {
            session.unmount().map_err(CloseError::Mount)?;
        }
        self.volume.close().map_err(CloseError::Volume)
    }
}

impl Row {
    /// Whether it is the volume of this source.
    fn is_of(&self, source: &Source) -> bool {
        let Source::Store(directory) = source else {
            return false;
        };
        let directory = std::fs::canonicalize(directory).ok();
        directory.is_some() && directory == self.directory
    }
}

/// Has file objects write what they hold, and ends every use of a volume by this interpreter: for
/// its end. Another interpreter of the process may go on. What fails is reported as what fails in a
/// `__del__` is.
#[pyfunction]
pub fn _close_all(py: Python<'_>) {
    if fork::is_forked_now() {
        return;
    }
    if let Err(error) = unwritten::write_all(py) {
        error.write_unraisable(py, None);
    }
    let interpreter = match Interpreter::of(py) {
        Ok(interpreter) => interpreter,
        Err(error) => return error.write_unraisable(py, None),
    };
    let failed = py.detach(|| {
        let mut table = TABLE.lock();
        let mut rows = Vec::new();
        for mut row in std::mem::take(&mut *table) {
            row.users.retain(|user| *user != interpreter);
            let of = if row.users.is_empty() {
                &mut rows
            } else {
                &mut *table
            };
            of.push(row);
        }
        drop(table);
        let end = |row: Row| Some((row.opened.end().err()?, row.directory));
        rows.into_iter().filter_map(end).collect::<Vec<_>>()
    });
    for (error, directory) in failed {
        let shown = directory.map_or("memory:".to_owned(), |directory| {
            format!("store:{}", directory.display())
        });
        let place = PyString::new(py, &format!("the end of {shown}"));
        error.into_python().write_unraisable(py, Some(&place));
    }
}

fn parsed(text: &str) -> PyResult<(Source, VolumeOptions)> {
    let invalid = |what: &dyn std::fmt::Display| error::because_at(Errno::EINVAL, what, text);
    let (source, given) = text.split_once('?').unwrap_or((text, ""));
    let source: Source = source.parse().map_err(|error| invalid(&error))?;
    let mut options = VolumeOptions::default();
    for option in given.split(',').map(str::trim).filter(|o| !o.is_empty()) {
        options.set(option).map_err(|error| invalid(&error))?;
    }
    Ok((source, options))
}

fn build(source: &Source, options: &VolumeOptions, text: &str) -> PyResult<Volume> {
    let builder = source.builder(options, "a Python program");
    let builder = builder.map_err(|error| error::of_open(&error, text))?;
    // A new volume belongs to whoever makes it.
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let built = builder.root_owner(user.as_raw(), group.as_raw()).build();
    built.map_err(|error| error::because_at(Errno::EIO, error, text))
}
