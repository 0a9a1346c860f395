//! What the soaks share: seeds, their variables, and a tree taken away whatever its flags say.

use hearth::{Errno, Kind, Process};
use hearth_model::Op;
use hearth_model::strategy::{Abilities, script};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Everything that Hearth can do.
const ABILITIES: Abilities = Abilities {
    ranges: true,
    projects: true,
    direct: true,
};

/// The next script of a thread.
pub fn next(runner: &mut TestRunner) -> Vec<(usize, Op)> {
    let script = script(ABILITIES, 1..130);
    // No lock of a script waits: threads could wait for each other for ever.
    script.new_tree(runner).expect("a script").current()
}

/// Random scripts of one thread.
pub fn runner(seed: u64, thread: usize) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&thread.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(Config::default(), rng)
}

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number"))
    })
}

/// Takes away everything in `dir`, whatever its flags say.
pub fn clear(root: &Process, dir: &[u8]) {
    free(root, dir);
    for entry in root.read_dir(dir).expect("a directory") {
        let path = [dir, b"/", &entry.name].concat();
        if entry.kind == Kind::Directory {
            clear(root, &path);
            root.rmdir(&path).expect("it is empty");
        } else {
            free(root, &path);
            root.unlink(&path).expect("nothing forbids it");
        }
    }
}

/// Clears the flags that forbid changes; what cannot be opened has none.
fn free(root: &Process, path: &[u8]) {
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let opened = root.open(path, flags, 0);
    let cleared = opened.and_then(|fd| {
        let cleared = root.set_flags(fd, 0);
        root.close(fd).and(cleared)
    });
    let has_none = [Errno::ELOOP, Errno::ENXIO, Errno::ENOTTY, Errno::EOPNOTSUPP];
    assert!(
        cleared.is_ok() || cleared.is_err_and(|errno| has_none.contains(&errno)),
        "{}: {cleared:?}",
        path.escape_ascii()
    );
}
