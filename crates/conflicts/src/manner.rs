//! How cases are run.

/// How the memory of a state is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Sizes of what is allocated between the objects, and which names are taken.
    pub seed: usize,
    /// The side whose thread makes the tree.
    pub maker: usize,
    /// The side whose window comes first.
    pub first: usize,
    /// The volume, and who works on it.
    pub setting: Setting,
}

/// A volume, and who works on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// An ordinary user, who owns everything, and not root.
    pub is_user: bool,
    /// That user, the group and the project have limits which nobody reaches.
    pub has_quotas: bool,
    /// Heat is tracked.
    pub has_heat: bool,
}

/// How cases are run.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Calls a side.
    pub count: usize,
    /// How memory is laid out.
    pub layout: Layout,
    /// Makes no more than the calls need, where every instruction is dear.
    pub is_lean: bool,
}
