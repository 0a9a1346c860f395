//! Mounts that a file describes, as the unit of systemd starts and stops them.

use crate::harness;

use harness::{
    Private, Transport, Turn, demand_root, hearth, kill, mounts_below, on_both_transports,
    pids_naming, program, refused, said, state, succeed, until,
};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A directory with a mount point and the file that names it.
struct Place {
    private: Private,
    mountpoint: PathBuf,
    file: PathBuf,
}

impl Place {
    fn new(rest: &str) -> Place {
        let private = Private::new();
        let mountpoint = private.directory("m");
        let file = private.path().join("data.toml");
        let place = mountpoint.display();
        let log = private.path().join("log");
        let log = log.display();
        let text = format!("mountpoint = \"{place}\"\nlog = \"{log}\"\n{rest}\n");
        std::fs::write(&file, text).unwrap();
        Place {
            private,
            mountpoint,
            file,
        }
    }

    fn hearth(&self, verb: &str) -> Command {
        let mut hearth = hearth();
        hearth.arg(verb).arg("--config").arg(&self.file);
        hearth
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = said(hearth().args(["umount", "--lazy"]).arg(&self.mountpoint));
    }
}

/// A daemon in the foreground, killed if a test ends early.
struct Foreground(Child);

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Daemons that are killed when this is dropped.
struct Killed(Vec<u32>);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.drain(..).for_each(kill);
    }
}

#[test]
fn a_file_mounts_and_unmounts() {
    demand_root();
    let place = Place::new("options = [\"size=1M\", \"transport=dev\"]");
    let report = succeed(&mut place.hearth("mount"));
    assert!(report.contains("hearth: memory: on "), "{report}");
    assert!(place.private.path().join("log").is_file());
    let room = rustix::fs::statvfs(&place.mountpoint).unwrap();
    assert_eq!(room.f_blocks * room.f_frsize, 1 << 20);
    succeed(&mut place.hearth("umount"));
    until("the daemon ends", || {
        pids_naming(&place.mountpoint).is_empty()
    });
}

/// Regression: the mount was asked for its daemon before it was known whether it answers, and over
/// a ring whoever asked could not end.
fn a_stopped_daemon_keeps_nobody_from_detaching_its_mount(transport: Transport) {
    demand_root();
    let place = Place::new(&format!("options = \"transport={}\"", transport.word()));
    let turn = (transport == Transport::Uring).then(Turn::with_uring);
    succeed(&mut place.hearth("mount"));
    drop(turn);
    let daemons = pids_naming(&place.mountpoint);
    let _ended = Killed(daemons.clone());
    for daemon in &daemons {
        succeed(program("kill").args(["-s", "STOP", &daemon.to_string()]));
    }
    let begun = Instant::now();
    let silent = said(&mut place.hearth("umount"));
    let words = ["does not answer", "umount --lazy"];
    refused("umount", &silent, 1, &words);
    let other = said(place.hearth("umount").arg("--lazy").env("MAINPID", "1"));
    let words = ["does not answer", "whether this unit (1) serves it"];
    refused("umount --lazy of another unit", &other, 1, &words);
    assert_eq!(mounts_below(&place.mountpoint).len(), 1);
    succeed(place.hearth("umount").arg("--lazy"));
    assert!(mounts_below(&place.mountpoint).is_empty());
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

on_both_transports!(a_stopped_daemon_keeps_nobody_from_detaching_its_mount);

#[test]
fn what_a_file_gets_wrong_is_refused_and_changes_nothing() {
    let place = Place::new("optoins = \"ro\"");
    let before = state(place.private.path());
    let name = format!("{}:3: ", place.file.display());
    for verb in ["mount", "umount"] {
        let words = [&*name, "'optoins'", "did you mean 'options'"];
        refused(verb, &said(&mut place.hearth(verb)), 2, &words);
    }
    let both = said(place.hearth("mount").arg("elsewhere"));
    refused("a file and a place", &both, 2, &["--config", "--help"]);
    assert_eq!(state(place.private.path()), before);
}

#[test]
fn no_volume_is_made_for_a_file_that_does_not_say_so() {
    let place = Place::new("");
    let volume = place.private.path().join("volume");
    let text = std::fs::read_to_string(&place.file).unwrap();
    let text = format!("{text}source = \"store:{}\"\n", volume.display());
    std::fs::write(&place.file, text).unwrap();
    let hearth = env!("CARGO_BIN_EXE_hearth");
    let typed = format!("{hearth} mount --config {}", place.file.display());
    let answer = said(harness::program("script").args(["-qec", &typed, "/dev/null"]));
    assert!(
        !answer.success() && answer.out.contains("hearth mkfs"),
        "{answer:?}"
    );
    assert!(!volume.exists());
}

/// `Type=notify`: whoever starts after the unit finds the volume.
#[test]
fn a_service_manager_hears_when_the_mount_works_and_stops_only_its_own() {
    demand_root();
    let place = Place::new("options = \"transport=dev\"");
    let socket = place.private.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut mount = place.hearth("mount");
    mount.arg("--foreground").env("NOTIFY_SOCKET", &socket);
    let mut daemon = Foreground(mount.spawn().unwrap());
    let mut heard = [0; 64];
    let length = manager.recv(&mut heard).expect("the mount is told");
    assert_eq!(&heard[..length], b"READY=1");
    let pid = std::fs::read_to_string(place.mountpoint.join(".hearth/pid")).unwrap();
    assert_eq!(
        pid.trim(),
        daemon.0.id().to_string(),
        "the main process serves"
    );

    let other = said(place.hearth("umount").env("MAINPID", "1"));
    let words = [
        "is served by another process",
        "not by this unit (1)",
        "data.toml has changed",
    ];
    refused("umount of another unit", &other, 1, &words);
    assert_eq!(mounts_below(&place.mountpoint).len(), 1);

    succeed(place.hearth("umount").env("MAINPID", pid.trim()));
    assert!(
        daemon.0.wait().unwrap().success(),
        "a clean stop is no failure"
    );
    assert!(mounts_below(&place.mountpoint).is_empty());
}
