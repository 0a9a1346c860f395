//! What is measured, behind one trait: the library in process, or a directory of the host.

mod client;
mod entries;
mod host;
mod library;
mod subdirectory;
mod walk;

pub use client::{About, Client, Handle};
pub use entries::{Entries, Entry};
pub use host::HostDir;
pub use library::{Library, Sharing};
pub use subdirectory::Subdirectory;
pub use walk::{clear, walk};

/// A filesystem, or a part of one, that tasks can use at once.
pub trait Target: Sync {
    /// A user of the target, for the calling thread. That thread belongs to the user, and calls
    /// this once.
    fn client(&self) -> Box<dyn Client + '_>;
}

/// A target together with what goes away with it.
pub trait Fresh {
    fn target(&self) -> &dyn Target;
}

impl Fresh for Library {
    fn target(&self) -> &dyn Target {
        self
    }
}

#[cfg(test)]
mod tests;
