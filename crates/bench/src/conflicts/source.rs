//! From return addresses to lines of the source.

use super::overlap::Side;
use addr2line::Loader;
use std::collections::HashMap;

/// Names accesses by source line.
pub struct Source {
    loader: Loader,
    /// Where the program was loaded.
    base: u64,
    known: HashMap<usize, Vec<String>>,
}

/// Frames of the library that are shown for one access, innermost first.
const SHOWN: usize = 4;

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
        })
    }

    /// The lines of the library that led to an access, innermost first; of anything if the library
    /// is not on the stack.
    pub fn name(&mut self, side: &Side) -> String {
        let frames: Vec<String> = side
            .frames
            .iter()
            .flat_map(|&frame| self.lines(frame))
            .collect();
        let ours = |line: &&String| line.starts_with("sync/") || line.starts_with("fs/");
        let mut shown: Vec<&String> = frames.iter().filter(ours).take(SHOWN).collect();
        if shown.is_empty() {
            shown = frames.iter().take(SHOWN).collect();
        }
        shown.dedup();
        let shown: Vec<&str> = shown.into_iter().map(|line| &**line).collect();
        shown.join(" < ")
    }

    fn lines(&mut self, frame: usize) -> Vec<String> {
        if let Some(lines) = self.known.get(&frame) {
            return lines.clone();
        }
        // A return address is behind its call.
        let address = (frame as u64).wrapping_sub(self.base + 1);
        let mut lines = Vec::new();
        if let Ok(mut frames) = self.loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                if let Some(at) = frame.location {
                    let file = at.file.unwrap_or("?");
                    lines.push(format!("{}:{}", short(file), at.line.unwrap_or(0)));
                }
            }
        }
        self.known.insert(frame, lines.clone());
        lines
    }
}

/// `fs/src/...` for files of this repository, the last three parts of the path for others.
fn short(file: &str) -> String {
    if let Some((_, inside)) = file.rsplit_once("crates/") {
        return inside.replacen("/src/", "/", 1);
    }
    let parts: Vec<&str> = file.rsplitn(4, '/').take(3).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}
