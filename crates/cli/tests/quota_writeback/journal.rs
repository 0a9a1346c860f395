//! What was acknowledged, written down outside the volume as soon as it was.

use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A line is `offset length tag` of bytes that were written, or `size cut` of a file that was cut.
pub(crate) struct Journal(File);

impl Journal {
    pub(crate) fn new(path: &Path) -> Journal {
        Journal(File::create(path).expect("a place outside the volume"))
    }

    pub(crate) fn wrote(&mut self, offset: u64, len: u64, tag: u8) {
        self.line(&format!("{offset} {len} {tag}\n"));
    }

    pub(crate) fn cut(&mut self, size: u64) {
        self.line(&format!("{size} cut\n"));
    }

    /// In one write, so that a process that is killed leaves whole lines.
    fn line(&mut self, line: &str) {
        self.0.write_all(line.as_bytes()).expect("a line");
    }

    /// What the file has to hold; `None` where nobody knows. And how many bytes were acknowledged.
    pub(crate) fn expected(path: &Path) -> (Vec<Option<u8>>, u64) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let (mut bytes, mut sum) = (Vec::new(), 0);
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<usize>().expect("a number");
            if words[1] == "cut" {
                bytes.truncate(number(0));
                continue;
            }
            let (offset, len) = (number(0), number(1));
            if bytes.len() < offset + len {
                bytes.resize(offset + len, None);
            }
            bytes[offset..offset + len].fill(Some(number(2) as u8));
            sum += len as u64;
        }
        (bytes, sum)
    }

    /// Whether these are bytes that nobody wrote.
    pub(crate) fn is_empty_of(bytes: &[u8]) -> bool {
        bytes.iter().all(|&byte| byte == 0)
    }
}
