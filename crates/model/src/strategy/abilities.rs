//! What the system under test can do.

/// What a script may contain, by what the system under test can do.
#[derive(Debug, Clone, Copy)]
pub struct Abilities {
    /// `FALLOC_FL_ZERO_RANGE`, `_COLLAPSE_RANGE` and `_INSERT_RANGE`.
    pub ranges: bool,
    /// Project ids.
    pub projects: bool,
    /// `O_DIRECT` for any offset, length and address, as tmpfs has it.
    pub direct: bool,
}
