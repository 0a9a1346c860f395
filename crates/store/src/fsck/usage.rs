//! Usage by owners against the sum over all inodes.

use super::code::Code;
use super::edits::{put, remove};
use super::meta::Meta;
use super::report::{About, Report, Stage};
use crate::kv::Table;
use crate::schema::{Owner, Used, key};
use std::collections::{BTreeSet, HashMap};

/// Compares what owners are charged with what their inodes take.
pub fn check(meta: &Meta, counted: &HashMap<Owner, Used>, report: &mut Report) {
    let owners: BTreeSet<Owner> = counted.keys().chain(meta.usage.keys()).copied().collect();
    for owner in owners {
        let says = meta.usage.get(&owner).copied().unwrap_or_default();
        let used = counted.get(&owner).copied().unwrap_or_default();
        if says == used {
            continue;
        }
        let Owner { uid, gid, project } = owner;
        let detail = format!(
            "{} blocks and {} inodes, and {} and {} are there",
            says.blocks, says.inodes, used.blocks, used.inodes
        );
        report.find(Code::Usage, About::Owner(uid, gid, project), detail);
        let key = key::usage(&owner);
        let op = if used == Used::default() {
            remove(Table::Meta, &key)
        } else {
            put(&key, used.encode())
        };
        report.fix(Stage::Counts, op);
    }
}
