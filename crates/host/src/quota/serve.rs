//! Beginning and ending quotas of a directory that is served.

use super::amounts::XFS;
use super::amounts::of_roots_label;
use super::labels::Labels;
use super::late::Late;
use super::lines::Form;
use super::mounts_below::has_mounts_below;
use super::projects::PROJECTS;
use super::refusals::Refusals;
use super::state_dir::QuotaDir;
use super::under_way::UnderWay;
use super::{Counting, Lines, Moving, Projects, Quotas, Refusal, clusters};
use crate::error::OpenError;
use crate::state::StateDir;
use crate::tree::Tree;
use crate::vfs::HostVfs;
use hearth::{BLOCK, Charges, CountedElsewhere, KeptSetting, Volume};
use hearth_sync::lock::Lock;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::thread;
use rustix::fs::fstatfs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Limits, grace periods and their ends.
pub const SETTINGS: Form<String> = Form {
    name: "settings",
    is_whole: |key, value| {
        let value = value.map(|value| value.as_bytes());
        Charges::is_setting(key.as_bytes(), value)
    },
    remedy: "set the limit again with 'hearth quota set'",
};

/// How long an operation that began before the end of the walk may take until it looks.
const LATE: Duration = Duration::from_secs(5);

impl HostVfs {
    /// Serves the directory, which is `source`, with quotas. `told` hears how many inodes are
    /// counted, now and then and at the end.
    ///
    /// # Errors
    /// The state directory cannot be used, or the tree not be walked.
    pub fn with_quotas(
        mut self,
        source: &Path,
        volume: &Volume,
        waits: bool,
        told: impl Fn(u64, bool) + Send + 'static,
    ) -> std::result::Result<HostVfs, OpenError> {
        let quotas = Quotas::open(&self.tree, source, volume)?;
        let counter: Arc<dyn CountedElsewhere> = quotas.clone();
        volume.counted_by(&counter);
        self.quotas = Some(Arc::clone(&quotas));
        if !quotas.counting.is_on() {
            told(quotas.counted.load(Relaxed), true);
            return Ok(self);
        }
        let walk = move || {
            let done = quotas.count_all();
            quotas.charges.resume_grace(&quotas.kept);
            told(quotas.counted.load(Relaxed), done.is_ok());
            (done, quotas)
        };
        if waits {
            let (done, quotas) = walk();
            done.map_err(|errno| OpenError::of(source.to_owned(), errno.into()))?;
            quotas.counting.end();
            return Ok(self);
        }
        thread::spawn(move || {
            let (done, quotas) = walk();
            if done.is_err() {
                return;
            }
            thread::sleep(LATE);
            // What a rename that was under way at the end has moved.
            if quotas.count_moved().is_ok() {
                quotas.counting.end();
            }
        });
        Ok(self)
    }

    /// Keeps what is used, once nothing changes any more.
    ///
    /// # Errors
    /// Those of the state directory's filesystem: the next mount counts again.
    pub fn end_quotas(&self) -> io::Result<()> {
        match &self.quotas {
            Some(quotas) => quotas.end(),
            None => Ok(()),
        }
    }

    /// Where quotas have refused room since the mount, the first places first.
    pub fn refusals(&self) -> Vec<Refusal> {
        let quotas = self.quotas.as_ref();
        quotas.map_or(Vec::new(), |quotas| quotas.refusals.all())
    }

    /// Inodes that were counted at the start, and whether that is over.
    pub fn counted(&self) -> Option<(u64, bool)> {
        let quotas = self.quotas.as_ref()?;
        Some((quotas.counted.load(Relaxed), !quotas.counting.is_on()))
    }
}

impl Quotas {
    fn open(
        tree: &Arc<Tree>,
        source: &Path,
        volume: &Volume,
    ) -> std::result::Result<Arc<Quotas>, OpenError> {
        let beside = StateDir::of(source, tree.root(), tree.options.state.as_deref())?;
        tree.served_at(beside.prepare()?);
        let state = QuotaDir::open(&beside.path().join("quota"))?;
        let dev = tree.nodes.root().id.dev;
        let settings: Arc<Lines<String>> = Arc::new(Lines::open(&state, &SETTINGS)?);
        let projects = Projects::new(Lines::open(&state, &PROJECTS)?, dev);
        // What was written down while the filesystem could not keep it goes on to count.
        if !projects.any() && tree.can_keep_projects() {
            tree.keep_projects();
        }
        let usage = state.take_usage(&usage_of(tree))?;
        // What was kept has nothing of mounts below: with one there now the tree is counted.
        let usage = usage.filter(|_| !has_mounts_below(tree, source));
        let charges = volume.charges();
        for (owners, amounts) in usage.iter().flatten() {
            charges.force(*owners, *amounts);
        }
        let kept = settings.all().into_iter();
        let kept: Vec<KeptSetting> = kept
            .map(|(key, value)| (Box::from(key.as_bytes()), Box::from(value.as_bytes())))
            .collect();
        let lines = Arc::clone(&settings);
        charges.keep_settings(&kept, move |key, value, is_set| {
            let key = String::from_utf8_lossy(key);
            let value = value.map(|value| String::from_utf8_lossy(value).into_owned());
            match is_set {
                true => lines.set(&key, value),
                false => lines.hold(&key, value),
            }
        });
        let is_known = usage.is_some();
        if is_known {
            charges.resume_grace(&kept);
        }
        let inodes = usage.iter().flatten().map(|(_, amounts)| amounts[1]);
        let found = fstatfs(tree.root()).ok();
        let magic = found.map_or(0, |found| found.f_type as u64);
        let block = found.map_or(BLOCK, |found| found.f_bsize as u64);
        let is_xfs = magic == XFS;
        let unit = match is_xfs {
            true => BLOCK.max(block),
            false => clusters::unit(tree, magic),
        };
        let quotas = Arc::new_cyclic(|quotas| Quotas {
            tree: Arc::clone(tree),
            charges,
            projects,
            moving: Moving::default(),
            under_way: UnderWay::default(),
            pseudo: Lock::default(),
            counting: Counting::new(!is_known),
            refusals: Refusals::default(),
            late: Late::of(tree.root(), quotas),
            labels: Labels::of(of_roots_label(tree)),
            counted: AtomicU64::new(inodes.sum()),
            state,
            source: source.to_owned(),
            settings,
            kept,
            magic,
            is_xfs,
            block,
            unit,
        });
        // What is found in the root may have no project of its own to be read.
        quotas.membership(tree.nodes.root());
        Ok(quotas)
    }

    fn end(&self) -> io::Result<()> {
        let (projects, settings) = (self.projects.end(), self.settings.end());
        projects.and(settings)?;
        // With a mount below, what is used depends on what will be mounted there. One that is gone
        // has been counted.
        let is_open = self.late.has_some()
            || self.tree.has_entered()
            || has_mounts_below(&self.tree, &self.source);
        match self.counting.is_on() || is_open {
            true => Ok(()),
            false => {
                let usage = self.charges.by_owners();
                self.state.put_usage(&usage_of(&self.tree), &usage)
            }
        }
    }
}

/// Which usage is kept: of which directory, and by whose project ids.
fn usage_of(tree: &Tree) -> String {
    let root = tree.nodes.root().id;
    let directory = root.lasting(root.dev);
    match tree.keeps_projects() {
        true => format!("{directory} projects of the filesystem"),
        false => directory,
    }
}
