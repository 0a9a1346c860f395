//! The allocator of a daemon gives unused memory back sooner than it does by itself: of a volume
//! with little memory it would keep several times as much for a second.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The setting of mimalloc, in milliseconds; who has set it knows why.
const SETTING: &str = "MIMALLOC_PURGE_DELAY";
const DELAY: &str = "100";

/// Lets a program that is about to be started give memory back soon.
pub fn gives_back(command: &mut Command) {
    if std::env::var_os(SETTING).is_none() {
        command.env(SETTING, DELAY);
    }
}

/// Begins this program again with that setting, which the allocator reads at the begin. Returns if
/// it has the setting, or cannot begin again.
pub fn begin_again() {
    if std::env::var_os(SETTING).is_some() {
        return;
    }
    let args: Vec<OsString> = std::env::args_os().collect();
    let (Some((name, rest)), Ok(program)) = (args.split_first(), std::env::current_exe()) else {
        return;
    };
    let mut again = Command::new(program);
    gives_back(&mut again);
    // It comes back only if it could not begin; then it goes on as it is.
    let _ = again.arg0(name).args(rest).exec();
}
