//! The texts that open control files hold, and how many bytes of them a user may hold.
//!
//! Everybody may ask, and an open file keeps its answer until that was read to its end. So the
//! bytes are counted, by who opened the file. Root and the owner of the volume may hold any number:
//! the memory is theirs.

use crate::errno::{Errno, Result};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::collections::HashMap;

/// Most bytes of one user.
const OF_USER: usize = 16 << 20;
/// Most bytes of all users.
const OF_ALL: usize = 64 << 20;
/// Why an answer is refused.
pub(super) const TOO_MUCH: &str = "too many bytes of answers are held: a user may hold 16 MiB of \
     them, and all together 64 MiB; read those that were asked for to their end, or close them";

lock_class! {
    /// Nothing else is locked inside it.
    HeldLock = "control.held", 957;
}

/// The bytes that are held on a volume.
#[derive(Default)]
pub(super) struct HeldBytes(Lock<HeldLock, Holders>);

#[derive(Default)]
struct Holders {
    of_all: usize,
    /// By user; who holds nothing has no entry.
    of_user: HashMap<u32, usize>,
}

/// The text of an open control file.
#[derive(Default)]
pub(super) struct HeldText {
    bytes: Box<[u8]>,
    /// Where it is counted, and whose it is; `None` for what is not counted.
    counted: Option<(Arc<HeldBytes>, u32)>,
}

impl HeldText {
    /// The text, counted as held by `user`.
    ///
    /// # Errors
    /// `ENOBUFS` if the user would hold too much.
    pub fn counted(held: &Arc<HeldBytes>, user: u32, text: String) -> Result<HeldText> {
        held.0.lock().take(user, text.len())?;
        Ok(HeldText {
            bytes: text.into_bytes().into(),
            counted: Some((Arc::clone(held), user)),
        })
    }

    /// A text that is short, or of somebody who may hold any number of bytes.
    pub fn uncounted(text: String) -> HeldText {
        HeldText {
            bytes: text.into_bytes().into(),
            counted: None,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for HeldText {
    fn drop(&mut self) {
        if let Some((held, user)) = self.counted.take() {
            held.0.lock().give_back(user, self.bytes.len());
        }
    }
}

impl Holders {
    fn take(&mut self, user: u32, len: usize) -> Result<()> {
        let own = self.of_user.get(&user).copied().unwrap_or(0) + len;
        if own > OF_USER || self.of_all + len > OF_ALL {
            return Err(Errno::ENOBUFS);
        }
        if len > 0 {
            self.of_user.insert(user, own);
            self.of_all += len;
        }
        Ok(())
    }

    fn give_back(&mut self, user: u32, len: usize) {
        self.of_all -= len;
        if let Some(own) = self.of_user.get_mut(&user) {
            *own -= len;
            if *own == 0 {
                self.of_user.remove(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_and_all_users_hold_has_a_bound_and_comes_back() {
        let held = Arc::new(HeldBytes::default());
        let text = |user, mib: usize| HeldText::counted(&held, user, "x".repeat(mib << 20));
        let all: Vec<HeldText> = (0..4).map(|user| text(user, 16).unwrap()).collect();
        assert_eq!(text(0, 1).err(), Some(Errno::ENOBUFS), "a user's");
        assert_eq!(text(9, 1).err(), Some(Errno::ENOBUFS), "all of them");
        drop(all);
        assert_eq!(held.0.lock().of_user.len(), 0);
        assert_eq!(text(0, 17).err(), Some(Errno::ENOBUFS), "in one text");
        assert!(text(0, 16).is_ok());
        assert_eq!(held.0.lock().of_all, 0);
    }
}
