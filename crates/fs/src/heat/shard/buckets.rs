//! The buckets of a shard: lists of records by temperature.

use super::Shard;
use crate::heat::record::{NIL, WHOLE};

#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) len: u32,
}

pub(super) const EMPTY: Ends = Ends {
    first: NIL,
    last: NIL,
    len: 0,
};

impl Shard {
    pub(super) fn move_to(&mut self, id: u32, bucket: u8) {
        self.bucket_out(id);
        self.bucket_in(id, bucket);
    }

    pub(super) fn bucket_in(&mut self, id: u32, bucket: u8) {
        let record = &mut self.slab[id as usize];
        if record.is_anchor {
            return;
        }
        let ends = &mut self.buckets[usize::from(record.range == WHOLE)][bucket as usize];
        (record.bucket, record.hotter, record.colder) = (bucket, NIL, ends.first);
        let second = std::mem::replace(&mut ends.first, id);
        ends.len += 1;
        match second {
            NIL => ends.last = id,
            second => self.slab[second as usize].hotter = id,
        }
    }

    pub(super) fn bucket_out(&mut self, id: u32) {
        let record = &self.slab[id as usize];
        if record.is_anchor {
            return;
        }
        let (hotter, colder) = (record.hotter, record.colder);
        let ends = &mut self.buckets[usize::from(record.range == WHOLE)][record.bucket as usize];
        ends.len -= 1;
        if hotter == NIL {
            ends.first = colder;
        }
        if colder == NIL {
            ends.last = hotter;
        }
        if hotter != NIL {
            self.slab[hotter as usize].colder = colder;
        }
        if colder != NIL {
            self.slab[colder as usize].hotter = hotter;
        }
    }
}
