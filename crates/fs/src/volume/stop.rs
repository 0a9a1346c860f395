//! Why an operation does not finish at once.

use crate::control::{Dialogue, Question};
use crate::errno::Errno;
use crate::quota::Refusal;
use hearth_sync::primitive::Arc;

/// Why an operation did not finish.
#[derive(Debug)]
pub(crate) enum Stop {
    Errno(Errno),
    /// Something must be brought from the backend first.
    Miss(Fetch),
    /// Lost a race; from the start.
    Restart,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Errno(errno)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Errno(refusal.into())
    }
}

/// Result of a step that may need something from the backend.
pub(crate) type Attempt<T> = std::result::Result<T, Stop>;

/// What to bring, from the backend but for answers.
#[derive(Debug)]
pub(crate) enum Fetch {
    Inode(u64),
    /// What an entry means. If it is gone, the entry is gone as well.
    Named {
        dir: u64,
        name: Box<[u8]>,
        ino: u64,
        generation: u32,
    },
    /// What is above this directory. It may be gone as well, if this one was removed or has another
    /// above it since.
    Above(u64),
    Entry {
        dir: u64,
        name: Box<[u8]>,
    },
    Directory(u64),
    Page {
        ino: u64,
        index: u64,
    },
    /// The answer to a question about the volume.
    Answer(Question),
    /// The text of a control file that walks the volume.
    Text(Arc<Dialogue>),
    /// Not from the backend but to it: so many bytes of memory are to be won.
    Room(u64),
}
