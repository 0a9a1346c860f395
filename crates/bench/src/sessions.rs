//! Clients of a daemon that has a session of its own, as `hearth mount` gives it in the
//! background: a kernel that shares processors between sessions (`sched_autogroup_enabled`) then
//! has daemon and client in two groups. By default, and without the policy that leaves the client
//! where it is.

use crate::compare::Contestant;
use crate::daemons::{Each, hearth_in_session};
use crate::mounted::Mounted;
use crate::pinned::allowed_cores;
use std::fs::File;
use std::hint::spin_loop;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Checkouts, told from those of a daemon in the session of its clients.
pub const APART: &str = "git checkout, daemon in its own session";
/// The same while a program computes on every core.
pub const BESIDE: &str = "git checkout beside programs that compute";
/// A client that computes by itself before each open.
pub const BETWEEN: &str = "10,000 opens, each after 0.1 ms of computing";

/// Both transports, by default and with `sched_policy=other`, and tmpfs.
pub fn contestants<'a>() -> Vec<Each<'a>> {
    vec![
        hearth_in_session("uring-session", "transport=uring"),
        hearth_in_session("uring-session-other", "transport=uring,sched_policy=other"),
        hearth_in_session("dev-session", "transport=dev"),
        hearth_in_session("dev-session-other", "transport=dev,sched_policy=other"),
        Contestant {
            name: "tmpfs",
            make: Box::new(Mounted::tmpfs),
        },
    ]
}

/// Seconds of [`BETWEEN`] in `directory`, the computing with them.
///
/// # Errors
/// The file cannot be made or opened.
pub fn compute_and_open(directory: &Path) -> Result<f64, String> {
    let file = directory.join("file");
    let failed = |error| format!("{}: {error}", file.display());
    File::create(&file).map_err(failed)?;
    let began = Instant::now();
    for _ in 0..10_000 {
        let computed = Instant::now() + Duration::from_micros(100);
        while Instant::now() < computed {
            spin_loop();
        }
        File::open(&file).map_err(failed)?;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// A program on every core that computes, each in a session of its own; they end when it is
/// dropped.
pub struct Computing(Vec<Child>);

impl Computing {
    /// # Errors
    /// They cannot be started.
    pub fn start() -> Result<Computing, String> {
        let mut all = Computing(Vec::new());
        for _ in allowed_cores() {
            let mut program = Command::new("setsid");
            program.args(["sh", "-c", "while :; do :; done"]);
            let child = program.spawn();
            all.0
                .push(child.map_err(|error| format!("setsid: {error}"))?);
        }
        Ok(all)
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended needs no end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
