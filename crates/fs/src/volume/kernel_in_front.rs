//! The one kernel that may cache a volume.

use super::Volume;
use std::path::{Path, PathBuf};

/// The right of a kernel to use a volume by number and to cache it, behind a mount. Dropping it
/// gives the right back.
#[derive(Debug)]
pub struct KernelInFront(Volume);

impl Volume {
    /// Lets a kernel use the volume behind a mount on `mountpoint`. A second one at the same time
    /// would not hear of what the first changes, and the end of the first could not give back what
    /// its lookups hold.
    ///
    /// # Errors
    /// The mount point of the kernel that is in front already.
    pub fn kernel_in_front(&self, mountpoint: &Path) -> Result<KernelInFront, PathBuf> {
        self.sb.front.take(mountpoint)?;
        Ok(KernelInFront(self.clone()))
    }
}

impl Drop for KernelInFront {
    fn drop(&mut self) {
        self.0.sb.front.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kernel_at_a_time_is_in_front_of_a_volume() {
        let (volume, other) = (Volume::memory(), Volume::memory());
        let first = volume.kernel_in_front("/a".as_ref()).expect("the first");
        let refused = volume.clone().kernel_in_front("/b".as_ref());
        assert_eq!(refused.expect_err("the second"), Path::new("/a"));
        other.kernel_in_front("/b".as_ref()).expect("of another");
        drop(first);
        volume.kernel_in_front("/b".as_ref()).expect("the next");
    }
}
