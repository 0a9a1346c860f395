//! Encryption: nonces and passphrases.

use crate::case::{rounds, walk};
use crate::harness::{Random, demand_root, hearth, program, said, succeed};
use crate::stored::{daemon_with, source};
use hearth_testing::place::Place;
use hearth_testing::rounds::Service;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn passphrases(place: &Place) {
    fs::write(place.path().join("one"), "the first").unwrap();
    fs::write(place.path().join("two"), "the second").unwrap();
}

/// Nonces of all blocks of segments with the bytes that they sealed, as `docs/design/format.md`
/// says where these are.
fn nonces(kept: &Path, into: &mut HashMap<Vec<u8>, Vec<u8>>) -> usize {
    let mut count = 0;
    for (path, _) in walk(&kept.join("segments")).filter(|(_, m)| m.is_file()) {
        let bytes = fs::read(&path).unwrap();
        let mut at = 64;
        while at + 128 <= bytes.len() {
            assert_eq!(&bytes[at..at + 4], b"HBL1", "{}", path.display());
            let stored = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
            let sealed = &bytes[at + 64..at + 64 + stored];
            let (nonce, rest) = (sealed[..24].to_vec(), sealed[24..].to_vec());
            let before = into.insert(nonce, rest.clone());
            assert!(
                before.is_none_or(|before| before == rest),
                "one nonce for two texts"
            );
            at += 64 + stored;
            count += 1;
        }
    }
    // Frames of the log lie at multiples of 4,096; their nonce is at 80.
    for (path, _) in walk(&kept.join("log")).filter(|(_, m)| m.is_file()) {
        let bytes = fs::read(&path).unwrap();
        for frame in bytes
            .chunks(4096)
            .filter(|frame| frame.starts_with(b"HEARTHF1"))
        {
            let (nonce, rest) = (frame[80..104].to_vec(), frame[136..].to_vec());
            let before = into.insert(nonce, rest.clone());
            assert!(
                before.is_none_or(|before| before == rest),
                "one nonce for two frames"
            );
            count += 1;
        }
    }
    count
}

/// SR59: after a rollback the same key and nonce sealed other bytes.
#[test]
fn sr59_no_nonce_is_used_twice_over_kills_and_restored_copies() {
    demand_root();
    let place = Place::new("nonces").unwrap();
    passphrases(&place);
    let mount = place.directory("m").unwrap();
    let kept = place.path().join("s");
    let encrypt = format!("encrypt={}", place.path().join("one").display());
    let options = format!("create,transport=dev,{encrypt}");
    let mut daemon = daemon_with(&kept, &mount, &options);
    let mut seen = HashMap::new();
    let write = |seed: u64| {
        for n in 0..6 {
            let path = mount.join(format!("f{n}"));
            fs::write(&path, Random(seed + n).bytes(200_000)).unwrap();
            fs::write(mount.join(format!("s{n}")), seed.to_le_bytes()).unwrap();
            fs::File::open(&path).unwrap().sync_all().unwrap();
        }
    };
    daemon.start().unwrap();
    write(100);
    daemon.kill();
    let old = place.path().join("old");
    succeed(program("cp").arg("-a").arg(&kept).arg(&old));
    // Three futures of one past: the volume, a copy put back, and a copy beside it.
    let mut count = nonces(&kept, &mut seen);
    for seed in [200, 300, 400] {
        daemon.start().unwrap();
        write(seed);
        daemon.kill();
        count += nonces(&kept, &mut seen);
        fs::remove_dir_all(&kept).unwrap();
        succeed(program("cp").arg("-a").arg(&old).arg(&kept));
    }
    assert!(
        count > 60 && seen.len() > 40,
        "{count} seen, {} different",
        seen.len()
    );
}

/// SR60: a change of the passphrase that goes wrong locks out.
#[test]
fn sr60_a_change_of_the_passphrase_is_whole_or_not_at_all() {
    let place = Place::new("passphrase").unwrap();
    passphrases(&place);
    let kept = place.path().join("s");
    let at = |name: &str| place.path().join(name).display().to_string();
    let encrypt = |name: &str| format!("encrypt={}", at(name));
    succeed(hearth().args(["mkfs", &source(&kept), "-o", &encrypt("one")]));
    let opens = |name: &str| {
        let fsck = said(hearth().args(["fsck", "-o", &encrypt(name)]).arg(&kept));
        assert!(fsck.success() || fsck.status.code() == Some(8), "{fsck:?}");
        fsck.success()
    };
    let first = fs::read(kept.join("superblock")).unwrap();
    let (mut now, mut next) = ("one", "two");
    let mut random = Random(crate::harness::seed());
    for round in 0..rounds(3) {
        let mut change = Command::new(env!("CARGO_BIN_EXE_hearth"));
        let words = ["passphrase", "-o", &encrypt(now), "--new", &at(next)];
        let change = change.args(words).arg(&kept).stderr(Stdio::null());
        let mut change = change.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.below(700)));
        change.kill().unwrap();
        change.wait().unwrap();
        match (opens(now), opens(next)) {
            (true, false) => {}
            (false, true) => (now, next) = (next, now),
            both => panic!("round {round}: {both:?}"),
        }
    }
    let before = fs::read(kept.join("superblock")).unwrap();
    let wrong = said(
        hearth()
            .args(["passphrase", "-o", &encrypt(next), "--new", &at(now)])
            .arg(&kept),
    );
    assert!(!wrong.success(), "{wrong:?}");
    assert!(fs::read(kept.join("superblock")).unwrap() == before);
    if now == "one" {
        succeed(
            hearth()
                .args(["passphrase", "-o", &encrypt(now), "--new", &at(next)])
                .arg(&kept),
        );
    }
    assert!(!opens("one") && opens("two"));
    // As docs/design/format.md says: an old slot that was kept aside opens for ever.
    fs::write(kept.join("superblock"), first).unwrap();
    let old = said(hearth().args(["info", "-o", &encrypt("one")]).arg(&kept));
    assert!(!old.err.contains("no key"), "{old:?}");
}
