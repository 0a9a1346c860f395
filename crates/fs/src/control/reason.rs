//! Why a write to a control file was refused, as a line that is read from the same open file.

use crate::errno::Errno;
use crate::unprintable::is_unprintable;

/// Most characters of a line.
const MOST: usize = 4096;
/// Why lines are refused beyond what is collected of them.
pub(super) const TOO_LONG: &str = "more than 256 MiB before the line 'end', and none of it was \
     taken; write it in parts with such a line each";

/// Why a command of too many bytes is refused.
pub(super) const LONG_COMMAND: &str = "more than 65536 bytes in one command; write several";

/// The reason as one line with its end. What was written may be part of it: what would end the
/// line, or act on a terminal, is written as an escape.
pub(super) fn line(reason: &str) -> String {
    let mut line = String::new();
    let mut chars = reason.chars();
    for char in chars.by_ref().take(MOST) {
        match is_unprintable(char) {
            true => line.extend(char.escape_default()),
            false => line.push(char),
        }
    }
    if chars.next().is_some() {
        line.push_str("...");
    }
    line.push('\n');
    line
}

/// What was written as text, or why it is none.
pub(super) fn text(input: &[u8]) -> Result<&str, (Errno, &'static str)> {
    std::str::from_utf8(input).map_err(|_| (Errno::EINVAL, "not UTF-8; write text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_of_some_length() {
        assert_eq!(line("'ü b' is none"), "'ü b' is none\n");
        assert_eq!(line("a\n\u{1b}[1mb\u{9b}"), "a\\n\\u{1b}[1mb\\u{9b}\n");
        assert_eq!(line("a\u{202e}b"), "a\\u{202e}b\n");
        assert_eq!(
            line(&"x".repeat(1 << 20)),
            format!("{}...\n", "x".repeat(MOST))
        );
    }
}
