//! The kernel's switch for FUSE over io_uring, on while a mount is made that needs it.
//!
//! It is off by default and asked when a mount begins, so it is switched on for each mount and back
//! after it. Programs that switch take turns by a lock file, as the tests do. A program that is
//! told to end calls [`restore`] before it does.

use crate::failure::Context;
use std::fs::{self, File};
use std::io;
use std::sync::{Mutex, Once, PoisonError};

/// The kernel's parameter.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// What the parameter was, while it is switched on.
#[derive(Debug)]
enum SwitchState {
    AsItWas,
    On {
        before: String,
    },
    /// The program ends: nothing is switched any more.
    Ending,
}

static STATE: Mutex<SwitchState> = Mutex::new(SwitchState::AsItWas);

/// Switched on for as long as this lives.
#[derive(Debug)]
pub struct SwitchedOn {
    _turn: File,
}

/// Switches on where it is off and this program may. `None`: nothing to do, or to be done here; the
/// mount says what is in the way.
pub fn switched_on() -> Result<Option<SwitchedOn>, String> {
    switched_on_at(SWITCH)
}

fn switched_on_at(switch: &str) -> Result<Option<SwitchedOn>, String> {
    let is_on = |text: &str| text.starts_with(['Y', '1']);
    if fs::read_to_string(switch).is_err() {
        return Ok(None);
    }
    let place = std::env::temp_dir().join("hearth-enable-uring.lock");
    let turn = File::create(&place).and_then(|turn| turn.lock().map(|()| turn));
    let turn = turn.at(&place)?;
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = fs::read_to_string(switch).unwrap_or_default();
    if is_on(&before) || matches!(*state, SwitchState::Ending) || fs::write(switch, "Y").is_err() {
        return Ok(None);
    }
    let before = before.trim().to_owned();
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        eprintln!("{switch} is {before}: switched on while a mount is made that needs it");
    });
    *state = SwitchState::On { before };
    Ok(Some(SwitchedOn { _turn: turn }))
}

impl Drop for SwitchedOn {
    fn drop(&mut self) {
        put_back(SWITCH, SwitchState::AsItWas);
    }
}

/// Puts the parameter back, for good: the program ends.
pub fn restore() {
    put_back(SWITCH, SwitchState::Ending);
}

fn put_back(switch: &str, next: SwitchState) {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    if let SwitchState::On { before } = &*state {
        let written: io::Result<()> = fs::write(switch, before);
        if let Err(error) = written {
            eprintln!("{switch} stays on: {error}");
        }
    }
    if !matches!(*state, SwitchState::Ending) {
        *state = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: the state is the program's.
    #[test]
    fn a_switch_that_was_off_is_off_again_even_when_the_program_ends_meanwhile() {
        let name = format!("hearth-test-{}-switch", std::process::id());
        let place = std::env::temp_dir().join(name);
        let switch = place.to_str().unwrap();
        let read = || fs::read_to_string(switch).unwrap();

        assert!(switched_on_at(switch).unwrap().is_none(), "no such switch");
        fs::write(switch, "Y\n").unwrap();
        assert!(switched_on_at(switch).unwrap().is_none());
        assert_eq!(read(), "Y\n", "it was on");

        fs::write(switch, "N\n").unwrap();
        let on = switched_on_at(switch).unwrap().unwrap();
        assert_eq!(read(), "Y");
        put_back(switch, SwitchState::AsItWas);
        assert_eq!(read(), "N");
        drop(on);
        let on = switched_on_at(switch).unwrap();
        assert_eq!(read(), "Y");
        put_back(switch, SwitchState::Ending);
        assert_eq!(read(), "N");
        assert!(on.is_some());
        drop(on);
        assert!(switched_on_at(switch).unwrap().is_none(), "it ends");
        assert_eq!(read(), "N");
        fs::remove_file(switch).unwrap();
    }
}
