//! One open of a control file: the text that it shows, and what is written to it.

use super::file::{ControlError, ControlFile, ControlInput, ControlStream};
use super::held::{HeldBytes, HeldText, TOO_MUCH};
use super::reason::{self, LONG_COMMAND, TOO_LONG, text};
use crate::caller::{Caller, Credentials};
use crate::errno::{Errno, Result};
use crate::superblock::{Attempt, ControlIo, Deferred, Fetch, Stop, Superblock};
use crate::volume::Volume;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::fmt;

/// Most bytes of lines that are collected before their end comes.
const MAX_PENDING: usize = 256 << 20;
/// Most bytes of a command. Each is copied for the thread that runs it, for any number of callers.
const MAX_COMMAND: usize = 64 << 10;
/// The line that ends the lines of [`ControlInput::Lines`].
const END: &[u8] = b"end\n";

lock_class! {
    /// Nothing else is locked inside it.
    SessionLock = "control.session", 955;
}

/// One open of a control file. It reads the text as of the open, or as of the first read if the
/// text is slow to make or the file was set since. After a command it reads the answer, until a
/// read has found its end; after a refused setting it reads the reason. Of a stream it reads what
/// comes: nothing new is an end of file, behind which the next read goes on.
pub(crate) struct ControlSession {
    file: Arc<dyn ControlFile>,
    /// User that has opened it, by whom its text is counted and who commands; `None` for root and
    /// the owner of the volume, who may hold any number of bytes and let others command.
    opener: Option<Credentials>,
    held: Arc<HeldBytes>,
    /// Taken for copies and moves only.
    state: Lock<SessionLock, State>,
}

#[derive(Default)]
struct State {
    /// `None` until the next read makes it.
    text: Option<HeldText>,
    /// Whether the text was asked for by a write, and goes when a read has found its end.
    is_answer: bool,
    /// Offset of the first byte of the text. An answer begins where its command ended, so that a
    /// program that writes and then reads on gets it. A refused command does not move the position.
    start: u64,
    /// The input of a command that has run and whose write has not returned yet.
    done: Option<Box<[u8]>>,
    /// Lines whose end has not come yet.
    pending: Vec<u8>,
    stream: Streaming,
}

/// Where the text of an open control file comes from, if it is a stream.
#[derive(Default)]
enum Streaming {
    /// It is none.
    #[default]
    No,
    Idle(Box<dyn ControlStream>),
    /// Somebody makes the next text, with nothing locked.
    Busy,
    /// There was nothing new; the next read at the end says so.
    Dry(Box<dyn ControlStream>),
}

/// Makes the text for a read.
#[derive(Debug)]
struct MakeText(Arc<ControlSession>);

/// Makes what comes after the text, which ends at `end`.
#[derive(Debug)]
struct ReadOn {
    session: Arc<ControlSession>,
    end: u64,
}

/// Runs what was written.
#[derive(Debug)]
struct RunCommand {
    session: Arc<ControlSession>,
    caller: Credentials,
    /// What the file takes.
    command: String,
    /// As it was written, and where.
    input: Box<[u8]>,
    offset: u64,
}

impl ControlSession {
    /// Opens `file` of the volume for `caller`; its text is counted in `held`.
    pub fn open(
        (file, held): (&Arc<dyn ControlFile>, &Arc<HeldBytes>),
        sb: &Superblock,
        caller: &Caller<'_>,
    ) -> Arc<ControlSession> {
        let stream = Volume::of(sb).and_then(|volume| file.stream(&volume));
        let mut session = ControlSession {
            file: Arc::clone(file),
            opener: (!caller.manages_volume_of(sb.options.owner.0)).then(|| caller.credentials()),
            held: Arc::clone(held),
            state: Lock::new(State::default()),
        };
        let state = match stream {
            Some(stream) => State {
                text: Some(HeldText::default()),
                stream: Streaming::Idle(stream),
                ..State::default()
            },
            // The first read fails of what may not be held.
            None => State {
                text: (!file.is_slow())
                    .then(|| session.hold(text_of(&**file, sb)).ok())
                    .flatten(),
                ..State::default()
            },
        };
        session.state = Lock::new(state);
        Arc::new(session)
    }

    /// The text, counted as the opener's.
    fn hold(&self, text: String) -> Result<HeldText> {
        match &self.opener {
            Some(user) => HeldText::counted(&self.held, user.uid, text),
            None => Ok(HeldText::uncounted(text)),
        }
    }

    /// A command to run, which a write at `offset` completed.
    fn pending(
        self: &Arc<Self>,
        caller: &Caller<'_>,
        command: &str,
        (input, offset): (&[u8], u64),
    ) -> Stop {
        deferred(RunCommand {
            session: Arc::clone(self),
            caller: self.rights(caller),
            command: command.to_owned(),
            input: input.into(),
            offset,
        })
    }

    /// Credentials of a command that `writer` has written. Whoever opened the file chose what is
    /// written there, and reads the answer: a program of root whose output is led there, such as
    /// one with setuid, did neither. So root and the owner command as such only where one of them
    /// has opened the file.
    fn rights(&self, writer: &Caller<'_>) -> Credentials {
        match &self.opener {
            Some(opener) => opener.clone(),
            None => writer.credentials(),
        }
    }

    /// Shows `text` from offset `start` on; `done` is the input that it answers.
    fn show(&self, start: u64, text: HeldText, done: Option<Box<[u8]>>) {
        self.replace(State {
            text: Some(text),
            is_answer: true,
            start,
            done,
            ..State::default()
        });
    }

    /// Shows from offset `start` on why a write was refused.
    fn say(&self, start: u64, reason: &str) {
        let text = self.hold(reason::line(reason));
        let text = text.unwrap_or_else(|_| HeldText::uncounted(reason::line(TOO_MUCH)));
        self.show(start, text, None);
    }

    /// Refuses a write at offset `start` that is no command; nothing of it or before it is kept.
    fn refuse(&self, start: u64, (errno, reason): (Errno, &str)) -> Stop {
        self.say(start, reason);
        errno.into()
    }

    fn replace(&self, state: State) {
        // The old state is dropped after the lock.
        let _old = std::mem::replace(&mut *self.state.lock(), state);
    }
}

impl ControlIo for ControlSession {
    /// Reads at `offset` and returns the number of bytes; `EINVAL` before the start of an answer.
    fn read(self: Arc<Self>, offset: u64, out: &mut [u8]) -> Attempt<usize> {
        let mut state = self.state.lock();
        if state.wants_more(offset) {
            let session = Arc::clone(&self);
            return Err(deferred(ReadOn {
                session,
                end: offset,
            }));
        }
        let Some(text) = &state.text else {
            return Err(deferred(MakeText(Arc::clone(&self))));
        };
        let from = offset.checked_sub(state.start).ok_or(Errno::EINVAL)?;
        let text = text.bytes();
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(text.len());
        let len = out.len().min(text.len() - from);
        out[..len].copy_from_slice(&text[from..from + len]);
        let is_read = len == 0 && !out.is_empty() && state.is_answer;
        // The text is dropped after the lock.
        let _read = is_read.then(|| state.forget_text());
        drop(state);
        Ok(len)
    }

    /// Takes what is written at `offset`, which matters only for where the answer begins.
    fn write(
        self: Arc<Self>,
        sb: &Superblock,
        caller: &Caller<'_>,
        offset: u64,
        input: &[u8],
    ) -> Attempt<usize> {
        match self.file.input() {
            ControlInput::None => return Err(Errno::EACCES.into()),
            ControlInput::Setting => match self.file.set(&volume(sb)?, input) {
                Ok(()) => self.replace(State::default()),
                Err(error) => {
                    self.say(offset, &error.reason);
                    return Err(error.errno.into());
                }
            },
            ControlInput::Command if input.len() > MAX_COMMAND => {
                return Err(self.refuse(offset, (Errno::E2BIG, LONG_COMMAND)));
            }
            ControlInput::Command => {
                let mut state = self.state.lock();
                if state.done.as_deref() != Some(input) {
                    drop(state);
                    let command = text(input).map_err(|why| self.refuse(offset, why))?;
                    return Err(self.pending(caller, command.trim(), (input, offset)));
                }
                state.done = None;
            }
            ControlInput::Lines => {
                let mut state = self.state.lock();
                if state.done.take().is_none_or(|done| *done != *input) {
                    if state.pending.len() + input.len() > MAX_PENDING {
                        drop(state);
                        return Err(self.refuse(offset, (Errno::EFBIG, TOO_LONG)));
                    }
                    state.pending.extend_from_slice(input);
                    if ended(&state.pending).is_some() {
                        let lines = std::mem::take(&mut state.pending);
                        drop(state);
                        let lines = text(ended(&lines).unwrap_or_default());
                        let lines = lines.map_err(|why| self.refuse(offset, why))?;
                        return Err(self.pending(caller, lines, (input, offset)));
                    }
                }
            }
        }
        Ok(input.len())
    }
}

impl State {
    /// Offset behind the text.
    fn end(&self) -> u64 {
        self.start
            + self
                .text
                .as_ref()
                .map_or(0, |text| text.bytes().len() as u64)
    }

    /// Leaves nothing of the text but where it ended.
    fn forget_text(&mut self) -> Option<HeldText> {
        self.start = self.end();
        self.text.replace(HeldText::default())
    }

    /// Whether a read at `offset` has to look for more in the stream.
    fn wants_more(&mut self, offset: u64) -> bool {
        if offset != self.end() {
            return false;
        }
        match std::mem::take(&mut self.stream) {
            Streaming::Dry(stream) => {
                self.stream = Streaming::Idle(stream);
                false
            }
            other => {
                self.stream = other;
                matches!(self.stream, Streaming::Idle(_))
            }
        }
    }

    /// Takes the stream to read on at `end`; `None` if another reader does or did.
    fn begin_reading(&mut self, end: u64) -> Option<Box<dyn ControlStream>> {
        if end != self.end() {
            return None;
        }
        match std::mem::replace(&mut self.stream, Streaming::Busy) {
            Streaming::Idle(stream) => Some(stream),
            other => {
                self.stream = other;
                None
            }
        }
    }
}

impl Deferred for ReadOn {
    fn run(&self, sb: &Superblock) -> Result<()> {
        let volume = volume(sb)?;
        let begun = self.session.state.lock().begin_reading(self.end);
        let Some(mut stream) = begun else {
            return Ok(());
        };
        // Only who may hold any number of bytes may read a stream.
        let text = HeldText::uncounted(stream.next(&volume));
        let _read = {
            let mut state = self.session.state.lock();
            state.stream = match text.bytes().is_empty() {
                true => Streaming::Dry(stream),
                false => Streaming::Idle(stream),
            };
            state.start = self.end;
            state.text.replace(text)
        };
        Ok(())
    }
}

impl Deferred for MakeText {
    fn run(&self, sb: &Superblock) -> Result<()> {
        let text = self.0.hold(text_of(&*self.0.file, sb))?;
        let mut state = self.0.state.lock();
        // Of two readers that make a text, both see the first one.
        let _second = match state.text {
            Some(_) => Some(text),
            None => state.text.replace(text),
        };
        drop(state);
        Ok(())
    }
}

impl Deferred for RunCommand {
    fn run(&self, sb: &Superblock) -> Result<()> {
        let session = &self.session;
        let done = session.file.run(&volume(sb)?, &self.caller, &self.command);
        let refused = match done.map(|answer| session.hold(answer)) {
            Ok(Ok(answer)) => {
                let start = self.offset + self.input.len() as u64;
                session.show(start, answer, Some(self.input.clone()));
                return Ok(());
            }
            Ok(Err(errno)) => ControlError {
                errno,
                reason: TOO_MUCH.to_owned(),
            },
            Err(error) => error,
        };
        session.say(self.offset, &refused.reason);
        Err(refused.errno)
    }
}

/// Work for later, with nothing pinned or locked; then the call is repeated.
fn deferred(work: impl Deferred + 'static) -> Stop {
    Stop::miss(Fetch::Deferred(Arc::new(work)))
}

fn volume(sb: &Superblock) -> Result<Volume> {
    Volume::of(sb).ok_or(Errno::EIO)
}

fn text_of(file: &dyn ControlFile, sb: &Superblock) -> String {
    Volume::of(sb).map_or_else(String::new, |volume| file.text(&volume))
}

/// What is before the line that ends it, if that has come.
fn ended(pending: &[u8]) -> Option<&[u8]> {
    let lines = pending.strip_suffix(END)?;
    (lines.is_empty() || lines.ends_with(b"\n")).then_some(lines)
}

impl fmt::Debug for ControlSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlSession")
            .field("file", &self.file.path())
            .finish_non_exhaustive()
    }
}
