//! Rust source as far as the checks need it: text without comments, strings and test code.

/// `source` with comments, string and character literals replaced by spaces, line by line.
pub fn code(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            let blank = |b: &u8| if *b == b'\n' { b'\n' } else { b' ' };
            out.extend(bytes[at..end].iter().map(blank));
            at = end;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Where the comment or literal that begins at `at` ends; `at` itself when none begins there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return at + block_comment(rest);
    }
    if rest[0] == b'"' {
        return at + quoted(rest);
    }
    if !after_word && (rest[0] == b'r' || rest.starts_with(b"br")) {
        return at + raw_string(rest);
    }
    if rest[0] == b'\'' {
        return at + character(rest);
    }
    at
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn raw_string(rest: &[u8]) -> usize {
    let start = if rest[0] == b'b' { 2 } else { 1 };
    let hashes = rest[start..].iter().take_while(|b| **b == b'#').count();
    if rest.get(start + hashes) != Some(&b'"') {
        return 0;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let body = start + hashes + 1;
    rest[body..]
        .windows(close.len())
        .position(|window| window == close)
        .map_or(rest.len(), |at| body + at + close.len())
}

/// The length of the character literal at `rest`; 0 for a lifetime, which has no closing quote.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let close = rest[3.min(rest.len())..].iter().position(|b| *b == b'\'');
        return close.map_or(0, |at| at + 4);
    }
    let text = String::from_utf8_lossy(&rest[..rest.len().min(8)]).into_owned();
    let width = text.chars().nth(1).map_or(0, char::len_utf8);
    if width > 0 && rest.get(1 + width) == Some(&b'\'') {
        width + 2
    } else {
        0
    }
}

/// Code with every item under `#[cfg(test)]` replaced by empty lines.
pub fn without_tests(code: &str) -> String {
    let mut text = code.to_owned();
    let mut from = 0;
    // Plain `#[cfg(test)]`, and tests that a model checker's feature leaves out.
    while let Some(found) = ["#[cfg(test)]", "#[cfg(all(test"]
        .iter()
        .filter_map(|attribute| text[from..].find(attribute))
        .min()
    {
        let start = from + found;
        let end = item_end(&text, start);
        let blank: String = text[start..end]
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        text.replace_range(start..end, &blank);
        from = start + blank.len();
    }
    text
}

/// Where the item that begins at `start` ends: after its `;` or its closing brace.
pub fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_i32;
    for (at, c) in code[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return start + at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return start + at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Lines that hold code, of code without tests.
pub fn code_lines(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

/// Name, first line and number of lines of each function with a body.
pub fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let name: String = code[at + 2..]
            .trim_start()
            .chars()
            .take_while(is_word)
            .collect();
        let end = item_end(code, at);
        if name.is_empty() || !code[at..end].ends_with('}') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        found.push((name, line, code[at..end].matches('\n').count() + 1));
    }
    found
}

/// Byte positions of `word` standing alone.
pub fn words(text: &str, word: &str) -> Vec<usize> {
    text.match_indices(word)
        .filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            !before.is_some_and(|c| is_word(&c)) && !after.is_some_and(|c| is_word(&c))
        })
        .map(|(at, _)| at)
        .collect()
}

fn is_word(c: &char) -> bool {
    c.is_alphanumeric() || *c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blank_and_lines_stay() {
        let source = "let a = \"un//safe\"; // unsafe\n/* unsafe /* */ */ let b = 'u';\nr#\"x\"#;";
        let text = code(source);
        assert!(!text.contains("safe") && !text.contains('x'), "{text}");
        assert_eq!(text.lines().count(), source.lines().count());
        assert!(text.contains("let a =") && text.contains("let b ="));
    }

    #[test]
    fn lifetimes_are_not_characters() {
        let source = "fn f<'a>(x: &'a str) -> &'a str { x }";
        assert_eq!(code(source), source);
        assert_eq!(code(r"let q = '\''; y"), "let q =     ; y");
    }

    #[test]
    fn test_modules_do_not_count() {
        let text = code("fn a() {}\n#[cfg(test)]\nmod tests { fn b() { {} } }\nfn c() {}\n");
        let kept = without_tests(&text);
        assert!(kept.contains("fn a") && kept.contains("fn c") && !kept.contains("fn b"));
        assert_eq!(code_lines(&kept), 2);
    }

    #[test]
    fn functions_are_measured_and_declarations_are_not() {
        let text = "trait T { fn d(&self) -> u8; }\nfn long() {\n if x { }\n}\n";
        assert_eq!(functions(text), vec![("long".to_owned(), 2, 3)]);
    }
}
