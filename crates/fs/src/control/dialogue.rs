//! One open of a control file: the text that it shows, and what is written to it.

use super::ask::Question;
use super::{FILES, Takes, text};
use crate::caller::{Caller, Credentials};
use crate::errno::{Errno, Result};
use crate::volume::{Core, Load, Step, Stop};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::fmt;

lock_class!(DialogueLock = "control.dialogue", 955);

/// What an open control file says: its text as it was when it was opened, or the answer to the
/// latest question. Nothing else is locked while it is.
pub(crate) struct Dialogue {
    file: usize,
    said: Lock<DialogueLock, Said>,
}

struct Said {
    text: Box<[u8]>,
    /// Offset of its first byte: an answer begins where its question ended, so that who writes and
    /// then reads on has it; a refused question did not move the position.
    at: u64,
    /// The question that was answered and whose asker has not been told yet.
    answered: Option<Box<[u8]>>,
}

impl Dialogue {
    pub fn begin(file: usize, core: &Core) -> Arc<Dialogue> {
        let text = text(file, core);
        Arc::new(Dialogue {
            file,
            said: Lock::new(Said {
                text,
                at: 0,
                answered: None,
            }),
        })
    }

    /// Reads at `off`; answers the bytes read, `EINVAL` before the beginning of an answer.
    pub fn read(&self, off: u64, out: &mut [u8]) -> Result<usize> {
        let said = self.said.lock();
        let from = off.checked_sub(said.at).ok_or(Errno::EINVAL)?;
        let from = usize::try_from(from)
            .unwrap_or(usize::MAX)
            .min(said.text.len());
        let len = out.len().min(said.text.len() - from);
        out[..len].copy_from_slice(&said.text[from..from + len]);
        Ok(len)
    }

    /// Takes what is written at `off`, which matters to nothing but where the answer begins. A
    /// question is answered with nothing pinned, like something that must be loaded, for a walk of
    /// the volume takes its time.
    pub fn write(
        self: &Arc<Self>,
        core: &Core,
        caller: &Caller<'_>,
        off: u64,
        src: &[u8],
    ) -> Step<usize> {
        let words = std::str::from_utf8(src).map_err(|_| Errno::EINVAL)?.trim();
        match FILES[self.file].takes {
            Takes::Nothing => return Err(Errno::EACCES.into()),
            Takes::Setting(set) => set(core, words)?,
            Takes::Question => {
                let mut said = self.said.lock();
                if said.answered.as_deref() != Some(src) {
                    return Err(Stop::Load(Load::Answer(Question {
                        words: words.to_owned(),
                        asked: src.into(),
                        off,
                        asker: Credentials {
                            uid: caller.uid,
                            gid: caller.gid,
                            groups: caller.groups.to_vec(),
                        },
                        dialogue: Arc::clone(self),
                    })));
                }
                said.answered = None;
            }
        }
        Ok(src.len())
    }

    /// Shows an answer from offset `at` on, or why there is none; `asked` was answered.
    pub(super) fn show(&self, at: u64, text: String, asked: Option<Box<[u8]>>) {
        let said = Said {
            text: text.into_bytes().into(),
            at,
            answered: asked,
        };
        // What was there is dropped after the lock.
        let _was = std::mem::replace(&mut *self.said.lock(), said);
    }
}

impl fmt::Debug for Dialogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialogue")
            .field("file", &FILES[self.file].path)
            .finish_non_exhaustive()
    }
}
