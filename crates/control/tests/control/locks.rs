//! The files of the lock profile. The profile is of the process, so the tests take turns.

use crate::fixture::{create, read, volume, write};
use hearth::{Credentials, Errno, LockSampling, Process, Volume};
use std::sync::{Mutex, MutexGuard, PoisonError};

static TURNS: Mutex<()> = Mutex::new(());

struct Turn {
    volume: Volume,
    process: Process,
    _turn: MutexGuard<'static, ()>,
}

impl Turn {
    fn new() -> Turn {
        let turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        let volume = volume();
        volume.stop_lock_profile();
        volume.reset_lock_profile();
        Turn {
            process: volume.process(Credentials::root()),
            volume,
            _turn: turn,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.volume.stop_lock_profile();
        self.volume.reset_lock_profile();
    }
}

#[test]
fn the_switch_of_the_lock_profile_takes_four_words_only() {
    let turn = Turn::new();
    assert!(read(&turn.process, "/.hearth/locks").contains("off; write 'on' to .hearth/locks"));
    for (word, running, exact) in [
        ("on", true, false),
        ("exact\n", true, true),
        ("reset", true, true),
        ("off", false, true),
    ] {
        assert_eq!(
            write(&turn.process, "/.hearth/locks", word),
            Ok(word.len()),
            "{word}"
        );
        let profile = turn.volume.lock_profile();
        assert_eq!((profile.running, profile.exact), (running, exact), "{word}");
    }
    for nonsense in ["", "On", "on off", "1", "exactly", "\0"] {
        let answer = write(&turn.process, "/.hearth/locks", nonsense);
        assert_eq!(answer, Err(Errno::EINVAL), "{nonsense}");
        assert!(!turn.volume.lock_profile().running, "{nonsense}");
    }
    assert_eq!(
        write(&turn.process, "/.hearth/locks.json", "on"),
        Err(Errno::EACCES)
    );
}

#[test]
fn the_files_of_the_lock_profile_show_what_the_library_returns() {
    let turn = Turn::new();
    assert!(turn.volume.start_lock_profile(LockSampling::All));
    turn.process
        .close(create(&turn.process, "/file", 0))
        .unwrap();
    turn.volume.stop_lock_profile();
    let look = || {
        let profile = turn.volume.lock_profile();
        (profile.text(Default::default()), profile.json())
    };
    let files = || {
        let text = read(&turn.process, "/.hearth/locks");
        (text, read(&turn.process, "/.hearth/locks.json"))
    };
    // What a thread of another test holds at the stop is counted when it lets go.
    let is_settled = (0..1000).any(|_| {
        let (before, shown) = (look(), files());
        before == look() && {
            assert_eq!(shown, before);
            true
        }
    });
    assert!(is_settled, "others count on after the stop");
    turn.volume.reset_lock_profile();
    assert_eq!(turn.volume.lock_profile().locks, []);
}
