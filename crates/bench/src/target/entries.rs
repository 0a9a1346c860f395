//! The entries of a directory, as one listing returns them.

/// One name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry<'a> {
    pub name: &'a [u8],
    /// Whether the listing says that it is a directory.
    pub is_dir: bool,
}

/// The names of a directory, one behind the other in one piece of memory, so that the target is
/// measured and not an allocation for each name.
#[derive(Debug, Default)]
pub struct Entries {
    names: Vec<u8>,
    /// Where each name ends, and whether it is a directory.
    ends: Vec<(usize, bool)>,
}

impl Entries {
    pub fn push(&mut self, name: &[u8], is_dir: bool) {
        self.names.extend_from_slice(name);
        self.ends.push((self.names.len(), is_dir));
    }

    /// Iterates in the order of the directory.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.ends.iter().enumerate().map(|(n, &(end, is_dir))| {
            let begin = n.checked_sub(1).map_or(0, |before| self.ends[before].0);
            Entry {
                name: &self.names[begin..end],
                is_dir,
            }
        })
    }
}
