//! Whole streams of any members.

use super::*;
use crate::dump::block::padding;
use crate::dump::entry::{Entry, FileMap, What};
use crate::dump::stream::DumpWriter;

/// Bytes behind the last member: the digest and two blocks of zeros.
pub const END: usize = 2048;

pub fn member(path: &[u8], inode: Inode) -> Entry {
    mapped(path, inode, FileMap::default())
}

pub fn mapped(path: &[u8], inode: Inode, map: FileMap) -> Entry {
    Entry {
        path: path.to_vec(),
        what: What::Inode(Box::new(inode), map),
    }
}

pub fn link(path: &[u8], to: &[u8]) -> Entry {
    Entry {
        path: path.to_vec(),
        what: What::Link(to.to_vec()),
    }
}

/// A stream of the root and these members, whose digest is right.
pub fn sealed(last_inode: u64, members: &[Entry]) -> Vec<u8> {
    let head = Head {
        last_inode,
        ..Head::default()
    };
    let mut out = Vec::new();
    let mut to = DumpWriter::new(&mut out, &head).expect("a head");
    let root = member(b"", inode(ROOT, attrs(Kind::Directory)));
    for entry in [&root].into_iter().chain(members) {
        let (text, bytes) = match &entry.what {
            What::Inode(inode, map) if inode.attrs.kind == Kind::File => {
                let text = map.is_sparse(inode.size).then(|| map.encode());
                (text.unwrap_or_default(), map.bytes())
            }
            _ => (Vec::new(), 0),
        };
        let filled = padding(text.len() as u64);
        let stored = (text.len() + filled) as u64 + bytes;
        to.member(entry, stored).expect("a member");
        to.write(&text).expect("a map");
        to.write(&vec![0; filled]).expect("a map");
        to.write(&vec![b'x'; bytes as usize]).expect("bytes");
        to.pad(stored).expect("bytes");
    }
    to.finish().expect("an end");
    out
}
