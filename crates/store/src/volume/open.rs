//! Opening a volume: everything is checked before anything is changed.

use super::background::Background;
use super::ballast::Ballast;
use super::checkpoint::{TABLES, stamp};
use super::fields::random;
use super::file_names::{LOADING, LOCK, SEGMENTS, UNFINISHED};
use super::gate::Gate;
use super::large;
use super::log::{LogWriter, open_files};
use super::log_blocks::wipe;
use super::mkfs::OWN;
use super::overlay::{Layers, Point};
use super::replay::{Replay, replay};
use super::shared::Shared;
use super::superblock::{self, Slot, Superblock};
use super::witness::{self, Witness};
use super::{OpenMode, OpenOptions, Parts};
use crate::disk::{Access, Disk, File};
use crate::engine::Engine;
use crate::error::{Error, Result};
use hearth_sync::primitive::{Arc, Mutex, RwLock, thread};
use std::time::Duration;

/// How often a reader looks again at a volume that its writer changes meanwhile, and the pause
/// between two looks.
const LOOKS: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);

pub(super) fn open(parts: Parts, options: &OpenOptions) -> Result<Shared> {
    if options.mode != OpenMode::ReadOnly {
        return open_once(parts, options);
    }
    // First of all: what a writer gives up from now on stays until this one ends, and what it has
    // given up before is not part of what is read below.
    let sharing = parts.disk.share(SEGMENTS);
    let shared = look(parts, options)?;
    *shared.sharing.lock() = sharing;
    Ok(shared)
}

/// Opens a volume that a writer may have, to be read.
fn look(parts: Parts, options: &OpenOptions) -> Result<Shared> {
    let mut look = 1;
    loop {
        // Beside a writer parts may be of different moments: then it has made a checkpoint, or is
        // about to be seen in the middle of something.
        let before = Superblock::read(&*parts.disk, Access::Read)?.slot;
        let opened = open_once(parts.clone(), options);
        let is_alone = opened
            .as_ref()
            .is_ok_and(|shared| shared.lock.lock().is_some());
        let is_whole = opened.as_ref().is_ok_and(|shared| shared.damage.is_none());
        let is_used = lock(&*parts.disk, None).is_err();
        let after = Superblock::read(&*parts.disk, Access::Read)?.slot;
        let is_one_moment = before.sequence == after.sequence;
        if is_alone || !is_used || (is_whole && is_one_moment) || look == LOOKS {
            return opened;
        }
        look += 1;
        thread::sleep(PAUSE);
    }
}

fn open_once(parts: Parts, options: &OpenOptions) -> Result<Shared> {
    let owner = owner(&options.mode);
    let writes = owner.is_some();
    let found = examine(&parts, options, owner.as_deref())?;
    let Examined { files, mut log, .. } = found;
    let shared = Shared {
        engine: RwLock::new(Some(found.engine)),
        gate: Gate::default(),
        layers: RwLock::new(Layers {
            active: std::mem::take(&mut log.overlay),
            frozen: None,
        }),
        layer_bytes: options.memory.overlay,
        log: Mutex::new(None),
        superblock: Mutex::new(found.superblock),
        witness: Mutex::new(None),
        checkpointing: Mutex::new(()),
        ballast: None,
        background: Background::default(),
        troubles: Arc::clone(&options.troubles),
        latched: Mutex::new(None),
        closed: false.into(),
        damage: found.damage,
        begun_at: found.last,
        sharing: Mutex::default(),
        lock: Mutex::new(found.lock),
        parts,
    };
    if !writes {
        let why = "the volume was opened read-only".to_owned();
        *shared.latched.lock() = Some(why);
        return Ok(shared);
    }
    begin(shared, files, &log, found.witness, options)
}

/// What a volume is found to be. Nothing of it was changed, but for the name in its lock file and
/// the journals of the engine.
struct Examined {
    lock: Option<Box<dyn Send + Sync>>,
    superblock: Superblock,
    files: Vec<Arc<dyn File>>,
    log: Replay,
    witness: Result<Witness>,
    engine: Box<dyn Engine>,
    /// Why an opening for writing would be refused.
    damage: Option<Error>,
    /// Where the next commit goes.
    last: Point,
}

fn examine(parts: &Parts, options: &OpenOptions, owner: Option<&str>) -> Result<Examined> {
    let disk = &*parts.disk;
    let writes = owner.is_some();
    let access = if writes { Access::Write } else { Access::Read };
    // Before the lock: a foreign directory gets none.
    Superblock::read(disk, Access::Read)?.check_features(disk, writes)?;
    let lock = match options.mode {
        OpenMode::Shared => lock_shared(disk)?,
        _ => match lock(disk, owner) {
            // Who only looks goes without.
            Err(Error::InUse { .. }) if !writes => None,
            lock => lock?,
        },
    };
    refuse_part(disk)?;
    let superblock = Superblock::read(disk, access)?;
    superblock.check_features(disk, writes)?;
    if superblock.slot.cipher != 0 && options.cipher.is_none() {
        let why = "the volume is encrypted";
        return Err(Error::WrongKey { why });
    }
    let files = open_files(disk, access, superblock.log_len())?;
    let witness = Witness::read(disk, access);
    let witnessed = witness.as_ref().ok().map(|it| it.last.incarnation);
    let cipher = options.cipher.as_deref();
    let mut log = replay(disk, &files, &superblock.slot, witnessed, cipher)?;
    let mut damage = log.damage.take();
    if let Err(error) = check_witness(&witness, &log) {
        damage = damage.or(Some(error));
    }
    accept(&options.mode, &damage)?;
    let engine = match writes {
        true => parts.engines.open()?,
        false => parts.engines.open_read_only()?,
    };
    if let Err(error) = check_stamps(&*engine, &superblock, &log) {
        damage = damage.or(Some(error));
    }
    forget_what_is_older(&*engine, &mut log);
    accept(&options.mode, &damage)?;
    let mut last = log.last;
    if writes && damage.is_some() {
        // Later epochs than any that was seen: whatever is left of those is older from now on.
        last.epoch = behind(newest(&witness, &*engine, &log))?;
    }
    Ok(Examined {
        lock,
        superblock,
        files,
        log,
        witness,
        engine,
        damage,
        last,
    })
}

/// Makes the volume this opening's own: a new incarnation, a checkpoint of what was replayed, a
/// witness, the ballast.
fn begin(
    mut shared: Shared,
    files: Vec<Arc<dyn File>>,
    found: &Replay,
    witness: Result<Witness>,
    options: &OpenOptions,
) -> Result<Shared> {
    let (last, file_len) = (shared.begun_at, shared.superblock.lock().log_len());
    keep_others_out(&*shared.parts.disk);
    wipe(&files, file_len, &found.later)?;
    let mut slot = shared.superblock.lock().slot.clone();
    slot.incarnation = random()?;
    slot.opened += 1;
    let cipher = options.cipher.clone();
    let incarnation = slot.incarnation;
    let mut log = LogWriter::new(files, file_len, incarnation, cipher, last, found.newest_of);
    log.kept = slot.checkpoint;
    let needed = shared.superblock.lock().kept() + 1..last.epoch + 1;
    log.has_large = large::sweep(&*shared.parts.disk, &needed)?;
    *shared.log.lock() = Some(log);
    shared.ballast = Some(Ballast::open(&*shared.parts.disk, file_len)?);
    write_slot(&shared, slot, last.epoch)?;
    *shared.witness.lock() = Some(witness_of(witness, &shared)?);
    shared.write_witness()?;
    shared.fill_ballast();
    shared.parts.disk.remove(UNFINISHED)?;
    Ok(shared)
}

/// Older versions let the umask say who reads a volume. What this user may not change stays as it
/// is.
fn keep_others_out(disk: &dyn Disk) {
    for name in OWN.into_iter().chain([superblock::NAME]) {
        let _ = disk.make_private(name);
    }
}

/// Writes the new incarnation, and the checkpoint of what was replayed with it. A disk without
/// room for the checkpoint keeps nobody out: the old incarnation goes on, its frames are needed.
fn write_slot(shared: &Shared, slot: Slot, last_epoch: u64) -> Result<()> {
    if last_epoch <= slot.checkpoint {
        return shared.superblock.lock().write(slot);
    }
    let incarnation = shared.superblock.lock().slot.incarnation;
    // The checkpoint writes the slot with its own fields.
    shared.superblock.lock().slot = slot;
    match shared.checkpoint() {
        Err(Error::NoSpace { .. }) => {
            let mut superblock = shared.superblock.lock();
            let mut slot = superblock.slot.clone();
            slot.incarnation = incarnation;
            superblock.write(slot)?;
            if let Some(log) = &mut *shared.log.lock() {
                log.incarnation = incarnation;
            }
            Ok(())
        }
        done => done,
    }
}

/// The name of who opens for writing.
fn owner(mode: &OpenMode) -> Option<String> {
    let (OpenMode::Write { who } | OpenMode::Repair { who }) = mode else {
        return None;
    };
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let process = std::process::id();
    Some(format!("process {process} on {host}, {who}"))
}

fn lock(disk: &dyn Disk, owner: Option<&str>) -> Result<Option<Box<dyn Send + Sync>>> {
    match disk.lock(LOCK, owner) {
        Ok(lock) => Ok(Some(lock)),
        // A copy may lack the file, and a reader makes none.
        Err(error) if owner.is_none() && error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The lock that keeps writers out. A disk that makes or locks no file has no writer that it could
/// keep out.
fn lock_shared(disk: &dyn Disk) -> Result<Option<Box<dyn Send + Sync>>> {
    let locked = match disk.lock(LOCK, None) {
        // A copy may lack the file. It is left out where it cannot be made.
        Err(error) if error.is_absent() => {
            let _ = disk.create(LOCK);
            disk.lock(LOCK, None)
        }
        locked => locked,
    };
    match locked {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ Error::InUse { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Refuses a volume that holds a part of a dump.
fn refuse_part(disk: &dyn Disk) -> Result<()> {
    let names = disk.list("")?;
    match names.iter().any(|name| name == LOADING) {
        true => Err(Error::Loading {
            path: disk.place().to_path_buf(),
        }),
        false => Ok(()),
    }
}

/// Refuses damage, unless it was asked for what is there in spite of it.
fn accept(mode: &OpenMode, damage: &Option<Error>) -> Result<()> {
    match (mode, damage) {
        (OpenMode::Write { .. }, Some(error)) => Err(error.clone()),
        _ => Ok(()),
    }
}

/// The newest acknowledged epoch must be there, and be the one that was acknowledged.
fn check_witness(witness: &Result<Witness>, found: &Replay) -> Result<()> {
    let said = witness.as_ref().map_err(Clone::clone)?.last;
    if said.epoch > found.last.epoch {
        return Err(Error::Gap {
            first: found.last.epoch + 1,
            newest: said.epoch,
            file: witness::NAME.into(),
        });
    }
    if said.epoch == found.last.epoch && said.digest != found.last.digest {
        let what = format!("epoch {} is not the one that was acknowledged", said.epoch);
        return Err(Error::corrupt(witness::NAME, 0, what));
    }
    Ok(())
}

/// The tables must hold what the superblock says, and nothing behind the end of the log.
fn check_stamps(engine: &dyn Engine, superblock: &Superblock, found: &Replay) -> Result<()> {
    let slot = &superblock.slot;
    for table in TABLES {
        let (epoch, digest) = stamp(engine, table)?;
        if epoch > found.last.epoch {
            return Err(Error::Gap {
                first: found.last.epoch + 1,
                newest: epoch,
                file: "engine".into(),
            });
        }
        let is_other = epoch == slot.checkpoint && digest != slot.digest;
        if epoch < slot.checkpoint || is_other {
            let what = format!(
                "the tables are of epoch {epoch}, the superblock says {}: \
                 parts of different moments",
                slot.checkpoint
            );
            return Err(Error::corrupt("engine", 0, what));
        }
    }
    Ok(())
}

/// A table that is ahead of the end of the log has all that the log has: older changes over it
/// would show what never was.
fn forget_what_is_older(engine: &dyn Engine, found: &mut Replay) {
    for table in TABLES {
        if stamp(engine, table).is_ok_and(|(epoch, _)| epoch > found.last.epoch) {
            found.overlay.forget(table);
        }
    }
}

/// The newest epoch that anything names.
fn newest(witness: &Result<Witness>, engine: &dyn Engine, found: &Replay) -> u64 {
    let said = witness.as_ref().map_or(0, |witness| witness.last.epoch);
    let stamps = TABLES.map(|table| stamp(engine, table).map_or(0, |(epoch, _)| epoch));
    let seen = [said, found.last.epoch, found.newest];
    seen.into_iter().chain(stamps).max().unwrap_or_default()
}

/// The epoch behind `newest`, which has another one behind it.
fn behind(newest: u64) -> Result<u64> {
    let behind = newest.checked_add(1).filter(|epoch| *epoch < u64::MAX);
    behind.ok_or_else(|| {
        let what = format!("epoch {newest} leaves no number for another one");
        Error::corrupt("log", 0, what)
    })
}

/// The witness that was read, or a new one where a repair found none.
fn witness_of(read: Result<Witness>, shared: &Shared) -> Result<Witness> {
    if let Ok(witness) = read {
        return Ok(witness);
    }
    let disk = &*shared.parts.disk;
    disk.remove(witness::NAME)?;
    Witness::create(disk, &witness::Testimony::default())?;
    disk.sync_dir("")?;
    Witness::read(disk, Access::Write)
}
