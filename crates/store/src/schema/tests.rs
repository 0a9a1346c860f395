use super::*;
use hearth_backend::{Attrs, Kind, Target, Time};

/// A small generator of numbers for tests.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}

type Decode = fn(&[u8]) -> bool;

fn attrs() -> Attrs {
    Attrs {
        generation: 7,
        kind: Kind::Symlink,
        perm: 0o4755,
        uid: 1,
        gid: 2,
        project: 3,
        flags: 4,
        nlink: 5,
        extra_blocks: 6,
        rdev: 8,
        atime: Time {
            sec: -1,
            nsec: 999_999_999,
        },
        mtime: Time { sec: 2, nsec: 3 },
        ctime: Time {
            sec: i64::MAX,
            nsec: 0,
        },
        btime: Time {
            sec: i64::MIN,
            nsec: 1,
        },
    }
}

fn block() -> Block {
    Block {
        segment: 9,
        at: 64,
        stored: 1000,
        length: 65536,
        codec: 1,
        digest: [3; 16],
    }
}

fn all_values() -> Vec<(Box<[u8]>, Decode)> {
    let mut block_bytes = Vec::new();
    block().encode(&mut block_bytes);
    let stored = Place::Stored {
        block: block(),
        within: 3,
    };
    let extent = |place| {
        Extent {
            pages: 5..10,
            place,
        }
        .encode()
    };
    let target = Target {
        ino: 5,
        generation: 6,
        kind: Kind::File,
    };
    let xattrs = [
        (b"user.a"[..].into(), b""[..].into()),
        (b"user.b"[..].into(), vec![1; 70_000].into()),
    ];
    let decode_extent: Decode = |bytes| Extent::decode(&key::extent(1, 9), bytes).is_ok();
    vec![
        (
            Inode {
                attrs: attrs(),
                target: b"to/there"[..].into(),
            }
            .encode(),
            |bytes| Inode::decode(1, bytes).is_ok(),
        ),
        (
            Contents {
                size: 1,
                pages: 2,
                touched: 3,
                map: 4,
            }
            .encode(),
            |bytes| Contents::decode(1, bytes).is_ok(),
        ),
        (Directory::default().encode(), |bytes| {
            Directory::decode(1, bytes).is_ok()
        }),
        (Xattrs::encode(&xattrs), |bytes| {
            Xattrs::decode(1, bytes).is_ok()
        }),
        (encode_target(&target), |bytes| {
            decode_target(b"N", bytes).is_ok()
        }),
        (extent(stored), decode_extent),
        (extent(Place::Unwritten), decode_extent),
        (extent(Place::Inline), decode_extent),
        (block_bytes.into(), |bytes| Block::decode(bytes).is_ok()),
        (Counters::default().encode(), |bytes| {
            Counters::decode(bytes).is_ok()
        }),
        (Used::default().encode(), |bytes| {
            Used::decode(b"U", bytes).is_ok()
        }),
        (Segment::default().encode(), |bytes| {
            Segment::decode(b"G", bytes).is_ok()
        }),
    ]
}

#[test]
fn values_come_back() {
    let inode = Inode {
        attrs: attrs(),
        target: b"x"[..].into(),
    };
    assert_eq!(Inode::decode(1, &inode.encode()).unwrap(), inode);
    let extent = Extent {
        pages: 5..10,
        place: Place::Stored {
            block: block(),
            within: 3,
        },
    };
    let key = key::extent(1, 9);
    assert_eq!(Extent::decode(&key, &extent.encode()).unwrap(), extent);
    let xattrs = vec![(b"user.a"[..].into(), b"v"[..].into())];
    assert_eq!(Xattrs::decode(1, &Xattrs::encode(&xattrs)).unwrap(), xattrs);
    let owner = Owner {
        uid: 1,
        gid: u32::MAX,
        project: 3,
    };
    assert_eq!(key::owner(&key::usage(&owner)).unwrap(), owner);
    assert_eq!(key::page(&key::extent(3, u64::MAX)).unwrap(), (3, u64::MAX));
    assert_eq!(key::number(&key::inode(77)).unwrap(), 77);
}

#[test]
fn a_value_that_was_cut_short_or_grew_is_an_error() {
    for (value, decode) in all_values() {
        assert!(decode(&value));
        let step = 1 + value.len() / 500;
        for length in (0..value.len()).step_by(step) {
            assert!(!decode(&value[..length]), "{length} of {}", value.len());
        }
        assert!(!decode(&[&value[..], &[0]].concat()));
    }
}

#[test]
fn any_bytes_are_decoded_or_refused_without_a_panic() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let values = all_values();
    for _ in 0..20_000 {
        let (value, decode) = &values[random.below(values.len() as u64) as usize];
        let mut bytes: Vec<u8> = value.iter().take(200).copied().collect();
        match random.below(3) {
            0 => bytes
                .iter_mut()
                .for_each(|byte| *byte = random.next() as u8),
            1 => {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
            _ => bytes.truncate(random.below(bytes.len() as u64) as usize),
        }
        decode(&bytes);
        let _ = key::number(&bytes);
        let _ = key::page(&bytes);
        let _ = key::owner(&bytes);
        let _ = Extent::decode(&bytes, value);
    }
}

#[test]
fn the_key_behind_a_prefix_is_behind_all_its_keys() {
    assert_eq!(key::behind(b"U").as_deref(), Some(&b"V"[..]));
    assert_eq!(key::behind(b"Ua\xff").as_deref(), Some(&b"Ub"[..]));
    assert_eq!(key::behind(b"\xff\xff"), None);
    assert!(*key::name(7, &[255; 255]) < *key::behind(&key::names(7)).unwrap());
    assert!(*key::names(7) < *key::name(7, b"a"));
}
