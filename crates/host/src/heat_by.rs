//! What heat is made of.

/// What heat is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeatBy {
    /// Reads and writes, and the ranges where they lie.
    #[default]
    Ranges,
    /// Opens of files, and their sizes: nobody looks at what is read and written.
    Opens,
}

impl HeatBy {
    /// In one word.
    pub(crate) fn counts(self) -> &'static str {
        match self {
            HeatBy::Ranges => "accesses",
            HeatBy::Opens => "opens",
        }
    }
}
