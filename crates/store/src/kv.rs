//! Keys and values, as the engine below and the records above see them.

use crate::error::Result;

/// A keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// Inodes, names, attributes, settings, segments.
    Meta = 0,
    /// Extents of files.
    Extents = 1,
}

/// One change: the key has this value, or is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvOp {
    /// Where.
    pub table: Table,
    /// Key.
    pub key: Box<[u8]>,
    /// Value; `None` removes the key.
    pub value: Option<Box<[u8]>>,
}

/// Reads of an ordered map, as of the last commit. Calls come from any thread and may block.
pub trait Read {
    /// The value of `key`.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Passes keys from `from` on and before `to` (to the end of the table if `None`) with their
    /// values to `visit`, in order, until it returns false. All of them are of one moment. `visit`
    /// may read again.
    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()>;

    /// Files of tables that are not what was written, also in parts that no scan reads.
    ///
    /// # Errors
    /// It cannot be told.
    fn damaged_tables(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}
