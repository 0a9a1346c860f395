//! What became of the cases that were enumerated.

/// What became of every case that was enumerated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// All.
    pub cases: usize,
    /// Same results and same state in both orders.
    pub commute: usize,
    /// Results or state differ.
    pub depend: usize,
    /// Linux leaves open what happens.
    pub open: usize,
}
