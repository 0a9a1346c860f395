//! From return addresses to lines of the source.

use super::overlap::Side;
use addr2line::Loader;
use std::collections::HashMap;

/// Names accesses by source line.
pub struct Source {
    loader: Loader,
    /// Where the program was loaded.
    base: u64,
    known: HashMap<usize, Vec<Frame>>,
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

    /// What was touched and the lines of the library that led there, innermost first.
    pub fn name(&mut self, side: &Side) -> String {
        let frames = self.frames(side);
        let ours = |frame: &&Frame| frame.is_ours();
        let mut shown: Vec<&Frame> = frames.iter().filter(ours).take(SHOWN).collect();
        if shown.is_empty() {
            shown = frames.iter().take(SHOWN).collect();
        }
        shown.dedup_by_key(|frame| &frame.line);
        let what = shown
            .first()
            .map(|frame| self.what(frame))
            .unwrap_or_default();
        let lines: Vec<&str> = shown.iter().map(|frame| &*frame.line).collect();
        format!("{what} at {}", lines.join(" < "))
    }

    /// Every source line on the stack of an access.
    pub fn stack(&mut self, side: &Side) -> Vec<String> {
        self.frames(side)
            .into_iter()
            .map(|frame| frame.line)
            .collect()
    }

    fn frames(&mut self, side: &Side) -> Vec<Frame> {
        let each = side.frames().iter();
        each.flat_map(|&frame| self.lines(frame)).collect()
    }

    /// Type and field of an access: the type whose method makes it, and what the source line
    /// names before the call that touches memory.
    fn what(&self, frame: &Frame) -> String {
        let owner = owner(&frame.function);
        let text = std::fs::read_to_string(&frame.file).unwrap_or_default();
        let line = text
            .lines()
            .nth(frame.number.saturating_sub(1) as usize)
            .unwrap_or_default();
        match field(line) {
            Some(field) => format!("{owner}.{field}"),
            None => owner,
        }
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
                let name = frame
                    .function
                    .as_ref()
                    .and_then(|name| name.demangle().ok());
                if let Some(at) = frame.location {
                    let (file, number) = (at.file.unwrap_or("?"), at.line.unwrap_or(0));
                    lines.push(Frame {
                        line: format!("{}:{number}", short(file)),
                        function: name.map(|name| name.into_owned()).unwrap_or_default(),
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

/// One frame, which may be inlined.
#[derive(Clone, Debug)]
struct Frame {
    /// Short file and number.
    line: String,
    /// Name with its type, as the compiler writes it.
    function: String,
    file: String,
    number: u32,
}

impl Frame {
    fn is_ours(&self) -> bool {
        self.line.starts_with("sync/") || self.line.starts_with("fs/")
    }
}

/// `Spread` of `<hearth_sync::spread::Spread<2>>::add`; the function where there is no type.
fn owner(function: &str) -> String {
    let function = function
        .replace("::{closure#0}", "")
        .replace("::{{closure}}", "");
    let plain: String = match function.rsplit_once(">::") {
        Some((owner, _)) => {
            let owner = owner.trim_start_matches('<');
            let owner = owner.split(" as ").next().unwrap_or(owner);
            owner.split('<').next().unwrap_or(owner).to_owned()
        }
        None => {
            let mut parts = function.rsplit("::");
            let last = parts.next().unwrap_or_default();
            match parts.next() {
                Some(owner) if owner.starts_with(char::is_uppercase) => owner.to_owned(),
                _ => last.to_owned(),
            }
        }
    };
    plain.rsplit("::").next().unwrap_or(&plain).to_owned()
}

/// The last name before the call that touches memory: `size` of `self.size.store(size, Relaxed)`.
fn field(line: &str) -> Option<String> {
    const CALLS: [&str; 10] = [
        ".load(",
        ".store(",
        ".fetch_",
        ".swap(",
        ".compare_exchange",
        ".lock(",
        ".try_lock(",
        ".add(",
        ".get(",
        ".set(",
    ];
    let at = CALLS.iter().filter_map(|call| line.find(call)).min();
    let before = match at {
        Some(at) => &line[..at],
        // A field that is used as it is.
        None => line.split_once("self.").map(|(_, rest)| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
            &rest[..end.unwrap_or(rest.len())]
        })?,
    };
    let before = before.trim_end_matches([']', ')']);
    let name = before
        .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// `fs/src/...` for files of this repository, the last three parts of the path for others.
fn short(file: &str) -> String {
    if let Some((_, inside)) = file.rsplit_once("crates/") {
        return inside.replacen("/src/", "/", 1);
    }
    let parts: Vec<&str> = file.rsplitn(4, '/').take(3).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_and_field_are_read_from_function_and_line() {
        assert_eq!(owner("<hearth::inode::meta::Meta>::set_size"), "Meta");
        assert_eq!(
            owner("<hearth_sync::spread::Spread<2> as core::ops::Drop>::drop"),
            "Spread"
        );
        assert_eq!(owner("hearth::ops::io::read"), "read");
        assert_eq!(
            field("        self.size.store(size, Relaxed);").as_deref(),
            Some("size")
        );
        assert_eq!(
            field("    lanes[lane].fetch_add(1, Relaxed)").as_deref(),
            Some("lane")
        );
        assert_eq!(
            field("    let n = self.count + 1;").as_deref(),
            Some("count")
        );
        assert_eq!(field("    return;"), None);
    }
}
