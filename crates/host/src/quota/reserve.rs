//! Reserving what a write may allocate.

use super::allocated::BTRFS;
use super::amounts::Told;
use super::known_blocks::KnownBlocks;
use super::settle::Touched;
use super::{Quotas, allocated, clusters, holes};
use crate::attributes;
use crate::identity::device;
use hearth::{BLOCK, Kind, Owners, Resource, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::Statx;
use std::ops::Range;

impl Quotas {
    /// Reserves what a write of `len` bytes at `off` may allocate in a file that is open as `fd`,
    /// and returns how much of it may be written. The reservation is part of the record until the
    /// file is settled.
    ///
    /// # Errors
    /// `EDQUOT`, `ENOSPC` if nothing fits.
    pub fn reserve(
        &self,
        touched: &mut Touched<'_>,
        fd: BorrowedFd<'_>,
        (off, len): (u64, u64),
        in_part: bool,
    ) -> Result<u64> {
        let stat = attributes::stat(fd)?;
        let told = Told::by(&stat, Kind::File);
        let [has, _] = self.amounts(told, Some(fd));
        let within = self.within(stat.stx_size);
        let mut known = touched.record().known;
        let has_known = known.is_any();
        // However many blocks it has: some of them may be of attributes, or behind its end.
        let holes = holes::holes(fd, off, len, stat.stx_size, &mut known);
        let end = stat.stx_size.max(off.saturating_add(len));
        let (mut holes, mut unit, mut most) = (holes, BLOCK, u64::MAX);
        if self.is_xfs && !holes.is_empty() {
            unit = self.unit_of(fd);
        }
        let dev = device(&stat);
        let is_clustered = !self.is_xfs && self.unit > BLOCK && self.is_of_root(dev);
        if is_clustered && !holes.is_empty() {
            unit = self.unit;
        }
        if !holes.is_empty() && self.magic_of(dev, fd) == allocated::TMPFS {
            // A huge page, where it has them.
            unit = BLOCK.max(u64::from(stat.stx_blksize));
        }
        if unit > BLOCK {
            let from = off / unit * unit;
            let to = off.saturating_add(len).div_ceil(unit).saturating_mul(unit);
            holes = holes::holes(fd, from, to - from, stat.stx_size, &mut known);
            if is_clustered {
                holes = clusters::whole(&holes, unit / BLOCK);
            }
            if self.is_xfs && !self.is_preallocated(fd) {
                // More than the size needs is not charged.
                let attributes = self.of_attributes(Kind::File, Some(fd));
                most = (self.within(end) + attributes).saturating_sub(has);
            }
        }
        if let Some(block) = self.old_end(fd, &stat, (off, len)) {
            let mut end = holes::holes(fd, block * BLOCK, 1, stat.stx_size, &mut known);
            known.may_fill(&(block..block + 1));
            end.append(&mut holes);
            holes = end;
        }
        let seen = holes::count(&holes);
        let mut need = seen.min(most);
        // Space that was allocated in advance looks like a hole, and is charged. There is some if
        // more is allocated than can be seen, but that a block for each 256 may be the host's own.
        let is_more = off < stat.stx_size && has + need > self.within(end);
        // What XFS has ahead by itself, and nobody has paid for, is not meant.
        let is_paid = has > 0 && has == told.all();
        let is_seen_more = is_paid && (is_more || has > within + 1 + within / 256);
        // There may be some in any file with holes. What would be reserved for it and left unused
        // is a question for all extents where less may be told for a moment.
        let is_exact = || is_paid && (unit > BLOCK || off < stat.stx_size && self.may_dip(dev, fd));
        let without_ahead = |known: &mut KnownBlocks| {
            let ahead = match known.is_bare(&holes, |hole| holes::is_bare(fd, hole)) {
                true => 0,
                false => allocated::within(fd, &holes).unwrap_or(0),
            };
            seen.saturating_sub(ahead).min(most)
        };
        let mut is_known = need == 0;
        if !is_known && (is_seen_more || is_exact()) {
            need = without_ahead(&mut known);
            is_known = true;
        }
        let owners = touched.record().owners;
        let mut charged = self.charge(owners, [need, 0]);
        if charged.is_err() && has_known {
            // Others may have filled a hole meanwhile.
            touched.record().known.forget();
            return self.reserve(touched, fd, (off, len), in_part);
        }
        if charged.is_err() && !is_known && is_paid {
            need = without_ahead(&mut known);
            charged = self.charges.charge(owners, [need, 0]);
        }
        known.may_fill(&blocks_of(off, len));
        touched.record().known = known;
        let (taken, refusal) = match charged {
            Ok(()) => (need, None),
            Err(errno) => {
                let node = touched.node;
                self.refusals
                    .note(&self.tree, node, Resource::Blocks, errno);
                if !in_part {
                    return Err(errno);
                }
                (self.reserve_part(owners, need), Some(errno))
            }
        };
        touched.record().amounts[Resource::Blocks as usize] += taken;
        let Some(errno) = refusal else {
            return Ok(len);
        };
        // Also without one more block, what is allocated already can be written.
        let end = match need == seen {
            true => holes::end_of(&holes, taken),
            false => end_of_partly_allocated(fd, &holes, taken),
        };
        // All of a unit is allocated, or nothing.
        match (end / unit * unit).saturating_sub(off).min(len) {
            0 => Err(errno),
            fits => Ok(fits),
        }
    }

    /// The block in which a file of btrfs ends, if the range begins behind it: it is written, with
    /// zeros, if it was a hole. A larger size, a range without a length, does so too.
    fn old_end(&self, fd: BorrowedFd<'_>, stat: &Statx, (off, len): (u64, u64)) -> Option<u64> {
        let (size, block) = (stat.stx_size, stat.stx_size / BLOCK);
        let is_behind = off > size && (len == 0 || off / BLOCK > block);
        let is_filled = is_behind && !size.is_multiple_of(BLOCK);
        (is_filled && self.magic_of(device(stat), fd) == BTRFS).then_some(block)
    }

    /// Bytes of a file were written: its blocks there are data, as far as they are whole blocks of
    /// its filesystem.
    pub fn wrote_data(&self, touched: &mut Touched<'_>, off: u64, len: usize) {
        let end = off.saturating_add(len as u64);
        let is_whole = self.block >= BLOCK && self.is_of_root(touched.node.id.dev);
        let blocks = match is_whole {
            true => blocks_of(off, len as u64),
            false => off.div_ceil(BLOCK)..end / BLOCK,
        };
        touched.record().known.wrote(&blocks);
    }

    /// As many of `need` blocks as fit.
    fn reserve_part(&self, owners: Owners, need: u64) -> u64 {
        let (mut taken, mut step) = (0, need / 2);
        while step > 0 {
            while taken + step < need && self.charges.charge(owners, [step, 0]).is_ok() {
                taken += step;
            }
            step /= 2;
        }
        taken
    }
}

/// Blocks that a range of bytes is in.
fn blocks_of(off: u64, len: u64) -> Range<u64> {
    off / BLOCK..off.saturating_add(len).div_ceil(BLOCK)
}

/// [`holes::end_of`] where parts of the holes are allocated in advance.
fn end_of_partly_allocated(fd: BorrowedFd<'_>, holes: &[Range<u64>], blocks: u64) -> u64 {
    let need = |seen: &[Range<u64>]| {
        let ahead = allocated::within(fd, seen).unwrap_or(0);
        holes::count(seen).saturating_sub(ahead)
    };
    // The most of them that need no more.
    let (mut fits, mut over) = (0, holes::count(holes));
    while fits + 1 < over {
        let middle = fits + (over - fits) / 2;
        match need(&holes::first(holes, middle)) <= blocks {
            true => fits = middle,
            false => over = middle,
        }
    }
    holes::end_of(holes, fits)
}
