//! Options of a run.

/// The memory layout of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Seeds the sizes of allocations between the objects, and the choice of names.
    pub seed: usize,
    /// The side whose thread makes the tree.
    pub maker: usize,
    /// The side whose window comes first.
    pub first: usize,
    /// The volume and its user.
    pub setting: Setting,
}

/// A volume and its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The user is an ordinary one, who owns everything; else root.
    pub is_user: bool,
    /// That user, the group and the project have limits that are never reached.
    pub has_quotas: bool,
    /// Heat is tracked.
    pub has_heat: bool,
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Opts {
    /// Calls a side.
    pub count: usize,
    /// The memory layout.
    pub layout: Layout,
    /// Makes only what the calls need, because every instruction is slow.
    pub is_lean: bool,
}
