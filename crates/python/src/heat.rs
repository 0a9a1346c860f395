//! Heat: which files and ranges are hot.

use crate::error;
use crate::opened::SharedHandle;
use crate::path::{PathArg, decoded};
use hearth::heat::{HeatRank, HeatStats, HeatTenant};
use hearth::{Credentials, Errno, Time, Volume};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::Duration;

/// The heat of a volume. rank is "accesses", "reads", "writes", "bytes" or "temperature"; since
/// leaves out what was not used in the last so many seconds.
#[pyclass(frozen, module = "hearth_fs")]
pub struct Heat {
    volume: SharedHandle,
}

/// The heat of a file, a range, a directory or a tenant.
#[pyclass(frozen, get_all, module = "hearth_fs")]
pub struct HeatRow {
    /// A path of the file or directory, if it has one.
    path: Option<Py<PyAny>>,
    /// Inode number of the file; 0 for a directory and for a tenant.
    ino: u64,
    /// First byte of the range; 0 for what is no range.
    start: u64,
    /// Bytes of the range; 0 for what is no range.
    length: u64,
    /// "user:N", "group:N" or "project:N"; empty for what is no tenant.
    tenant: String,
    /// 0.0 (never used) to 100.0.
    temperature: f64,
    /// Reads since the record exists.
    reads: u64,
    /// Writes since the record exists.
    writes: u64,
    /// Bytes read.
    read_bytes: u64,
    /// Bytes written.
    written_bytes: u64,
    /// Decayed rate.
    reads_per_second: f64,
    /// Decayed rate.
    writes_per_second: f64,
    /// Decayed rate.
    bytes_per_second: f64,
    /// Seconds since the epoch, if it was read.
    last_read: Option<f64>,
    /// Seconds since the epoch, if it was written.
    last_write: Option<f64>,
}

impl Heat {
    pub fn new(volume: SharedHandle) -> Heat {
        Heat { volume }
    }

    fn of(&self) -> PyResult<&Volume> {
        Ok(self.volume.get().opened()?.volume())
    }
}

#[pymethods]
impl Heat {
    /// Whether accesses are recorded.
    #[getter]
    fn enabled(&self) -> PyResult<bool> {
        Ok(self.of()?.heat().is_on())
    }

    /// Turns recording on or off. Records stay and cool.
    fn switch(&self, on: bool) -> PyResult<()> {
        self.of()?.heat().switch(on);
        Ok(())
    }

    /// The hottest files, hottest first, each with a path. Walks the whole tree for the paths.
    #[pyo3(signature = (most = 10, *, rank = "accesses", since = None))]
    fn top_files(
        &self,
        py: Python<'_>,
        most: usize,
        rank: &str,
        since: Option<f64>,
    ) -> PyResult<Vec<HeatRow>> {
        let (volume, rank, since) = (self.of()?, self::rank(rank)?, seconds(since)?);
        let (files, paths) = py.detach(|| {
            let files = volume.heat().top_files(rank, most, since);
            let inodes: Vec<u64> = files.iter().map(|file| file.ino).collect();
            let paths = volume.heat().paths(&inodes);
            (files, paths)
        });
        let paths = paths.map_err(error::of)?;
        let rows = files.into_iter().map(|file| {
            let path = paths.get(&file.ino).and_then(|info| info.path.as_deref());
            let path = shown(py, path)?;
            let row = HeatRow::of(&file.stats);
            let ino = file.ino;
            Ok(HeatRow { path, ino, ..row })
        });
        rows.collect()
    }

    /// The hottest ranges of 1 MiB, hottest first.
    #[pyo3(signature = (most = 10, *, rank = "accesses", since = None))]
    fn top_ranges(
        &self,
        py: Python<'_>,
        most: usize,
        rank: &str,
        since: Option<f64>,
    ) -> PyResult<Vec<HeatRow>> {
        let (volume, rank, since) = (self.of()?, self::rank(rank)?, seconds(since)?);
        let ranges = py.detach(|| volume.heat().top_ranges(rank, most, since));
        Ok(ranges.iter().map(HeatRow::of_range).collect())
    }

    /// The hottest directories by the files in them, hottest first. Walks the whole tree.
    #[pyo3(signature = (most = 10, *, rank = "accesses", since = None))]
    fn top_directories(
        &self,
        py: Python<'_>,
        most: usize,
        rank: &str,
        since: Option<f64>,
    ) -> PyResult<Vec<HeatRow>> {
        let (volume, rank, since) = (self.of()?, self::rank(rank)?, seconds(since)?);
        let found = py.detach(|| volume.heat().top_directories(rank, most, since));
        let rows = found.map_err(error::of)?.into_iter().map(|found| {
            let path = shown(py, found.path.as_deref())?;
            let row = HeatRow::of(&found.stats);
            Ok(HeatRow { path, ..row })
        });
        rows.collect()
    }

    /// Users, groups and projects, hottest first.
    #[pyo3(signature = (*, rank = "accesses"))]
    fn tenants(&self, py: Python<'_>, rank: &str) -> PyResult<Vec<HeatRow>> {
        let (volume, rank) = (self.of()?, self::rank(rank)?);
        let found = py.detach(|| volume.heat().tenants(rank));
        let rows = found.into_iter().map(|found| HeatRow {
            tenant: match found.tenant {
                HeatTenant::User(id) => format!("user:{id}"),
                HeatTenant::Group(id) => format!("group:{id}"),
                HeatTenant::Project(id) => format!("project:{id}"),
            },
            ..HeatRow::of(&found.stats)
        });
        Ok(rows.collect())
    }

    /// The heat of the file at path; None if it has no record.
    fn file(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Option<HeatRow>> {
        let (volume, given) = (self.of()?, PathArg::of(path)?);
        let bytes = given.bytes();
        let found = py.detach(|| {
            let ino = inode(volume, bytes)?;
            volume.heat().file(ino)
        });
        if matches!(found, Err(Errno::ENODATA)) {
            return Ok(None);
        }
        let found = given.check(found)?;
        let row = HeatRow::of(&found.stats);
        let path = shown(py, Some(bytes))?;
        let ino = found.ino;
        Ok(Some(HeatRow { path, ino, ..row }))
    }

    /// The ranges of the file at path that have records, in the order of the file.
    fn ranges(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Vec<HeatRow>> {
        let (volume, given) = (self.of()?, PathArg::of(path)?);
        let bytes = given.bytes();
        let found = py.detach(|| {
            let ino = inode(volume, bytes)?;
            volume.heat().ranges(ino)
        });
        Ok(given.check(found)?.iter().map(HeatRow::of_range).collect())
    }

    /// Which shares of the recorded accesses fast tiers of these sizes would have served:
    /// {bytes: (of reads, of writes)}, each 0 to 1.
    fn what_if<'py>(&self, py: Python<'py>, sizes: Vec<u64>) -> PyResult<Bound<'py, PyDict>> {
        let volume = self.of()?;
        let found = py.detach(|| volume.heat().what_if(&sizes));
        let shares = PyDict::new(py);
        for point in &found.points {
            shares.set_item(point.bytes, (point.reads, point.writes))?;
        }
        Ok(shares)
    }
}

impl HeatRow {
    fn of(stats: &HeatStats) -> HeatRow {
        HeatRow {
            path: None,
            ino: 0,
            start: 0,
            length: 0,
            tenant: String::new(),
            temperature: stats.temperature,
            reads: stats.reads,
            writes: stats.writes,
            read_bytes: stats.read_bytes,
            written_bytes: stats.written_bytes,
            reads_per_second: stats.reads_per_second,
            writes_per_second: stats.writes_per_second,
            bytes_per_second: stats.bytes_per_second,
            last_read: stats.last_read.map(wall),
            last_write: stats.last_write.map(wall),
        }
    }

    fn of_range(range: &hearth::heat::RangeHeat) -> HeatRow {
        HeatRow {
            ino: range.ino,
            start: range.start,
            length: range.len,
            ..HeatRow::of(&range.stats)
        }
    }
}

fn wall(time: Time) -> f64 {
    time.sec as f64 + f64::from(time.nsec) * 1e-9
}

fn shown(py: Python<'_>, path: Option<&[u8]>) -> PyResult<Option<Py<PyAny>>> {
    let path = path.map(|path| decoded(py, path, false)).transpose()?;
    Ok(path.map(Bound::unbind))
}

/// The inode at `path`, whoever may see it.
fn inode(volume: &Volume, path: &[u8]) -> Result<u64, Errno> {
    Ok(volume.process(Credentials::root()).stat(path)?.ino)
}

fn rank(text: &str) -> PyResult<HeatRank> {
    Ok(match text {
        "accesses" => HeatRank::Accesses,
        "reads" => HeatRank::Reads,
        "writes" => HeatRank::Writes,
        "bytes" => HeatRank::Bytes,
        "temperature" => HeatRank::Temperature,
        _ => {
            let expected = "expected accesses, reads, writes, bytes or temperature";
            return Err(error::because(
                Errno::EINVAL,
                format!("'{text}': {expected}"),
            ));
        }
    })
}

fn seconds(since: Option<f64>) -> PyResult<Option<Duration>> {
    let since = since.map(Duration::try_from_secs_f64).transpose();
    since.map_err(|error| error::because(Errno::EINVAL, format!("since: {error}")))
}
