use super::*;
use crate::error::Error;
use std::collections::HashSet;

const VOLUME: [u8; 16] = [7; 16];
const CHEAP: Costs = Costs {
    memory: 64,
    passes: 1,
    lanes: 1,
};
const ALL: [Compression; 4] = [
    Compression::None,
    Compression::Lz4,
    Compression::Zstd(3),
    Compression::Zstd(19),
];

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

fn text(len: usize) -> Vec<u8> {
    let words = ["inode ", "extent ", "segment\n", "of ", "page ", "0x7f3a "];
    let picks = noise(len, 3);
    let mut bytes: Vec<u8> = picks
        .iter()
        .flat_map(|pick| words[usize::from(*pick) % words.len()].bytes())
        .collect();
    bytes.truncate(len);
    bytes
}

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.into()).expect("a passphrase")
}

/// Appends `plain` to `out` and packs it there.
fn pack(compression: Compression, plain: &[u8], out: &mut Vec<u8>) -> Codec {
    let begin = out.len();
    out.extend_from_slice(plain);
    compression.pack_from(out, begin, &mut Vec::new())
}

#[test]
fn what_is_packed_unpacks_to_the_same_bytes() {
    let mut mixed = text(32 << 10);
    mixed.extend(noise(32 << 10, 1));
    for plain in [
        text(64 << 10),
        noise(64 << 10, 2),
        vec![0; 4096],
        mixed,
        vec![],
        vec![5],
    ] {
        for compression in ALL {
            let mut packed = vec![1, 2, 3];
            let codec = pack(compression, &plain, &mut packed);
            assert_eq!(packed[..3], [1, 2, 3]);
            let packed = &packed[3..];
            assert!(packed.len() <= plain.len());
            assert_eq!(
                unpack(codec, packed, plain.len()).as_deref(),
                Some(&plain[..])
            );
            if codec == Codec::Trimmed {
                // What is missing is zeros; only what is too long is seen.
                assert_eq!(unpack(codec, packed, packed.len() - 1), None);
                continue;
            }
            assert_eq!(unpack(codec, packed, plain.len() + 1), None);
            if !packed.is_empty() {
                assert_eq!(
                    unpack(codec, &packed[..packed.len() - 1], plain.len()),
                    None
                );
                assert_eq!(unpack(codec, packed, plain.len() - 1), None);
            }
        }
    }
}

#[test]
fn zeros_at_the_end_take_no_room_without_a_codec() {
    let mut small = noise(100, 3);
    small.push(1);
    small.resize(4096, 0);
    let mut packed = vec![9; 7];
    assert_eq!(pack(Compression::None, &small, &mut packed), Codec::Trimmed);
    assert_eq!(packed.len(), 7 + 101);
    assert_eq!(unpack(Codec::Trimmed, &packed[7..], 4096), Some(small));

    // A block has a byte at least.
    let mut packed = Vec::new();
    assert_eq!(
        pack(Compression::None, &[0; 4096], &mut packed),
        Codec::Trimmed
    );
    assert_eq!(packed, [0]);
}

#[test]
fn text_and_zeros_are_packed_and_noise_is_kept_as_it_is() {
    for &compression in &ALL[1..] {
        let codec = |plain: &[u8]| {
            let mut packed = Vec::new();
            let codec = pack(compression, plain, &mut packed);
            (codec, packed.len())
        };
        let (packed, len) = codec(&text(64 << 10));
        assert_ne!(packed, Codec::None);
        assert!(len < 32 << 10);
        assert_ne!(codec(&[0; 65536]).0, Codec::None);
        assert_eq!(codec(&noise(64 << 10, 5)), (Codec::None, 64 << 10));
    }
}

#[test]
fn a_block_whose_pages_differ_is_packed_where_that_gains_an_eighth() {
    // Pages of zeros and of noise in turn, as a database file has them.
    let mut plain = Vec::new();
    for page in 0..8 {
        plain.extend(noise(4096, page));
        plain.extend([0; 4096]);
    }
    for &compression in &ALL[1..] {
        let mut packed = Vec::new();
        assert_ne!(pack(compression, &plain, &mut packed), Codec::None);
        assert!(packed.len() < plain.len() * 5 / 8);
    }
}

#[test]
fn what_is_sealed_opens_with_the_same_key_purpose_and_data_alone() {
    let key = VolumeKey::generate();
    let cipher = Cipher::new(&key, Purpose::Frames);
    for plain in [&b""[..], b"a", &noise(5000, 1)] {
        let sealed = cipher.seal(b"place", plain);
        assert_eq!(sealed.len(), plain.len() + OVERHEAD);
        assert_eq!(cipher.open(b"place", &sealed).expect("open"), plain);
        let same = Cipher::new(&key, Purpose::Frames);
        assert_eq!(same.open(b"place", &sealed).expect("open"), plain);
        let wrong = |result: crate::Result<Vec<u8>>| {
            assert!(matches!(result, Err(Error::WrongKey { .. })));
        };
        wrong(cipher.open(b"elsewhere", &sealed));
        wrong(Cipher::new(&key, Purpose::Values).open(b"place", &sealed));
        wrong(Cipher::new(&VolumeKey::generate(), Purpose::Frames).open(b"place", &sealed));
    }
}

#[test]
fn sealed_bytes_with_any_bit_flipped_or_cut_off_do_not_open() {
    let cipher = Cipher::new(&VolumeKey::generate(), Purpose::Values);
    let sealed = cipher.seal(b"", b"some bytes of a value");
    for at in 0..sealed.len() {
        for bit in 0..8 {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1 << bit;
            assert!(cipher.open(b"", &flipped).is_err());
        }
        assert!(cipher.open(b"", &sealed[..at]).is_err());
    }
}

#[test]
fn no_nonce_repeats_over_rollbacks_and_copies() {
    // A rollback or a copy is another cipher with the same key that goes on with the same bytes.
    let key = VolumeKey::generate();
    let mut nonces = HashSet::new();
    for _life in 0..50 {
        for purpose in [Purpose::Blocks, Purpose::Frames, Purpose::Values] {
            let cipher = Cipher::new(&key, purpose);
            for epoch in 0..100u64 {
                let sealed = cipher.seal(&epoch.to_le_bytes(), b"the same");
                let nonce: [u8; 24] = sealed[..24].try_into().expect("24 bytes");
                assert!(nonces.insert(nonce));
            }
        }
    }
}

#[test]
fn a_key_opens_with_each_of_its_passphrases_and_no_other() {
    let key = VolumeKey::generate();
    let mut slots = KeySlots::default();
    for text in ["one", "two"] {
        slots
            .add(&VOLUME, &key, &passphrase(text), CHEAP)
            .expect("add");
    }
    let slots = KeySlots::decode(&slots.encode()).expect("the same");
    for text in ["one", "two"] {
        let opened = slots.unlock(&VOLUME, &passphrase(text)).expect("unlock");
        assert_eq!(opened.bytes(), key.bytes());
    }
    let wrong = slots.unlock(&VOLUME, &passphrase("three"));
    assert!(matches!(wrong, Err(Error::WrongKey { .. })));
    assert!(slots.unlock(&[8; 16], &passphrase("one")).is_err());
}

#[test]
fn changing_a_passphrase_leaves_the_old_slots_usable_until_the_new_ones_replace_them() {
    let key = VolumeKey::generate();
    let mut before = KeySlots::default();
    before
        .add(&VOLUME, &key, &passphrase("old"), CHEAP)
        .expect("add");
    before
        .add(&VOLUME, &key, &passphrase("spare"), CHEAP)
        .expect("add");
    let after = before
        .changed(&VOLUME, &passphrase("old"), &passphrase("new"), CHEAP)
        .expect("change");
    let opens = |slots: &KeySlots, text| slots.unlock(&VOLUME, &passphrase(text)).is_ok();
    assert!(opens(&before, "old") && opens(&before, "spare") && !opens(&before, "new"));
    assert!(!opens(&after, "old") && opens(&after, "spare") && opens(&after, "new"));
    assert_eq!((before.len(), after.len()), (2, 2));
    let opened = after.unlock(&VOLUME, &passphrase("new")).expect("unlock");
    assert_eq!(opened.bytes(), key.bytes());
    let refused = after.changed(&VOLUME, &passphrase("old"), &passphrase("x"), CHEAP);
    assert!(matches!(refused, Err(Error::WrongKey { .. })));
}

#[test]
fn a_torn_or_flipped_slot_opens_with_nothing_and_the_others_go_on() {
    let key = VolumeKey::generate();
    let mut slots = KeySlots::default();
    for text in ["one", "two"] {
        slots
            .add(&VOLUME, &key, &passphrase(text), CHEAP)
            .expect("add");
    }
    let bytes = slots.encode();
    for at in 0..SLOT_LEN {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x80;
        let slots = KeySlots::decode(&flipped).expect("whole slots");
        assert!(
            slots.unlock(&VOLUME, &passphrase("one")).is_err(),
            "byte {at}"
        );
        assert!(
            slots.unlock(&VOLUME, &passphrase("two")).is_ok(),
            "byte {at}"
        );
    }
    assert_eq!(KeySlots::decode(&bytes[..bytes.len() - 1]), None);
}

#[test]
fn the_last_passphrase_stays_and_there_is_a_limit() {
    let key = VolumeKey::generate();
    let mut slots = KeySlots::default();
    for number in 0..SLOTS_MAX {
        let text = passphrase(&format!("number {number}"));
        slots.add(&VOLUME, &key, &text, CHEAP).expect("add");
    }
    let more = slots.add(&VOLUME, &key, &passphrase("more"), CHEAP);
    assert!(matches!(more, Err(Error::NoSpace { .. })));
    for number in 1..SLOTS_MAX {
        let text = passphrase(&format!("number {number}"));
        slots.remove(&VOLUME, &text).expect("remove");
    }
    assert!(slots.remove(&VOLUME, &passphrase("number 0")).is_err());
    assert!(slots.unlock(&VOLUME, &passphrase("number 0")).is_ok());
}

#[test]
fn a_passphrase_comes_from_a_file_without_its_newline() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("passphrase");
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("write");
        Passphrase::from_source(path.to_str().expect("text"))
    };
    assert_eq!(read(b"secret\n").expect("read").bytes(), b"secret");
    assert_eq!(
        read(b" two words \n\n").expect("read").bytes(),
        b" two words \n"
    );
    assert_eq!(read(&[b'x'; 4096]).expect("read").bytes().len(), 4096);
    for wrong in [&b""[..], b"\n", &[b'x'; 5000]] {
        assert!(matches!(read(wrong), Err(Error::WrongKey { .. })));
    }
    let endless = Passphrase::from_source("/dev/zero");
    assert!(matches!(endless, Err(Error::WrongKey { .. })));
    let missing = Passphrase::from_source("/nowhere/at/all");
    assert!(matches!(missing, Err(Error::Io { op: "open", .. })));
}

/// Once, who opened it waited for whoever would write.
#[test]
fn a_named_pipe_is_no_file_with_a_passphrase_and_a_pipe_of_a_shell_is() {
    use std::os::fd::AsRawFd;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("a program").success());
    let named = Passphrase::from_file(&path);
    assert!(matches!(named, Err(Error::WrongKey { .. })), "{named:?}");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    std::io::Write::write_all(&mut writer, b"secret\n").expect("room");
    drop(writer);
    let source = format!("/proc/self/fd/{}", reader.as_raw_fd());
    let read = Passphrase::from_source(&source).expect("read");
    assert_eq!(read.bytes(), b"secret");
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!(
        "{:?} {:?} {:?}",
        passphrase("secret"),
        VolumeKey::generate(),
        Cipher::new(&VolumeKey::generate(), Purpose::Blocks)
    );
    assert_eq!(shown, "Passphrase VolumeKey Cipher");
}
