//! Imports between the files of one crate, read from their text.
//!
//! A path is followed to the file that defines what it names: through `use` and `pub use` of every
//! module on the way, through `use ... as`, and through globs. A name that comes from another
//! crate leads nowhere.

use crate::{place, rust_text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How many re-exports of re-exports are followed.
const REEXPORTS_MAX: usize = 12;

/// A path of modules and items from the root of the crate.
type Segments = Vec<String>;

/// The modules of a crate, and what each imports.
pub struct Crate {
    modules: BTreeMap<String, Module>,
}

struct Module {
    code: String,
    /// Each import with the path it names; several where `cfg` chooses between them.
    bindings: BTreeMap<String, Vec<Segments>>,
    globs: Vec<Segments>,
    defined: BTreeSet<String>,
}

/// One name that a `use` brings into its module.
struct Import {
    path: Segments,
    name: String,
    /// Where its `use` begins.
    at: usize,
}

impl Crate {
    /// Reads the files under `src`; files of tests are left out.
    pub fn read(src: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut of_tests = BTreeSet::new();
        for path in place::files(src, &[".rs"]) {
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            let Ok(inside) = path.strip_prefix(src) else {
                continue;
            };
            let module = module_of(&inside.with_extension(""));
            let whole = rust_text::code(&text);
            let code = rust_text::without_tests(&whole);
            let kept = declared(&code);
            let left_out = declared(&whole).into_iter().filter(|m| !kept.contains(m));
            of_tests.extend(left_out.map(|name| join(&module, &name)));
            files.insert(module, code);
        }
        files.retain(|module, _| {
            let of_test = |m: &String| module == m || module.starts_with(&format!("{m}::"));
            !is_test_module(module) && !of_tests.iter().any(of_test)
        });
        Self::new(files)
    }

    /// The modules `files` (path `a::b`, empty for the root, to code without comments and tests).
    pub fn new(files: BTreeMap<String, String>) -> Self {
        let names: BTreeSet<String> = files.keys().cloned().collect();
        let modules = files
            .into_iter()
            .map(|(module, code)| {
                let read = Module::read(&module, code, &names);
                (module, read)
            })
            .collect();
        Self { modules }
    }

    /// Which file names which. A file that names what a `mod.rs` above it defines is not listed:
    /// such a folder is one noun, and its parts share what its `mod.rs` declares.
    pub fn edges(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut graph = BTreeMap::new();
        for (name, module) in &self.modules {
            let mut to = BTreeSet::new();
            for path in self.named(name, module) {
                to.extend(self.homes_of(&path, REEXPORTS_MAX));
            }
            to.retain(|target| target != name && !is_above(target, name));
            graph.insert(name.clone(), to);
        }
        graph
    }

    /// Lines of code, without comments and tests.
    pub fn lines(&self) -> usize {
        let lines = |module: &Module| rust_text::code_lines(&module.code);
        self.modules.values().map(lines).sum()
    }

    /// The files that define what `path` names; none when another crate does.
    fn homes_of(&self, path: &[String], depth: usize) -> BTreeSet<String> {
        let mut module = String::new();
        for (at, segment) in path.iter().enumerate() {
            let inner = join(&module, segment);
            if self.modules.contains_key(&inner) {
                module = inner;
                continue;
            }
            let Some(here) = self.modules.get(&module) else {
                break;
            };
            if depth == 0 {
                break;
            }
            let rest = &path[at + 1..];
            if let Some(targets) = here.bindings.get(segment) {
                let follow = |target: &Segments| {
                    let whole = [target.as_slice(), rest].concat();
                    self.homes_of_import(&whole, depth - 1)
                };
                return targets.iter().flat_map(follow).collect();
            }
            if let Some(found) = self.through_globs(here, &path[at..], depth - 1) {
                return found;
            }
            break;
        }
        BTreeSet::from([module])
    }

    /// The homes of an imported path; an empty path stands for another crate.
    fn homes_of_import(&self, path: &[String], depth: usize) -> BTreeSet<String> {
        match path.first() {
            Some(first) if first == EXTERNAL => BTreeSet::new(),
            _ => self.homes_of(path, depth),
        }
    }

    fn through_globs(
        &self,
        here: &Module,
        rest: &[String],
        depth: usize,
    ) -> Option<BTreeSet<String>> {
        let name = rest.first()?;
        here.globs.iter().find_map(|glob| {
            let module = self.modules.get(&glob.join("::"))?;
            let known = module.defined.contains(name) || module.bindings.contains_key(name);
            known.then(|| self.homes_of_import(&[glob.as_slice(), rest].concat(), depth))
        })
    }

    /// Every path that the code of a module names, from the root of the crate.
    fn named(&self, name: &str, module: &Module) -> Vec<Segments> {
        let mut paths = Vec::new();
        for (at, start) in starts(&module.code) {
            if is_reexport(&module.code, at) {
                continue;
            }
            let base = base_of(start, name, &module.code, at);
            expand(base, &module.code[at + start.len() + 2..], &mut paths);
        }
        // `use crate::a::b;` and then `b::item`; `mod b;` and then `b::item`.
        for (alias, target) in self.aliases(name, module) {
            for at in rust_text::words(&module.code, &alias) {
                let rest = &module.code[at + alias.len()..];
                let qualified = module.code[..at].trim_end().ends_with("::");
                if qualified || !rest.starts_with("::") || is_reexport(&module.code, at) {
                    continue;
                }
                expand(target.clone(), &rest[2..], &mut paths);
            }
        }
        for glob in &module.globs {
            let Some(from) = self.modules.get(&glob.join("::")) else {
                continue;
            };
            let used = |known: &&String| !rust_text::words(&module.code, known).is_empty();
            for known in from.defined.iter().chain(from.bindings.keys()).filter(used) {
                paths.push([glob.as_slice(), std::slice::from_ref(known)].concat());
            }
        }
        // A module that is imported is named by what is taken out of it, not by its `use`.
        paths.retain(|path| !self.is_folder(path));
        paths
    }

    /// Names by which a module calls other modules.
    fn aliases(&self, name: &str, module: &Module) -> Vec<(String, Segments)> {
        let mut found = Vec::new();
        for (alias, targets) in &module.bindings {
            for path in targets {
                if !path.is_empty() && self.modules.contains_key(&path.join("::")) {
                    found.push((alias.clone(), path.clone()));
                }
            }
        }
        for child in declared(&module.code) {
            let path = join(name, &child);
            if self.modules.contains_key(&path) {
                found.push((child, segments(&path)));
            }
        }
        found
    }

    /// Whether `path` is a module that has modules of its own.
    fn is_folder(&self, path: &[String]) -> bool {
        let prefix = format!("{}::", path.join("::"));
        self.modules
            .keys()
            .any(|module| module.starts_with(&prefix))
    }
}

impl Module {
    fn read(name: &str, code: String, modules: &BTreeSet<String>) -> Self {
        let mut imports = Vec::new();
        for at in rust_text::words(&code, "use") {
            let rest = &code[at + 3..];
            let is_item = rest.starts_with(char::is_whitespace)
                && !rest.trim_start().starts_with('<')
                && begins_item(&code, at);
            if is_item {
                let end = rest.find(';').unwrap_or(rest.len());
                imports_of(Vec::new(), &rest[..end], at, &mut imports);
            }
        }
        let local: BTreeSet<String> = imports.iter().map(|i| i.name.clone()).collect();
        let (mut bindings, mut globs) = (BTreeMap::new(), Vec::new());
        for import in imports {
            let alias = import.name.clone();
            let path = absolute(import, name, &code, modules, &local);
            match &*alias {
                "*" => globs.push(path),
                _ => bindings.entry(alias).or_insert_with(Vec::new).push(path),
            }
        }
        let defined = defined(&code);
        Self {
            code,
            bindings,
            globs,
            defined,
        }
    }
}

/// First segment of a path into another crate.
const EXTERNAL: &str = "<another crate>";

/// An imported path from the root of the crate.
fn absolute(
    import: Import,
    module: &str,
    code: &str,
    modules: &BTreeSet<String>,
    local: &BTreeSet<String>,
) -> Segments {
    let Import { mut path, at, .. } = import;
    let Some(first) = path.first().cloned() else {
        return vec![EXTERNAL.to_owned()];
    };
    match &*first {
        "crate" => path.split_off(1),
        "self" | "super" => {
            let mut base = base_of(&first, module, code, at);
            let mut rest = path.split_off(1);
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest.remove(0);
            }
            base.extend(rest);
            base
        }
        _ if modules.contains(&join(module, &first))
            || (path.len() > 1 && local.contains(&first)) =>
        {
            [segments(module), path].concat()
        }
        _ => vec![EXTERNAL.to_owned()],
    }
}

/// `a::b` from `a/b` and from `a/b/mod`; empty for `lib`.
fn module_of(inside: &Path) -> String {
    let mut parts: Vec<_> = inside
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if parts
        .last()
        .is_some_and(|last| matches!(&**last, "mod" | "lib"))
    {
        parts.pop();
    }
    parts.join("::")
}

fn is_test_module(module: &str) -> bool {
    module
        .split("::")
        .any(|part| part == "tests" || part.starts_with("tests_") || part.ends_with("_tests"))
}

/// Whether `target` is the root or the `mod.rs` of a folder around `module`.
fn is_above(target: &str, module: &str) -> bool {
    target.is_empty() || module.starts_with(&format!("{target}::"))
}

fn join(module: &str, name: &str) -> String {
    match module {
        "" => name.to_owned(),
        _ => format!("{module}::{name}"),
    }
}

fn segments(module: &str) -> Segments {
    let parts = module.split("::").filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// Names of the modules that `code` declares as files.
fn declared(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for at in rust_text::words(code, "mod") {
        let rest = code[at + 3..].trim_start();
        let name = word(rest);
        if rest[name.len()..].trim_start().starts_with(';') {
            found.insert(name);
        }
    }
    found
}

/// Names of the items that `code` defines, methods among them.
fn defined(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let items = [
        "struct",
        "enum",
        "trait",
        "fn",
        "type",
        "const",
        "static",
        "union",
        "mod",
        "macro_rules!",
    ];
    for item in items {
        for (at, _) in code.match_indices(item) {
            let before = code[..at].chars().next_back();
            let rest = &code[at + item.len()..];
            let alone = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
            if !alone || !rest.starts_with(char::is_whitespace) {
                continue;
            }
            let rest = rest.trim_start();
            let rest = rest.strip_prefix("mut ").unwrap_or(rest);
            let name = word(rest);
            let is_file = item == "mod" && rest[name.len()..].trim_start().starts_with(';');
            if !name.is_empty() && !is_file {
                found.insert(name);
            }
        }
    }
    found
}

fn word(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// Places where `crate::`, `super::` or `self::` begins a path.
fn starts(code: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for start in ["crate", "super", "self"] {
        for at in rust_text::words(code, start) {
            let qualified = code[..at].trim_end().ends_with("::");
            if !qualified && code[at + start.len()..].starts_with("::") {
                found.push((at, start));
            }
        }
    }
    found
}

/// Where a path that begins with `start` begins, at `at` in the file of `module`.
fn base_of(start: &str, module: &str, code: &str, at: usize) -> Segments {
    if start == "crate" {
        return Vec::new();
    }
    let mut base = segments(module);
    base.extend(inline_modules(code, at));
    if start == "super" {
        base.pop();
    }
    base
}

/// Names of the modules with braces that the byte `at` of `code` lies in.
fn inline_modules(code: &str, at: usize) -> Vec<String> {
    let mut around = Vec::new();
    for begin in rust_text::words(code, "mod") {
        let rest = code[begin + 3..].trim_start();
        let name = word(rest);
        let is_inline = rest[name.len()..].trim_start().starts_with('{');
        if begin < at && is_inline && !name.is_empty() && at < rust_text::item_end(code, begin) {
            around.push(name);
        }
    }
    around
}

/// Whether the word at `at` stands in a `pub use`.
fn is_reexport(code: &str, at: usize) -> bool {
    let begin = code[..at].rfind([';', '}', '{']).map_or(0, |end| end + 1);
    let statement = code[begin..at].trim();
    statement.contains("pub") && statement.ends_with("use")
}

/// Whether an item begins with the word at `at`, visibility and attributes aside.
fn begins_item(code: &str, at: usize) -> bool {
    let before = code[..at].trim_end();
    let last = before.chars().next_back();
    let visible = before.ends_with("pub")
        || (before.ends_with(')')
            && before
                .rfind('(')
                .is_some_and(|open| before[..open].trim_end().ends_with("pub")));
    visible || last.is_none_or(|c| ";{}]".contains(c))
}

/// Reads the imports of `a::b`, `a::{b, c as d}` and `a::*`.
fn imports_of(path: Segments, text: &str, at: usize, found: &mut Vec<Import>) {
    let text = text.trim();
    if let Some(group) = text.strip_prefix('{') {
        for part in split_group(group) {
            imports_of(path.clone(), part, at, found);
        }
        return;
    }
    if text.starts_with('*') {
        found.push(Import {
            path,
            name: "*".to_owned(),
            at,
        });
        return;
    }
    let name = word(text);
    let rest = text[name.len()..].trim_start();
    let mut path = path;
    let in_group = !path.is_empty();
    match &*name {
        // `a::{self}`.
        "self" if in_group && !rest.starts_with("::") => {}
        "" => return,
        _ => path.push(name.clone()),
    }
    if let Some(rest) = rest.strip_prefix("::") {
        imports_of(path, rest, at, found);
        return;
    }
    let alias = rest
        .strip_prefix("as ")
        .map(|alias| word(alias.trim_start()));
    let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
    found.push(Import { path, name, at });
}

/// Reads the paths of `a::b`, `a::{b, c::d}` and `super::a` from `text`.
fn expand(mut path: Segments, text: &str, paths: &mut Vec<Segments>) {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        for part in split_group(group) {
            expand(path.clone(), part, paths);
        }
        return;
    }
    let word = word(text);
    match &*word {
        "" | "self" => {}
        "super" => {
            path.pop();
        }
        _ => path.push(word.clone()),
    }
    match text[word.len()..].strip_prefix("::") {
        Some(rest) if !word.is_empty() => expand(path, rest, paths),
        _ => paths.push(path),
    }
}

/// The parts of `a, b::{c, d}} ...`, up to the brace that closes the group.
fn split_group(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[begin..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}
