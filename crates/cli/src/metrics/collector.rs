//! One scrape: all mounts are asked at once, and what came in time is one page.

use super::args::WorkArgs;
use super::exposition::{Exposition, Metric};
use super::names::Names;
use super::probe::{self, Said, Target, Texts};
use super::ranking::TenantRanking;
use super::tenants::Tenants;
use super::{heat, locks, quotas, room};
use crate::failure::{Failure, reason};
use crate::question::Question;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MOUNTS: Metric = Metric::gauge("hearth_mounts", "Hearth mounts that were found.");
const DENIED: Metric = Metric::gauge(
    "hearth_mounts_denied",
    "Mounts among them that do not let this user look.",
);
const UP: Metric = Metric::gauge("hearth_up", "1 if the mount answered in time.");
const DURATION: Metric = Metric::gauge(
    "hearth_scrape_duration_seconds",
    "How long the mount took to answer.",
);

/// Number of a mounted filesystem.
type DeviceNumber = (u32, u32);

/// Asks mounts, and remembers of each what the next scrape needs.
pub struct Collector {
    /// Places that are looked at; all if there is none.
    only: Vec<PathBuf>,
    /// Tenants of a mount with numbers of their own.
    limit: usize,
    timeout: Duration,
    /// Whether nobody compares this page with another one.
    once: bool,
    /// Questions whose threads had not come back at the last scrape. A mount that does not answer
    /// holds one thread, however often it is scraped.
    open: HashMap<DeviceNumber, Question<Timed>>,
    rankings: HashMap<DeviceNumber, TenantRanking>,
    names: Names,
}

/// What was said, and how long it took.
type Timed = (Said, Duration);

impl Collector {
    /// Looks at what `args` name.
    pub fn new(args: &WorkArgs) -> Collector {
        Collector {
            only: args.mounts.clone(),
            limit: args.tenants,
            timeout: args.timeout,
            once: args.once,
            open: HashMap::new(),
            rankings: HashMap::new(),
            names: Names::default(),
        }
    }

    /// The page of now.
    ///
    /// # Errors
    /// The kernel does not say what is mounted.
    pub fn collect(&mut self) -> Result<String, Failure> {
        let targets = probe::targets(&self.only)
            .map_err(|error| Failure::at(Path::new("/proc/self/mountinfo"), reason(&error)))?;
        let is_listed = |device: &DeviceNumber| targets.iter().any(|t| t.device == *device);
        self.rankings.retain(|device, _| is_listed(device));
        self.open.retain(|_, question| question.is_open());
        let until = Instant::now() + self.timeout;
        let asked: Vec<_> = targets.iter().map(|target| self.ask(target)).collect();
        let (mut page, mut mounts, mut denied) = (Exposition::default(), 0u32, 0u32);
        for (target, question) in targets.iter().zip(asked) {
            let said = question.as_ref().and_then(|question| question.wait(until));
            if let (None, Some(question)) = (&said, question) {
                self.open.insert(target.device, question);
            }
            let at = target.places[0].to_string_lossy();
            mounts += 1;
            match said {
                Some((Said::Texts(texts), took)) => {
                    self.add(&mut page, target.device, &texts, took);
                }
                None | Some((Said::Nothing, _)) => page.add(&UP, &[("mount", &at)], 0.0),
                Some((Said::Denied, _)) => denied += 1,
                Some((Said::Hidden, _)) => {
                    mounts -= 1;
                    // Asked for by name it counts as down: what covers it is no volume.
                    if !self.only.is_empty() {
                        page.add(&UP, &[("mount", &at)], 0.0);
                    }
                }
            }
        }
        let is_missing = |at: &&PathBuf| !targets.iter().any(|t| t.places.contains(*at));
        for at in self.only.iter().filter(is_missing) {
            page.add(&UP, &[("mount", &at.to_string_lossy())], 0.0);
        }
        page.add(&MOUNTS, &[], mounts.into());
        page.add(&DENIED, &[], denied.into());
        Ok(page.text())
    }

    /// Asks a mount, unless it owes the answer to an earlier question, or the machine has no more
    /// threads.
    fn ask(&self, target: &Target) -> Option<Question<Timed>> {
        if self.open.contains_key(&target.device) {
            return None;
        }
        let target = target.clone();
        let timed = move || {
            let begin = Instant::now();
            let said = probe::ask(&target);
            (said, begin.elapsed())
        };
        Question::ask(timed).ok()
    }

    fn add(&mut self, page: &mut Exposition, device: DeviceNumber, texts: &Texts, took: Duration) {
        let mount = &*texts.at.to_string_lossy();
        page.add(&UP, &[("mount", mount)], 1.0);
        page.add(&DURATION, &[("mount", mount)], took.as_secs_f64());
        if let Some(text) = &texts.stats {
            page.add_text(text, mount);
        }
        if let Some(tenants) = texts.sched.as_deref().and_then(Tenants::parse) {
            let new = || TenantRanking::new(self.once);
            let ranking = self.rankings.entry(device).or_insert_with(new);
            tenants.add(page, mount, ranking, &mut self.names, self.limit);
        }
        if let Some(json) = &texts.quota {
            quotas::add(page, mount, json, &mut self.names, self.limit);
        }
        if let Some(json) = &texts.heat {
            heat::add(page, mount, json, &mut self.names, self.limit);
        }
        if let Some(json) = &texts.locks {
            locks::add(page, mount, json);
        }
        if let Some(statvfs) = &texts.room {
            room::add(page, mount, statvfs);
        }
    }
}
