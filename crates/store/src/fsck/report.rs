//! What a check found.

use super::code::{Code, Severity};
use crate::error::Error;
use crate::kv::KvOp;
use crate::kv::Table;
use std::collections::BTreeMap;

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The volume as a whole.
    Volume,
    /// A key, shown as its letter and its number.
    Key(String),
    /// An inode.
    Inode(u64),
    /// A name of a directory.
    Name(u64, Box<[u8]>),
    /// A segment.
    Segment(u64),
    /// A file of the volume's directory, relative to it.
    File(String),
    /// What is charged to a user, a group and a project together.
    Owner(u32, u32, u32),
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub code: Code,
    /// What it is about.
    pub place: About,
    /// The path of that on the volume, where it has one.
    pub path: Option<Vec<u8>>,
    /// Figures.
    pub detail: String,
}

/// In which order faults are put right: what comes later is counted anew then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Keys and values that cannot be read.
    Values,
    /// Inodes and names.
    Tree,
    /// Extents.
    Contents,
    /// Counts.
    Counts,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Inodes.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Names.
    pub names: u64,
    /// Extents.
    pub extents: u64,
    /// Pages of files.
    pub pages: u64,
    /// Segments.
    pub segments: u64,
    /// Blocks whose bytes were verified.
    pub blocks: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The findings, at most [`Report::LISTED`] of each code.
    pub findings: Vec<Finding>,
    /// How many there are of each code.
    pub totals: BTreeMap<Code, u64>,
    /// How much there is.
    pub counted: Counted,
    /// What puts it right, by stage.
    fixes: BTreeMap<Stage, Vec<KvOp>>,
    /// A part could not be read: what seems to be missing may be there.
    is_blind: bool,
}

/// Changes of one stage that are made at once; the next round finds the others.
const FIXES: usize = 100_000;

impl Report {
    /// Findings of one code that are listed; the others are counted.
    pub const LISTED: u64 = 1000;

    /// Whether a repair would change something.
    pub fn is_repairable(&self) -> bool {
        !self.fixes.is_empty()
    }

    /// Adds what is wrong with the log, as the opening found.
    pub fn add_damage(&mut self, damage: &Error) {
        if !self.totals.contains_key(&Code::Log) {
            self.find(Code::Log, About::Volume, damage.fault());
        }
    }

    /// The log was put right: an opening to repair has dropped what is behind the gap.
    pub fn forget_damage(&mut self) {
        self.totals.remove(&Code::Log);
        self.findings.retain(|finding| finding.code != Code::Log);
    }

    /// What a later look has found as well, with what that look has counted.
    pub fn kept_in(&self, mut later: Report) -> Report {
        let is_kept = |finding: &Finding| {
            let mut before = self.findings.iter();
            before.any(|f| (f.code, &f.place) == (finding.code, &finding.place))
        };
        later.findings.retain(is_kept);
        later.totals = BTreeMap::new();
        for finding in &later.findings {
            *later.totals.entry(finding.code).or_default() += 1;
        }
        later
    }

    /// The changes of the first stage that has any.
    pub(super) fn first_stage(&self) -> Option<(Stage, &[KvOp])> {
        let (stage, fixes) = self.fixes.first_key_value()?;
        Some((*stage, fixes))
    }

    /// Nothing may be changed: a part could not be read.
    pub(super) fn cannot_repair(&mut self) {
        self.is_blind = true;
        self.fixes.clear();
    }

    /// Whether anything is worse than a note.
    pub fn is_clean(&self) -> bool {
        self.worst()
            .is_none_or(|severity| severity == Severity::Note)
    }

    /// Whether bytes are gone.
    pub fn has_loss(&self) -> bool {
        self.worst() == Some(Severity::Loss)
    }

    fn worst(&self) -> Option<Severity> {
        self.totals.keys().map(|code| code.meaning().severity).max()
    }

    /// Whether a part could not be read.
    pub(super) fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// Adds a finding.
    pub(super) fn find(&mut self, code: Code, place: About, detail: impl Into<String>) {
        let total = self.totals.entry(code).or_default();
        *total += 1;
        if *total <= Report::LISTED {
            self.findings.push(Finding {
                code,
                place,
                path: None,
                detail: detail.into(),
            });
        }
    }

    /// Counts a finding that is not listed.
    pub(super) fn count(&mut self, code: Code) {
        *self.totals.entry(code).or_default() += 1;
    }

    /// Adds a change that puts something right.
    pub(super) fn fix(&mut self, stage: Stage, op: KvOp) {
        if self.is_blind {
            return;
        }
        let fixes = self.fixes.entry(stage).or_default();
        if fixes.len() < FIXES {
            fixes.push(op);
        }
    }
}

/// A table could not be read to its end. Passes meet it one after the other; it is said once.
/// Where extents cannot be read, they alone are not known.
pub fn report_of_engine(report: &mut Report, error: &Error, table: Table) {
    let detail = error.to_string();
    let mut found = report.findings.iter();
    if !found.any(|known| known.code == Code::Engine && known.detail == detail) {
        report.find(Code::Engine, About::Volume, detail);
    }
    if table == Table::Meta {
        report.cannot_repair();
    }
}
