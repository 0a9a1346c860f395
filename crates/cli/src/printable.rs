//! Names and labels on a terminal.

use hearth::is_unprintable;
use std::path::Path;

/// The text with a question mark for each character that acts: a name may have an escape sequence
/// in it, which would act on the terminal, a newline, which would forge a line, or a mark of
/// direction, which would turn the rest of the line around.
pub fn printable(text: &str) -> String {
    text.replace(is_unprintable, "?")
}

/// A path, in the same way.
pub fn printable_path(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_acts_on_a_terminal_or_ends_a_line() {
        let shown = printable("a\n\u{1b}[31mred\u{7}\u{9b}0m é");
        assert_eq!(shown, "a??[31mred??0m é");
    }

    /// Once, `gpj.exe` behind such a mark was read as `exe.jpg`, with what stood behind it.
    #[test]
    fn nothing_in_a_name_turns_a_line_around_or_is_unseen() {
        for mark in [
            '\u{202e}', '\u{2066}', '\u{200f}', '\u{200b}', '\u{feff}', '\u{2028}',
        ] {
            assert_eq!(printable(&format!("a{mark}gpj.exe")), "a?gpj.exe");
        }
        let plain = "\u{e4}\u{301} \u{5e9}\u{5dc} \u{639}\u{631} \u{4e2d} \u{1f525}\u{fe0f}";
        assert_eq!(printable(plain), plain);
    }
}
