//! One open of a control file: the text that it shows, and what is written to it.

use super::ask::Question;
use super::{FILES, Takes, text, tunables};
use crate::caller::{Caller, Credentials};
use crate::errno::Errno;
use crate::superblock::{Attempt, ControlIo, Deferred, Fetch, Stop, Superblock};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::fmt;

/// Bytes of lines that wait for their end.
const MOST_PENDING: usize = 256 << 20;
/// The line that ends the lines of [`Takes::Lines`].
const END: &[u8] = b"end\n";

lock_class!(DialogueLock = "control.dialogue", 955);

/// What an open control file says: its text as it was when it was opened (or first read, if it
/// walks the volume or was set since), or the answer to the latest question, or why the latest
/// setting was refused. Nothing else is locked while it is.
pub(crate) struct Dialogue {
    file: usize,
    said: Lock<DialogueLock, Said>,
}

struct Said {
    /// `None` before the first read of a file that walks the volume, or that was set.
    text: Option<Box<[u8]>>,
    /// Offset of its first byte: an answer begins where its question ended, so that who writes and
    /// then reads on has it; a refused question did not move the position.
    at: u64,
    /// The question that was answered and whose asker has not been told yet.
    answered: Option<Box<[u8]>>,
    /// Lines whose end has not come yet.
    pending: Vec<u8>,
}

impl Said {
    /// The text is made for the next read.
    fn unmade() -> Said {
        Said {
            text: None,
            at: 0,
            answered: None,
            pending: Vec::new(),
        }
    }
}

impl Dialogue {
    pub fn begin(file: usize, sb: &Superblock) -> Arc<Dialogue> {
        let text = (!FILES[file].walks).then(|| text(file, sb));
        Arc::new(Dialogue {
            file,
            said: Lock::new(Said {
                text,
                ..Said::unmade()
            }),
        })
    }

    /// Reads at `off`; answers the bytes read, `EINVAL` before the beginning of an answer.
    pub fn read(self: &Arc<Self>, off: u64, out: &mut [u8]) -> Attempt<usize> {
        let said = self.said.lock();
        let Some(text) = &said.text else {
            let text = MakeText(Arc::clone(self));
            return Err(Stop::Miss(Fetch::Deferred(Arc::new(text))));
        };
        let from = off.checked_sub(said.at).ok_or(Errno::EINVAL)?;
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(text.len());
        let len = out.len().min(text.len() - from);
        out[..len].copy_from_slice(&text[from..from + len]);
        Ok(len)
    }

    /// Makes the text that a first read lacked, with nothing pinned or locked. Of two who made one,
    /// the first is shown to both.
    fn make_text(&self, sb: &Superblock) {
        let made = text(self.file, sb);
        self.said.lock().text.get_or_insert(made);
    }

    /// Takes what is written at `off`, which matters to nothing but where the answer begins. A
    /// question is answered with nothing pinned, like something that must be loaded, for a walk of
    /// the volume takes its time.
    pub fn write(
        self: &Arc<Self>,
        sb: &Superblock,
        caller: &Caller<'_>,
        off: u64,
        src: &[u8],
    ) -> Attempt<usize> {
        let words = |text| std::str::from_utf8(text).map_err(|_| Errno::EINVAL);
        let question = |words: &str| {
            Stop::Miss(Fetch::Deferred(Arc::new(Question {
                words: words.to_owned(),
                asked: src.into(),
                off,
                asker: Credentials {
                    uid: caller.uid,
                    gid: caller.gid,
                    groups: caller.groups.to_vec(),
                },
                dialogue: Arc::clone(self),
            })))
        };
        let file = &FILES[self.file];
        match &file.takes {
            Takes::Nothing => return Err(Errno::EACCES.into()),
            Takes::Setting(setting) => {
                if let Err(errno) = words(src).and_then(|text| (setting.set)(sb, text.trim())) {
                    let reason = tunables::refusal(file.path, setting, src, errno);
                    self.show(off, reason, None);
                    return Err(errno.into());
                }
                self.replace_said(Said::unmade());
            }
            Takes::Question => {
                let mut said = self.said.lock();
                if said.answered.as_deref() != Some(src) {
                    return Err(question(words(src)?.trim()));
                }
                said.answered = None;
            }
            Takes::Lines(_) => {
                let mut said = self.said.lock();
                if said.answered.take().is_none_or(|asked| *asked != *src) {
                    if said.pending.len() + src.len() > MOST_PENDING {
                        return Err(Errno::EFBIG.into());
                    }
                    said.pending.extend_from_slice(src);
                    if let Some(lines) = ended(&said.pending) {
                        let question = words(lines).map(question);
                        said.pending = Vec::new();
                        return Err(question?);
                    }
                }
            }
        }
        Ok(src.len())
    }

    /// What is done with the lines that were written; `None` for a file that takes questions.
    pub(super) fn takes_lines(&self) -> Option<super::TakeLines> {
        match FILES[self.file].takes {
            Takes::Lines(take) => Some(take),
            _ => None,
        }
    }

    /// Shows an answer from offset `at` on, or why there is none; `asked` was answered.
    pub(super) fn show(&self, at: u64, text: String, asked: Option<Box<[u8]>>) {
        self.replace_said(Said {
            text: Some(text.into_bytes().into()),
            at,
            answered: asked,
            ..Said::unmade()
        });
    }

    fn replace_said(&self, said: Said) {
        // What was there is dropped after the lock.
        let _was = std::mem::replace(&mut *self.said.lock(), said);
    }
}

impl ControlIo for Dialogue {
    fn read(self: Arc<Self>, off: u64, out: &mut [u8]) -> Attempt<usize> {
        Dialogue::read(&self, off, out)
    }

    fn write(
        self: Arc<Self>,
        sb: &Superblock,
        caller: &Caller<'_>,
        off: u64,
        src: &[u8],
    ) -> Attempt<usize> {
        Dialogue::write(&self, sb, caller, off, src)
    }
}

/// Makes the text of a control file that walks the volume.
#[derive(Debug)]
struct MakeText(Arc<Dialogue>);

impl Deferred for MakeText {
    fn run(&self, sb: &Superblock) -> crate::errno::Result<()> {
        self.0.make_text(sb);
        Ok(())
    }
}

/// What is before the line that ends it, if that has come.
fn ended(pending: &[u8]) -> Option<&[u8]> {
    let lines = pending.strip_suffix(END)?;
    (lines.is_empty() || lines.ends_with(b"\n")).then_some(lines)
}

impl fmt::Debug for Dialogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialogue")
            .field("file", &FILES[self.file].path)
            .finish_non_exhaustive()
    }
}
