//! What the system under test can do.

/// What a script may contain, by what the system under test can do.
#[derive(Debug, Clone, Copy)]
pub struct Abilities {
    /// `FALLOC_FL_ZERO_RANGE`, `_COLLAPSE_RANGE` and `_INSERT_RANGE`.
    pub ranges: bool,
    /// Project ids.
    pub projects: bool,
}
