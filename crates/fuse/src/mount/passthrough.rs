//! Whether the kernel can pass data through to files below.

use crate::mount::MountError;
use crate::mount::init::Agreed;
use crate::mount::options::{MountOptions, Passthrough};
use crate::wire::init as bits;
use rustix::thread::{CapabilitySet, capabilities};

/// Whether it does, or why not: `on`, `off`, or a reason.
///
/// # Errors
/// It was asked for and cannot be had.
pub(crate) fn passthrough(
    options: &MountOptions,
    agreed: &Agreed,
) -> Result<&'static str, MountError> {
    if !options.passes_through() && options.passthrough != Some(Passthrough::On) {
        return Ok("off");
    }
    let admin = CapabilitySet::SYS_ADMIN;
    let may = capabilities(None).is_ok_and(|sets| sets.effective.contains(admin));
    let reason = match (options.passes_through(), agreed.has(bits::PASSTHROUGH), may) {
        (true, true, true) => return Ok("on"),
        (false, ..) => "there is nothing below, or 'direct_io' lets everything be seen",
        (true, false, _) => "the kernel has none (Linux 6.9 and CONFIG_FUSE_PASSTHROUGH have)",
        (true, true, false) => "it needs CAP_SYS_ADMIN",
    };
    match options.passthrough {
        Some(Passthrough::On) => Err(MountError::NoPassthrough { reason }),
        _ => Ok(reason),
    }
}
