//! A terminal of 80 columns and 24 lines, by tmux.

use crate::harness::{Mounted, Said, hearth, program, said, succeed};
use std::cell::Cell;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// No line of its own, and a screen that stays when its program has ended.
const SETTINGS: &str = "\
set -g status off
set -g remain-on-exit on
set -g escape-time 10
set -g default-terminal tmux-256color
";

/// A server of tmux with one screen, in which one program runs. Dropping it ends both.
pub struct Terminal {
    name: String,
    has_ended: Cell<bool>,
}

/// The exit status of a process that has ended and that its parent has not asked after: tmux 3.3a
/// sees the end of the terminal, and now and then never asks.
fn left_by(process: u32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let code: i32 = fields.rsplit(' ').next()?.trim().parse().ok()?;
    fields.starts_with('Z').then_some(code >> 8)
}

/// Where the threads of a process are that has not ended.
fn threads_of(process: u32) -> String {
    let script = format!(
        "cd /proc/{process}/task && for t in *; do echo \"$t $(cat $t/comm)\"; \
         grep State $t/status; cat $t/syscall $t/wchan $t/stack; echo; done; \
         ps -o pid,ppid,stat,wchan:30,args --ppid {process} -p {process}"
    );
    said(program("sh").args(["-c", &script])).out
}

impl Terminal {
    /// Runs a script; `$HEARTH` is the program.
    pub fn new(mounted: &Mounted, script: &str) -> Terminal {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hearth-test-{}-{number}", std::process::id());
        let directory = mounted.outside(&format!("terminal-{number}"));
        let settings = directory.join("settings");
        std::fs::write(&settings, SETTINGS).unwrap();
        let terminal = Terminal {
            name,
            has_ended: Cell::new(false),
        };
        let mut tmux = terminal.tmux("-f");
        tmux.arg(&settings).current_dir(&directory);
        tmux.args([
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "sh",
            "-c",
            script,
        ]);
        tmux.env("HEARTH", hearth().get_program())
            .env("LC_ALL", "C");
        succeed(tmux.env_remove("NO_COLOR").env_remove("COLORTERM"));
        terminal
    }

    fn tmux(&self, verb: &str) -> Command {
        let mut tmux = program("tmux");
        tmux.args(["-L", &self.name, verb]);
        tmux
    }

    /// Presses a key by its name, or types letters.
    pub fn press(&self, keys: &str) {
        succeed(self.tmux("send-keys").arg(keys));
    }

    /// Presses the left button of the mouse, as a terminal of today tells it. Columns and lines
    /// count from 1.
    pub fn click(&self, column: u32, line: u32) {
        let told = format!("\x1b[<0;{column};{line}M");
        succeed(self.tmux("send-keys").arg("-l").arg(told));
    }

    /// What stands on the screen.
    pub fn lines(&self) -> Vec<String> {
        let shown = succeed(self.tmux("capture-pane").arg("-p"));
        shown
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    /// The screen with the codes of its looks.
    pub fn coded(&self) -> String {
        succeed(self.tmux("capture-pane").args(["-p", "-e"]))
    }

    /// Waits until the screen shows something; what it shows then.
    pub fn until(&self, what: &str, so: impl Fn(&[String]) -> bool) -> Vec<String> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let lines = self.lines();
            if lines.len() > 4 && so(&lines) {
                return lines;
            }
            assert!(
                Instant::now() < end,
                "this did not come: {what}\n{lines:#?}"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the program has ended, with this status.
    pub fn until_dead(&self, status: i32) {
        let end = Instant::now() + Duration::from_secs(60);
        let wanted = format!("1 {status}");
        loop {
            let told = self.told("#{pane_dead} #{pane_dead_status}");
            if told == wanted || told == "1" && left_by(self.process()) == Some(status) {
                return;
            }
            // The status comes a moment after the end.
            let is_early = matches!(&*told, "0" | "1") && Instant::now() < end;
            let signal = || self.told("#{pane_dead_signal}");
            assert!(
                is_early,
                "{told}, not {wanted}, signal {}\n{:#?}\n{}",
                signal(),
                self.lines(),
                threads_of(self.process())
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether the screen is the one that programs draw on.
    pub fn is_alternate(&self) -> bool {
        self.told("#{alternate_on}") == "1"
    }

    /// The process that runs in it.
    pub fn process(&self) -> u32 {
        self.told("#{pane_pid}").parse().unwrap()
    }

    /// Gives it another size.
    pub fn resize(&self, columns: u32, lines: u32) {
        let size = [columns, lines].map(|number| number.to_string());
        succeed(
            self.tmux("resize-window")
                .args(["-x", &size[0], "-y", &size[1]]),
        );
    }

    /// Ends the terminal under its program.
    pub fn hang_up(&self) {
        self.has_ended.set(true);
        succeed(&mut self.tmux("kill-server"));
    }

    fn told(&self, what: &str) -> String {
        let told = succeed(self.tmux("display-message").args(["-p", what]));
        told.trim().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.has_ended.get() {
            return;
        }
        let Said { status, err, .. } = said(&mut self.tmux("kill-server"));
        assert!(status.success() || thread::panicking(), "tmux: {err}");
    }
}
