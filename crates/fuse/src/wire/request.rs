//! A request as a transport has it: bytes in three parts.

use super::*;
use zerocopy::FromBytes;

/// A request in the parts in which a transport has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRequest<'a> {
    pub header: InHeader,
    /// The fixed argument; may be longer than the operation needs (ring entries) but not shorter.
    pub args: &'a [u8],
    /// Names, data and extensions.
    pub payload: &'a [u8],
}

impl<'a> RawRequest<'a> {
    /// Supplementary groups that the kernel sent along with a creation.
    pub fn groups(&self) -> Groups {
        let mut groups = Groups::default();
        let mut rest = self.split_payload().map_or(&[][..], |(_, ext)| ext);
        while let Ok((ext, after)) = ExtHeader::read_from_prefix(rest) {
            let size = ext.size as usize;
            let Some(body) = size
                .checked_sub(size_of::<ExtHeader>())
                .and_then(|n| after.get(..n))
            else {
                break;
            };
            if ext.kind == EXT_GROUPS {
                groups.read(body);
            }
            match after.get(body.len().next_multiple_of(8)..) {
                Some(next) if size > 0 => rest = next,
                _ => break,
            }
        }
        groups
    }

    /// The payload without extensions, and the extensions.
    pub(super) fn split_payload(&self) -> Option<(&'a [u8], &'a [u8])> {
        let ext = usize::from(self.header.total_extlen) * 8;
        Some(self.payload.split_at(self.payload.len().checked_sub(ext)?))
    }
}

/// Supplementary groups of a caller, as far as the kernel tells them (it sends the one that
/// matters).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Groups {
    count: usize,
    ids: [u32; 16],
}

impl Groups {
    /// The group ids.
    pub fn ids(&self) -> &[u32] {
        &self.ids[..self.count]
    }

    fn read(&mut self, body: &[u8]) {
        let Ok((count, mut rest)) = u32::read_from_prefix(body) else {
            return;
        };
        for _ in 0..count {
            let (Ok((id, after)), true) =
                (u32::read_from_prefix(rest), self.count < self.ids.len())
            else {
                return;
            };
            self.ids[self.count] = id;
            self.count += 1;
            rest = after;
        }
    }
}
