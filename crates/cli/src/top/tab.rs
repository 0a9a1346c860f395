//! The tabs, and what of a mount each of them shows.

use clap::ValueEnum;

/// A tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tab {
    /// Operations and how long they take
    Operations,
    /// Users and projects: what each does, waits for and uses
    Tenants,
    /// Hot files, ranges or directories
    Heat,
    /// Which locks are waited for
    Locks,
    /// What the volume holds, and what a store has to write
    Store,
}

impl Tab {
    /// All, in their order on the screen.
    pub const ALL: [Tab; 5] = [
        Tab::Operations,
        Tab::Tenants,
        Tab::Heat,
        Tab::Locks,
        Tab::Store,
    ];

    /// Its name on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Tab::Operations => "Operations",
            Tab::Tenants => "Tenants",
            Tab::Heat => "Heat",
            Tab::Locks => "Locks",
            Tab::Store => "Store",
        }
    }

    /// The tab so many places further.
    pub fn further(self, places: usize) -> Tab {
        let all = Tab::ALL.len();
        Tab::ALL[(self as usize + places) % all]
    }
}

/// What is ranked by heat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranked {
    /// Files.
    #[default]
    Files,
    /// Ranges of 1 MiB.
    Ranges,
    /// Directories.
    Directories,
}

impl Ranked {
    /// All of them.
    pub const ALL: [Ranked; 3] = [Ranked::Files, Ranked::Ranges, Ranked::Directories];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Ranked::Files => "files",
            Ranked::Ranges => "ranges",
            Ranked::Directories => "directories",
        }
    }

    /// The next one.
    pub fn next(self) -> Ranked {
        Ranked::ALL[(self as usize + 1) % Ranked::ALL.len()]
    }
}
