//! Inline data moves to segments.

use super::StoreBackend;
use super::load::{contents, each};
use super::moving::{Found, Move, Pages, parts};
use crate::error::Result;
use crate::kv::{Read, Table};
use crate::schema::{Extent, Inline, Place, key};
use std::collections::BTreeMap;

/// One part in this many of what idle work moves at once: inline bytes are read one by one.
const PART: u64 = 4;

/// Inline data: extents with their values, and whether there is more than `limit` bytes of it.
pub(super) fn take_inline(
    view: &(impl Read + ?Sized),
    limit: u64,
) -> Result<(Vec<Found>, u64, bool)> {
    let (mut values, mut bytes, mut is_part) = (Vec::new(), 0, false);
    each(view, Table::Extents, key::INLINES, &mut |key, value| {
        if bytes >= limit {
            is_part = true;
            return Ok(false);
        }
        bytes += value.len() as u64;
        values.push((key.to_vec(), value.to_vec()));
        Ok(true)
    })?;
    let mut found = Vec::new();
    let mut own_map = (0, 0);
    for (key, value) in values {
        let (map, last) = key::page(&key)?;
        let inline = Inline::decode(&key, &value)?;
        let file = (inline.ino, inline.generation);
        if own_map.0 != inline.ino {
            own_map = (inline.ino, contents(view, inline.ino)?.map);
        }
        // A map that its file has left is about to be deleted.
        if own_map.1 != map {
            continue;
        }
        let key = key::extent(map, last);
        // An extent that is gone, or another one, came between the two looks.
        if let Some(extent) = view.get(Table::Extents, &key)? {
            let extent = Extent::decode(&key, &extent)?;
            if extent.place == Place::Inline && extent.pages.start == inline.first {
                found.push(Found {
                    file,
                    map,
                    extent,
                    inline: Some(value),
                });
            }
        }
    }
    Ok((found, bytes, is_part))
}

impl StoreBackend {
    /// Moves a piece of the inline data, if enough of it has come.
    pub(super) fn move_inline(&self) -> Result<bool> {
        let came = self.state.lock().inline;
        if came < self.limits.inline_bytes {
            return Ok(false);
        }
        let (found, bytes, is_part) = take_inline(&*self.kv, self.limits.piece / PART)?;
        if bytes < self.limits.inline_bytes && !is_part {
            let mut state = self.state.lock();
            state.inline = state.inline.saturating_sub(came).saturating_add(bytes);
            return Ok(false);
        }
        let mut pages = Pages::default();
        for found in &found {
            if let Some(value) = &found.inline {
                let inline = Inline::decode(key::INLINES, value)?;
                pages.add(found, inline.bytes);
            }
        }
        let flight = self.pending.begin();
        let written = self.store_pages(pages)?;
        let mut named: BTreeMap<u64, u64> = BTreeMap::new();
        for part in written.values().flatten() {
            *named.entry(part.block.segment).or_default() += part.pages.end - part.pages.start;
        }
        let moves = found.into_iter().map(|found| {
            let written = written.get(&found.file).map_or(&[][..], |parts| parts);
            Move {
                to: parts(&found.extent, written),
                found,
            }
        });
        let moved = self.commit_moves(moves.collect(), &named)?;
        drop(flight);
        if !is_part {
            let mut state = self.state.lock();
            state.inline = state.inline.saturating_sub(came);
        }
        // Where nothing could move, what changed it asks again.
        Ok(moved > 0)
    }
}
