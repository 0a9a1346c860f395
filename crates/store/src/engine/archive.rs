//! The container of fjall's files, sfa 1: sections, a table of contents, and a trailer with the
//! place and the checksum of that. Only its end is read here.
//!
//! ```text
//! contents  magic 4 | entries u32 | an entry: place u64, length u64, length of its name u16, name
//! trailer   magic 4 | version u8 | kind of the checksum u8 | XXH3 of the contents u128
//!           | place of the contents u64 | their length u64, which nobody reads
//! ```

use xxhash_rust::xxh3::xxh3_128;

/// How the trailer of version 1 begins, with XXH3 as its checksum.
const KNOWN: &[u8; 6] = b"SFA!\x01\x00";
const TRAILER: usize = 38;
/// Magic and number of the entries, before the first of them.
const HEAD: usize = 8;

/// The last bytes of an archive.
pub(super) struct ArchiveEnd<'a> {
    bytes: &'a [u8],
    /// The place in the archive where they begin.
    begins: u64,
}

impl<'a> ArchiveEnd<'a> {
    /// Bytes of a table of contents at most, with the trailer: an archive of fjall has some ten
    /// sections.
    pub(super) const MOST: u64 = 16 << 10;

    /// The last `bytes` of an archive, which begin there in it.
    pub(super) fn new(bytes: &'a [u8], begins: u64) -> ArchiveEnd<'a> {
        ArchiveEnd { bytes, begins }
    }

    /// Whether this is the end of an archive of this version.
    pub(super) fn is_known(&self) -> bool {
        let trailer = self.bytes.last_chunk::<TRAILER>();
        trailer.is_some_and(|trailer| trailer.starts_with(KNOWN))
    }

    /// The table of contents, where it fits its checksum.
    pub(super) fn contents(&self) -> Option<&'a [u8]> {
        let (before, trailer) = self.bytes.split_last_chunk::<TRAILER>()?;
        let mut fields = FieldReader(&trailer[KNOWN.len()..]);
        let checksum = u128::from_le_bytes(fields.next()?);
        let place = u64::from_le_bytes(fields.next()?);
        let at = usize::try_from(place.checked_sub(self.begins)?).ok()?;
        let contents = before.get(at..)?;
        (xxh3_128(contents) == checksum).then_some(contents)
    }
}

/// The section of that name in a whole archive.
pub(super) fn section<'a>(archive: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    let contents = ArchiveEnd::new(archive, 0).contents()?;
    let mut fields = FieldReader(contents.get(HEAD..)?);
    loop {
        let place = u64::from_le_bytes(fields.next()?);
        let length = u64::from_le_bytes(fields.next()?);
        let name = usize::from(u16::from_le_bytes(fields.next()?));
        if fields.take(name)? == wanted.as_bytes() {
            let place = usize::try_from(place).ok()?;
            return archive.get(place..)?.get(..usize::try_from(length).ok()?);
        }
    }
}

/// What is left of bytes that are read field by field.
pub(super) struct FieldReader<'a>(pub(super) &'a [u8]);

impl<'a> FieldReader<'a> {
    /// The next field, or `None` behind the last one.
    pub(super) fn next<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }
}
