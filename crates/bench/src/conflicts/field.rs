//! Type and field of an access, from the text of the source.

/// Whose code a line of the source is: the type of the `impl` that it stands in, or the free
/// function.
pub fn owner(source: &str, number: usize) -> Option<String> {
    let lines: Vec<&str> = source.lines().take(number).collect();
    lines.iter().rev().copied().find_map(head)
}

/// The name in the first line of an `impl` or of a function that stands in none.
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
    // Without a path before it.
    let plain = named.split(['<', ' ']).next().unwrap_or(named);
    word(plain.rsplit("::").next().unwrap_or(plain))
}

/// The last two names of a function as the demangler writes it: type and method, or module and
/// function. `<a::Meta<x> as b::C>::f::<y>` is `Meta::f`.
pub fn function(demangled: &str) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    let mut rest = demangled;
    if let Some(inside) = rest.strip_prefix('<') {
        let end = matching(inside)?;
        let own = inside[..end].split(" as ").next()?;
        names.extend(plain(own).last().cloned());
        rest = &inside[end + 1..];
    }
    names.extend(plain(rest));
    let last = names.len().checked_sub(1)?;
    Some(names[last.saturating_sub(1)..].join("::"))
}

/// Where the bracket ends that was opened before.
fn matching(inside: &str) -> Option<usize> {
    let mut depth = 1;
    let mut before = ' ';
    for (at, c) in inside.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
        before = c;
    }
    None
}

/// The names of a path without what stands in brackets.
fn plain(path: &str) -> Vec<String> {
    let (mut depth, mut flat, mut before) = (0, String::new(), ' ');
    for c in path.chars() {
        match c {
            '<' | '{' => depth += 1,
            '>' | '}' if before != '-' => depth -= 1,
            _ if depth == 0 => flat.push(c),
            _ => {}
        }
        before = c;
    }
    let is_name = |name: &&str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let names = flat.split("::").filter(|name| !name.is_empty());
    names.filter(is_name).map(str::to_owned).collect()
}

/// The last name before the call that touches memory: `size` of `self.size.store(size, Relaxed)`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_its_last_two_names() {
        for (demangled, short) in [
            ("<hearth::inode::meta::Meta>::update::<()>", "Meta::update"),
            (
                "<hearth_sync::object::held::Object<hearth::inode::Inode> as \
                 hearth::inode::NodeExt>::change_meta::<(), {closure#0}>",
                "Object::change_meta",
            ),
            ("hearth::directory::change::put", "change::put"),
            ("<a::B<fn(x) -> y>>::f::{closure#0}", "B::f"),
        ] {
            assert_eq!(function(demangled).as_deref(), Some(short));
        }
    }

    #[test]
    fn type_and_field_are_read_from_the_source() {
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
