//! What the system under test can do.

/// What a script may contain, depending on the system under test.
#[derive(Debug, Clone, Copy)]
pub struct Abilities {
    /// `FALLOC_FL_ZERO_RANGE`, `_COLLAPSE_RANGE` and `_INSERT_RANGE`.
    pub ranges: bool,
    /// Project ids.
    pub projects: bool,
    /// `O_DIRECT` for any offset, length and address, as in tmpfs.
    pub direct: bool,
}
