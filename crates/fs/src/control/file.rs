//! What the filesystem knows of a control file: its place, its mode, its text, and how it takes
//! writes. The contents come from outside, see `hearth-control`.

use crate::caller::Credentials;
use crate::errno::Errno;
use crate::volume::Volume;

/// A file below `/.hearth`, added by [`Volume::add_control_files`].
pub trait ControlFile: Send + Sync {
    /// Path below `.hearth`, with `/` between names.
    fn path(&self) -> &str;

    /// Permission bits. The file belongs to the owner of the volume.
    fn mode(&self) -> u16;

    /// How writes are taken.
    fn input(&self) -> ControlInput;

    /// Whether [`ControlFile::text`] takes as long as the volume is large. If so, the text is made
    /// for the first read and with nothing pinned; otherwise it is made at the open.
    fn is_slow(&self) -> bool;

    /// What an open of the file reads instead of [`ControlFile::text`], if it is a stream.
    fn stream(&self, volume: &Volume) -> Option<Box<dyn ControlStream>> {
        let _ = volume;
        None
    }

    /// The text as of now.
    fn text(&self, volume: &Volume) -> String;

    /// Takes a new value, see [`ControlInput::Setting`].
    ///
    /// # Errors
    /// The value is refused, and nothing has changed.
    fn set(&self, volume: &Volume, value: &[u8]) -> Result<(), ControlError> {
        let _ = (volume, value);
        Err(Errno::EACCES.into())
    }

    /// Runs a command, or takes lines, with the rights of `caller`; returns what is read next. It
    /// may take long; nothing is pinned or locked meanwhile.
    ///
    /// # Errors
    /// The command is refused.
    fn run(
        &self,
        volume: &Volume,
        caller: &Credentials,
        input: &str,
    ) -> Result<String, ControlError> {
        let _ = (volume, caller, input);
        Err(Errno::EACCES.into())
    }
}

/// What one open of a control file reads bit by bit.
pub trait ControlStream: Send {
    /// What there is to read since the last call, possibly nothing. It may take long; nothing is
    /// pinned or locked meanwhile.
    fn next(&mut self, volume: &Volume) -> String;
}

/// How a control file takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlInput {
    /// Not at all: `EACCES`.
    None,
    /// Each write is a new value for [`ControlFile::set`].
    Setting,
    /// Each write is a command for [`ControlFile::run`], read without the blanks around it.
    Command,
    /// Writes are collected until one ends with the line `end`. Only then all lines before it go
    /// to [`ControlFile::run`].
    Lines,
}

/// Why a control file refuses a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError {
    /// The error number that the write fails with.
    pub errno: Errno,
    /// One line for people, without its end. It is what the open file reads next.
    pub reason: String,
}

impl ControlError {
    /// `EINVAL` with a reason.
    pub fn invalid(reason: impl Into<String>) -> ControlError {
        ControlError {
            errno: Errno::EINVAL,
            reason: reason.into(),
        }
    }
}

impl From<Errno> for ControlError {
    fn from(errno: Errno) -> ControlError {
        ControlError {
            errno,
            reason: errno.to_string(),
        }
    }
}
