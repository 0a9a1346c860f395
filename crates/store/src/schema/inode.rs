//! Values of an inode: attributes, contents, directory counts, extended attributes.

use super::bytes::{Fields, put_time};
use super::key;
use crate::error::Result;
use hearth_backend::{Attrs, Kind, Xattr};

/// Attributes of an inode, and its target if it is a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Attributes.
    pub attrs: Attrs,
    /// Target.
    pub target: Box<[u8]>,
}

impl Inode {
    /// The value.
    pub fn encode(&self) -> Box<[u8]> {
        let a = &self.attrs;
        let mut out = Vec::with_capacity(85 + self.target.len());
        out.extend_from_slice(&a.generation.to_le_bytes());
        out.push(a.kind as u8);
        out.extend_from_slice(&a.perm.to_le_bytes());
        for number in [
            a.uid,
            a.gid,
            a.project,
            a.flags,
            a.nlink,
            a.extra_blocks,
            a.rdev,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for time in [a.atime, a.mtime, a.ctime, a.btime] {
            put_time(&mut out, time);
        }
        out.extend_from_slice(&(self.target.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.target);
        out.into()
    }

    /// The inode `ino` that `value` says.
    pub fn decode(ino: u64, value: &[u8]) -> Result<Inode> {
        let key = key::inode(ino);
        let mut fields = Fields::new(&key, value);
        let generation = fields.u32()?;
        let kind = Kind::from_dirent(fields.u8()?).ok_or_else(|| fields.wrong("kind"))?;
        let attrs = Attrs {
            generation,
            kind,
            perm: fields.u16()?,
            uid: fields.u32()?,
            gid: fields.u32()?,
            project: fields.u32()?,
            flags: fields.u32()?,
            nlink: fields.u32()?,
            extra_blocks: fields.u32()?,
            rdev: fields.u32()?,
            atime: fields.time()?,
            mtime: fields.time()?,
            ctime: fields.time()?,
            btime: fields.time()?,
        };
        let length = fields.u16()?;
        let target = fields.take(length.into())?.into();
        fields.end()?;
        Ok(Inode { attrs, target })
    }
}

/// Contents of a file. An inode without this value has the default one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Size in bytes.
    pub size: u64,
    /// Allocated pages.
    pub pages: u64,
    /// See `hearth_backend::Inode::touched`.
    pub touched: u64,
    /// The map that its extents are under; 0 for none.
    pub map: u64,
}

impl Contents {
    /// The value.
    pub fn encode(&self) -> Box<[u8]> {
        encode_four([self.size, self.pages, self.touched, self.map])
    }

    /// The contents of `ino` that `value` says.
    pub fn decode(ino: u64, value: &[u8]) -> Result<Contents> {
        let [size, pages, touched, map] = decode_four(&key::contents(ino), value)?;
        Ok(Contents {
            size,
            pages,
            touched,
            map,
        })
    }
}

/// What a directory has besides its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// Entries.
    pub entries: u64,
    /// Those that are directories.
    pub subdirectories: u64,
    /// See `hearth_backend::Inode::touched`.
    pub touched: u64,
    /// Its parent.
    pub parent: u64,
}

impl Directory {
    /// The value.
    pub fn encode(&self) -> Box<[u8]> {
        encode_four([self.entries, self.subdirectories, self.touched, self.parent])
    }

    /// The directory `ino` that `value` says.
    pub fn decode(ino: u64, value: &[u8]) -> Result<Directory> {
        let [entries, subdirectories, touched, parent] = decode_four(&key::directory(ino), value)?;
        Ok(Directory {
            entries,
            subdirectories,
            touched,
            parent,
        })
    }
}

fn encode_four(numbers: [u64; 4]) -> Box<[u8]> {
    numbers.map(u64::to_le_bytes).concat().into()
}

fn decode_four(key: &[u8], value: &[u8]) -> Result<[u64; 4]> {
    let mut fields = Fields::new(key, value);
    let numbers = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
    fields.end()?;
    Ok(numbers)
}

/// All extended attributes of an inode.
#[derive(Debug)]
pub struct Xattrs;

impl Xattrs {
    /// The value.
    pub fn encode(xattrs: &[Xattr]) -> Box<[u8]> {
        let mut out = Vec::new();
        out.extend_from_slice(&(xattrs.len() as u32).to_le_bytes());
        for (name, value) in xattrs {
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(&(value.len() as u32).to_le_bytes());
            out.extend_from_slice(name);
            out.extend_from_slice(value);
        }
        out.into()
    }

    /// The attributes of `ino` that `value` says.
    pub fn decode(ino: u64, value: &[u8]) -> Result<Vec<Xattr>> {
        let key = key::xattrs(ino);
        let mut fields = Fields::new(&key, value);
        let count = fields.u32()?;
        let mut xattrs = Vec::new();
        for _ in 0..count {
            let name = fields.u16()?;
            let length = fields.u32()?;
            let name = fields.take(name.into())?.into();
            let value = fields.take(length as usize)?.into();
            xattrs.push((name, value));
        }
        fields.end()?;
        Ok(xattrs)
    }
}
