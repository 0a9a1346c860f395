//! Order, paths, drops and the end of the ring.

#[path = "../../tests/support/one_core.rs"]
mod one_core;

use super::{EventInode, NAME_EVENTS_KEPT, NameChange, NameEvent, NameEvents, NameWatch};
use crate::attr::Kind;
use crate::caller::{Credentials, Origin};
use crate::process::{AT_FDCWD, Process};
use crate::stats::Event;
use crate::volume::Volume;
use one_core::stay_on_one_core;

fn volume() -> (Volume, Process) {
    let volume = Volume::memory();
    let process = volume.process(Credentials::root());
    (volume, process)
}

fn make(process: &Process, path: &str) {
    let fd = process.open(path, libc::O_CREAT | libc::O_RDWR, 0o644);
    process.close(fd.unwrap()).unwrap();
}

/// What a name means.
fn id(process: &Process, path: &str) -> EventInode {
    let stat = process.stat(path).unwrap();
    EventInode {
        ino: stat.ino,
        generation: stat.generation,
    }
}

/// `create /a`, `rename /a -> /b`, in a line each; `?` for a path that is not known.
fn shown(events: &[NameEvent]) -> Vec<String> {
    let path = |path: &Option<Box<[u8]>>| {
        path.as_deref().map_or("?".into(), |path| {
            String::from_utf8_lossy(path).into_owned()
        })
    };
    let line = |event: &NameEvent| {
        let at = path(&event.at.path);
        match &event.change {
            NameChange::Rename { to, exchange, .. } => {
                let arrow = if *exchange { "<->" } else { "->" };
                format!("rename {at} {arrow} {}", path(&to.path))
            }
            change => format!("{} {at}", change.word()),
        }
    };
    events.iter().map(line).collect()
}

fn news(watch: &mut NameWatch, volume: &Volume) -> Vec<String> {
    let NameEvents { lost, events } = watch.read(volume);
    assert_eq!(lost, 0);
    shown(&events)
}

#[test]
fn every_way_to_change_a_name_is_told_with_who_and_what() {
    let (volume, _) = volume();
    let process = volume.process(Credentials::user(7, 8));
    let root = volume.process(Credentials::root());
    root.mkdir("/d", 0o777).unwrap();
    root.chmod("/d", 0o777).unwrap();
    let mut watch = volume.watch();
    make(&process, "/d/f");
    process.link("/d/f", "/d/g").unwrap();
    process.symlink("x", "/d/s").unwrap();
    process.mknod("/d/p", libc::S_IFIFO | 0o600, 0).unwrap();
    process.mkdir("/d/e", 0o755).unwrap();
    process.rename("/d/f", "/d/s").unwrap();
    process.unlink("/d/g").unwrap();
    process.rmdir("/d/e").unwrap();
    // None of these changes a name.
    make(&process, "/d/p2");
    process.unlink("/d/none").unwrap_err();
    process.mkdir("/d/p", 0o755).unwrap_err();
    process.rename("/d/p", "/d/p").unwrap();
    let fd = process.open("/d", libc::O_TMPFILE | libc::O_RDWR, 0o600);
    process.close(fd.unwrap()).unwrap();
    let NameEvents { lost, events } = watch.read(&volume);
    let told = shown(&events);
    let expected = [
        "create /d/f",
        "create /d/g",
        "create /d/s",
        "create /d/p",
        "create /d/e",
        "rename /d/f -> /d/s",
        "remove /d/g",
        "remove /d/e",
        "create /d/p2",
    ];
    assert_eq!((lost, &told[..]), (0, &expected.map(String::from)[..]));
    let kinds: Vec<Kind> = events[..6]
        .iter()
        .map(|event| event.what.unwrap().1)
        .collect();
    let of = [Kind::File, Kind::File, Kind::Symlink, Kind::Fifo];
    assert_eq!(kinds[..4], of);
    assert_eq!(kinds[4..], [Kind::Directory, Kind::File]);
    let (link, renamed) = (&events[2], &events[5]);
    let NameChange::Rename { displaced, .. } = &renamed.change else {
        panic!("{renamed:?}");
    };
    assert_eq!(*displaced, Some((link.what.unwrap().0, Kind::Symlink)));
    assert_eq!(renamed.what, events[0].what);
    assert_eq!(renamed.what, Some((id(&process, "/d/s"), Kind::File)));
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.sequence, number as u64 + 1);
        let by = event.by;
        assert_eq!((by.uid, by.gid, by.origin), (7, 8, Origin::Library));
        assert_eq!(by.pid, std::process::id());
        assert_eq!(event.at.directory, id(&process, "/d"));
    }
    assert_eq!(watch.read(&volume), NameEvents::default());
}

#[test]
fn a_number_that_another_inode_has_got_is_told_apart_by_its_generation() {
    stay_on_one_core();
    let (volume, process) = volume();
    let mut watch = volume.watch();
    make(&process, "/a");
    let first = id(&process, "/a");
    let again = (0..100_000).find_map(|_| {
        process.unlink("/a").unwrap();
        make(&process, "/a");
        Some(id(&process, "/a")).filter(|other| other.ino == first.ino)
    });
    let again = again.expect("numbers are used again");
    assert_ne!(again.generation, first.generation);
    let events = watch.read(&volume).events;
    let of = |wanted: EventInode| {
        let events = events.iter();
        let of = events.filter(|event| event.what == Some((wanted, Kind::File)));
        of.map(|event| event.change.word()).collect::<Vec<_>>()
    };
    assert_eq!(
        (of(first), of(again)),
        (vec!["create", "remove"], vec!["create"])
    );
}

#[test]
fn a_path_is_that_of_the_moment_also_below_what_was_moved_or_has_gone_since() {
    let (volume, process) = volume();
    process.mkdir("/old", 0o755).unwrap();
    process.mkdir("/old/in", 0o755).unwrap();
    let mut watch = volume.watch();
    make(&process, "/old/in/1");
    process.rename("/old", "/new").unwrap();
    make(&process, "/new/in/2");
    process.mkdir("/other", 0o755).unwrap();
    let exchange = libc::RENAME_EXCHANGE;
    process
        .renameat2(AT_FDCWD, "/new", AT_FDCWD, "/other", exchange)
        .unwrap();
    make(&process, "/other/in/3");
    process.unlink("/other/in/1").unwrap();
    process.unlink("/other/in/2").unwrap();
    process.unlink("/other/in/3").unwrap();
    process.rmdir("/other/in").unwrap();
    process.rename("/other", "/new").unwrap();
    process.rmdir("/new").unwrap();
    let expected = [
        "create /old/in/1",
        "rename /old -> /new",
        "create /new/in/2",
        "create /other",
        "rename /new <-> /other",
        "create /other/in/3",
        "remove /other/in/1",
        "remove /other/in/2",
        "remove /other/in/3",
        "remove /other/in",
        "rename /other -> /new",
        "remove /new",
    ];
    assert_eq!(news(&mut watch, &volume), expected);
    // Numbers of directories are not taken for those of the ones before.
    process.mkdir("/again", 0o755).unwrap();
    make(&process, "/again/4");
    let expected = ["create /again", "create /again/4"];
    assert_eq!(news(&mut watch, &volume), expected);
}

#[test]
fn a_slow_listener_loses_the_oldest_events_and_is_told_how_many() {
    let (volume, process) = volume();
    process.mkdir("/d", 0o755).unwrap();
    let (mut slow, mut fast) = (volume.watch(), volume.watch());
    let more = 100;
    for n in 0..NAME_EVENTS_KEPT + more {
        process.symlink("x", format!("/d/{n}")).unwrap();
        if n == NAME_EVENTS_KEPT / 2 {
            assert_eq!(fast.read(&volume).events.len(), n + 1);
        }
    }
    let NameEvents { lost, events } = slow.read(&volume);
    assert_eq!((lost, events.len()), (more as u64, NAME_EVENTS_KEPT));
    assert_eq!(shown(&events[..1]), [format!("create /d/{more}")]);
    assert_eq!(events[0].sequence, more as u64 + 1);
    assert_eq!(fast.read(&volume).lost, 0);
    assert_eq!(volume.stats().events(Event::NameEventLost), more as u64);
    // What comes next is complete again.
    process.unlink("/d/0").unwrap();
    assert_eq!(news(&mut slow, &volume), ["remove /d/0"]);
}

#[test]
fn nothing_is_kept_while_nobody_listens() {
    let (volume, process) = volume();
    make(&process, "/before");
    let first = volume.watch();
    make(&process, "/seen");
    let mut second = volume.watch();
    drop(first);
    make(&process, "/after");
    assert_eq!(news(&mut second, &volume), ["create /after"]);
    assert_eq!(volume.sb.watched_names.kept(), 2);
    drop(second);
    assert!(!volume.name_teller().is_watched());
    make(&process, "/unseen");
    assert_eq!(volume.sb.watched_names.kept(), 0);
    let mut third = volume.watch();
    assert_eq!(third.read(&volume), NameEvents::default());
}
