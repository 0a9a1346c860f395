//! Paths of what was found: one more look at the names tells those of all directories on the way.

use super::ROOT;
use super::report::{About, Report};
use super::tree::parent;
use crate::error::Result;
use crate::kv::{Read, Table};
use crate::schema::{decode_target, key};
use std::collections::HashMap;

/// Where an inode has a name, and which.
type ParentName = Option<(u64, Box<[u8]>)>;

/// Gives findings their paths. `dirs` are the directories, rising, and where each is.
pub fn find(view: &dyn Read, dirs: &[(u64, u64)], report: &mut Report) -> Result<()> {
    if report.is_blind() {
        return Ok(());
    }
    let mut wanted: HashMap<u64, ParentName> = HashMap::new();
    for finding in &report.findings {
        match &finding.place {
            About::Inode(ino) | About::Name(ino, _) => want(*ino, dirs, &mut wanted),
            _ => {}
        }
    }
    look(view, dirs, &mut wanted)?;
    for finding in &mut report.findings {
        finding.path = match &finding.place {
            About::Inode(ino) => path(*ino, &wanted),
            About::Name(dir, name) => path(*dir, &wanted).map(|above| join(&above, name)),
            _ => None,
        };
    }
    Ok(())
}

/// Wants to know the name of an inode and those of the directories above it.
fn want(ino: u64, dirs: &[(u64, u64)], wanted: &mut HashMap<u64, ParentName>) {
    let mut at = ino;
    while at != 0 && at != ROOT && !wanted.contains_key(&at) {
        wanted.insert(at, None);
        match parent(dirs, at) {
            Some(above) => at = above,
            None => return,
        }
    }
}

/// Looks for the names that are wanted.
fn look(view: &dyn Read, dirs: &[(u64, u64)], wanted: &mut HashMap<u64, ParentName>) -> Result<()> {
    // Of what is no directory the place is not known before: whatever names it first.
    let mut further = Vec::new();
    let end = key::behind(b"N");
    if wanted.is_empty() {
        return Ok(());
    }
    view.scan(Table::Meta, b"N", end.as_deref(), &mut |key, value| {
        let dir = key::number(key.get(..9).unwrap_or(key));
        if let (Ok(dir), Ok(target)) = (dir, decode_target(key, value))
            && let Some(found @ None) = wanted.get_mut(&target.ino)
        {
            let known = parent(dirs, target.ino);
            if known.is_none_or(|known| known == dir) {
                *found = Some((dir, key[9..].into()));
            }
            if known.is_none() {
                further.push(dir);
            }
        }
        true
    })?;
    let before = wanted.len();
    for dir in further {
        want(dir, dirs, wanted);
    }
    match wanted.len() == before {
        true => Ok(()),
        // Directories alone: there is nothing further.
        false => look(view, dirs, wanted),
    }
}

/// The path of an inode; `None` where its names do not lead up to the root.
fn path(ino: u64, wanted: &HashMap<u64, ParentName>) -> Option<Vec<u8>> {
    let mut names: Vec<&[u8]> = Vec::new();
    let mut at = ino;
    while at != ROOT {
        // A ring has no more names than there are directories.
        if names.len() > wanted.len() {
            return None;
        }
        let (above, name) = wanted.get(&at)?.as_ref()?;
        names.push(name);
        at = *above;
    }
    names.reverse();
    Some([b"/", &*names.join(&b'/')].concat())
}

fn join(above: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if above == b"/" { b"" } else { b"/" };
    [above, slash, name].concat()
}
