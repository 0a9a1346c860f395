//! How an inode is shown in reports.

/// How an inode can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathInfo {
    /// One of its paths below the root; `None` for a file that is open and has no name.
    pub path: Option<Vec<u8>>,
    /// Links; 0 for a file that has no name.
    pub links: u32,
    /// User that it belongs to.
    pub uid: u32,
    /// Group that it belongs to.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
}
