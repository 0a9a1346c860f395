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
