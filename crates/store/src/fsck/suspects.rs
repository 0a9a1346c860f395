//! Names that are wrong, as they are known before anybody knows the name itself: by directory and
//! what they name. One more look at their directories tells the names.

use super::code::Code;
use super::edits::{put, remove};
use super::report::{About, Report, Stage};
use crate::error::Result;
use crate::kv::{Read, Table};
use crate::schema::{decode_target, encode_target, key};
use hearth_backend::{Kind, Target};
use std::collections::BTreeMap;

/// Names that are noted at once; the others are counted, and found by a later round of a repair.
const MOST: usize = 100_000;

/// A name without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedAs {
    /// Directory.
    pub dir: u64,
    /// What it names.
    pub target: Target,
}

impl NamedAs {
    /// Bytes of a record, which sort by inode and directory.
    pub const LENGTH: usize = 21;

    /// The record.
    pub fn encode(&self) -> [u8; NamedAs::LENGTH] {
        let mut record = [0; NamedAs::LENGTH];
        record[..8].copy_from_slice(&self.target.ino.to_be_bytes());
        record[8..16].copy_from_slice(&self.dir.to_be_bytes());
        record[16..20].copy_from_slice(&self.target.generation.to_be_bytes());
        record[20] = self.target.kind as u8;
        record
    }

    /// The name of a record.
    pub fn decode(record: &[u8; NamedAs::LENGTH]) -> NamedAs {
        let generation = record[16..].first_chunk::<4>();
        NamedAs {
            dir: super::sorted::number(record, 1),
            target: Target {
                ino: super::sorted::number(record, 0),
                generation: generation.map_or(0, |bytes| u32::from_be_bytes(*bytes)),
                kind: Kind::from_dirent(record[20]).unwrap_or(Kind::File),
            },
        }
    }

    fn key(&self) -> SuspectKey {
        let Target {
            ino,
            generation,
            kind,
        } = self.target;
        (self.dir, ino, generation, kind as u8)
    }
}

type SuspectKey = (u64, u64, u32, u8);

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Its inode is not there, or has this generation.
    NoTarget(Option<u32>),
    /// Its directory has another name.
    TwoParents,
    /// Its directory is inside itself; that is reported already.
    Ring,
    /// Its inode is of this type.
    Type(Kind),
}

impl Wrong {
    fn code(self) -> Code {
        match self {
            Wrong::NoTarget(_) => Code::NoTarget,
            Wrong::TwoParents => Code::TwoParents,
            Wrong::Ring => Code::Ring,
            Wrong::Type(_) => Code::WrongType,
        }
    }
}

/// All of them.
#[derive(Default)]
pub struct Suspects {
    /// Whether the first of several equal ones is right.
    all: BTreeMap<SuspectKey, (Wrong, bool)>,
}

impl Suspects {
    /// Notes a name; false if there are too many. `keeps_one`: of those that name the same in the
    /// same directory the first one is right.
    pub fn note(
        &mut self,
        name: NamedAs,
        wrong: Wrong,
        keeps_one: bool,
        report: &mut Report,
    ) -> bool {
        if self.all.len() >= MOST {
            if wrong != Wrong::Ring {
                report.count(wrong.code());
            }
            return false;
        }
        self.all.insert(name.key(), (wrong, keeps_one));
        true
    }

    /// Looks for the names, and says what is wrong with each.
    pub fn resolve(mut self, view: &dyn Read, report: &mut Report) -> Result<()> {
        while let Some((&(dir, ..), _)) = self.all.first_key_value() {
            let rest = match dir.checked_add(1) {
                Some(next) => self.all.split_off(&(next, 0, 0, 0)),
                None => BTreeMap::new(),
            };
            let mut here = std::mem::replace(&mut self.all, rest);
            let prefix = key::names(dir);
            let end = key::behind(&prefix);
            view.scan(Table::Meta, &prefix, end.as_deref(), &mut |key, value| {
                if let (Some(name), Ok(target)) = (key.get(9..), decode_target(key, value))
                    && let Some((wrong, keeps_one)) = here.get_mut(&NamedAs { dir, target }.key())
                    && !std::mem::take(keeps_one)
                {
                    say(dir, name, target, *wrong, report);
                }
                true
            })?;
        }
        Ok(())
    }
}

fn say(dir: u64, name: &[u8], target: Target, wrong: Wrong, report: &mut Report) {
    let (key, ino) = (key::name(dir, name), target.ino);
    let detail = match wrong {
        Wrong::NoTarget(Some(now)) => format!(
            "inode {ino} of generation {}, which has {now} now",
            target.generation
        ),
        Wrong::NoTarget(None) | Wrong::TwoParents | Wrong::Ring => format!("inode {ino}"),
        Wrong::Type(kind) => format!("{:?}, and it is {kind:?}", target.kind),
    };
    if wrong != Wrong::Ring {
        report.find(wrong.code(), About::Name(dir, name.into()), detail);
    }
    let op = match wrong {
        Wrong::Type(kind) => put(&key, encode_target(&Target { kind, ..target })),
        _ => remove(Table::Meta, &key),
    };
    report.fix(Stage::Tree, op);
}
