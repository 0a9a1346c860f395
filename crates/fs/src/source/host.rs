//! Options of a directory of the host.

use std::path::PathBuf;

/// What only a directory of the host takes, besides `xdev`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSourceOptions {
    /// `state=DIR`: where heat and quotas are kept that outlive the mount.
    pub state: Option<PathBuf>,
    /// `observe`: heat, statistics and lock profile, and nothing that could refuse a call.
    pub observe: bool,
    /// `heat=opens`: heat is made of opens and sizes, and nobody looks at what is read and written.
    pub heat_by_opens: bool,
}

impl HostSourceOptions {
    /// The first of them that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            (self.state.is_some(), "state"),
            (self.observe, "observe"),
            (self.heat_by_opens, "heat=opens"),
        ];
        given.iter().find(|(is, _)| *is).map(|(_, name)| *name)
    }
}
