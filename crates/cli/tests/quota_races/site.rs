//! The volume of a race: directories of projects that everybody may write in, and limits.

use super::harness::{Mounted, Random, Transport, until};
use super::{Amounts, FREE, GROUPS, PAGE, PROJECTS, USERS};
use hearth::QuotaId;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

pub(crate) struct Site {
    mounted: Mounted,
    everybody: Vec<QuotaId>,
}

impl Site {
    pub(crate) fn new(transport: Transport, options: &str) -> Site {
        let with_free = |ids: std::ops::Range<u32>| ids.chain([FREE]);
        let users = with_free(USERS).map(QuotaId::user);
        let groups = with_free(GROUPS).map(QuotaId::group);
        let projects = with_free(PROJECTS).map(QuotaId::project);
        let site = Site {
            mounted: Mounted::new(transport, options),
            everybody: users.chain(groups).chain(projects).collect(),
        };
        for project in with_free(PROJECTS) {
            let place = site.place(project);
            std::fs::create_dir(&place).expect("a directory");
            let ino = std::fs::metadata(&place).expect("attributes").ino();
            site.ask(&format!("quota project {ino} {project}"))
                .expect("a project");
            let all = Permissions::from_mode(0o777);
            std::fs::set_permissions(&place, all).expect("root opens it to all");
        }
        site
    }

    /// Whether the kernel acknowledges writes before the volume hears of them, as long as nobody
    /// has a limit of bytes.
    pub(crate) fn collects_writes(&self) -> bool {
        let path = format!("{}/collected", self.place(FREE));
        let file = File::create_new(&path).expect("a new file");
        file.write_all_at(&[7; PAGE as usize], 0).expect("room");
        let pages = || self.used()[&QuotaId::project(FREE)][0];
        let before = pages();
        file.sync_all().expect("room");
        assert_eq!(pages(), 1);
        drop(file);
        std::fs::remove_file(path).expect("it is there");
        until("an empty project", || pages() == 0);
        before == 0
    }

    /// The directory of a project.
    pub(crate) fn place(&self, project: u32) -> String {
        let place = self.mounted.at(format!("p{project}"));
        place.to_str().expect("a path of letters").to_owned()
    }

    /// New hard limits, in pages and inodes: some have plenty, some little, some none.
    pub(crate) fn limits(&self, dice: &mut Random) -> Amounts {
        let mut place = |plenty: u64| match dice.below(6) {
            0 => u64::MAX,
            1 => dice.below(3),
            _ => dice.below(plenty),
        };
        let mut hard = BTreeMap::new();
        for &who in &self.everybody {
            let [pages, inodes] = [place(900), place(160)];
            let pages = if who.id == FREE { u64::MAX } else { pages };
            hard.insert(who, [pages, inodes]);
        }
        for (who, [pages, inodes]) in &hard {
            let amount = |limit: u64, unit: u64| match limit {
                u64::MAX => "none".to_owned(),
                // What is beyond the last whole page nobody can use.
                limit => (limit * unit + unit / 4).to_string(),
            };
            let (bytes, inodes) = (amount(*pages, PAGE), amount(*inodes, 1));
            let order = format!("quota set {who} bytes-hard={bytes} inodes-hard={inodes}");
            // The last files of the round before may be on their way to be closed.
            until(&order, || self.ask(&order).is_ok());
        }
        hard
    }

    /// What everybody has, in pages and inodes.
    pub(crate) fn used(&self) -> Amounts {
        let mut used: Amounts = self.everybody.iter().map(|&who| (who, [0, 0])).collect();
        let path = self.mounted.at(".hearth/quota/report.json");
        let text = std::fs::read_to_string(path).expect("a report");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        for record in report["records"].as_array().expect("records") {
            let number = |resource: &str| record[resource]["used"].as_u64().expect("a number");
            let (kind, id) = (&record["kind"], &record["id"]);
            let mut all = used.iter_mut();
            let found = all.find(|(who, _)| *kind == who.kind.name() && *id == who.id);
            if let Some((_, used)) = found {
                assert_eq!(number("bytes") % PAGE, 0, "{text}");
                *used = [number("bytes") / PAGE, number("inodes")];
            }
        }
        used
    }

    /// Asserts that the ledger is what a walk finds.
    pub(crate) fn check(&self, seed: u64) {
        let found = self.ask("quota check").expect("a check");
        assert!(found.contains("\"clean\":true"), "seed {seed}: {found}");
    }

    /// Asks the volume a question.
    fn ask(&self, question: &str) -> std::io::Result<String> {
        let options = File::options().read(true).write(true).clone();
        let mut file = options.open(self.mounted.at(".hearth/ask"))?;
        let begin = file.write(question.as_bytes())?;
        let mut text = vec![0; 64 << 10];
        let len = file.read_at(&mut text, begin as u64)?;
        Ok(String::from_utf8_lossy(&text[..len]).into_owned())
    }
}
