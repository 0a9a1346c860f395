//! The memory of one ring entry, shared with the kernel by turns.
//!
//! An entry belongs to the kernel from its submission until its completion is seen, and to this
//! process in between. The queue thread keeps that order; the methods that give references take
//! `&mut self` on its side of the fence.

use crate::wire::{InHeader, Opcode, PAGE_SIZE, RingHeader};
use std::io;
use std::ptr::NonNull;
use zerocopy::FromBytes;

/// One header page and the payload behind it, mapped without being touched.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    payload: usize,
    /// What a registration points to: header and payload.
    parts: Box<[libc::iovec; 2]>,
}

impl Region {
    /// A region with a payload of at least `payload` bytes.
    pub fn map(payload: usize) -> io::Result<Region> {
        let payload = payload.next_multiple_of(PAGE_SIZE);
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            // Most of it is never touched.
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE_SIZE + payload,
                protection,
                flags,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let parts = Box::new([
            libc::iovec {
                iov_base: base.as_ptr().cast(),
                iov_len: size_of::<RingHeader>(),
            },
            libc::iovec {
                // SAFETY: the mapping has a page before the payload.
                iov_base: unsafe { base.as_ptr().add(PAGE_SIZE) }.cast(),
                iov_len: payload,
            },
        ]);
        Ok(Region {
            base,
            payload,
            parts,
        })
    }

    /// Address of the two ranges, for a registration.
    pub fn parts(&self) -> u64 {
        self.parts.as_ptr() as u64
    }

    /// Header and fixed argument of the request in the entry. Only between the completion and the
    /// next submission of the entry.
    pub fn request(&mut self) -> (InHeader, &[u8]) {
        let (head, _) = self.split();
        let header = InHeader::read_from_prefix(&head.in_out[..])
            .map(|(header, _)| header)
            .unwrap_or_default();
        let fixed = Opcode::from_number(header.opcode).map_or(0, Opcode::fixed_size);
        (header, &head.op_in[..fixed.min(head.op_in.len())])
    }

    /// Header and payload. Only between the completion and the next submission of the entry.
    pub fn split(&mut self) -> (&mut RingHeader, &mut [u8]) {
        // SAFETY: the mapping is page aligned, lives as long as `self` and is longer than both
        // ranges, which do not overlap; any bytes are a valid RingHeader. The kernel does not touch
        // the memory of an entry whose completion was delivered, and the caller submits it again
        // only after these borrows have ended.
        unsafe {
            let header = &mut *self.base.as_ptr().cast::<RingHeader>();
            let payload =
                std::slice::from_raw_parts_mut(self.base.as_ptr().add(PAGE_SIZE), self.payload);
            (header, payload)
        }
    }

    /// Gives the memory of the payload back; it reads as zeros. Only between the completion and the
    /// next submission of the entry.
    pub fn discard_payload(&mut self) {
        let payload = self.split().1;
        // SAFETY: the payload is whole pages of a private mapping of this value, and nothing else
        // refers to them. Where the call fails, the pages stay.
        unsafe {
            libc::madvise(
                payload.as_mut_ptr().cast(),
                payload.len(),
                libc::MADV_DONTNEED,
            )
        };
    }
}

// SAFETY: the mapping belongs to this value alone; the kernel uses it only while the entry is its.
unsafe impl Send for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), PAGE_SIZE + self.payload) };
    }
}
