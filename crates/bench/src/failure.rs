//! Errors as the one line that a benchmark prints.

use std::fmt::Display;
use std::path::Path;

/// Makes a line of an error.
pub trait Context<T> {
    /// The error by itself.
    fn text(self) -> Result<T, String>;

    /// The error, and what it is of.
    fn context(self, what: impl Display) -> Result<T, String>;

    /// The error, and the path that it is of.
    fn at(self, path: impl AsRef<Path>) -> Result<T, String>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn text(self) -> Result<T, String> {
        self.map_err(|error| error.to_string())
    }

    fn context(self, what: impl Display) -> Result<T, String> {
        self.map_err(|error| format!("{what}: {error}"))
    }

    fn at(self, path: impl AsRef<Path>) -> Result<T, String> {
        self.context(path.as_ref().display())
    }
}

/// Does `work`, whose panic is an error as well: who meets others at a barrier has to get there.
pub fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // What a panic has left half done is not used again.
    joined(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)))
}

/// What a thread returned, or that it panicked.
pub fn joined<T>(ended: std::thread::Result<Result<T, String>>) -> Result<T, String> {
    ended.map_err(|_| "a thread panicked".to_owned())?
}
