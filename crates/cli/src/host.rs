//! Directories of the host as sources: what is refused beforehand, and how one is served.

use crate::failure::{Failure, reason};
use crate::{mounts, output, served, wrong_place};
use hearth::{HostQuotaMode, Volume};
use hearth_fuse::{MountOptions, Passthrough, Session};
use hearth_host::{HeatBy, HostOptions, HostVfs, pseudo_filesystem};
use hearth_store::Kv;
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, open, statvfs};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Memory for inodes, unless something else is said.
pub const MEMORY: u64 = 256 << 20;

/// Refuses a directory that cannot be served, wherever.
pub fn check_source(directory: &Path) -> Result<Metadata, Failure> {
    let source = std::fs::metadata(directory).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::at(directory, "does not exist; give a directory that is there")
        }
        std::io::ErrorKind::PermissionDenied => {
            let what = "this user may not enter it; run as one who may, and let root into a \
                        filesystem of FUSE by its option allow_other";
            Failure::at(directory, what)
        }
        _ => wrong_place::failure(directory, &error, "give a directory that is there"),
    })?;
    if !source.is_dir() {
        return Err(Failure::at(directory, "is not a directory; give one"));
    }
    if Kv::info_of(directory).is_ok() {
        // Whoever changes a file of a store by hand destroys the volume.
        let volume = directory.display();
        let what = format!("is a Hearth volume, not a tree of files; use 'store:{volume}'");
        return Err(Failure::at(directory, what));
    }
    Ok(source)
}

/// Refuses a directory that cannot be served at `mountpoint`, before a daemon is started.
pub fn check(directory: &Path, mountpoint: &Path) -> Result<(), Failure> {
    let source = check_source(directory)?;
    let (below, place) = (mounts::resolved(directory), mounts::resolved(mountpoint));
    let is =
        |seen: &Metadata, other: &Metadata| (seen.dev(), seen.ino()) == (other.dev(), other.ino());
    if holds(&below, |above| {
        std::fs::metadata(&place).is_ok_and(|place| is(above, &place))
    }) {
        let what = "lies below the mount point, which would cover it; mount elsewhere";
        return Err(Failure::at(directory, what));
    }
    if holds(&place, |above| is(above, &source)) {
        let what = "holds the mount point, which would show itself; mount outside of it";
        return Err(Failure::at(directory, what));
    }
    let served = served::place_of(directory).map_err(|error| Failure::at(directory, error))?;
    if let Some(place) = served {
        let place = place.display();
        let what = format!("is already served at {place}; use that, or 'hearth umount {place}'");
        return Err(Failure::at(directory, what));
    }
    Ok(())
}

/// The options with what follows from the directory: the flags of its mount.
pub fn options(directory: &Path, mut options: MountOptions) -> Result<MountOptions, Failure> {
    // `quota` alone: nothing is written that is not counted.
    if std::mem::take(&mut options.volume.charge_first) {
        let quota = &mut options.volume.host.quota;
        quota.get_or_insert(HostQuotaMode::Wait);
    }
    let of_opens = options.volume.host.heat_by_opens;
    if of_opens && options.direct_io {
        let line = "option 'heat=opens': 'direct_io' and 'heat=exact' show each access; choose one";
        return Err(Failure::usage(line));
    }
    if options.volume.host.observe && wants_quotas(&options) {
        let line = "option 'observe': refuses nothing, as 'quota' would; leave one of them out";
        return Err(Failure::usage(line));
    }
    let sees_data = options.volume.hot_track && !of_opens;
    if options.passthrough == Some(Passthrough::On) && sees_data {
        let line = "option 'passthrough=on': heat by range has to see the data; add 'heat=opens', \
                    or leave one of them out";
        return Err(Failure::usage(line));
    }
    if options.passthrough == Some(Passthrough::On) && wants_quotas(&options) {
        let line = "option 'passthrough=on': quotas have to see what is written; add 'quota=off', \
                    or leave one of them out";
        return Err(Failure::usage(line));
    }
    let refused = [
        (options.writeback == Some(true), "writeback"),
        (options.no_open, "no_open"),
    ];
    if let Some((_, name)) = refused.iter().find(|(is, _)| *is) {
        let line = format!(
            "option '{name}': a host directory is changed behind the mount; leave the option out"
        );
        return Err(Failure::usage(line));
    }
    if wants_quotas(&options) {
        check_countable(directory)?;
    }
    // Without quotas limits of the volume beside would hold for nothing.
    options.volume.quotas = wants_quotas(&options);
    // A directory that is not there is told about later, with what to do.
    if let Ok(below) = statvfs(directory) {
        let has = |flag| below.f_flag.contains(flag);
        options.volume.read_only |= has(StatVfsMountFlags::RDONLY);
        options.nosuid |= has(StatVfsMountFlags::NOSUID);
        options.nodev |= has(StatVfsMountFlags::NODEV);
        options.noexec |= has(StatVfsMountFlags::NOEXEC);
    }
    Ok(options)
}

/// Refuses to count what the kernel makes up while it is read: it takes no room, and a directory of
/// a process that ends cannot be listed.
fn check_countable(directory: &Path) -> Result<(), Failure> {
    let Ok(opened) = open(directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
        // Told about later, with what to do.
        return Ok(());
    };
    pseudo_filesystem(opened).map_or(Ok(()), |name| {
        let what = format!(
            "is on {name}, whose files the kernel makes up and which take no room to count; leave \
             quotas out, or give a directory of a disk or of tmpfs"
        );
        Err(Failure::at(directory, what))
    })
}

fn wants_quotas(options: &MountOptions) -> bool {
    let mode = options.volume.host.quota.unwrap_or(HostQuotaMode::Off);
    mode != HostQuotaMode::Off
}

/// Adds quotas to a directory that is served.
fn with_quotas(
    vfs: HostVfs,
    directory: &Path,
    volume: &Volume,
    (waits, is_told): (bool, bool),
) -> Result<HostVfs, Failure> {
    volume.stats().set_info("quota", "counting");
    let (name, stats) = (directory.display().to_string(), volume.clone());
    let told = move |inodes: u64, is_done: bool| {
        let word = if is_done { "on" } else { "not counted" };
        stats.stats().set_info("quota", word);
        if is_told || !is_done {
            output::say(format_args!(
                "{name}: {inodes} inodes counted, quotas are {word}"
            ));
        }
    };
    vfs.with_quotas(directory, volume, waits, told)
        .map_err(Failure::refused)
}

/// Serves a directory.
pub fn start(
    directory: &Path,
    volume: &Volume,
    mountpoint: &Path,
    options: MountOptions,
) -> Result<(Session<HostVfs>, HostVfs), Failure> {
    let heat = match options.volume.host.heat_by_opens {
        true => HeatBy::Opens,
        false => HeatBy::Ranges,
    };
    let host = HostOptions {
        xdev: options.volume.xdev,
        heat,
        state: state_of(&options)?,
        ids_are_mapped: options.idmap,
    };
    let vfs = HostVfs::open(directory, host, volume).map_err(Failure::refused)?;
    let bytes = options.volume.memory.unwrap_or(MEMORY);
    let vfs = vfs.bounded(directory, volume, bytes);
    let vfs = vfs.map_err(Failure::refused)?;
    let vfs = match wants_quotas(&options) {
        true => {
            let waits = options.volume.host.quota == Some(HostQuotaMode::Wait);
            // A program that runs inside has the standard error for itself.
            with_quotas(vfs, directory, volume, (waits, !options.covers))?
        }
        false => vfs,
    };
    let vfs = match options.volume.host.watch {
        true => vfs.watched(directory, volume).map_err(Failure::refused)?,
        false => vfs,
    };
    if vfs.is_elsewhere() {
        output::say(format_args!(
            "{}: it was on another filesystem when it was served last; if that is not mounted, \
             unmount this, mount it, and serve it again. Its limits and heat are kept",
            directory.display()
        ));
    }
    let stats = volume.stats();
    let words = |is: bool, yes, no| if is { yes } else { no };
    stats.set_info("below", &mounts::resolved(directory).to_string_lossy());
    if let Ok(below) = std::fs::metadata(directory) {
        stats.set_info(served::LABEL, &served::identity(&below));
    }
    let found = words(vfs.opens_handles(), "handles", "descriptors");
    stats.set_info("found_by", found);
    let rights = words(vfs.acts_for_callers(), "callers", "daemon");
    stats.set_info("rights_of", rights);
    let session = Session::serve(volume.clone(), vfs.clone(), mountpoint, options);
    let session = session.map_err(Failure::refused)?;
    if let Some(device) = session.device() {
        vfs.set_own_device(device);
    }
    Ok((session, vfs))
}

/// The state directory that was named; a daemon goes elsewhere.
fn state_of(options: &MountOptions) -> Result<Option<PathBuf>, Failure> {
    let state = options.volume.host.state.as_deref();
    let absolute =
        |path: &Path| std::path::absolute(path).map_err(|error| Failure::at(path, reason(&error)));
    state.map(absolute).transpose()
}

/// Whether `path`, or a directory above it, is one that `is` knows. Not by name: a directory may
/// have several.
fn holds(path: &Path, is: impl Fn(&Metadata) -> bool) -> bool {
    path.ancestors()
        .any(|above| std::fs::metadata(above).is_ok_and(|above| is(&above)))
}
