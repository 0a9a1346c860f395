//! Inline bytes beside the extents that name them.

use super::ContentsPass;
use crate::error::Result;
use crate::fsck::code::Code;
use crate::fsck::edits::remove;
use crate::fsck::meta::shown;
use crate::fsck::report::Stage;
use crate::kv::Table;
use crate::schema::{Inline, key};

impl ContentsPass<'_> {
    /// The first page of the inline bytes under this map and last page; `None` where there are none
    /// that can be read. Those before it are named by nothing.
    pub(super) fn inline_at(&mut self, at: (u64, u64)) -> Result<Option<u64>> {
        if self.named.is_partial || self.inline.is_cut_off() {
            return self.inline_alone(at);
        }
        while let Some((key, value)) = self.inline.peek(self.report)? {
            let first = Inline::decode(key, value).ok().map(|inline| inline.first);
            let found = key::page(key).ok();
            if found.is_some_and(|found| found > at) {
                break;
            }
            self.inline.skip();
            match found {
                Some(found) if found == at => return Ok(first),
                Some((map, last)) => self.no_extent(map, last),
                // Its length is reported already.
                None => {}
            }
        }
        match self.inline.is_cut_off() {
            true => self.inline_alone(at),
            false => Ok(None),
        }
    }

    /// Pages of an extent of which some bytes cannot be read.
    fn inline_alone(&self, (map, last): (u64, u64)) -> Result<Option<u64>> {
        let key = key::inline(map, last);
        match self.view.get(Table::Extents, &key) {
            Ok(value) => Ok(value.and_then(|value| {
                let inline = Inline::decode(&key, &value).ok()?;
                Some(inline.first)
            })),
            Err(error) if error.is_lost() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Inline bytes that no extent names.
    fn no_extent(&mut self, map: u64, last: u64) {
        let key = key::inline(map, last);
        let detail = format!("map {map}, page {last}");
        self.report.find(Code::NoExtent, shown(&key), detail);
        self.report
            .fix(Stage::Contents, remove(Table::Extents, &key));
    }
}
