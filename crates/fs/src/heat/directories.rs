//! Heat of directories: sums over their files, computed on request because records have no names.

use super::{FileHeat, Heat, HeatRank, HeatStats};
use crate::errno::Result;
use std::collections::HashMap;
use std::time::Duration;

/// Heat of the files that lie in one directory itself, not below it.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectoryHeat {
    /// Its path below the root; `None` for the files that are open and have no name.
    pub path: Option<Vec<u8>>,
    /// Files in it that have records and were used in time. A file with several links counts
    /// where [`Heat::paths`] finds it.
    pub files: usize,
    /// TenantCounts. Its temperature is that of one file with all the accesses.
    pub stats: HeatStats,
}

impl Heat<'_> {
    /// The `most` hottest directories by files used within `since` (always, if `None`), hottest
    /// first. Walks the whole tree.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn top_directories(
        &self,
        rank: HeatRank,
        most: usize,
        since: Option<Duration>,
    ) -> Result<Vec<DirectoryHeat>> {
        let files = self.top_files(rank, usize::MAX, since);
        let inodes: Vec<u64> = files.iter().map(|file| file.ino).collect();
        let names = self.paths(&inodes)?;
        let mut sums: HashMap<Option<&[u8]>, DirectoryHeat> = HashMap::new();
        for FileHeat {
            ino, stats: warm, ..
        } in files
        {
            // What has no entry has ended meanwhile.
            let Some(names) = names.get(&ino) else {
                continue;
            };
            let path = names.path.as_deref();
            let parent = path.map(parent);
            match sums.get_mut(&parent) {
                Some(sum) => sum.add(&warm),
                None => {
                    let path = parent.map(<[u8]>::to_vec);
                    sums.insert(
                        parent,
                        DirectoryHeat {
                            path,
                            files: 1,
                            stats: warm,
                        },
                    );
                }
            }
        }
        let mut rows: Vec<DirectoryHeat> = sums.into_values().collect();
        rows.sort_by(|a, b| {
            let scores = (rank.rate(&a.stats), rank.rate(&b.stats));
            scores
                .1
                .total_cmp(&scores.0)
                .then_with(|| a.path.cmp(&b.path))
        });
        rows.truncate(most);
        Ok(rows)
    }
}

impl HeatRank {
    /// The rate that this ranking goes by.
    pub fn rate(self, warm: &HeatStats) -> f64 {
        match self {
            HeatRank::Accesses => warm.reads_per_second + warm.writes_per_second,
            HeatRank::Reads => warm.reads_per_second,
            HeatRank::Writes => warm.writes_per_second,
            HeatRank::Bytes => warm.bytes_per_second,
        }
    }
}

impl DirectoryHeat {
    fn add(&mut self, file: &HeatStats) {
        self.files += 1;
        let warm = &mut self.stats;
        // Each access shrinks the distance to the maximum by a factor, whichever file it goes to.
        // So the distances of the files multiply.
        let missing = (1.0 - warm.temperature / 100.0) * (1.0 - file.temperature / 100.0);
        warm.temperature = (1.0 - missing) * 100.0;
        warm.bucket = ((1.0 - missing) * 255.999) as u8;
        warm.last_bucket = warm.last_bucket.max(file.last_bucket);
        warm.reads = warm.reads.saturating_add(file.reads);
        warm.writes = warm.writes.saturating_add(file.writes);
        warm.read_bytes = warm.read_bytes.saturating_add(file.read_bytes);
        warm.written_bytes = warm.written_bytes.saturating_add(file.written_bytes);
        warm.estimated = warm.estimated.saturating_add(file.estimated);
        warm.loads = warm.loads.saturating_add(file.loads);
        warm.reads_per_second += file.reads_per_second;
        warm.writes_per_second += file.writes_per_second;
        warm.bytes_per_second += file.bytes_per_second;
        warm.long_accesses += file.long_accesses;
        warm.last_read = warm.last_read.max(file.last_read);
        warm.last_write = warm.last_write.max(file.last_write);
    }
}

/// The directory that a path names something in.
fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'/') {
        None | Some(0) => b"/",
        Some(end) => &path[..end],
    }
}
