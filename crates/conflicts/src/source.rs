//! From return addresses to source lines.

use super::field::{field, function, owner};
use super::overlap::Side;
use addr2line::Loader;
use std::collections::HashMap;

/// Names accesses by source line.
pub struct Source {
    loader: Loader,
    /// Where the program was loaded.
    base: u64,
    known: HashMap<usize, Vec<Frame>>,
    /// Source files that were read.
    texts: HashMap<String, String>,
}

/// Frames of the library that are shown for an access, innermost first.
const SHOWN: usize = 5;

impl Source {
    /// Reads the debug information of the running program.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of_this_program() -> Result<Source, String> {
        let path = std::env::current_exe().map_err(|error| error.to_string())?;
        let loader = Loader::new(&path).map_err(|error| format!("debug information: {error}"))?;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let name = path.to_string_lossy();
        let base = maps
            .lines()
            .find(|line| line.ends_with(&*name))
            .and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok())
            .ok_or("this program is not in its own map of memory")?;
        Ok(Source {
            loader,
            base,
            known: HashMap::new(),
            texts: HashMap::new(),
        })
    }

    /// Returns what was touched, and the lines of the library that led there, innermost first.
    pub fn name(&mut self, side: &Side) -> String {
        let frames = self.frames(side);
        let ours: Vec<&Frame> = frames.iter().filter(|frame| frame.is_ours()).collect();
        // The access itself, then its callers in the filesystem: the lines between are the same for
        // every lock and every slot.
        let (first, rest) = ours.split_at(ours.len().min(1));
        let callers = rest.iter().filter(|frame| frame.line.starts_with("fs/"));
        let mut shown: Vec<&Frame> = first.iter().chain(callers).take(SHOWN).copied().collect();
        if shown.is_empty() {
            shown = frames.iter().take(SHOWN).collect();
        }
        shown.dedup_by_key(|frame| &frame.line);
        let lines: Vec<&str> = shown.iter().map(|frame| &*frame.line).collect();
        let first = shown.first().copied();
        let what = first.map(|frame| self.what(frame)).unwrap_or_default();
        format!("{what} at {}", lines.join(" < "))
    }

    /// Returns every source line on the stack of an access, with its function.
    pub fn stack(&mut self, side: &Side) -> Vec<String> {
        let frames = self.frames(side);
        let named = frames.iter().map(|frame| {
            let text = self.text(&frame.file);
            let function = function(text, frame.number as usize, &frame.file);
            format!("{} {}", frame.line, function.unwrap_or_default())
        });
        named.collect()
    }

    fn frames(&mut self, side: &Side) -> Vec<Frame> {
        let each = side.frames().iter();
        each.flat_map(|&frame| self.lines(frame)).collect()
    }

    /// Returns type and field of an access: the type whose method makes it, and the last name in
    /// the source line before the call that touches memory.
    fn what(&mut self, frame: &Frame) -> String {
        let text = self.text(&frame.file);
        let number = frame.number as usize;
        let line = text
            .lines()
            .nth(number.saturating_sub(1))
            .unwrap_or_default();
        let owner = owner(text, number).unwrap_or_else(|| "?".to_owned());
        match field(line) {
            Some(field) => format!("{owner}.{field}"),
            None => owner,
        }
    }

    /// Returns a source file, empty if it is not there.
    fn text(&mut self, file: &str) -> &str {
        let read = || std::fs::read_to_string(file).unwrap_or_default();
        self.texts.entry(file.to_owned()).or_insert_with(read)
    }

    fn lines(&mut self, frame: usize) -> Vec<Frame> {
        if let Some(lines) = self.known.get(&frame) {
            return lines.clone();
        }
        // A return address is behind its call.
        let address = (frame as u64).wrapping_sub(self.base + 1);
        let mut lines = Vec::new();
        if let Ok(mut frames) = self.loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                if let Some(at) = frame.location {
                    let (file, number) = (at.file.unwrap_or("?"), at.line.unwrap_or(0));
                    lines.push(Frame {
                        line: format!("{}:{number}", short(file)),
                        file: file.to_owned(),
                        number,
                    });
                }
            }
        }
        self.known.insert(frame, lines.clone());
        lines
    }
}

/// A frame, which may be inlined.
#[derive(Clone, Debug)]
struct Frame {
    /// Returns the short file name and the line.
    line: String,
    file: String,
    number: u32,
}

impl Frame {
    fn is_ours(&self) -> bool {
        self.line.starts_with("sync/") || self.line.starts_with("fs/")
    }
}

/// Returns `fs/src/...` for files of this repository, the last three parts of the path for others.
fn short(file: &str) -> String {
    if let Some((_, inside)) = file.rsplit_once("crates/") {
        return inside.replacen("/src/", "/", 1);
    }
    let parts: Vec<&str> = file.rsplitn(4, '/').take(3).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}
