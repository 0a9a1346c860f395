//! The loops that are counted: one operation of one `Process` again and again, on warm objects.

use crate::pinned::{allowed_cores, pin};
use hearth::{Credentials, Errno, Fd, Process, Volume};

/// Files that a loop goes round, so that the place of one name in its table decides nothing.
const FILES: usize = 64;
/// Times that a loop runs before it is counted: tables have grown, garbage is being freed.
const WARM: usize = 1_024;
/// Times that it is counted: many turns of the collector, which works at every 128th pin.
pub const TIMES: usize = 8_192;
/// Bytes of a read.
const PAGE: usize = 4_096;

/// A name for tables and one operation, given the number of the turn.
type Loop = (&'static str, fn(&World, usize) -> Result<(), Errno>);

/// What is counted, in the order of its counts.
pub const LOOPS: [Loop; 6] = [
    ("open+close", |world, turn| {
        let fd = world.process.open(world.file(turn), libc::O_RDONLY, 0)?;
        world.process.close(fd)
    }),
    ("stat, depth 1", |world, turn| {
        world.process.stat(world.file(turn)).map(drop)
    }),
    ("stat, depth 8", |world, turn| {
        world.process.stat(&world.deep[turn % FILES]).map(drop)
    }),
    ("create+unlink", |world, turn| {
        let name = &world.new[turn % FILES];
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        let fd = world.process.open(name, flags, 0o644)?;
        world.process.close(fd)?;
        world.process.unlink(name)
    }),
    ("pread 4 KiB", |world, turn| {
        let mut page = [0; PAGE];
        let at = (turn % FILES * PAGE) as u64;
        let got = world.process.pread(world.open, &mut page, at)?;
        if got == PAGE && page[0] == 7 {
            Ok(())
        } else {
            Err(Errno::EIO)
        }
    }),
    ("readdir of 64", |world, _| {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let fd = world.process.open(&world.listed, flags, 0)?;
        let mut bytes = 0;
        world.process.getdents(fd, &mut |entry| {
            bytes += entry.name.len();
            true
        })?;
        world.process.close(fd)?;
        // `.`, `..` and as many names of at least this length.
        if bytes > FILES * "file-0".len() {
            Ok(())
        } else {
            Err(Errno::EIO)
        }
    }),
];

/// What the loops work on.
pub struct World {
    process: Process,
    shallow: Vec<String>,
    deep: Vec<String>,
    /// The directory of the deep ones.
    listed: String,
    new: Vec<String>,
    open: Fd,
}

impl World {
    fn new() -> Result<World, Errno> {
        let process = Volume::memory().process(Credentials::root());
        let mut below = String::new();
        for n in 1..8 {
            below = format!("{below}/directory-{n}");
            process.mkdir(&below, 0o755)?;
        }
        let names = |dir: &str, kind: &str| -> Vec<String> {
            (0..FILES).map(|n| format!("{dir}/{kind}-{n}")).collect()
        };
        let (shallow, deep) = (names("", "file"), names(&below, "file"));
        for path in shallow.iter().chain(&deep) {
            process.mknod(path, libc::S_IFREG | 0o644, 0)?;
        }
        let open = process.open("/pages", libc::O_CREAT | libc::O_RDWR, 0o644)?;
        process.pwrite(open, &[7; FILES * PAGE], 0)?;
        Ok(World {
            process,
            shallow,
            deep,
            listed: below,
            new: names("", "new"),
            open,
        })
    }

    fn file(&self, turn: usize) -> &str {
        &self.shallow[turn % FILES]
    }
}

/// Runs all loops; callgrind counts what `counted` does.
///
/// # Errors
/// The library refuses.
pub fn run() -> Result<(), String> {
    // Counters split when a second core uses them.
    let core = *allowed_cores().first().ok_or("no core may be used")?;
    pin(core).map_err(|error| format!("core {core}: {error}"))?;
    let world = World::new().map_err(|errno| format!("preparing: {errno}"))?;
    for (name, operation) in LOOPS {
        let failed = |errno: Errno| format!("{name}: {errno}");
        (0..WARM)
            .try_for_each(|turn| operation(&world, turn))
            .map_err(failed)?;
        counted(&world, operation).map_err(failed)?;
    }
    Ok(())
}

/// Callgrind knows this function by its name.
#[inline(never)]
fn counted(world: &World, operation: fn(&World, usize) -> Result<(), Errno>) -> Result<(), Errno> {
    (0..TIMES).try_for_each(|turn| operation(world, turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_does_what_its_name_says() {
        let world = World::new().unwrap();
        let depth = |path: &str| path.matches('/').count();
        assert!(world.shallow.iter().all(|path| depth(path) == 1));
        assert!(world.deep.iter().all(|path| depth(path) == 8));
        let files = |world: &World| world.process.volume().inodes_in_memory();
        let before = files(&world);
        for (name, operation) in LOOPS {
            (0..2 * FILES).for_each(|turn| operation(&world, turn).expect(name));
            assert_eq!(files(&world), before, "{name}");
            assert_eq!(world.process.open_fds(), [world.open], "{name}");
        }
        // What the loops work on is what decides whether they succeed.
        world.process.ftruncate(world.open, 0).unwrap();
        for path in world.shallow.iter().chain(&world.deep) {
            world.process.unlink(path).unwrap();
        }
        for (name, operation) in LOOPS {
            assert_eq!(
                operation(&world, 0).is_ok(),
                name == "create+unlink",
                "{name}"
            );
        }
    }
}
