//! The book: records and accounts under one lock, and every movement between credit and granted.

mod deadlines;
mod events;
mod gates;
mod grant;
mod manage;
mod records;
mod sample;

pub use events::{EVENTS_KEPT, QuotaEvent, QuotaEventKind};
pub(crate) use grant::{Refusal, Slow};
pub(crate) use manage::Settings;
pub(crate) use sample::{Sample, Usage};

use super::account::Account;
use super::credit::Credit;
use super::kind::{Owners, QuotaId, QuotaKind, Resource};
use super::rules::{Own, Rules};
use super::slots::Slots;
use super::tally::{Bounds, Changes, Noted};
use deadlines::Deadlines;
use events::Events;
use gates::Gates;
use hearth_sync::epoch::Guard;
use hearth_sync::lock::Class;
use hearth_sync::map::ConcurrentMap;
use records::Records;

/// Sizes; smaller under a model checker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Most units that a core takes at once.
    pub batch: u64,
    /// A share below this is not worth taking: every charge then goes through the book.
    pub least: u64,
    /// The room is divided by this for a core's share.
    pub shares: u64,
    /// So many events of one kind, of one id and resource, are told one by one within a minute.
    pub singly: u32,
}

impl Tuning {
    /// For a machine with `cores` cores.
    pub fn of(cores: usize) -> Tuning {
        Tuning {
            batch: 256,
            least: 8,
            shares: 2 * cores as u64,
            singly: 8,
        }
    }

    /// Credit that a core may collect from what it frees.
    pub fn keep(&self) -> u64 {
        4 * self.batch
    }
}

/// What the holder of the lock works with.
#[derive(Clone, Copy)]
pub(crate) struct Hand<'a> {
    pub slots: &'a Slots,
    pub numbers: &'a ConcurrentMap<Owners, u32>,
    pub g: &'a Guard,
    /// Seconds of the wall clock.
    pub now: i64,
}

/// What the book knows of an account.
struct Entry {
    serial: u64,
    owners: Owners,
    /// Indices of its records, in the order of [`QuotaKind::ALL`].
    records: [usize; 4],
    /// Used, reserved, or credit of some core; by resource.
    granted: [u64; 2],
    /// Whether a word may be open; by resource.
    active: [bool; 2],
    /// What the words held when a pass last looked; by resource.
    looked: [Option<u64>; 2],
}

pub(crate) struct BookLock;
impl Class for BookLock {
    const NAME: &'static str = "quota.book";
    const RANK: u32 = 940;
}

/// Everything under the lock of the ledger.
pub(crate) struct Book {
    tuning: Tuning,
    records: Records,
    /// By number.
    accounts: Vec<Option<Entry>>,
    free: Vec<u32>,
    live: usize,
    /// Accounts that were left after the last sweep.
    swept: usize,
    serial: u64,
    /// By kind.
    rules: [Rules; 4],
    /// Settings that are about to hold.
    announced: Option<Settings>,
    /// Whether the bytes of the volume were limited since it was made.
    sized: bool,
    events: Events,
    gates: Gates,
    deadlines: Deadlines,
}

impl Book {
    /// A book whose volume has room for `blocks` and `inodes`.
    pub fn new(tuning: Tuning, blocks: u64, inodes: u64) -> Book {
        let mut book = Book {
            tuning,
            records: Records::default(),
            accounts: Vec::new(),
            free: Vec::new(),
            live: 0,
            swept: 0,
            serial: 0,
            rules: [Rules::default(); 4],
            announced: None,
            sized: false,
            events: Events::default(),
            gates: Gates::default(),
            deadlines: Deadlines::default(),
        };
        let own = Own::volume(blocks, inodes);
        let index = book.record(QuotaId::VOLUME);
        book.records[index].own = own;
        for resource in Resource::ALL {
            let bounds = book.bounds(QuotaId::VOLUME, &own, resource);
            book.records[index].tally(resource).bounds = bounds;
        }
        book
    }

    /// The number of the account of `owners`, made now if there is none.
    pub fn open_account(&mut self, owners: Owners, hand: &Hand<'_>) -> u32 {
        if let Some(number) = hand.numbers.get_with(&owners, |&number| number) {
            return number;
        }
        if self.live >= 2 * self.swept + 32 {
            self.sweep(hand);
        }
        let records = owners.ids().map(|who| self.record(who));
        for index in records {
            self.records[index].accounts += 1;
        }
        self.serial += 1;
        let entry = Entry {
            serial: self.serial,
            owners,
            records,
            granted: [0; 2],
            active: [false; 2],
            looked: [None; 2],
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.accounts.push(None);
            self.accounts.len() as u32 - 1
        });
        self.accounts[number as usize] = Some(entry);
        self.live += 1;
        let account = Account {
            owners,
            number,
            serial: self.serial,
            credit: Credit::new(),
        };
        hand.slots.put(number, Some(Box::new(account)), hand.g);
        hand.numbers.insert(owners, number);
        number
    }

    /// Ends the accounts that own nothing.
    pub fn sweep(&mut self, hand: &Hand<'_>) {
        for number in 0..self.accounts.len() as u32 {
            if self.accounts[number as usize].is_none() {
                continue;
            }
            for resource in Resource::ALL {
                self.call_back(number, resource, hand);
            }
            self.end_if_idle(number, hand);
        }
        self.swept = self.live;
    }

    /// One slice of a pass that looks what nobody uses: calls the credit of an account back that
    /// holds what it held at the last pass, and ends accounts that own nothing. Answers where the
    /// next slice begins; `None` at the end.
    pub fn settle(&mut self, from: u32, most: u32, hand: &Hand<'_>) -> Option<u32> {
        let all = self.accounts.len() as u32;
        let next = from.saturating_add(most);
        for number in from..next.min(all) {
            if self.accounts[number as usize].is_none() {
                continue;
            }
            for resource in Resource::ALL {
                self.call_back_unused(number, resource, hand);
            }
            self.end_if_idle(number, hand);
        }
        if next < all {
            return Some(next);
        }
        self.swept = self.live;
        None
    }

    /// Ends an account that owns nothing.
    fn end_if_idle(&mut self, number: u32, hand: &Hand<'_>) {
        let idle = |entry: &mut Entry| entry.granted == [0; 2] && entry.active == [false; 2];
        let Some(entry) = self.accounts[number as usize].take_if(idle) else {
            return;
        };
        hand.numbers.remove(&entry.owners);
        hand.slots.put(number, None, hand.g);
        self.free.push(number);
        self.live -= 1;
        for index in entry.records {
            self.records[index].accounts -= 1;
            self.records.close_if_idle(index);
        }
    }

    /// Accounts that exist.
    #[cfg(test)]
    pub fn accounts(&self) -> usize {
        self.live
    }

    /// The record of `who`, made now if there is none.
    fn record(&mut self, who: QuotaId) -> usize {
        let rules = self.rules;
        self.records.open(who, |resource| {
            rules[who.kind as usize].bounds(who, &Own::default(), resource)
        })
    }

    fn bounds(&self, who: QuotaId, own: &Own, resource: Resource) -> Bounds {
        self.rules[who.kind as usize].bounds(who, own, resource)
    }

    /// Calls back the credit of every account of a record.
    fn recall(&mut self, record: usize, resource: Resource, hand: &Hand<'_>) {
        while let Some(&number) = self.records[record].active[resource as usize].first() {
            self.call_back(number, resource, hand);
        }
    }

    /// Closes the words of an account; what they held is granted no more.
    fn call_back(&mut self, number: u32, resource: Resource, hand: &Hand<'_>) {
        let entry = entry_mut(&mut self.accounts, number);
        if !std::mem::take(&mut entry.active[resource as usize]) {
            return;
        }
        let account = hand.slots.get(number, hand.g).expect(IN_BOTH);
        let back = account.credit.close(resource);
        entry.granted[resource as usize] -= back;
        for record in entry.records {
            let record = &mut self.records[record];
            record.active[resource as usize].remove(&number);
            // Credit that nobody used: nothing to tell of.
            record.tally(resource).granted -= back;
        }
    }

    /// The same, if they hold what they held when this was last asked.
    fn call_back_unused(&mut self, number: u32, resource: Resource, hand: &Hand<'_>) {
        let entry = entry_mut(&mut self.accounts, number);
        if !entry.active[resource as usize] {
            return;
        }
        let account = hand.slots.get(number, hand.g).expect(IN_BOTH);
        let holds = Some(account.credit.sum(resource));
        let looked = &mut entry.looked[resource as usize];
        if std::mem::replace(looked, holds) == holds {
            *looked = None;
            self.call_back(number, resource, hand);
        }
    }

    /// After every change of a tally but that of credit.
    fn note(&mut self, record: usize, resource: Resource, changes: Changes, hand: &Hand<'_>) {
        for noted in changes.into_iter().flatten() {
            let bounds = self.records[record].tallies[resource as usize].bounds;
            let (what, limit) = match noted {
                Noted::Crossed { deadline } => {
                    (QuotaEventKind::SoftCrossed { deadline }, bounds.soft)
                }
                Noted::Returned => (QuotaEventKind::SoftReturned, bounds.soft),
                Noted::Forced => (QuotaEventKind::HardCrossed, bounds.hard),
            };
            self.tell(record, resource, what, limit, hand);
        }
        self.watch(record, resource);
    }

    fn tell(
        &mut self,
        record: usize,
        resource: Resource,
        what: QuotaEventKind,
        limit: Option<u64>,
        hand: &Hand<'_>,
    ) {
        let record = &self.records[record];
        let unit = resource.unit();
        let event = QuotaEvent {
            sequence: 0,
            time: hand.now,
            who: record.who,
            resource,
            what,
            used: record.tallies[resource as usize]
                .granted
                .saturating_mul(unit),
            limit: limit.unwrap_or(0).saturating_mul(unit),
            times: 1,
        };
        let singly = self.tuning.singly;
        self.gates.tell(event, singly, &mut self.events);
    }
}

fn entry_mut(accounts: &mut [Option<Entry>], number: u32) -> &mut Entry {
    accounts[number as usize].as_mut().expect(IN_BOTH)
}

const IN_BOTH: &str = "an account stands in the book and in its slot, or in neither";

/// Kinds by their number; the order of an account's records.
const _: () = {
    let mut at = 0;
    while at < QuotaKind::ALL.len() {
        assert!(QuotaKind::ALL[at] as usize == at);
        at += 1;
    }
};
