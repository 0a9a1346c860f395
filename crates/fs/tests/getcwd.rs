//! `getcwd` beside others who rename the directories on the way up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::{Credentials, Volume};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Renames beside which a path was not found. It takes the time of a few thousand.
const RENAMES: u64 = 2_000_000;
/// Nested directories, each of which is renamed by a thread of its own.
const DEPTH: usize = 8;

/// Regression: a rename in place never waited for who looked for the path, so a directory had
/// another name by the time the other names had been found.
#[test]
fn a_path_is_found_beside_who_renames_directories_in_place_all_the_time() {
    let volume = Volume::memory();
    let process = volume.process(Credentials::root());
    process.mkdir("/many", 0o755).unwrap();
    for n in 0..100_000 {
        process.mkdir(format!("/many/{n}"), 0o755).unwrap();
    }
    let mut path = "/many/top".to_owned();
    process.mkdir(&path, 0o755).unwrap();
    let mut places = vec![];
    for _ in 0..DEPTH {
        let place = volume.process(Credentials::root());
        place.chdir(&path).unwrap();
        places.push(place);
        path += "/0";
        process.mkdir(&path, 0o755).unwrap();
    }
    process.chdir(&path).unwrap();
    let (renames, is_found) = (AtomicU64::new(0), AtomicBool::new(false));
    let (renames, is_found) = (&renames, &is_found);
    std::thread::scope(|scope| {
        for place in places {
            scope.spawn(move || {
                for n in 0.. {
                    if is_found.load(Relaxed) || renames.fetch_add(1, Relaxed) >= RENAMES {
                        break;
                    }
                    place.rename(n.to_string(), (n + 1).to_string()).unwrap();
                }
            });
        }
        while renames.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        let path = String::from_utf8(process.getcwd().unwrap()).unwrap();
        let meanwhile = renames.load(Relaxed);
        is_found.store(true, Relaxed);
        assert!(path.starts_with("/many/top/"), "{path}");
        assert!(meanwhile < RENAMES, "found when nobody renamed any more");
    });
}
