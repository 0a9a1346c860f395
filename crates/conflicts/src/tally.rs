//! Counts of the enumerated cases.

/// Counts of the enumerated cases, by the model's verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// All.
    pub cases: usize,
    /// Equal results and equal state in both orders.
    pub commute: usize,
    /// Results or state differ.
    pub depend: usize,
    /// Linux leaves the result open.
    pub open: usize,
}
