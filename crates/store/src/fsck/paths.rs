//! Paths of what was found: of directories they are known, of other inodes one more pass tells.

use super::meta::Meta;
use super::report::{About, Report};
use crate::error::Result;
use crate::kv::{Read, Table};
use crate::schema::{decode_target, key};
use std::collections::HashMap;

/// Gives findings their paths.
pub fn find(view: &dyn Read, meta: &Meta, report: &mut Report) -> Result<()> {
    let mut wanted: HashMap<u64, Option<Vec<u8>>> = HashMap::new();
    for finding in &mut report.findings {
        match &finding.place {
            About::Inode(ino) if meta.inodes.is_directory(*ino) => {
                finding.path = meta.inodes.path(*ino);
            }
            About::Inode(ino) => {
                wanted.insert(*ino, None);
            }
            About::Name(dir, name) => finding.path = path(meta, *dir, name),
            _ => {}
        }
    }
    if wanted.is_empty() || report.is_blind() {
        return Ok(());
    }
    let end = key::behind(b"N");
    view.scan(Table::Meta, b"N", end.as_deref(), &mut |key, value| {
        let dir = key::number(key.get(..9).unwrap_or(key));
        if let (Ok(dir), Ok(target)) = (dir, decode_target(key, value))
            && let Some(found) = wanted.get_mut(&target.ino).filter(|found| found.is_none())
        {
            *found = path(meta, dir, &key[9..]);
        }
        true
    })?;
    for finding in &mut report.findings {
        if let About::Inode(ino) = &finding.place
            && let Some(Some(path)) = wanted.get(ino)
        {
            finding.path = Some(path.clone());
        }
    }
    Ok(())
}

fn path(meta: &Meta, dir: u64, name: &[u8]) -> Option<Vec<u8>> {
    let above = meta.inodes.path(dir)?;
    let slash: &[u8] = if above == b"/" { b"" } else { b"/" };
    Some([&above, slash, name].concat())
}
