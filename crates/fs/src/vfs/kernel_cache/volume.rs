//! The core behind a kernel that caches.

use crate::attr::{Attr, SetAttr};
use crate::caller::{Caller, Origin};
use crate::errno::Errno;
use crate::heat::Access;
use crate::inode::InodeExt;
use crate::ops::io::{WriteAt, Writer};
use crate::ops::open::OpenFile;
use crate::ops::{attr, io, privilege, reserve};
use crate::quota::QuotaEventFile;
use crate::quotactl::Quota;
use crate::superblock::Stop;
use crate::vfs::volume::{KERNEL, VolumeVfs};
use crate::vfs::volume_files::is_append_only;
use crate::vfs::wait_mode::WaitMode;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::{Ordering, fence};
use std::ops::Range;

impl<W: WaitMode> VolumeVfs<W> {
    /// [`crate::KernelCache::known_files`].
    pub fn known_files(&self) -> Vec<u64> {
        let mut files = Vec::new();
        let g = pin();
        self.volume.sb.objects.inodes.scan(0, &g, |inode| {
            if inode.has_data() && inode.raw_counts() > 0 {
                files.push(inode.number());
            }
            true
        });
        files
    }

    /// [`crate::KernelCache::settle_times`].
    pub fn settle_times(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        set: &SetAttr,
    ) -> Result<Attr, W::Error> {
        self.on(caller, ino, |cx, inode, g| {
            attr::setattr_acknowledged(cx, inode, set, true, g)?;
            Ok(inode.attr())
        })
    }

    /// [`crate::KernelCache::charges_first`].
    pub fn charges_first(&self, file: &OpenFile) -> bool {
        let g = pin();
        let Ok(inode) = file.inode(&g) else {
            return false;
        };
        if !file.writable() {
            return reserve::has_writers(inode);
        }
        // Partner: a first limit (`quotactl/collecting.rs`). The front end has shown the file
        // before. Either the partner finds the file, or this thread sees that the limit was
        // announced.
        fence(Ordering::SeqCst);
        let add_writer = || reserve::add_writer(&self.volume.sb, inode);
        // Repeated if the first charged writer came in between: this file is then opened like that
        // one.
        let is_charged = add_writer() || reserve::has_writers(inode) && add_writer();
        if is_charged {
            file.set_charged();
        }
        is_charged
    }

    /// [`crate::KernelCache::read_for_cache`].
    pub fn read_for_cache(
        &self,
        file: &OpenFile,
        off: u64,
        out: &mut [u8],
    ) -> Result<usize, W::Error> {
        if !file.readable() || file.is_control() {
            return self.read(file, off, out);
        }
        let noatime = file.flags() & libc::O_NOATIME != 0;
        self.run(&KERNEL, |cx, g| {
            let inode = file.inode(g)?;
            // The reply to a writer's open comes before any page is read through that writer.
            if reserve::has_writers(inode) {
                match reserve::reserve(cx, inode, off, out.len(), g) {
                    // A read through a file that is open for reading only does not fail for lack of
                    // space.
                    Err(Stop::Errno(Errno::EDQUOT | Errno::ENOSPC)) if !file.writable() => {}
                    done => done?,
                }
            }
            io::read(cx, inode, off, out, noatime, g)
        })
    }

    /// [`crate::KernelCache::read_through`].
    pub fn read_through(
        &self,
        file: &OpenFile,
        off: u64,
        out: &mut [u8],
    ) -> Result<usize, W::Error> {
        let sb = &self.volume.sb;
        let held = {
            let g = pin();
            let inode = file.inode(&g)?;
            let passes = file.readable() && !file.is_control() && !reserve::has_writers(inode);
            passes.then(|| inode.hold()).flatten()
        };
        let Some(held) = held else {
            return self.read_for_cache(file, off, out);
        };
        let noatime = file.flags() & libc::O_NOATIME != 0;
        let read = self
            .run(&KERNEL, |cx, g| {
                io::touch_atime(cx, file.inode(g)?, noatime)
            })
            .and_then(|()| Ok(sb.read_through(&held, off, out)?));
        let g = pin();
        if let Ok(len) = read {
            sb.heat.note(Origin::Kernel, &held, Access::Read, off, len);
        }
        sb.release(held, &g);
        read
    }

    /// [`crate::KernelCache::appends_only`].
    pub fn appends_only(&self, file: &OpenFile) -> bool {
        file.writable()
            && file.flags() & libc::O_APPEND != 0
            && file.inode(&pin()).is_ok_and(is_append_only)
    }

    /// [`crate::KernelCache::strip_suidgid`].
    pub fn strip_suidgid(&self, caller: &Caller<'_>, ino: u64) -> Result<bool, W::Error> {
        self.on(caller, ino, |cx, inode, g| {
            if !privilege::has_suidgid(inode) || !io::is_changeable(cx, inode) {
                return Ok(false);
            }
            cx.begin_acknowledged(inode)?;
            let _kept = cx.pin_inode(inode, g)?;
            Ok(privilege::strip_suidgid_undecided(cx, inode))
        })
    }

    /// [`crate::KernelCache::write_back`].
    pub fn write_back(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        off: u64,
        data: &[u8],
        kill_suidgid: bool,
        touches: bool,
    ) -> Result<usize, W::Error> {
        self.on(caller, ino, |cx, inode, g| {
            let (place, writer) = (WriteAt::At(off), Writer::PageCache { touches });
            let done = io::write_acknowledged(cx, inode, place, data, kill_suidgid, writer, g)?;
            Ok(done.1)
        })
    }

    /// [`crate::KernelCache::lose`].
    pub fn lose(&self, ino: u64, lost: &[Range<u64>], errno: Errno) {
        let sb = &self.volume.sb;
        if let Some(log) = sb.log() {
            // Nothing comes there any more: what lies behind is written back without it.
            lost.iter().for_each(|range| log.gaps.fill(ino, range));
        }
        // Of an inode that is gone nobody misses anything, but it is said.
        let of = sb.run(&KERNEL, |cx, g| {
            let inode = cx.sb.inode(ino, g)?;
            Ok((inode.meta.owner().uid, inode.generation()))
        });
        let (owner, generation) = of.ok().unzip();
        let file = QuotaEventFile {
            ino,
            generation,
            path: None,
        };
        let bytes = lost.iter().map(|range| range.end - range.start).sum();
        Quota::of(sb).report_lost(owner, file, Some(bytes), errno);
    }
}
