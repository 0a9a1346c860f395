//! The quota state under one lock: records, accounts, and every movement between credit and
//! `reserved`.

mod charge;
mod coalesce;
mod deadlines;
mod dquots;
mod elsewhere;
mod events;
mod files;
mod kept;
mod sample;
mod settings;

pub(crate) use charge::{Refusal, Slow};
pub use events::{EVENTS_KEPT, QuotaEvent, QuotaEventFile, QuotaEventKind};
pub(crate) use files::LostWrite;
pub(crate) use sample::{Sample, SampledUsage};
pub(crate) use settings::SettingsUpdate;

use super::account::Account;
use super::account_table::AccountTable;
use super::credit::Credit;
use super::kept::KeepQuota;
use super::kind::{Owners, QuotaId, QuotaKind, Resource};
use super::rules::{IdSettings, KindSettings};
use super::usage::{Bounds, Crossings, LimitCrossing};
use coalesce::Coalescer;
use deadlines::Deadlines;
use dquots::Dquots;
use events::Events;
use files::LostWrites;
use hearth_sync::epoch::Guard;
use hearth_sync::lock::Class;
use hearth_sync::map::ConcurrentMap;

/// Sizes; smaller under a model checker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Most units that a CPU reserves at once.
    pub batch: u64,
    /// Credit below this is not handed out: every charge then takes the lock.
    pub least: u64,
    /// The room below the limits is divided by this for the credit of one CPU.
    pub shares: u64,
    /// Events of one kind, id and resource that are reported one by one within a minute.
    pub singly: u32,
}

impl Tuning {
    /// For a machine with `cores` CPUs.
    pub fn of(cores: usize) -> Tuning {
        Tuning {
            batch: 256,
            least: 8,
            shares: 2 * cores as u64,
            singly: 8,
        }
    }

    /// Credit that a CPU may collect from what it frees.
    pub fn keep(&self) -> u64 {
        4 * self.batch
    }
}

/// The context of the holder of the lock.
#[derive(Clone, Copy)]
pub(crate) struct QuotaCx<'a> {
    pub accounts: &'a AccountTable,
    pub numbers: &'a ConcurrentMap<Owners, u32>,
    pub g: &'a Guard,
    /// Seconds of the wall clock.
    pub now: i64,
    /// Takes what is to be kept; `None` if nothing is.
    pub keep: Option<&'a KeepQuota>,
}

/// The locked part of an account.
struct AccountEntry {
    serial: u64,
    owners: Owners,
    /// Indices of its records, in the order of [`QuotaKind::ALL`].
    dquots: [usize; 4],
    /// Units that are used, charged, or credit of some CPU; by resource.
    reserved: [u64; 2],
    /// Whether a word may be open; by resource.
    active: [bool; 2],
    /// The sum of the words at the last pass, by resource.
    last_sum: [Option<u64>; 2],
}

pub(crate) struct StateLock;
impl Class for StateLock {
    const NAME: &'static str = "quota.state";
    const RANK: u32 = 940;
}

/// Everything under the lock of the ledger.
pub(crate) struct QuotaState {
    tuning: Tuning,
    dquots: Dquots,
    /// By number.
    accounts: Vec<Option<AccountEntry>>,
    free: Vec<u32>,
    live: usize,
    /// Number of accounts after the last sweep.
    swept: usize,
    serial: u64,
    /// By kind.
    rules: [KindSettings; 4],
    /// Settings of the first phase, which are not in force yet.
    prepared: Option<SettingsUpdate>,
    /// Whether the limit of bytes of the volume was set since it was made.
    sized: bool,
    events: Events,
    coalescer: Coalescer,
    lost: LostWrites,
    deadlines: Deadlines,
    /// What is charged exists elsewhere and may change unseen: more may be freed than is charged.
    elsewhere: bool,
}

impl QuotaState {
    /// The state of a volume with space for `blocks` and `inodes`.
    pub fn new(tuning: Tuning, blocks: u64, inodes: u64) -> QuotaState {
        let mut state = QuotaState {
            tuning,
            dquots: Dquots::default(),
            accounts: Vec::new(),
            free: Vec::new(),
            live: 0,
            swept: 0,
            serial: 0,
            rules: [KindSettings::default(); 4],
            prepared: None,
            sized: false,
            events: Events::default(),
            coalescer: Coalescer::default(),
            lost: LostWrites::default(),
            deadlines: Deadlines::default(),
            elsewhere: false,
        };
        let own = IdSettings::volume(blocks, inodes);
        let index = state.dquot(QuotaId::VOLUME);
        state.dquots[index].own = own;
        for resource in Resource::ALL {
            let bounds = state.bounds(QuotaId::VOLUME, &own, resource);
            state.dquots[index].usage(resource).bounds = bounds;
        }
        state
    }

    /// The number of the account of `owners`, which is created if there is none.
    pub fn open_account(&mut self, owners: Owners, cx: &QuotaCx<'_>) -> u32 {
        if let Some(number) = cx.numbers.get_with(&owners, |&number| number) {
            return number;
        }
        if self.live >= 2 * self.swept + 32 {
            self.sweep(cx);
        }
        let dquots = owners.ids().map(|who| self.dquot(who));
        for index in dquots {
            self.dquots[index].accounts += 1;
        }
        self.serial += 1;
        let entry = AccountEntry {
            serial: self.serial,
            owners,
            dquots,
            reserved: [0; 2],
            active: [false; 2],
            last_sum: [None; 2],
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
        cx.accounts.put(number, Some(Box::new(account)), cx.g);
        cx.numbers.insert(owners, number);
        number
    }

    /// Ends all accounts without charges.
    pub fn sweep(&mut self, cx: &QuotaCx<'_>) {
        for number in 0..self.accounts.len() as u32 {
            if self.accounts[number as usize].is_none() {
                continue;
            }
            for resource in Resource::ALL {
                self.recall_account(number, resource, cx);
            }
            self.end_if_idle(number, cx);
        }
        self.swept = self.live;
    }

    /// One slice of the pass over the accounts: recalls credit that has not changed since the last
    /// pass, and ends accounts without charges. Returns where the next slice begins; `None` at the
    /// end.
    pub fn recall_unused(&mut self, from: u32, most: u32, cx: &QuotaCx<'_>) -> Option<u32> {
        let all = self.accounts.len() as u32;
        let next = from.saturating_add(most);
        for number in from..next.min(all) {
            if self.accounts[number as usize].is_none() {
                continue;
            }
            for resource in Resource::ALL {
                self.recall_if_unused(number, resource, cx);
            }
            self.end_if_idle(number, cx);
        }
        if next < all {
            return Some(next);
        }
        self.swept = self.live;
        None
    }

    /// Ends an account without charges.
    fn end_if_idle(&mut self, number: u32, cx: &QuotaCx<'_>) {
        let idle =
            |entry: &mut AccountEntry| entry.reserved == [0; 2] && entry.active == [false; 2];
        let Some(entry) = self.accounts[number as usize].take_if(idle) else {
            return;
        };
        cx.numbers.remove(&entry.owners);
        cx.accounts.put(number, None, cx.g);
        self.free.push(number);
        self.live -= 1;
        for index in entry.dquots {
            self.dquots[index].accounts -= 1;
            self.dquots.close_if_idle(index);
        }
    }

    /// Number of accounts.
    #[cfg(test)]
    pub fn accounts(&self) -> usize {
        self.live
    }

    /// The record of `who`, created if there is none.
    fn dquot(&mut self, who: QuotaId) -> usize {
        let rules = self.rules;
        self.dquots.open(who, |resource| {
            rules[who.kind as usize].bounds(who, &IdSettings::default(), resource)
        })
    }

    fn bounds(&self, who: QuotaId, own: &IdSettings, resource: Resource) -> Bounds {
        self.rules[who.kind as usize].bounds(who, own, resource)
    }

    /// Recalls the credit of all accounts of a record, so that its `reserved` is exact.
    fn recall(&mut self, dquot: usize, resource: Resource, cx: &QuotaCx<'_>) {
        while let Some(&number) = self.dquots[dquot].active[resource as usize].first() {
            self.recall_account(number, resource, cx);
        }
    }

    /// Closes the words of an account and releases what they held.
    fn recall_account(&mut self, number: u32, resource: Resource, cx: &QuotaCx<'_>) {
        let entry = entry_mut(&mut self.accounts, number);
        if !std::mem::take(&mut entry.active[resource as usize]) {
            return;
        }
        let account = cx.accounts.get(number, cx.g).expect(IN_BOTH);
        let mut back = account.credit.close(resource);
        if self.elsewhere {
            back = back.min(entry.reserved[resource as usize]);
        }
        entry.reserved[resource as usize] -= back;
        for dquot in entry.dquots {
            let dquot = &mut self.dquots[dquot];
            dquot.active[resource as usize].remove(&number);
            // Unused credit: no limit is crossed.
            dquot.usage(resource).reserved -= back;
        }
    }

    /// [`QuotaState::recall_account`], if the sum of the words has not changed since the last call.
    fn recall_if_unused(&mut self, number: u32, resource: Resource, cx: &QuotaCx<'_>) {
        let entry = entry_mut(&mut self.accounts, number);
        if !entry.active[resource as usize] {
            return;
        }
        let account = cx.accounts.get(number, cx.g).expect(IN_BOTH);
        let holds = Some(account.credit.sum(resource));
        let last_sum = &mut entry.last_sum[resource as usize];
        if std::mem::replace(last_sum, holds) == holds {
            *last_sum = None;
            self.recall_account(number, resource, cx);
        }
    }

    /// Reports crossings. Called after every change of a usage except that of credit.
    fn report_crossings(
        &mut self,
        dquot: usize,
        resource: Resource,
        changes: Crossings,
        cx: &QuotaCx<'_>,
    ) {
        for crossing in changes.into_iter().flatten() {
            let bounds = self.dquots[dquot].usages[resource as usize].bounds;
            let (what, limit) = match crossing {
                LimitCrossing::Crossed { deadline } => {
                    (QuotaEventKind::SoftCrossed { deadline }, bounds.soft)
                }
                LimitCrossing::Returned => (QuotaEventKind::SoftReturned, bounds.soft),
                LimitCrossing::Forced => (QuotaEventKind::HardCrossed, bounds.hard),
            };
            self.report_event(dquot, resource, what, limit, cx);
        }
        self.watch(dquot, resource, cx);
    }

    fn report_event(
        &mut self,
        dquot: usize,
        resource: Resource,
        what: QuotaEventKind,
        limit: Option<u64>,
        cx: &QuotaCx<'_>,
    ) {
        let dquot = &self.dquots[dquot];
        let unit = resource.unit();
        let event = QuotaEvent {
            sequence: 0,
            time: cx.now,
            who: dquot.who,
            resource,
            what,
            used: dquot.usages[resource as usize]
                .reserved
                .saturating_mul(unit),
            limit: limit.unwrap_or(0).saturating_mul(unit),
            times: 1,
            file: None,
        };
        let singly = self.tuning.singly;
        self.coalescer.report(event, singly, &mut self.events);
    }
}

fn entry_mut(accounts: &mut [Option<AccountEntry>], number: u32) -> &mut AccountEntry {
    accounts[number as usize].as_mut().expect(IN_BOTH)
}

const IN_BOTH: &str = "an account stands in the state and in its slot, or in neither";

// The kinds are numbered in the order of an account's records.
const _: () = {
    let mut at = 0;
    while at < QuotaKind::ALL.len() {
        assert!(QuotaKind::ALL[at] as usize == at);
        at += 1;
    }
};
