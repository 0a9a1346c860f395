//! Answers of a volume about quotas, read back.

use crate::failure::Failure;
use hearth::{QuotaId, QuotaKind};
use serde_json::Value;
use std::path::Path;

/// Use and limits of a resource of one id, or, without use, of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes or inodes in use.
    pub used: u64,
    /// Never passed.
    pub hard: Option<u64>,
    /// Passed for `grace` seconds at most.
    pub soft: Option<u64>,
    /// Seconds.
    pub grace: u64,
    /// While above the soft limit: end of the grace period, seconds of the wall clock.
    pub deadline: Option<i64>,
}

/// One id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The user, group or project.
    pub who: QuotaId,
    /// Bytes.
    pub bytes: Usage,
    /// Inodes.
    pub inodes: Usage,
}

/// Defaults of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Which.
    pub kind: QuotaKind,
    /// Whether its limits hold.
    pub enforced: bool,
    /// Bytes.
    pub bytes: Usage,
    /// Inodes.
    pub inodes: Usage,
}

/// An answer with records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Settings of the kinds.
    pub kinds: Vec<Kind>,
    /// By kind and id, the volume first.
    pub records: Vec<Record>,
}

impl Report {
    /// Reads an answer of the volume at `mount`.
    pub fn parse(text: &str, mount: &Path) -> Result<Report, Failure> {
        let value = object(text, mount)?;
        read(&value).ok_or_else(|| foreign(mount))
    }
}

/// An answer as JSON.
pub fn object(text: &str, mount: &Path) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| foreign(mount))
}

/// The volume is of a Hearth that speaks otherwise.
pub fn foreign(mount: &Path) -> Failure {
    Failure::at(
        mount,
        "its daemon writes another form of quota report; use the 'hearth' that mounted it",
    )
}

fn read(value: &Value) -> Option<Report> {
    let kinds = value["kinds"].as_array()?.iter().map(|value| {
        Some(Kind {
            kind: kind(&value["kind"])?,
            enforced: value["enforced"].as_bool()?,
            bytes: usage(&value["bytes"])?,
            inodes: usage(&value["inodes"])?,
        })
    });
    let records = value["records"].as_array()?.iter().map(|value| {
        let id = u32::try_from(value["id"].as_u64()?).ok()?;
        let kind = kind(&value["kind"])?;
        Some(Record {
            who: QuotaId { kind, id },
            bytes: usage(&value["bytes"])?,
            inodes: usage(&value["inodes"])?,
        })
    });
    Some(Report {
        kinds: kinds.collect::<Option<_>>()?,
        records: records.collect::<Option<_>>()?,
    })
}

fn kind(value: &Value) -> Option<QuotaKind> {
    let word = value.as_str()?;
    QuotaKind::ALL.into_iter().find(|kind| kind.name() == word)
}

fn usage(value: &Value) -> Option<Usage> {
    Some(Usage {
        used: value["used"].as_u64().unwrap_or(0),
        hard: value.get("hard")?.as_u64(),
        soft: value.get("soft")?.as_u64(),
        grace: value["grace"].as_u64()?,
        deadline: value["deadline"].as_i64(),
    })
}
