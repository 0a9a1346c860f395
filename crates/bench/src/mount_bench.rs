//! `hearth-bench mount`.
use crate::options::Options;
/// x
pub fn run(_options: &Options) -> Result<(), String> {
    Ok(())
}
