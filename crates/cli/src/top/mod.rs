//! `hearth top`: what a mounted volume does, live, as text or as JSON. `docs/design/top.md`.

mod args;
mod draw;
mod frame;
mod grid;
mod hot;
mod inbox;
mod live;
mod look;
mod number;
mod once;
mod operations;
mod page;
mod reading;
#[cfg(test)]
mod sample;
mod sampler;
mod screen;
mod state;
mod tab;
mod tenants;
mod volume;
mod waits;

pub use args::LiveArgs;

use crate::failure::Failure;
use crate::output;
use crate::patience;
use crate::which::mount_of;
use frame::Frame;
use hearth_sync::primitive::thread;
use reading::{Wanted, lost, read};
use state::State;
use std::io::IsTerminal;
use std::path::Path;
use tab::{Ranked, Tab};

/// Places of a line that is no terminal's.
const WIDTH: usize = 80;

/// Shows what a mounted volume does.
pub fn run(args: &LiveArgs) -> Result<(), Failure> {
    let mount = mount_of(args.mount.as_deref())?;
    if args.once || args.json {
        return once(&mount, args);
    }
    let no_screen = |why: &str| {
        let what = "'hearth top --once' prints what it would show, and --json is for programs";
        Err(Failure::usage(format!("{why}; {what}")))
    };
    match std::env::var("TERM").as_deref() {
        _ if !std::io::stdout().is_terminal() => {
            return no_screen("standard output is no terminal");
        }
        Ok("dumb" | "") | Err(_) => {
            return no_screen("this terminal cannot be drawn on (TERM is dumb or not set)");
        }
        _ => {}
    }
    // A working directory on the mount would keep it in use.
    let _ = rustix::process::chdir("/");
    // Refused before the screen is taken.
    read(&mount, &Wanted::default())?;
    let tab = args.tab.unwrap_or(Tab::Operations);
    // It says so itself, on the screen.
    patience::end();
    live::run(State::new(&mount, tab, args.interval), args.mouse)
}

/// What happens in one interval.
fn once(mount: &Path, args: &LiveArgs) -> Result<(), Failure> {
    let wanted = match (args.json, args.tab) {
        (true, None) => Wanted::all(&Ranked::ALL),
        (false, None) => Wanted::all(&[Ranked::Files]),
        (_, Some(tab)) => Wanted::of(tab, Ranked::Files),
    };
    let before = read(mount, &wanted)?;
    thread::sleep(args.interval);
    let now = read(mount, &wanted).map_err(|failure| lost(mount, &failure))?;
    if now.device != before.device {
        let other = Failure::refused("another filesystem is there now");
        return Err(lost(mount, &other));
    }
    let frame = Frame::between(mount, &before, &now);
    if args.json {
        return output::print(&format!("{}\n", frame.object(mount)));
    }
    output::print(&once::text(mount, &frame, args.tab, width()))
}

/// Places of a line of the terminal.
fn width() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col >= 40 => usize::from(size.ws_col),
        _ => WIDTH,
    }
}
