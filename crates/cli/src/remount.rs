//! `mount -o remount,...`: what can change while a volume is mounted. The flags of the mount are
//! the kernel's; whether the volume takes changes, access times and heat are tunables.

use crate::args::MountArgs;
use crate::failure::{Failure, reason};
use crate::mounted_info::labels;
use crate::mounts::{self, Mounted};
use crate::printable::printable_path;
use crate::{control_file, fstab, output, patience, wrong_place};
use hearth_fuse::MountOptions;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// What the kernel writes into its table of mounts, from where mount(8) takes it. It is fixed when
/// a filesystem is mounted.
const KERNELS: [&str; 7] = [
    "user_id",
    "group_id",
    "default_permissions",
    "allow_other",
    "max_read",
    "blksize",
    "seclabel",
];

/// Flags of a mount: the option that sets it, the one that clears it.
const FLAGS: [(&str, &str, MountFlags); 5] = [
    ("ro", "rw", MountFlags::RDONLY),
    ("nosuid", "suid", MountFlags::NOSUID),
    ("nodev", "dev", MountFlags::NODEV),
    ("noexec", "exec", MountFlags::NOEXEC),
    ("nodiratime", "diratime", MountFlags::NODIRATIME),
];

/// When reads move access times: of several, the last option holds.
const ATIMES: [(&str, MountFlags); 3] = [
    ("noatime", MountFlags::NOATIME),
    ("relatime", MountFlags::RELATIME),
    ("strictatime", MountFlags::STRICTATIME),
];

/// Tunables, below `.hearth`.
const ATIME: &str = "sys/fs/atime";
const HOT_TRACK: &str = "sys/fs/hot-track";
const READ_ONLY: &str = "sys/fs/read-only";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct RemountRequest<'a> {
    flags: MountFlags,
    /// Whether the volume itself shall refuse changes; `None` if nothing was said.
    read_only: Option<bool>,
    /// Tunables and their values.
    tunables: BTreeMap<&'static str, &'a str>,
    /// What the kernel shows of a filesystem: it must be so already.
    kernels: Vec<&'a str>,
    /// What is none of these: it must be so already.
    others: Vec<&'a str>,
}

/// Whether `remount` is among the options.
pub fn is_asked(args: &MountArgs) -> bool {
    fstab::typed(&args.options).any(|option| option == "remount")
}

/// Whether an option means something to a remount.
pub fn knows(option: &str) -> bool {
    option == "remount"
        || is_kernels(option)
        || FLAGS
            .iter()
            .any(|(set, cleared, _)| [*set, *cleared].contains(&option))
        || ATIMES.iter().any(|(name, _)| *name == option)
}

/// Changes a mount.
pub fn run(args: &MountArgs) -> Result<(), Failure> {
    patience::watch(args.mountpoint());
    let place = mounts::resolved(args.mountpoint());
    let mounted = mounts::at(&place).map_err(|error| Failure::at(&place, reason(&error)))?;
    let Some(mounted) = mounted.filter(Mounted::is_ours) else {
        return Err(Failure::at(
            args.mountpoint(),
            "nothing of Hearth is mounted here that could be remounted; \
             'findmnt -t fuse.hearth' lists the mounts",
        ));
    };
    // Who may not look, as root may not into the mount of a user, may change its flags.
    let labels = labels(&mounted.at).unwrap_or_default();
    // mount(8) hands over all flags that shall hold; who types changes what is named.
    let before = flags_of(&mounted);
    let before = match args.by_hand {
        true => before,
        false => before & atimes(),
    };
    let wanted = wanted(before, fstab::typed(&args.options));
    check(&mounted, &wanted, &labels)?;
    apply(&mounted, wanted, args.by_hand)?;
    if !args.quiet {
        let place = printable_path(args.mountpoint());
        output::print_and_go_on(&format!("hearth: {place}: remounted\n"))?;
    }
    Ok(())
}

/// What the options ask of a mount that is there already and is not so. Options that are not named
/// are as they are.
///
/// # Errors
/// An option that is not so, and how it can be.
pub fn check_mounted(args: &MountArgs) -> Result<(), Failure> {
    let place = mounts::resolved(args.mountpoint());
    let mounted = mounts::at(&place).map_err(|error| Failure::at(&place, reason(&error)))?;
    let Some(mounted) = mounted else {
        return Ok(());
    };
    let labels = labels(&place).unwrap_or_default();
    let wanted = wanted(flags_of(&mounted), fstab::typed(&args.options));
    check_others(&mounted, &wanted, &labels)?;
    let is_tracked = control_file::read(&place, HOT_TRACK).ok();
    let heat = wanted.tunables.get(HOT_TRACK).zip(is_tracked);
    let heat = heat.filter(|(asked, now)| **asked != now.trim());
    let was_ro = flags_of(&mounted).contains(MountFlags::RDONLY);
    let option = match (wanted.read_only, heat) {
        (Some(true), _) if !was_ro => "ro",
        (_, Some((&"1", _))) => "hot_track",
        (_, Some(_)) => "no_hot_track",
        _ => return Ok(()),
    };
    let shown = place.display();
    let what = format!("is not mounted with '{option}'; use 'mount -o remount,{option} {shown}'");
    Err(Failure::at(&place, what))
}

/// What the options say, beginning with these flags.
fn wanted<'a>(flags: MountFlags, typed: impl Iterator<Item = &'a str>) -> RemountRequest<'a> {
    let mut wanted = RemountRequest {
        flags,
        read_only: None,
        tunables: BTreeMap::new(),
        kernels: Vec::new(),
        others: Vec::new(),
    };
    for option in typed {
        let set = FLAGS.iter().find(|(set, _, _)| *set == option);
        let cleared = FLAGS.iter().find(|(_, cleared, _)| *cleared == option);
        let atime = ATIMES.iter().find(|(name, _)| *name == option);
        if let Some((_, _, flag)) = set.or(cleared) {
            wanted.flags.set(*flag, set.is_some());
            if *flag == MountFlags::RDONLY {
                wanted.read_only = Some(set.is_some());
            }
        } else if let Some((_, flag)) = atime {
            wanted.flags.remove(atimes());
            wanted.flags.insert(*flag);
            wanted.tunables.insert(ATIME, option);
        } else if let "hot_track" | "no_hot_track" = option {
            let value = if option == "hot_track" { "1" } else { "0" };
            wanted.tunables.insert(HOT_TRACK, value);
        } else if is_kernels(option) {
            wanted.kernels.push(option);
        } else if option != "remount" && !fstab::is_theirs(option) {
            wanted.others.push(option);
        }
    }
    wanted
}

fn atimes() -> MountFlags {
    ATIMES.map(|(_, flag)| flag).into_iter().collect()
}

fn flags_of(mounted: &Mounted) -> MountFlags {
    let has = |name: &str| mounted.flags.split(',').any(|flag| flag == name);
    let mut flags = MountFlags::empty();
    for (name, _, flag) in FLAGS {
        flags.set(flag, has(name));
    }
    flags
        | match (has("noatime"), has("relatime")) {
            (true, _) => MountFlags::NOATIME,
            (_, true) => MountFlags::RELATIME,
            _ => MountFlags::STRICTATIME,
        }
}

fn is_kernels(option: &str) -> bool {
    KERNELS.contains(&option.split('=').next().unwrap_or(option))
}

/// Refuses what cannot change, before anything changes.
fn check(
    mounted: &Mounted,
    wanted: &RemountRequest<'_>,
    labels: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    check_kernels(mounted, &wanted.kernels)?;
    check_others(mounted, wanted, labels)?;
    let is_store = labels
        .get("source")
        .is_some_and(|source| source.starts_with("store:"));
    let was_ro = mounted_with(labels, &[])?.volume.read_only;
    if wanted.read_only == Some(false) && is_store && was_ro {
        let what = "the store was opened for reading ('ro'); unmount it, and mount it without";
        return Err(Failure::at(&mounted.at, what));
    }
    match labels.get("below") {
        Some(below) => check_below(mounted, wanted, Path::new(below)),
        None => Ok(()),
    }
}

/// Refuses an option that is fixed and not so.
fn check_others(
    mounted: &Mounted,
    wanted: &RemountRequest<'_>,
    labels: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let is = format!("{:?}", mounted_with(labels, &[])?);
    for option in &wanted.others {
        if is != format!("{:?}", mounted_with(labels, &[option])?) {
            let what = format!(
                "option '{option}' cannot change while it is mounted; unmount it, and mount it \
                 with the option"
            );
            return Err(Failure::at(&mounted.at, what));
        }
    }
    Ok(())
}

/// The options of a mount, and more.
fn mounted_with(labels: &BTreeMap<String, String>, more: &[&str]) -> Result<MountOptions, Failure> {
    let empty = String::new();
    let options = labels.get("options").unwrap_or(&empty);
    let default = match labels.contains_key("below") {
        true => MountOptions::changed_behind(),
        false => MountOptions::default(),
    };
    let given = hearth_fuse::split_options(options).chain(more.iter().copied());
    let given: Vec<&str> = given.collect();
    default.with(&given).map_err(Failure::usage)
}

/// The kernel takes no change of these, and says nothing of one that is handed to it.
fn check_kernels(mounted: &Mounted, wanted: &[&str]) -> Result<(), Failure> {
    let place = &mounted.at;
    let now = mounts::filesystem_options(place);
    let now = now.map_err(|error| Failure::at(place, reason(&error)))?;
    let differs = |option: &&&str| !now.split(',').any(|word| word == **option);
    match wanted.iter().find(differs) {
        None => Ok(()),
        Some(option) => {
            let what = format!(
                "option '{option}' cannot change while it is mounted, since the kernel keeps what \
                 it was told at the mount; leave the option out, or unmount it, and mount it again"
            );
            Err(Failure::at(place, what))
        }
    }
}

/// A directory of the host decides about access times, and keeps the flags of its own mount.
fn check_below(
    mounted: &Mounted,
    wanted: &RemountRequest<'_>,
    below: &Path,
) -> Result<(), Failure> {
    if let Some(option @ ("noatime" | "strictatime")) = wanted.tunables.get(ATIME).copied() {
        let what = format!(
            "option '{option}': the filesystem of {} decides that; leave the option out",
            below.display()
        );
        return Err(Failure::at(&mounted.at, what));
    }
    let Ok(Some(host)) = mounts::holding(&mounts::resolved(below)) else {
        return Ok(());
    };
    let kept = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let missing = (flags_of(&host) & kept) - wanted.flags;
    match FLAGS.iter().find(|(_, _, flag)| missing.contains(*flag)) {
        Some((set, cleared, _)) => {
            let what = format!(
                "option '{cleared}': {} is mounted with '{set}', which the mount keeps",
                host.at.display()
            );
            Err(Failure::at(&mounted.at, what))
        }
        None => Ok(()),
    }
}

/// The control files can be written while the mount takes writes: before it becomes read-only, and
/// after it has become writable.
fn apply(mounted: &Mounted, mut wanted: RemountRequest<'_>, by_hand: bool) -> Result<(), Failure> {
    let place = &mounted.at;
    let was_ro = flags_of(mounted).contains(MountFlags::RDONLY);
    let is_ro = wanted.flags.contains(MountFlags::RDONLY);
    let now = |name: &str| control_file::read(place, name).ok();
    // mount(8) hands over what is so already.
    wanted.tunables.retain(|name, value| {
        let now = now(name);
        now.is_none_or(|now| now.trim() != *value)
    });
    let wanted = &wanted;
    if was_ro && is_ro {
        if let Some(value) = wanted.tunables.values().next() {
            let what = format!(
                "'{value}' cannot be set while the mount is read-only; remount it with 'rw' first"
            );
            return Err(Failure::at(place, what));
        }
        return remount(place, wanted);
    }
    if is_ro {
        let before = wanted.tunables.keys().copied().chain([READ_ONLY]);
        let before: Vec<_> = before.filter_map(|name| Some((name, now(name)?))).collect();
        let changed = tune(place, wanted)
            .and_then(|()| set_read_only(place, true))
            .and_then(|()| remount(place, wanted));
        return changed.inspect_err(|_| {
            // The mount stays as it was, so the volume does.
            for (name, value) in before {
                let _ = control_file::write(place, name, value.trim());
            }
        });
    }
    remount(place, wanted)?;
    // Who types 'rw' means a volume that is read-only by itself too; mount(8) always says it.
    if was_ro || by_hand && wanted.read_only == Some(false) {
        set_read_only(place, false).inspect_err(|_| {
            let flags = flags_of(mounted);
            // What failed is said; the mount is what it was.
            let _ = mount_remount(place, flags, "");
        })?;
    }
    tune(place, wanted)
}

/// Changes the flags of the mount, and if `ro` or `rw` was said those of the filesystem too.
fn remount(place: &Path, wanted: &RemountRequest<'_>) -> Result<(), Failure> {
    let flags = match wanted.read_only {
        Some(_) => wanted.flags,
        None => wanted.flags | MountFlags::BIND,
    };
    mount_remount(place, flags, "").map_err(|error| {
        let what = match error {
            Errno::BUSY => "files are open for writing; 'fuser -vm' lists who has them".to_owned(),
            Errno::PERM | Errno::ACCESS => {
                "only root may change a mount; unmount it, and mount it with the options".to_owned()
            }
            other => reason(&other.into()),
        };
        Failure::at(place, what)
    })
}

fn tune(place: &Path, wanted: &RemountRequest<'_>) -> Result<(), Failure> {
    wanted.tunables.iter().try_for_each(|(name, value)| {
        control_file::write(place, name, value).map_err(|error| tuning(place, name, &error))
    })
}

/// Nothing where a file of the host hides the control files: nobody else changes such a volume.
fn set_read_only(place: &Path, is: bool) -> Result<(), Failure> {
    let value = if is { "1" } else { "0" };
    match control_file::write(place, READ_ONLY, value) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        written => written.map_err(|error| tuning(place, READ_ONLY, &error))?,
    }
    match control_file::read(place, READ_ONLY) {
        Ok(now) if now.trim() != value => {
            let what = "the volume stays read-only after an error; see its log";
            Err(Failure::at(place, what))
        }
        _ => Ok(()),
    }
}

fn tuning(place: &Path, name: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        _ if wrong_place::is_dead(error) => wrong_place::unseen(place, error),
        ErrorKind::UnexpectedEof => Failure::empty(place),
        _ => Failure::at(&place.join(".hearth").join(name), reason(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(flags: &str) -> Mounted {
        Mounted {
            at: "/m".into(),
            device: (0, 1),
            root: "/".into(),
            flags: flags.to_owned(),
            kind: "fuse.hearth".to_owned(),
            source: "memory:".into(),
        }
    }

    #[test]
    fn what_mount_8_takes_from_its_tables_changes_nothing() {
        let typed = "rw,nosuid,relatime,user_id=0,group_id=0,default_permissions,allow_other,\
                     max_read=4096,remount,noauto,x-systemd.automount";
        let mounted = mounted("rw,nosuid,relatime");
        let wanted = wanted(flags_of(&mounted) & atimes(), typed.split(','));
        assert_eq!(wanted.flags, flags_of(&mounted));
        assert_eq!(wanted.others, [] as [&str; 0]);
        assert_eq!(wanted.kernels.last(), Some(&"max_read=4096"));
        assert_eq!(wanted.read_only, Some(false));
    }

    #[test]
    fn the_last_of_what_contradicts_itself_holds() {
        let typed = "remount,ro,nodev,noatime,rw,relatime,noexec,exec,size=1G,no_hot_track";
        let wanted = wanted(flags_of(&mounted("ro,nosuid")), typed.split(','));
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RELATIME;
        assert_eq!((wanted.flags, wanted.read_only), (flags, Some(false)));
        assert_eq!(wanted.others, ["size=1G"]);
        let tunables = [(ATIME, "relatime"), (HOT_TRACK, "0")];
        assert_eq!(wanted.tunables, tunables.into());
    }
}
