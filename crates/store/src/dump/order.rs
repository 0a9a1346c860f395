//! The order of a dump: a directory comes before what is in it, and names of a directory rise.

use super::error::StreamFault;

/// The directories from the root to the one whose names come, each with what a loader keeps of it.
#[derive(Debug)]
pub struct Order<T> {
    levels: Vec<OrderLevel<T>>,
}

#[derive(Debug)]
struct OrderLevel<T> {
    path: Vec<u8>,
    /// The name that came last in it.
    last: Vec<u8>,
    kept: T,
}

impl<T> Default for Order<T> {
    fn default() -> Order<T> {
        Order { levels: Vec::new() }
    }
}

impl<T> Order<T> {
    /// Makes the directory of `path` the one whose names come, and notes the name of `path` in it.
    /// Passes directories that are left to `leave`, the deepest first. Returns what is kept of the
    /// directory and the name, or `None` for the root.
    ///
    /// # Errors
    /// The directory did not come before, or the name does not rise, or `leave` failed.
    pub fn find<'p, E: From<StreamFault>>(
        &mut self,
        path: &'p [u8],
        mut leave: impl FnMut(T) -> Result<(), E>,
    ) -> Result<Option<(&mut T, &'p [u8])>, E> {
        if path.is_empty() {
            let is_first = self.levels.is_empty();
            return if is_first {
                Ok(None)
            } else {
                Err(StreamFault::Twice.into())
            };
        }
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let (directory, name) = slash.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        while let Some(level) = self.levels.pop_if(|level| level.path != directory) {
            leave(level.kept)?;
        }
        let level = self.levels.last_mut().ok_or(StreamFault::Orphan)?;
        if *level.last >= *name {
            return Err(StreamFault::Twice.into());
        }
        level.last = name.to_vec();
        Ok(Some((&mut level.kept, name)))
    }

    /// The directory `path` was made; its names may come.
    pub fn enter(&mut self, path: &[u8], kept: T) {
        self.levels.push(OrderLevel {
            path: path.to_vec(),
            last: Vec::new(),
            kept,
        });
    }

    /// What is kept of the directory that is so many levels above the one whose names come.
    pub fn above(&mut self, levels: usize) -> Option<&mut T> {
        let at = self.levels.len().checked_sub(levels + 1)?;
        self.levels.get_mut(at).map(|level| &mut level.kept)
    }

    /// The directories that are left at the end, the deepest first.
    pub fn end(self) -> impl Iterator<Item = T> {
        self.levels.into_iter().rev().map(|level| level.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(order: &mut Order<u32>, path: &str) -> Result<Vec<u32>, StreamFault> {
        let mut left = Vec::new();
        order.find(path.as_bytes(), |kept| {
            left.push(kept);
            Ok::<(), StreamFault>(())
        })?;
        Ok(left)
    }

    #[test]
    fn a_directory_comes_before_its_names_and_is_left_behind_them() {
        let mut order = Order::default();
        assert_eq!(find(&mut order, ""), Ok(vec![]));
        order.enter(b"", 0);
        assert_eq!(find(&mut order, "a"), Ok(vec![]));
        order.enter(b"a", 1);
        assert_eq!(find(&mut order, "a/b"), Ok(vec![]));
        order.enter(b"a/b", 2);
        assert_eq!(find(&mut order, "a/b/c"), Ok(vec![]));
        assert_eq!(find(&mut order, "d"), Ok(vec![2, 1]));
        assert_eq!(find(&mut order, "d"), Err(StreamFault::Twice));
        assert_eq!(find(&mut order, "c"), Err(StreamFault::Twice));
        assert_eq!(find(&mut order, "x/y"), Err(StreamFault::Orphan));
    }
}
