//! Extents in a table that cannot be read: what lies behind the damage is looked for map by map,
//! and the files whose maps cannot be read are left to the headers of blocks.

use super::{ContentsPass, Place};
use crate::error::{Error, Result};
use crate::fsck::report::report_of_engine;
use crate::fsck::sorted::number;
use crate::kv::Table;
use crate::schema::{Extent, key};

impl ContentsPass<'_> {
    /// A scan has met damage. Where it is to go on, if there is anything more.
    pub(super) fn behind_damage(&mut self, error: &Error) -> Result<Option<Box<[u8]>>> {
        report_of_engine(self.report, error, Table::Extents);
        self.named.is_partial = true;
        if let Some(map) = self.map.as_ref().map(|map| map.number)
            && !self.can_be_read(map)?
        {
            self.take_back(map)?;
            self.mark_unread();
        }
        self.leave()?;
        while let Some(map) = self.files.peek().map(|file| number(file, 0)) {
            if self.can_be_read(map)? {
                return Ok(Some(key::extent(map, 0)));
            }
            self.next_files()?;
            self.mark_unread();
            self.leave()?;
        }
        Ok(None)
    }

    fn can_be_read(&self, map: u64) -> Result<bool> {
        match self.each_of(map, &mut |_| {}) {
            Ok(()) => Ok(true),
            Err(error) if error.is_lost() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Passes the extents of a map.
    fn each_of(&self, map: u64, visit: &mut dyn FnMut(&Extent)) -> Result<()> {
        let (from, to) = (key::extent(map, 0), key::extent(map.saturating_add(1), 0));
        self.view
            .scan(Table::Extents, &from, Some(&to), &mut |key, value| {
                if let Ok(extent) = Extent::decode(key, value) {
                    visit(&extent);
                }
                true
            })
    }

    /// Takes back what was counted of a map before the damage in it.
    fn take_back(&mut self, map: u64) -> Result<()> {
        let mut counted = Vec::new();
        match self.each_of(map, &mut |extent| counted.push(extent.clone())) {
            Err(error) if !error.is_lost() => return Err(error),
            _ => {}
        }
        for extent in counted {
            let count = extent.pages.end - extent.pages.start;
            match extent.place {
                Place::Unwritten => self.unwritten = self.unwritten.saturating_sub(count),
                Place::Inline => {}
                Place::Stored { block, .. } => {
                    let live = self.named.live.entry(block.segment).or_default();
                    *live = live.saturating_sub(count);
                }
            }
        }
        Ok(())
    }

    fn mark_unread(&mut self) {
        if let Some(map) = &mut self.map {
            map.is_unread = true;
            map.pages = 0;
        }
    }
}
