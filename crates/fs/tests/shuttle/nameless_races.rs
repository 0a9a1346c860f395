//! Files without a name, while they get one.

use hearth::{AT_FDCWD, Credentials, Volume};
use hearth_sync::primitive::thread;

use crate::explore::explore;

const SCHEDULES: usize = 600;

/// A kernel forgets the file, which counts it among those whose room is to come back, while it gets
/// its first name.
#[test]
fn a_file_that_gets_a_name_is_not_waited_for() {
    explore(SCHEDULES, &["done"], || {
        let volume = Volume::memory();
        let process = volume.process(Credentials::root());
        let fd = process.open("/", libc::O_TMPFILE | libc::O_RDWR, 0o600);
        let fd = fd.unwrap();
        let ino = process.fstat(fd).unwrap().ino;
        let vfs = volume.vfs();
        vfs.grab(ino).unwrap();
        let forgetting = thread::spawn(move || vfs.forget(ino, 1));
        process
            .linkat(fd, "", AT_FDCWD, "/f", libc::AT_EMPTY_PATH)
            .unwrap();
        forgetting.join().unwrap();
        assert!(!volume.awaits_returns(), "it has a name");
        process.unlink("/f").unwrap();
        process.close(fd).unwrap();
        assert!(!volume.awaits_returns(), "it is gone");
        "done"
    });
}
