//! What is found after a cut.

use super::driver::Library;
use super::history::History;
use super::run::{limits, volume};
use hearth::backend::Backend;
use hearth_model::{OBSERVER, Tree};
use hearth_store::backend::simulated::SimulatedStore;
use hearth_store::disk::simulated::{Dice, SimulatedDisk};
use hearth_store::fsck::Report;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Steps of the disk in which an opening is done.
const OPENING: u64 = 24;

/// Checks a disk whose power has failed: everything that sync number `promised` has promised is
/// there, and what is there is what one commit had.
pub fn check(
    history: &History,
    disk: &SimulatedDisk,
    promised: u64,
    dice: &mut Dice,
) -> Result<(), String> {
    if dice.below(6) > 0 {
        return check_opened(history, disk, promised, dice.below(8) == 0);
    }
    // The power fails once more, while the volume is opened.
    disk.cut_at(dice.below(OPENING));
    drop(SimulatedStore::open(disk, limits()));
    let disk = disk.crashed(dice.below(u64::MAX));
    check_opened(history, &disk, promised, false)
        .map_err(|why| format!("and again in the opening: {why}"))
}

fn check_opened(
    history: &History,
    disk: &SimulatedDisk,
    promised: u64,
    is_thorough: bool,
) -> Result<(), String> {
    let report = fsck(disk)?;
    if !report.is_clean() {
        return Err(format!("fsck: {:#?}", report.findings));
    }
    if disk.counts().steps > 0 {
        return Err("fsck has written".to_owned());
    }
    let store = SimulatedStore::open(disk, limits());
    let store = store.map_err(|error| format!("opening: {error}"))?;
    let restart = store.backend.restart();
    let restart = restart.map_err(|errno| format!("restart: {errno}"))?;
    let epoch = restart.map_or(0, |restart| restart.epoch);
    let mut library = Library::new(volume(Arc::clone(&store.backend))?);
    let (tree, _) = Tree::read(&mut library, OBSERVER)?;
    check_quotas(&library, &tree)?;
    history.check(epoch, promised, tree)?;
    if is_thorough {
        check_end(&library, &store, disk)?;
    }
    Ok(())
}

fn fsck(disk: &SimulatedDisk) -> Result<Report, String> {
    SimulatedStore::check(disk).map_err(|error| format!("fsck: {error}"))
}

/// Usage is that of a full walk, and there is nothing beside the tree.
fn check_quotas(library: &Library, tree: &Tree) -> Result<(), String> {
    let quota = library.volume().quota().check();
    let quota = quota.map_err(|errno| format!("the check of quotas: {errno}"))?;
    let inodes: BTreeSet<_> = tree.entries.values().map(|entry| &entry.same_as).collect();
    match quota.is_clean() && quota.nameless == 0 && quota.inodes == inodes.len() as u64 {
        true => Ok(()),
        false => Err(format!("{} inodes are found, {quota:?}", inodes.len())),
    }
}

/// Idle work removes what the cut left, and an end leaves nothing that fsck would name.
fn check_end(
    library: &Library,
    store: &SimulatedStore,
    disk: &SimulatedDisk,
) -> Result<(), String> {
    let ended = |errno| format!("the end: {errno}");
    library.volume().sync().map_err(ended)?;
    while store.backend.tidy() {}
    library.volume().close().map_err(ended)?;
    let left = fsck(disk)?.findings;
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("after the end fsck finds {left:#?}")),
    }
}
