//! The type and field of an access, from the text of the source.

/// Returns what a line of the source belongs to: the type of its `impl`, or the free function.
pub fn owner(source: &str, number: usize) -> Option<String> {
    let lines: Vec<&str> = source.lines().take(number).collect();
    lines.iter().rev().copied().find_map(head)
}

/// Returns the name in the first line of an `impl`, or of a function outside one.
fn head(line: &str) -> Option<String> {
    let word = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        let word = &text[..end.unwrap_or(text.len())];
        (!word.is_empty()).then(|| word.to_owned())
    };
    if line.starts_with([' ', '/', '}', '#']) {
        return None;
    }
    if let Some((_, rest)) = line.split_once("fn ") {
        return word(rest);
    }
    let rest = line.strip_prefix("unsafe ").unwrap_or(line);
    let rest = rest.strip_prefix("impl")?;
    let named = match rest.rsplit_once(" for ") {
        Some((_, named)) => named,
        None if rest.starts_with('<') => rest.split_once("> ")?.1,
        None => rest.trim_start(),
    };
    // Without the path before it.
    let plain = named.split(['<', ' ']).next().unwrap_or(named);
    word(plain.rsplit("::").next().unwrap_or(plain))
}

/// Returns the function of a line: `Meta::update` in an `impl`, else the file's name and its own,
/// `change::put`.
pub fn function(source: &str, number: usize, file: &str) -> Option<String> {
    let lines: Vec<&str> = source.lines().take(number).collect();
    let (line, name) = lines
        .iter()
        .rev()
        .find_map(|line| Some((*line, declared(line)?)))?;
    let of = match line.starts_with(' ') {
        true => owner(source, number)?,
        false => file.rsplit('/').next()?.trim_end_matches(".rs").to_owned(),
    };
    Some(format!("{of}::{name}"))
}

/// Returns the name of the function that the line declares.
fn declared(line: &str) -> Option<String> {
    let (before, rest) = line.split_once("fn ")?;
    let is_keyword = |word: &str| {
        word.starts_with("pub") || ["const", "unsafe", "async", "extern", "in"].contains(&word)
    };
    let mut words = before
        .split([' ', '(', ')'])
        .filter(|word| !word.is_empty());
    if !words.all(|word| is_keyword(word) || word == "super" || word == "crate") {
        return None;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (end > 0).then(|| rest[..end].to_owned())
}

/// Returns the last name before the call that touches memory: `size` of `self.size.store(size,
/// Relaxed)`.
pub fn field(line: &str) -> Option<String> {
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
        // A field that is used directly.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_of_a_source_line_is_found() {
        let source = "impl<C> Life<C> {\n    pub(super) fn kill(\n        &self,\n    ) {\n        \
                      // a fn of no meaning\n        go()\n    }\n}\n\npub fn put() {\n    \
                      go()\n}\n";
        let of = |number| function(source, number, "fs/directory/change.rs");
        assert_eq!(of(6).as_deref(), Some("Life::kill"));
        assert_eq!(of(11).as_deref(), Some("change::put"));
        assert_eq!(function("use a;", 1, "x.rs"), None);
    }

    #[test]
    fn type_and_field_of_an_access_are_read_from_the_source() {
        let source = "struct A;\nimpl<'a, T: B> C<T> for x::Meta<'a> {\n    fn f() {\n        \
                      go()\n    }\n}\n\npub fn read(\n    a: u8,\n) {\n    go()\n}\n\
                      impl<const N: usize> Spread<N> {\n    go\n}\nimpl Gate {\n    go\n";
        let of = |number| owner(source, number);
        assert_eq!(of(4).as_deref(), Some("Meta"));
        assert_eq!(of(11).as_deref(), Some("read"));
        assert_eq!(of(14).as_deref(), Some("Spread"));
        assert_eq!(of(17).as_deref(), Some("Gate"));
        assert_eq!(of(1), None);
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
