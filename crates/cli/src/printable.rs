//! Names and labels on a terminal.

use std::path::Path;

/// The text with a question mark for each control character: a name may have an escape sequence in
/// it, which would act on the terminal, or a newline, which would forge a line.
pub fn printable(text: &str) -> String {
    text.replace(|c: char| c.is_control(), "?")
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
}
