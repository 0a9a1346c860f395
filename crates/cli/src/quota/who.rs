//! Users, groups and projects: names and numbers as they are typed, and back.

use crate::accounts::Accounts;
use crate::failure::Failure;
use crate::wrong_place;
use hearth::{QuotaId, QuotaKind};
use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

/// Names of projects, `name:number` a line.
const PROJID: &str = "/etc/projid";

thread_local! {
    /// Read once: a report may have thousands.
    static PROJECTS: HashMap<u32, String> =
        projects().into_iter().rev().map(|(name, id)| (id, name)).collect();
}

/// A user, group or project, or the volume, as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(pub QuotaId);

impl FromStr for Who {
    type Err = String;

    fn from_str(text: &str) -> Result<Who, String> {
        if text == "volume" {
            return Ok(Who(QuotaId::VOLUME));
        }
        let expected = || {
            "give user:NAME, group:NAME, project:NAME, each also with a number, or volume"
                .to_owned()
        };
        let (kind, name) = text.split_once(':').ok_or_else(expected)?;
        let kind = kind_named(kind).ok_or_else(expected)?;
        let id = id_of(kind, name)?;
        Ok(Who(QuotaId { kind, id }))
    }
}

/// A kind as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KindWord {
    /// Owners of inodes
    User,
    /// Groups of inodes
    Group,
    /// Directory trees
    Project,
}

impl KindWord {
    /// The kind of the library.
    pub fn kind(self) -> QuotaKind {
        match self {
            KindWord::User => QuotaKind::User,
            KindWord::Group => QuotaKind::Group,
            KindWord::Project => QuotaKind::Project,
        }
    }
}

/// User, group or project by its word.
pub fn kind_named(word: &str) -> Option<QuotaKind> {
    let kinds = [QuotaKind::User, QuotaKind::Group, QuotaKind::Project];
    kinds.into_iter().find(|kind| kind.name() == word)
}

/// The number of a name, or the number itself.
///
/// # Errors
/// Names what was typed and says what would be right.
pub fn id_of(kind: QuotaKind, name: &str) -> Result<u32, String> {
    let digits = name.strip_prefix(['-', '+']).unwrap_or(name);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return match name.parse::<u32>() {
            Ok(id) if id < u32::MAX => Ok(id),
            _ => Err(format!(
                "{} {name}: ids are 0 to {}",
                kind.name(),
                u32::MAX - 1
            )),
        };
    }
    let found = match kind {
        QuotaKind::Volume => None,
        QuotaKind::User => Accounts::Users.number(name),
        QuotaKind::Group => Accounts::Groups.number(name),
        QuotaKind::Project => projects()
            .into_iter()
            .find(|(n, _)| n == name)
            .map(|(_, id)| id),
    };
    let place = match kind {
        QuotaKind::Project => format!("in {PROJID}"),
        _ => "on this machine".to_owned(),
    };
    found.ok_or_else(|| {
        format!(
            "no {} '{name}' {place}; give a number or add the name",
            kind.name()
        )
    })
}

/// The name of an id, if it has one.
pub fn name_of(who: QuotaId) -> Option<String> {
    match who.kind {
        QuotaKind::Volume => None,
        QuotaKind::User => Accounts::Users.name(who.id),
        QuotaKind::Group => Accounts::Groups.name(who.id),
        QuotaKind::Project => PROJECTS.with(|names| names.get(&who.id).cloned()),
    }
}

/// Looks for the names of many ids at once.
pub fn learn_names(ids: impl Iterator<Item = QuotaId>) {
    let ids: Vec<QuotaId> = ids.collect();
    for (kind, accounts) in [
        (QuotaKind::User, Accounts::Users),
        (QuotaKind::Group, Accounts::Groups),
    ] {
        let of_kind = ids.iter().filter(|who| who.kind == kind);
        accounts.learn(of_kind.map(|who| who.id));
    }
}

/// Looks for the names that [`with_names`] puts into these texts.
pub fn learn_names_in<'t>(texts: impl Iterator<Item = &'t str>) {
    learn_names(texts.flat_map(|text| {
        let mut before = "";
        text.split(' ').filter_map(move |word| {
            let bare = word.trim_end_matches(BEHIND);
            let (kind, id) = split(std::mem::replace(&mut before, bare), bare);
            let (kind, id) = kind_named(kind).zip(id.parse().ok())?;
            Some(QuotaId { kind, id })
        })
    }));
}

/// `user:1000` and `user 1000` in a text become `user:alice` and `user alice`.
pub fn with_names(text: &str) -> String {
    named(text, false)
}

/// `user:1000` in a text becomes `user:alice (1000)`, and `user 1000` becomes `user alice`.
pub fn with_names_and_ids(text: &str) -> String {
    named(text, true)
}

fn named(text: &str, keeps_ids: bool) -> String {
    let mut named = String::with_capacity(text.len());
    let mut before = "";
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end_matches(BEHIND);
        let (kind, id) = split(before, bare);
        let who = kind_named(kind).zip(id.parse().ok());
        match who.and_then(|(kind, id)| name_of(QuotaId { kind, id })) {
            Some(name) => {
                named.push_str(&bare[..bare.len() - id.len()]);
                named.push_str(&name);
                if keeps_ids && bare.contains(':') {
                    named.push_str(&format!(" ({id})"));
                }
                named.push_str(&word[bare.len()..]);
            }
            None => named.push_str(word),
        }
        before = bare;
    }
    named
}

/// What may follow an id in a text.
const BEHIND: [char; 5] = [' ', ',', ':', ';', '.'];

/// Kind and id of a word and the one before it.
fn split<'t>(before: &'t str, word: &'t str) -> (&'t str, &'t str) {
    word.split_once(':').unwrap_or((before, word))
}

/// Names of projects that the machine knows.
fn projects() -> Vec<(String, u32)> {
    let text = std::fs::read_to_string(PROJID).unwrap_or_default();
    let line = |line: &str| {
        let (name, id) = line.trim().split_once(':')?;
        Some((name.to_owned(), id.trim().parse().ok()?))
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(line).collect()
}

/// The mount that `path`, a directory of it, is on: the way up until another filesystem begins.
///
/// # Errors
/// The path cannot be looked at, or is on no Hearth volume.
pub fn mount_above(path: &Path) -> Result<std::path::PathBuf, Failure> {
    use std::os::unix::fs::MetadataExt;
    let failed = |error: std::io::Error| {
        wrong_place::failure(path, &error, "give a directory of a mounted volume")
    };
    let mut top = path.canonicalize().map_err(failed)?;
    let device = top.metadata().map_err(failed)?.dev();
    while let Some(parent) = top.parent() {
        if !parent.metadata().is_ok_and(|parent| parent.dev() == device) {
            break;
        }
        top = parent.to_owned();
    }
    Ok(top)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_understood() {
        let who = |text: &str| text.parse::<Who>().map(|who| who.0);
        assert_eq!(who("user:7"), Ok(QuotaId::user(7)));
        assert_eq!(who("group:root"), Ok(QuotaId::group(0)));
        assert_eq!(
            who("project:4294967294"),
            Ok(QuotaId::project(u32::MAX - 1))
        );
        assert_eq!(who("volume"), Ok(QuotaId::VOLUME));
        for (text, why) in [
            ("user:4294967295", "ids are 0 to 4294967294"),
            ("project:99999999999999999999", "ids are 0 to 4294967294"),
            ("user:-1", "ids are 0 to 4294967294"),
            (
                "group:no such group",
                "no group 'no such group' on this machine",
            ),
            ("project:none", "no project 'none' in /etc/projid"),
            ("user:", "no user ''"),
            ("root", "give user:NAME"),
            ("tree:7", "give user:NAME"),
        ] {
            assert!(who(text).is_err_and(|said| said.contains(why)), "{text}");
        }
    }

    #[test]
    fn ids_in_a_text_get_their_names() {
        let said = "user:0: only root and user 0, the owner of the volume; group:4000000000 too";
        let named =
            "user:root: only root and user root, the owner of the volume; group:4000000000 too";
        assert_eq!(with_names(said), named);
        let both = "user:root (0): only root and user root, the owner of the volume; \
                    group:4000000000 too";
        assert_eq!(with_names_and_ids(said), both);
        assert_eq!(
            with_names("soft limit of 0 bytes: 0"),
            "soft limit of 0 bytes: 0"
        );
    }
}
