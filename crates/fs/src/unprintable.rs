//! Characters that a terminal or a browser must not get from a name.

/// Whether a character has no place in what people read: a control character, a bidirectional
/// mark, which changes the order of what follows, or one without a width, by which two names look
/// alike.
pub fn is_unprintable(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            // The soft hyphen; marks of direction; joiners and spaces of no width; ends of lines
            // and paragraphs; embeddings, overrides, isolates; notes between lines; tags.
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}
