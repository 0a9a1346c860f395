//! Kicks the kernel when it may hold requests back though entries are free.
//!
//! It gives a request that found no entry to one in two moments only: when a reply is committed,
//! and when another of the background comes. An entry that was registered in the place of a waiting
//! one gets nothing by itself. So what queued up while all entries were taken would wait for the
//! next reply, and that may be the one that a rate limit delays for long. A kick is a request that
//! the queue causes itself: asked for no bytes of a file (`NOTIFY_RETRIEVE`), the kernel sends
//! `NOTIFY_REPLY` through the ring of the CPU that asked, to a free entry at once. Its commit, like
//! every other, fetches one that is queued. It must be a regular file that the kernel has in
//! memory, so it is one that a request was about.

use super::device::Device;
use crate::wire::{InHeader, NotifyRetrieve, Opcode, OutHeader, notify};
use zerocopy::IntoBytes;

/// What a queue knows of requests that the kernel keeps.
#[derive(Debug, Default)]
pub(super) struct Kicks {
    /// Entries that the kernel had free when completions were last collected.
    free: usize,
    /// All entries were taken since; nothing has shown that the kernel keeps no request.
    behind: bool,
    kick: Kick,
    /// A regular file that the kernel knows.
    file: Option<u64>,
    /// Makes the numbers of kicks differ.
    number: u64,
}

/// Where the last kick is.
#[derive(Debug, Default, PartialEq, Eq)]
enum Kick {
    /// There is none, or a request came after its commit.
    #[default]
    Done,
    /// On its way.
    Sent,
    /// Committed; nothing came since.
    Committed,
}

impl Kicks {
    /// This many requests came together; this many entries are free now.
    pub fn collected(&mut self, came: usize, free: usize) {
        self.behind |= came > 0 && came >= self.free;
        self.free = free;
        let is_stale = match self.kick {
            Kick::Done => false,
            // It may be queued behind what it should have fetched, or with another queue.
            Kick::Sent => came > 0 && self.behind,
            Kick::Committed => came > 0,
        };
        if is_stale {
            self.kick = Kick::Done;
        }
    }

    /// A request is looked at.
    #[inline]
    pub fn see(&mut self, header: &InHeader) {
        const OF_FILES: [Opcode; 3] = [Opcode::Read, Opcode::Write, Opcode::Open];
        if OF_FILES.iter().any(|&op| op as u32 == header.opcode) {
            self.file = Some(header.nodeid);
        }
    }

    /// A kick came back and is being committed.
    pub fn returned(&mut self) {
        self.kick = Kick::Committed;
    }

    /// The queue would sleep with this many requests waiting: whether the kernel may keep others.
    pub fn are_wanted(&mut self, parked: usize) -> bool {
        // Every request is finished: the last commit found nothing to fetch.
        self.behind &= parked > 0;
        self.behind
    }

    /// Sends one if it is time. Only from the thread of the CPU, when all commits and fresh entries
    /// are submitted and nothing came of that.
    pub fn send(&mut self, device: &Device) {
        match (&self.kick, self.file) {
            // Its commit found nothing to fetch.
            (Kick::Committed, _) => (self.behind, self.kick) = (false, Kick::Done),
            (Kick::Done, Some(file)) => self.send_about(file, device),
            _ => {}
        }
    }

    fn send_about(&mut self, file: u64, device: &Device) {
        self.number += 1;
        let head = NotifyRetrieve {
            // Apart from the kernel's own numbers, and even: odd ones are of interrupts.
            notify_unique: 1 << 63 | self.number << 1,
            nodeid: file,
            ..Default::default()
        };
        let header = OutHeader {
            len: (size_of::<OutHeader>() + size_of::<NotifyRetrieve>()) as u32,
            error: notify::RETRIEVE,
            unique: 0,
        };
        // That fails when the kernel has forgotten the file: the next one will do.
        match device.send(header.as_bytes(), head.as_bytes(), &[]) {
            Ok(()) => self.kick = Kick::Sent,
            Err(_) => self.file = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    /// A request that takes long, or a kick.
    #[derive(Clone, Copy, PartialEq)]
    enum Request {
        Long,
        Kick,
    }

    /// The kernel's side of one ring, and the queue that parks every request.
    struct KernelRing {
        queued: VecDeque<Request>,
        free: usize,
        came: Vec<Request>,
        kicks: Kicks,
        parked: usize,
        device: Device,
        kernel: UnixDatagram,
    }

    impl KernelRing {
        fn new(free: usize) -> KernelRing {
            let (ours, kernel) = UnixDatagram::pair().unwrap();
            kernel.set_nonblocking(true).unwrap();
            let mut kicks = Kicks::default();
            kicks.collected(0, free);
            kicks.see(&InHeader {
                opcode: Opcode::Read as u32,
                nodeid: 7,
                ..Default::default()
            });
            KernelRing {
                queued: VecDeque::new(),
                free,
                came: Vec::new(),
                kicks,
                parked: 0,
                device: Device::from_fd(OwnedFd::from(ours)),
                kernel,
            }
        }

        /// As the kernel does: one of the background lets the first go, another overtakes them.
        fn comes(&mut self, request: Request) {
            match request {
                _ if self.free == 0 => self.queued.push_back(request),
                Request::Kick => {
                    self.free -= 1;
                    self.came.push(request);
                }
                Request::Long => {
                    self.free -= 1;
                    self.queued.push_back(request);
                    self.came.extend(self.queued.pop_front());
                }
            }
        }

        /// A round of the queue, up to where it sleeps; false if nothing was left to do.
        fn round(&mut self) -> bool {
            let came = std::mem::take(&mut self.came);
            self.kicks.collected(came.len(), self.free);
            for &request in &came {
                match request {
                    Request::Long => {
                        self.parked += 1;
                        self.free += 1;
                    }
                    Request::Kick => {
                        self.kicks.returned();
                        match self.queued.pop_front() {
                            Some(next) => self.came.push(next),
                            None => self.free += 1,
                        }
                    }
                }
            }
            if self.came.is_empty() && self.kicks.are_wanted(self.parked) {
                self.kicks.send(&self.device);
                if self.kernel.recv(&mut [0; 64]).is_ok() {
                    self.comes(Request::Kick);
                }
            }
            !came.is_empty() || !self.came.is_empty()
        }
    }

    #[test]
    fn nothing_stays_with_the_kernel_while_entries_are_free() {
        for burst in 0..40 {
            let mut ring = KernelRing::new(8);
            for _ in 0..burst {
                ring.comes(Request::Long);
            }
            let rounds = (0..1000).take_while(|_| ring.round()).count();
            assert!(rounds < 200, "{burst}: {rounds}");
            assert_eq!((ring.parked, ring.queued.len()), (burst, 0));
            // More come beside those that wait, some of them between the rounds.
            for late in 0..burst {
                ring.comes(Request::Long);
                if late % 3 == 0 {
                    ring.round();
                }
            }
            let rounds = (0..1000).take_while(|_| ring.round()).count();
            assert!(rounds < 400, "{burst}: {rounds}");
            assert_eq!((ring.parked, ring.queued.len()), (2 * burst, 0));
        }
    }

    #[test]
    fn a_queue_that_always_had_a_free_entry_sends_none() {
        let mut ring = KernelRing::new(8);
        for _ in 0..100 {
            ring.comes(Request::Long);
            ring.round();
        }
        assert_eq!((ring.parked, ring.kicks.number), (100, 0));
    }
}
