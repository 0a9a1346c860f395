//! Reads that keep nothing. A kernel that reads a large file for its own cache would fill this
//! memory with what it does not ask for again.

use crate::data::PAGE;
use crate::errno::Result;
use crate::inode::Inode;
use crate::ops::io::data_of;
use crate::superblock::Superblock;
use hearth_sync::epoch::pin;

impl Superblock {
    /// Reads at `off`; returns the bytes read, 0 at the end of the file. What is not in memory
    /// comes from the backend and does not stay. The caller has a reference, and nothing is pinned.
    ///
    /// Inside the gate nothing is cut, moved or evicted. So a page that the backend is asked for is
    /// one that no write has changed since before this call, or one that a write beside this call
    /// changes: then it is as it was before that write. A hole among them is zeros, whatever the
    /// backend gives for it: it may not have the record of the edit yet.
    pub(crate) fn read_through(&self, inode: &Inode, off: u64, out: &mut [u8]) -> Result<usize> {
        let data = data_of(inode)?;
        let _inside = inode.gate.read(inode.percpu());
        let left = inode.meta.size().saturating_sub(off);
        let len = left.min(out.len() as u64) as usize;
        let out = &mut out[..len];
        let end = off + len as u64;
        let mut done = 0;
        while done < len {
            let (missing, holes) = {
                let g = pin();
                let read = data.read(off + done as u64, &mut out[done..], &g);
                let Err(absent) = read else { break };
                let wanted = end.div_ceil(PAGE) - absent.0;
                let ahead = data.read_ahead(absent.0, wanted, &g);
                let most = absent.0 + wanted;
                (ahead.pages.start..ahead.pages.end.min(most), ahead.holes)
            };
            self.heat.note_load(inode, missing.clone());
            // Where a page begins in `out`.
            let place = |index: u64| ((index * PAGE).saturating_sub(off) as usize).min(len);
            let mut filled = place(missing.start);
            done = place(missing.end);
            let mut take = |index: u64, bytes: &[u8]| {
                if holes.binary_search(&index).is_ok() {
                    return;
                }
                let skipped = off.saturating_sub(index * PAGE) as usize;
                let bytes = bytes.get(skipped..).unwrap_or_default();
                let at = place(index);
                let behind = (at + bytes.len()).min(place(index + 1));
                // Not those of holes, nor those behind the end of the page before.
                out[filled..at].fill(0);
                out[at..behind].copy_from_slice(&bytes[..behind - at]);
                filled = behind;
            };
            let backend = &self.objects.backend;
            backend.load_pages(inode.number(), missing, &mut take)?;
            out[filled..done].fill(0);
        }
        Ok(len)
    }
}
