//! Damage of files.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Flips a bit of the byte at `at`.
pub fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path);
    let file = file.expect("the file is there");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)
        .expect("the byte is there");
    file.write_all_at(&[byte[0] ^ 8], at)
        .expect("it is written");
}
