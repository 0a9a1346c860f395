//! Where objects come from when they are not in memory, and where changes go. The trait and its
//! records are those of `hearth-backend`.

mod test;

pub use hearth_backend::{
    Allocation, Attrs, Backend, Edit, Extent, Inode, MemoryBackend, Page, PageSource, Place,
    Record, Restart, Usage, Xattr,
};
pub use test::{Fault, TestBackend};
