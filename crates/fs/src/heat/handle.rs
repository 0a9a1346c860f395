//! The heat of a volume as programs use it.

use super::key::file_id;
use super::record::FileId;
use super::settings::HeatSettings;
use super::{
    FileHeat, HeatGauges, HeatInfo, HeatRank, HeatTenant, RangeHeat, TenantHeat, WhatIf,
    path_info::PathInfo,
};
use crate::attr::Time;
use crate::caller::Caller;
use crate::errno::{Errno, Result};
use crate::inode::InodeExt;
use crate::ops::ctx::Ctx;
use crate::superblock::Superblock;
use crate::volume::Volume;
use hearth_sync::epoch::Guard;
use std::collections::HashMap;
use std::time::Duration;

impl Volume {
    /// Which files and ranges are hot.
    ///
    /// ```
    /// use hearth::heat::HeatRank;
    /// let volume = hearth::Volume::builder().hot_track(true).build()?;
    /// let process = volume.process(hearth::Credentials::root());
    /// let fd = process.open("/log", libc::O_CREAT | libc::O_RDWR, 0o644)?;
    /// process.write(fd, b"line\n")?;
    /// let top = volume.heat().top_files(HeatRank::Writes, 10, None);
    /// assert_eq!(top[0].ino, process.stat("/log")?.ino);
    /// assert_eq!((top[0].stats.writes, top[0].stats.written_bytes), (1, 5));
    /// # Ok::<(), hearth::Errno>(())
    /// ```
    pub fn heat(&self) -> Heat<'_> {
        Heat::of(&self.sb)
    }
}

/// The heat of a volume; see [`Volume::heat`]. Reports are as of the call.
#[derive(Clone, Copy)]
pub struct Heat<'a> {
    pub(crate) sb: &'a Superblock,
}

impl<'a> Heat<'a> {
    pub(crate) fn of(sb: &'a Superblock) -> Heat<'a> {
        Heat { sb }
    }
}

impl Heat<'_> {
    /// The wall clock of the volume, in which last accesses are given.
    pub fn time(&self) -> Time {
        self.sb.now()
    }

    /// Whether accesses are recorded.
    pub fn is_on(&self) -> bool {
        self.sb.heat.is_on()
    }

    /// Turns recording of accesses on or off. Records stay and cool.
    pub fn switch(&self, on: bool) {
        self.sb.heat.switch(on);
    }

    /// Whether there may be records.
    pub fn has_records(&self) -> bool {
        self.sb.heat.has_records()
    }

    /// What tracking holds, and what it missed.
    pub fn gauges(&self) -> HeatGauges {
        self.sb.heat.gauges()
    }

    /// Seconds between two passes of ageing: `hot-update-interval`.
    pub fn interval(&self) -> u64 {
        self.settings().interval()
    }

    /// MiB that records may take, 0 for no limit: `hot-mem-high-thresh`.
    pub fn memory(&self) -> u64 {
        self.settings().memory()
    }

    /// The short and the long half-life in whole seconds; see [`Heat::set_half_lives`].
    pub fn half_lives(&self) -> [u64; 2] {
        self.settings().half_lives().seconds()
    }

    /// The `most` hottest files used within `since` (always, if `None`), hottest first.
    pub fn top_files(&self, rank: HeatRank, most: usize, since: Option<Duration>) -> Vec<FileHeat> {
        self.sb.heat.top_files(&self.sb.objects, rank, most, since)
    }

    /// The `most` hottest ranges used within `since`, hottest first.
    pub fn top_ranges(
        &self,
        rank: HeatRank,
        most: usize,
        since: Option<Duration>,
    ) -> Vec<RangeHeat> {
        self.sb.heat.top_ranges(&self.sb.objects, rank, most, since)
    }

    /// Users, groups and projects, hottest first.
    pub fn tenants(&self, rank: HeatRank) -> Vec<TenantHeat> {
        self.sb.heat.tenants(&self.sb.objects, rank)
    }

    /// Heat of one tenant; `None` if it never was seen.
    pub fn tenant(&self, tenant: HeatTenant) -> Option<TenantHeat> {
        let mut all = self.tenants(HeatRank::Accesses);
        let at = all.iter().position(|row| row.tenant == tenant)?;
        Some(all.swap_remove(at))
    }

    /// Heat of inode `ino`.
    ///
    /// # Errors
    /// `ENODATA` without a record, `ESTALE` without an inode.
    pub fn file(&self, ino: u64) -> Result<FileHeat> {
        let found = self.sb.heat.of_file(&self.sb.objects, self.known(ino)?);
        found.ok_or(Errno::ENODATA)
    }

    /// Whether user `uid` may see the heat of inode `ino`, or of all (`None`): root and the owner
    /// of the volume may see everybody's, the owner of a file that of it.
    pub fn may_see(&self, uid: u32, ino: Option<u64>) -> bool {
        if let (Some(files), Some(ino)) = (self.sb.objects.foreign(), ino) {
            let known = files.of_number(ino).and_then(|file| files.facts(file));
            return uid == 0
                || uid == self.sb.options.owner.0
                || known.is_some_and(|facts| facts.uid == uid);
        }
        let owner = |ino| {
            let uid = |cx: &Ctx<'_>, g: &Guard| Ok(cx.sb.inode(ino, g)?.fields().uid);
            self.sb.run(&Caller::ROOT, uid)
        };
        uid == 0 || uid == self.sb.options.owner.0 || ino.is_some_and(|ino| owner(ino) == Ok(uid))
    }

    /// Heat of inode `ino` for the ioctl `FS_IOC_GET_HEAT_INFO`: the current temperature if `live`,
    /// or that of the last pass of ageing.
    ///
    /// # Errors
    /// `ENODATA` without a record, `ESTALE` without an inode.
    pub fn info(&self, ino: u64, live: bool) -> Result<HeatInfo> {
        let found = self.sb.heat.info(&self.sb.objects, self.known(ino)?, live);
        found.ok_or(Errno::ENODATA)
    }

    /// Ranges of inode `ino` that have records, in the order of the file.
    ///
    /// # Errors
    /// `ESTALE` without an inode.
    pub fn ranges(&self, ino: u64) -> Result<Vec<RangeHeat>> {
        Ok(self.sb.heat.ranges_of(&self.sb.objects, self.known(ino)?))
    }

    /// Bytes of ranges with records in each of the 256 buckets, coldest first.
    pub fn bytes_by_bucket(&self) -> Vec<u64> {
        self.sb.heat.bytes_by_bucket(&self.sb.objects)
    }

    /// Which shares of the recorded accesses fast tiers of `sizes` bytes would have served.
    pub fn what_if(&self, sizes: &[u64]) -> WhatIf {
        self.sb.heat.what_if(&self.sb.objects, sizes)
    }

    /// One path of each inode, and its number of links. An unlinked inode has no path. Walks the
    /// whole tree, so pass many inodes at once.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn paths(&self, inodes: &[u64]) -> Result<HashMap<u64, PathInfo>> {
        match self.sb.objects.foreign() {
            Some(files) => files.paths(inodes),
            None => super::paths::find(self.sb, inodes),
        }
    }

    /// One pass of ageing over all records; the background work does it in slices.
    pub fn age(&self) {
        self.sb.heat.drain(&self.sb.objects);
        for _ in 0..8 {
            self.sb.heat.sweep(&self.sb.objects);
        }
    }

    /// The file id of an inode, which is fetched if it was evicted.
    fn known(&self, ino: u64) -> Result<FileId> {
        if let Some(files) = self.sb.objects.foreign() {
            // Without a record it is not known here, and there all the same.
            let file = files.of_number(ino);
            return file.map_or(Err(Errno::ENODATA), |file| Ok(file.id()));
        }
        self.sb.run(&Caller::ROOT, |cx, g| {
            Ok(file_id(ino, cx.sb.inode(ino, g)?.generation()))
        })
    }

    fn settings(&self) -> &HeatSettings {
        &self.sb.heat.settings
    }
}
