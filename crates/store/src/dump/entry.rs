//! A member of a dump: an inode with its path, or another name of one that came before.

use super::block::{TarHeader, kind};
use super::error::StreamFault;
use super::pax::{Records, key_of_xattr, time_text, xattr_of_key};
use super::{PAGE, SIZE_MAX};
use hearth_backend::{Attrs, Inode, Kind, Time, Xattr};
use std::ops::Range;

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path from the root, without a slash before it; empty for the root itself.
    pub path: Vec<u8>,
    /// What is there.
    pub what: What,
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An inode that has not come before. Its parent and its counts of entries are not kept: the
    /// paths say them.
    Inode(Box<Inode>, FileMap),
    /// The file that this earlier path names.
    Link(Vec<u8>),
}

/// Where a file has contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileMap {
    /// Ranges of bytes that follow, by rising offset. The last ends at the size at the latest.
    pub written: Vec<Range<u64>>,
    /// Pages that are allocated and read as zeros, also behind the end.
    pub unwritten: Vec<Range<u64>>,
}

impl FileMap {
    /// Bytes that follow.
    pub fn bytes(&self) -> u64 {
        self.written
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }

    /// Whether a file of `size` bytes has any hole, so that not all of its bytes follow.
    pub fn is_sparse(&self, size: u64) -> bool {
        self.bytes() != size
    }

    /// The map as it stands before the bytes of a sparse file: number of ranges, then where each
    /// begins and how long it is.
    pub fn encode(&self) -> Vec<u8> {
        use std::fmt::Write;
        let mut text = format!("{}\n", self.written.len());
        for range in &self.written {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}\n{}\n", range.start, range.end - range.start);
        }
        text.into_bytes()
    }
}

/// How contents follow a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// None do.
    Nothing,
    /// All bytes of the file.
    All,
    /// A map and the ranges that it names.
    Sparse,
}

const ROOT: &[u8] = b"./";

/// The name in the root that control files have in every volume, so that no file has it.
const CONTROL: &[u8] = b".hearth";

/// Bytes of the longest target of a link, name and value of an attribute.
const TARGET_MAX: usize = 4095;
const XATTR_NAME_MAX: usize = 255;
const XATTR_VALUE_MAX: usize = 65_536;

/// Namespaces of attributes in a volume, and the names that have none of them.
const NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
const ACLS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// The record with the inode number.
pub const INO: &str = "HEARTH.ino";

/// Keys of other records that only a dump has.
mod own {
    pub const GENERATION: &str = "HEARTH.generation";
    pub const LINKS: &str = "HEARTH.nlink";
    pub const PROJECT: &str = "HEARTH.project";
    pub const FLAGS: &str = "HEARTH.flags";
    pub const EXTRA_BLOCKS: &str = "HEARTH.extra_blocks";
    pub const RDEV: &str = "HEARTH.rdev";
    pub const TYPE: &str = "HEARTH.type";
    pub const UNWRITTEN: &str = "HEARTH.unwritten";
}

const BIRTH: &str = "LIBARCHIVE.creationtime";
const XATTR: &str = "SCHILY.xattr.";
const SPARSE_NAME: &str = "GNU.sparse.name";
const SPARSE_SIZE: &str = "GNU.sparse.realsize";

impl Entry {
    /// The records and the header that stand before the contents, whose stored bytes are `stored`.
    pub fn encode(&self, stored: u64) -> (Records, TarHeader) {
        let mut records = Records::default();
        let name = match (&*self.path, &self.what) {
            (b"", _) => ROOT.to_vec(),
            (path, What::Inode(inode, _)) if inode.attrs.kind == Kind::Directory => {
                [path, b"/"].concat()
            }
            (path, _) => path.to_vec(),
        };
        let is_text = std::str::from_utf8(&name).is_ok();
        if !is_text {
            records.put("hdrcharset", "BINARY");
        }
        match &self.what {
            What::Link(to) => {
                records.put("path", &name);
                records.put("linkpath", to);
                let mut header = TarHeader::new(kind::LINK, &name, 0);
                header.target = to.clone();
                (records, header)
            }
            What::Inode(inode, map) => {
                let mut header = TarHeader::new(kind_of(inode.attrs.kind), &name, stored);
                if inode.attrs.kind == Kind::File && map.is_sparse(inode.size) {
                    records.put("GNU.sparse.major", "1");
                    records.put("GNU.sparse.minor", "0");
                    records.put(SPARSE_NAME, &name);
                    records.put_number(SPARSE_SIZE, inode.size);
                } else {
                    records.put("path", &name);
                }
                records.put_number("size", stored);
                describe(inode, map, &mut records, &mut header);
                (records, header)
            }
        }
    }

    /// Reads what [`Entry::encode`] made, and how contents follow. The written ranges of a sparse
    /// file stand in front of its bytes and are not yet known.
    ///
    /// # Errors
    /// A record or the header makes no sense.
    pub fn decode(
        records: &Records,
        header: &TarHeader,
    ) -> Result<(Entry, Following), StreamFault> {
        let is_sparse = records.get(SPARSE_NAME).is_some();
        let name = records.get(SPARSE_NAME).or_else(|| records.get("path"));
        let path = checked(name.unwrap_or(&header.name))?;
        if header.kind == kind::LINK {
            let to = records.get("linkpath").unwrap_or(&header.target);
            let what = What::Link(checked(to)?);
            return Ok((Entry { path, what }, Following::Nothing));
        }
        let stored: u64 = records.number("size", header.size)?;
        let (inode, mut map) = described(records, header)?;
        let contents = match (inode.attrs.kind, is_sparse) {
            (Kind::File, true) => Following::Sparse,
            (Kind::File, false) if inode.size != stored => {
                return Err(StreamFault::Record { key: "size" });
            }
            (Kind::File, false) => {
                map.written.extend((stored > 0).then_some(0..stored));
                Following::All
            }
            _ if stored > 0 => return Err(StreamFault::Record { key: "size" }),
            _ => Following::Nothing,
        };
        let what = What::Inode(Box::new(inode), map);
        Ok((Entry { path, what }, contents))
    }
}

fn kind_of(of: Kind) -> u8 {
    match of {
        // There is no kind for sockets; their record of the type says it.
        Kind::File | Kind::Socket => kind::FILE,
        Kind::Directory => kind::DIRECTORY,
        Kind::Symlink => kind::SYMLINK,
        Kind::Fifo => kind::FIFO,
        Kind::Char => kind::CHAR,
        Kind::Block => kind::BLOCK,
    }
}

fn describe(inode: &Inode, map: &FileMap, records: &mut Records, header: &mut TarHeader) {
    let attrs = &inode.attrs;
    let (mtime, ctime) = times(inode);
    header.mode = u32::from(attrs.perm);
    header.owner = (attrs.uid, attrs.gid);
    header.mtime = mtime.sec;
    header.device = device_parts(attrs.rdev);
    records.put_number("uid", attrs.uid);
    records.put_number("gid", attrs.gid);
    records.put("mtime", time_text(mtime));
    records.put("atime", time_text(attrs.atime));
    records.put("ctime", time_text(ctime));
    records.put(BIRTH, time_text(attrs.btime));
    records.put_number(INO, inode.ino);
    records.put_number(own::GENERATION, attrs.generation);
    records.put_number(own::LINKS, attrs.nlink);
    for (key, value) in [
        (own::PROJECT, attrs.project),
        (own::FLAGS, attrs.flags),
        (own::EXTRA_BLOCKS, attrs.extra_blocks),
        (own::RDEV, attrs.rdev),
    ] {
        if value != 0 {
            records.put_number(key, value);
        }
    }
    if attrs.kind == Kind::Socket {
        records.put(own::TYPE, "socket");
    }
    if attrs.kind == Kind::Symlink {
        header.target = inode.target.to_vec();
        records.put("linkpath", &inode.target);
    }
    if !map.unwritten.is_empty() {
        let ranges = map.unwritten.iter();
        let ranges: Vec<_> = ranges.map(|r| format!("{}-{}", r.start, r.end)).collect();
        records.put(own::UNWRITTEN, ranges.join(" "));
    }
    for (name, value) in &inode.xattrs {
        records.put([XATTR.as_bytes(), &key_of_xattr(name)].concat(), value);
    }
}

/// Times of the last change of contents and of anything. A touch came after the time that is kept,
/// which may have been set to one that is yet to come.
fn times(inode: &Inode) -> (Time, Time) {
    let Attrs { mtime, ctime, .. } = inode.attrs;
    if inode.touched == 0 {
        return (mtime, ctime);
    }
    let touched = Time::from_nanos(inode.touched);
    (touched, ctime.max(touched))
}

fn described(records: &Records, header: &TarHeader) -> Result<(Inode, FileMap), StreamFault> {
    let is_socket = match records.get(own::TYPE) {
        None => false,
        Some(b"socket") => true,
        Some(_) => return Err(StreamFault::Record { key: own::TYPE }),
    };
    let kind = match header.kind {
        kind::FILE | 0 if is_socket => Kind::Socket,
        kind::FILE | 0 => Kind::File,
        kind::DIRECTORY => Kind::Directory,
        kind::SYMLINK => Kind::Symlink,
        kind::FIFO => Kind::Fifo,
        kind::CHAR => Kind::Char,
        kind::BLOCK => Kind::Block,
        other => return Err(StreamFault::Kind(other)),
    };
    let mtime = records.time("mtime")?.unwrap_or(Time {
        sec: header.mtime,
        nsec: 0,
    });
    let or_mtime = |time: Option<Time>| time.unwrap_or(mtime);
    let attrs = Attrs {
        generation: records.number(own::GENERATION, 0)?,
        kind,
        perm: (header.mode & 0o7777) as u16,
        uid: records.number("uid", header.owner.0)?,
        gid: records.number("gid", header.owner.1)?,
        project: records.number(own::PROJECT, 0)?,
        flags: records.number(own::FLAGS, 0)?,
        nlink: records.number(own::LINKS, 1)?,
        extra_blocks: records.number(own::EXTRA_BLOCKS, 0)?,
        rdev: records.number(own::RDEV, 0)?,
        atime: or_mtime(records.time("atime")?),
        mtime,
        ctime: or_mtime(records.time("ctime")?),
        btime: or_mtime(records.time(BIRTH)?),
    };
    let target = match kind {
        Kind::Symlink => records.get("linkpath").unwrap_or(&header.target),
        _ => b"",
    };
    let size = match kind {
        Kind::File if records.get(SPARSE_SIZE).is_some() => records.number(SPARSE_SIZE, 0)?,
        Kind::File => records.number("size", header.size)?,
        _ => target.len() as u64,
    };
    let is_target = (1..=TARGET_MAX).contains(&target.len()) && !target.contains(&0);
    if kind == Kind::Symlink && !is_target {
        return Err(StreamFault::Record { key: "linkpath" });
    }
    if size > SIZE_MAX {
        return Err(StreamFault::Record { key: "size" });
    }
    let xattrs = records.below(XATTR);
    let xattrs = xattrs.map(|(key, value)| (xattr_of_key(key).into(), value.into()));
    let xattrs: Vec<Xattr> = xattrs.collect();
    if !xattrs.iter().all(is_xattr) {
        return Err(StreamFault::Record { key: XATTR });
    }
    let inode = Inode {
        ino: records.number(INO, 0)?,
        attrs,
        size,
        pages: 0,
        touched: 0,
        entries: (0, 0),
        parent: 0,
        target: target.into(),
        xattrs,
    };
    let map = FileMap {
        written: Vec::new(),
        unwritten: unwritten(records)?,
    };
    Ok((inode, map))
}

fn unwritten(records: &Records) -> Result<Vec<Range<u64>>, StreamFault> {
    let bad = StreamFault::Record {
        key: own::UNWRITTEN,
    };
    let Some(value) = records.get(own::UNWRITTEN) else {
        return Ok(Vec::new());
    };
    let text = std::str::from_utf8(value).map_err(|_| bad)?;
    let range = |text: &str| {
        let (start, end) = text.split_once('-')?;
        Some(start.parse().ok()?..end.parse().ok()?)
    };
    let ranges: Option<Vec<Range<u64>>> = text.split(' ').map(range).collect();
    let ranges = ranges.ok_or(bad)?;
    let fits = |last: &Range<u64>| last.end <= SIZE_MAX.div_ceil(PAGE);
    let is_good = rises(&ranges) && ranges.last().is_none_or(fits);
    if is_good { Ok(ranges) } else { Err(bad) }
}

/// Whether a volume may have this attribute.
fn is_xattr((name, value): &Xattr) -> bool {
    let is_acl = ACLS.contains(&&**name);
    let is_within = |space: &[u8]| name.starts_with(space) && name.len() > space.len();
    let is_known = is_acl || NAMESPACES.iter().any(|space| is_within(space));
    let has_end = name.len() <= XATTR_NAME_MAX && value.len() <= XATTR_VALUE_MAX;
    is_known && has_end && !name.contains(&0)
}

/// Whether ranges are not empty, come one behind the other and do not overlap.
pub fn rises(ranges: &[Range<u64>]) -> bool {
    let apart = ranges.windows(2).all(|two| two[0].end <= two[1].start);
    apart && ranges.iter().all(|range| range.start < range.end)
}

/// A path from the root, whose parts are names.
fn checked(path: &[u8]) -> Result<Vec<u8>, StreamFault> {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let is_name = |part: &[u8]| {
        !matches!(part, b"" | b"." | b"..") && part.len() <= 255 && !part.contains(&0)
    };
    let first = path.split(|&byte| byte == b'/').next();
    let is_good = path.split(|&byte| byte == b'/').all(is_name) && first != Some(CONTROL);
    if path.is_empty() || is_good {
        Ok(path.to_vec())
    } else {
        Err(StreamFault::Path)
    }
}

/// The numbers in a device number, as Linux packs them.
pub fn device_parts(rdev: u32) -> (u32, u32) {
    (
        (rdev >> 8) & 0xfff,
        (rdev & 0xff) | ((rdev >> 12) & 0xfff00),
    )
}
