//! Options of a directory of the host.

use std::path::PathBuf;

/// Quotas of a directory of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostQuotaMode {
    /// The directory is counted before the mount answers.
    Wait,
    /// It is counted beside.
    Background,
    /// There are none.
    Off,
}

/// What only a directory of the host takes, besides `xdev`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSourceOptions {
    /// `state=DIR`: where heat and quotas are kept that outlive the mount.
    pub state: Option<PathBuf>,
    /// `observe`: heat, statistics and lock profile, and nothing that could refuse a call.
    pub observe: bool,
    /// `watch`: what others change is announced to the kernel at once.
    pub watch: bool,
    /// `heat=opens`: heat is made of opens and sizes, and nobody looks at what is read and written.
    pub heat_by_opens: bool,
    /// `quota=wait|background|off`: off if it is not said.
    pub quota: Option<HostQuotaMode>,
}

impl HostSourceOptions {
    /// The first of them that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            (self.state.is_some(), "state"),
            (self.observe, "observe"),
            (self.watch, "watch"),
            (self.heat_by_opens, "heat=opens"),
            (self.quota.is_some(), "quota="),
        ];
        given.iter().find(|(is, _)| *is).map(|(_, name)| *name)
    }
}
