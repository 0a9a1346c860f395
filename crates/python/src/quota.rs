//! Quotas: limits, use, events.

use crate::amounts::LimitArg;
use crate::error;
use crate::opened::SharedHandle;
use crate::path::PathArg;
use hearth::{Errno, LimitChange, QuotaId};
use pyo3::prelude::*;

/// The quotas of a volume. An id is written "user:1000", "group:100", "project:7" or "volume".
#[pyclass(frozen, module = "hearth_fs")]
pub struct Quota {
    volume: SharedHandle,
}

/// Use and limits of one id.
#[pyclass(frozen, module = "hearth_fs")]
pub struct QuotaRecord {
    record: hearth::QuotaRecord,
}

/// Use and limits of one resource of one id, in bytes or inodes.
#[pyclass(frozen, get_all, module = "hearth_fs")]
pub struct QuotaUsage {
    /// In use.
    used: u64,
    /// The limit that is never passed, if there is one.
    hard: Option<u64>,
    /// The limit that may be passed for the grace period, if there is one.
    soft: Option<u64>,
    /// Seconds for which use may stay above the soft limit.
    grace: u64,
    /// While use is above the soft limit: when the grace period ends, in seconds since the epoch.
    deadline: Option<i64>,
    /// Whether the settings are the id's own rather than the defaults of its kind.
    own: bool,
}

/// Something that happened to a quota.
#[pyclass(frozen, get_all, module = "hearth_fs")]
pub struct QuotaEvent {
    /// Number within the volume, from 1.
    sequence: u64,
    /// Seconds since the epoch.
    time: i64,
    /// The id.
    who: String,
    /// "bytes" or "inodes".
    resource: String,
    /// Use at that moment.
    used: u64,
    /// The limit concerned.
    limit: u64,
    /// How many times it happened.
    times: u64,
    /// What happened, in one line.
    text: String,
}

impl Quota {
    pub fn new(volume: SharedHandle) -> Quota {
        Quota { volume }
    }
}

#[pymethods]
impl Quota {
    /// Changes limits of who, all or nothing.
    ///
    /// A limit is a number, text with a unit ("1GiB"), None to lift it, or "keep". One below use
    /// is allowed: it refuses growth.
    #[pyo3(signature = (who, *, bytes_hard = LimitArg::Keep, bytes_soft = LimitArg::Keep,
        inodes_hard = LimitArg::Keep, inodes_soft = LimitArg::Keep), text_signature = "($self, \
        who, *, bytes_hard='keep', bytes_soft='keep', inodes_hard='keep', inodes_soft='keep')")]
    fn set(
        &self,
        py: Python<'_>,
        who: &str,
        bytes_hard: LimitArg,
        bytes_soft: LimitArg,
        inodes_hard: LimitArg,
        inodes_soft: LimitArg,
    ) -> PyResult<()> {
        let change = LimitChange {
            bytes_hard: bytes_hard.update(true)?,
            bytes_soft: bytes_soft.update(true)?,
            inodes_hard: inodes_hard.update(false)?,
            inodes_soft: inodes_soft.update(false)?,
        };
        let (who, volume) = (id(who)?, self.volume.get().opened()?.volume());
        let done = py.detach(|| volume.quota().set(who, &change));
        done.map_err(|error| error::of_quota(&error))
    }

    /// Gives who the defaults of its kind again.
    fn clear(&self, py: Python<'_>, who: &str) -> PyResult<()> {
        let (who, volume) = (id(who)?, self.volume.get().opened()?.volume());
        let done = py.detach(|| volume.quota().clear(who));
        done.map_err(|error| error::of_quota(&error))
    }

    /// Use and limits of who, which need not own anything.
    fn get(&self, py: Python<'_>, who: &str) -> PyResult<QuotaRecord> {
        let (who, volume) = (id(who)?, self.volume.get().opened()?.volume());
        let record = py.detach(|| volume.quota().get(who));
        let record = record.map_err(|error| error::of_quota(&error))?;
        Ok(QuotaRecord { record })
    }

    /// Every id that owns something or has settings of its own, the volume first.
    fn report(&self, py: Python<'_>) -> PyResult<Vec<QuotaRecord>> {
        let volume = self.volume.get().opened()?.volume();
        let records = py.detach(|| volume.quota().report());
        let records = records.into_iter();
        Ok(records.map(|record| QuotaRecord { record }).collect())
    }

    /// Makes the directory at path, and everything below it, a project; what is created there
    /// later belongs to it as well. 0 takes the tree out of any project. Returns how many inodes
    /// were changed.
    fn set_project(&self, py: Python<'_>, path: &Bound<'_, PyAny>, project: u32) -> PyResult<u64> {
        let volume = self.volume.get().opened()?.volume();
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        let done = py.detach(|| volume.quota().set_project_tree(bytes, project));
        let done = done.map_err(|error| error::of_quota(&error))?;
        Ok(done.changed)
    }

    /// The events after number sequence (0: all that are kept), oldest first.
    #[pyo3(signature = (sequence = 0))]
    fn events(&self, py: Python<'_>, sequence: u64) -> PyResult<Vec<QuotaEvent>> {
        let volume = self.volume.get().opened()?.volume();
        let events = py.detach(|| volume.quota().events(sequence));
        let events = events.map_err(|error| error::of_quota(&error))?;
        Ok(events.iter().map(QuotaEvent::of).collect())
    }

    /// Walks the whole volume and returns, one line each, where what is counted differs from what
    /// is there. Exact on a volume at rest.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let volume = self.volume.get().opened()?.volume();
        let check = py.detach(|| volume.quota().check());
        let check = check.map_err(|error| error::of_quota(&error))?;
        let differences = check.differences.iter();
        let mut lines: Vec<String> = differences.map(difference).collect();
        for (ino, counted, held) in &check.wrong_blocks {
            lines.push(format!("inode {ino}: {counted} blocks, holds {held}"));
        }
        Ok(lines)
    }
}

#[pymethods]
impl QuotaRecord {
    /// The id.
    #[getter]
    fn who(&self) -> String {
        self.record.who.to_string()
    }

    /// Whether limits of its kind are enforced.
    #[getter]
    fn enforced(&self) -> bool {
        self.record.enforced
    }

    /// Allocated bytes.
    #[getter]
    fn bytes(&self) -> QuotaUsage {
        QuotaUsage::of(&self.record.bytes)
    }

    /// Inodes.
    #[getter]
    fn inodes(&self) -> QuotaUsage {
        QuotaUsage::of(&self.record.inodes)
    }

    fn __repr__(&self) -> String {
        let (bytes, inodes) = (self.record.bytes.used, self.record.inodes.used);
        format!(
            "<QuotaRecord {}: {bytes} bytes, {inodes} inodes>",
            self.who()
        )
    }
}

impl QuotaUsage {
    fn of(usage: &hearth::QuotaUsage) -> QuotaUsage {
        QuotaUsage {
            used: usage.used,
            hard: usage.hard,
            soft: usage.soft,
            grace: usage.grace,
            deadline: usage.deadline,
            own: usage.own,
        }
    }
}

impl QuotaEvent {
    fn of(event: &hearth::QuotaEvent) -> QuotaEvent {
        QuotaEvent {
            sequence: event.sequence,
            time: event.time,
            who: event.who.to_string(),
            resource: event.resource.name().to_owned(),
            used: event.used,
            limit: event.limit,
            times: event.times,
            text: event.to_string(),
        }
    }
}

fn difference(row: &hearth::QuotaDifference) -> String {
    let (who, unit) = (row.who, row.resource.name());
    format!("{who}: {} {unit} counted, {} there", row.ledger, row.found)
}

/// The id that `text` names.
fn id(text: &str) -> PyResult<QuotaId> {
    let number = |id: &str| id.parse::<u32>().ok();
    let found = match text.split_once(':') {
        None if text == "volume" => Some(QuotaId::VOLUME),
        Some(("user", id)) => number(id).map(QuotaId::user),
        Some(("group", id)) => number(id).map(QuotaId::group),
        Some(("project", id)) => number(id).map(QuotaId::project),
        _ => None,
    };
    let expected = "expected user:N, group:N, project:N or volume";
    found.ok_or_else(|| error::because(Errno::EINVAL, format!("'{text}': {expected}")))
}
