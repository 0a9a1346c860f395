//! Charging: the fast paths, and the slow paths into the locked state.

use super::account::{Account, NO_ACCOUNT};
use super::account_table::AccountTable;
use super::kept::{KeepError, KeepQuota, KeptQuota};
use super::kind::{Owners, QuotaId, Resource};
use super::state::{
    QuotaCx, QuotaState, Refusal, Sample, SampledUsage, SettingsUpdate, Slow, StateLock, Tuning,
};
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::lock::{self, Lock};
use hearth_sync::map::ConcurrentMap;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::OnceLock;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The quota ledger of a volume.
pub(crate) struct Ledger {
    pub(super) accounts: AccountTable,
    /// Numbers of accounts by owners. Written under the state lock.
    numbers: ConcurrentMap<Owners, u32>,
    /// The account that each CPU looked up last; a hint.
    recent: PerCpu<AtomicU32>,
    state: StateLine,
    /// Seconds of the wall clock.
    clock: Box<dyn Fn() -> i64 + Send + Sync>,
    keep: u64,
    /// Whether users, groups and projects are accounted; otherwise only the volume is.
    by_owner: bool,
    flags: Flags,
    /// Takes what is to be kept, once the volume is open; never if nothing is.
    keeper: OnceLock<Box<KeepQuota>>,
}

/// Flags for kernels in front, which may acknowledge what a limit would refuse: see "Charged before
/// it is acknowledged" in `docs/design/quota.md`. Written under the state lock. Relaxed: that page
/// says what orders each flag.
struct Flags {
    /// Charge first even without limits.
    always: AtomicBool,
    charges_first: AtomicBool,
    /// There may be files that were opened before the volume charged first.
    leftovers: AtomicBool,
}

/// Own cache line: avoids false sharing between the lock and threads that charge.
#[repr(align(64))]
struct StateLine(Lock<StateLock, QuotaState>);

/// A charge in progress: units taken but not yet spent. Unspent units go back on drop.
#[must_use = "unspent units go back"]
pub(crate) struct Charge<'a> {
    ledger: &'a Ledger,
    account: &'a Account,
    resource: Resource,
    left: u64,
}

impl Ledger {
    /// A ledger for a volume with this many blocks and inodes.
    pub fn new(
        tuning: Tuning,
        (blocks, inodes): (u64, u64),
        by_owner: bool,
        clock: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Ledger {
        Ledger {
            accounts: AccountTable::new(),
            numbers: ConcurrentMap::new(),
            recent: PerCpu::new(|_| AtomicU32::new(NO_ACCOUNT)),
            state: StateLine(Lock::new(QuotaState::new(tuning, blocks, inodes))),
            clock: Box::new(clock),
            keep: tuning.keep(),
            by_owner,
            flags: Flags {
                always: AtomicBool::new(false),
                charges_first: AtomicBool::new(false),
                leftovers: AtomicBool::new(false),
            },
            keeper: OnceLock::new(),
        }
    }

    /// Charges first from now on, even without limits.
    pub fn charge_first(&self, g: &Guard) {
        self.with_state(g, |state, _| {
            self.flags.always.store(true, Relaxed);
            self.update_flags(state);
        });
    }

    /// Clears the flag of files that were opened before the volume charged first. The caller keeps
    /// limits from being set meanwhile.
    pub fn clear_leftovers(&self) {
        self.flags.leftovers.store(false, Relaxed);
    }

    /// Charges a new object to `owners`. `hint` is the number of an account that may be theirs.
    #[inline]
    pub fn charge_new<'g>(
        &'g self,
        hint: u32,
        owners: Owners,
        (resource, amount): (Resource, u64),
        g: &'g Guard,
    ) -> Result<Charge<'g>, Refusal> {
        loop {
            let account = self.account(hint, owners, g);
            match self.take(account, resource, amount, g) {
                Ok(charge) => return Ok(charge),
                Err(Slow::Refused(refusal)) => return Err(refusal),
                // The account ended between the lookup and the lock; the next lookup finds another.
                Err(Slow::Stale) => {}
            }
        }
    }

    /// Charges more to the account `number` of an inode. The inode keeps the account alive.
    #[inline]
    pub fn charge<'g>(
        &'g self,
        number: u32,
        resource: Resource,
        amount: u64,
        g: &'g Guard,
    ) -> Result<Charge<'g>, Refusal> {
        match self.take(self.of(number, g), resource, amount, g) {
            Ok(charge) => Ok(charge),
            Err(Slow::Refused(refusal)) => Err(refusal),
            Err(Slow::Stale) => unreachable!("{CHARGED}"),
        }
    }

    /// Number of the account of `owners`. The caller has charged something to them.
    pub fn number_of(&self, owners: Owners, g: &Guard) -> u32 {
        self.account(NO_ACCOUNT, owners, g).number
    }

    /// Releases what an inode of account `number` no longer uses.
    #[inline]
    pub fn free(&self, number: u32, resource: Resource, amount: u64, g: &Guard) {
        if amount > 0 {
            self.give(self.of(number, g), resource, amount);
        }
    }

    /// Moves a charge of blocks and inodes from account `from` to the account of `owners`, and
    /// returns its number. With `force` the limits are ignored.
    pub fn transfer(
        &self,
        from: u32,
        owners: Owners,
        amounts: [u64; 2],
        force: bool,
        g: &Guard,
    ) -> Result<u32, Refusal> {
        let left = self.of(from, g);
        loop {
            let entered = self.account(from, owners, g);
            if entered.number == from {
                return Ok(from);
            }
            let moved = self.with_state(g, |state, cx| {
                state.transfer((left, entered), amounts, force, cx)
            });
            match moved {
                Ok(()) => return Ok(entered.number),
                Err(Slow::Refused(refusal)) => return Err(refusal),
                Err(Slow::Stale) => {}
            }
        }
    }

    /// [`Ledger::free`] of what exists elsewhere, by owners: as much as they have.
    pub fn free_of(&self, owners: Owners, resource: Resource, amount: u64, g: &Guard) {
        if amount == 0 {
            return;
        }
        loop {
            let account = self.account(NO_ACCOUNT, owners, g);
            if account.credit.give(resource, amount, self.keep) {
                return;
            }
            let freed = self.with_state(g, |state, cx| {
                state.free_elsewhere(account, resource, amount, cx)
            });
            if freed.is_ok() {
                return;
            }
        }
    }

    /// [`Ledger::transfer`] of what exists elsewhere, by owners: as much as they have.
    pub fn transfer_of(
        &self,
        from: Owners,
        to: Owners,
        amounts: [u64; 2],
        force: bool,
        g: &Guard,
    ) -> Result<(), Refusal> {
        loop {
            let (left, entered) = (
                self.account(NO_ACCOUNT, from, g),
                self.account(NO_ACCOUNT, to, g),
            );
            if left.number == entered.number {
                return Ok(());
            }
            let moved = self.with_state(g, |state, cx| {
                state.transfer_elsewhere((left, entered), amounts, force, cx)
            });
            match moved {
                Ok(()) => return Ok(()),
                Err(Slow::Refused(refusal)) => return Err(refusal),
                Err(Slow::Stale) => {}
            }
        }
    }

    /// The use of `who`, and the limits in force.
    pub fn usage(&self, who: QuotaId, g: &Guard) -> [SampledUsage; 2] {
        self.sample(who, g).usage
    }

    /// A sample of `who`. The state lock is never held for long, however many accounts `who` has.
    pub fn sample(&self, who: QuotaId, g: &Guard) -> Sample {
        let (mut sample, mut more) = self.with_state(g, |state, cx| {
            let mut sample = state.sample(who);
            let more = state.go_on(&mut sample, SLICE, cx);
            (sample, more)
        });
        while more {
            more = self.with_state(g, |state, cx| state.go_on(&mut sample, SLICE, cx));
        }
        sample
    }

    /// Charges objects that exist already, ignoring the limits.
    pub fn charge_forced(&self, owners: Owners, amounts: [u64; 2], g: &Guard) {
        loop {
            let account = self.account(NO_ACCOUNT, owners, g);
            let charged = self.with_state(g, |state, cx| state.force(account, amounts, cx));
            if charged.is_ok() {
                return;
            }
        }
    }

    /// Puts into force what was kept, once everything that exists is charged: see
    /// [`QuotaState::restore`].
    pub fn restore(&self, kept: &[KeptQuota], g: &Guard) -> Vec<KeptQuota> {
        self.with_state(g, |state, cx| {
            let differs = state.restore(kept, cx);
            self.update_flags(state);
            differs
        })
    }

    /// Passes to `keep` what is to be kept, from now on. The first one stays.
    pub fn keep_with(&self, keep: Box<KeepQuota>) {
        self.keeper.get_or_init(|| keep);
    }

    /// One slice of the pass that recalls unused credit and ends accounts without charges: `most`
    /// accounts from number `from` on. Returns where the next slice begins.
    pub fn recall_unused(&self, from: u32, most: u32) -> Option<u32> {
        let g = pin();
        self.with_state(&g, |state, cx| state.recall_unused(from, most, cx))
    }

    /// Reports up to `most` grace periods that have ended, and events that were held back. False if
    /// more periods may have ended.
    pub fn report_ended(&self, most: usize) -> bool {
        let g = pin();
        self.with_state(&g, |state, cx| state.report_ended(most, cx))
    }

    /// Runs `work` on the locked state. Nothing else is locked inside.
    pub fn with_state<R>(
        &self,
        g: &Guard,
        work: impl FnOnce(&mut QuotaState, &QuotaCx<'_>) -> R,
    ) -> R {
        let mut state: lock::LockGuard<'_, StateLock, QuotaState> = self.state.0.lock();
        let cx = QuotaCx {
            accounts: &self.accounts,
            numbers: &self.numbers,
            g,
            // Read under the lock, so that steps are ordered in time as well: no charge is
            // admitted before a deadline that was already reported as past.
            now: (self.clock)(),
            keep: self.keeper.get().map(|keep| &**keep),
        };
        work(&mut state, &cx)
    }

    /// First phase of a change of settings: see [`QuotaState::prepare`].
    pub fn prepare(&self, settings: SettingsUpdate, g: &Guard) -> bool {
        self.with_state(g, |state, _| {
            let is_first = state.prepare(settings);
            // Files opened before count as left over until it is known that there are none.
            if state.limits_bytes() && !self.flags.charges_first.load(Relaxed) {
                self.flags.leftovers.store(true, Relaxed);
            }
            self.update_flags(state);
            is_first
        })
    }

    /// Second phase: puts the prepared settings into force. `none_left`: no file was opened before
    /// the volume charged first.
    ///
    /// # Errors
    /// They cannot be kept; nothing has changed.
    pub fn commit(
        &self,
        settings: SettingsUpdate,
        none_left: bool,
        g: &Guard,
    ) -> Result<(), KeepError> {
        self.with_state(g, |state, cx| {
            state.commit(settings, cx)?;
            if none_left {
                self.flags.leftovers.store(false, Relaxed);
            }
            self.update_flags(state);
            Ok(())
        })
    }

    /// Drops prepared settings that were not put into force.
    pub fn abort(&self, g: &Guard) {
        self.with_state(g, |state, _| {
            state.abort();
            self.update_flags(state);
        });
    }

    fn update_flags(&self, state: &QuotaState) {
        let first = self.flags.always.load(Relaxed) || state.limits_bytes();
        self.flags.charges_first.store(first, Relaxed);
    }

    /// Whether files must be opened so that writes are charged before they are acknowledged.
    pub fn charges_first(&self) -> bool {
        self.flags.charges_first.load(Relaxed)
    }

    /// Whether there may be files that were opened otherwise.
    pub fn has_leftovers(&self) -> bool {
        self.flags.leftovers.load(Relaxed)
    }

    /// Whether users, groups and projects are accounted.
    pub fn is_by_owner(&self) -> bool {
        self.by_owner
    }

    // Always inlined, like `give` and `account`: each is a few instructions where nothing is
    // refused, and what it returns would go through memory.
    #[inline(always)]
    fn take<'g>(
        &'g self,
        account: &'g Account,
        resource: Resource,
        amount: u64,
        g: &Guard,
    ) -> Result<Charge<'g>, Slow> {
        if amount > 0 && !account.credit.take(resource, amount) {
            self.take_slow(account, resource, amount, g)?;
        }
        Ok(Charge {
            ledger: self,
            account,
            resource,
            left: amount,
        })
    }

    #[cold]
    #[inline(never)]
    fn take_slow(
        &self,
        account: &Account,
        resource: Resource,
        amount: u64,
        g: &Guard,
    ) -> Result<(), Slow> {
        self.with_state(g, |state, cx| state.charge(account, resource, amount, cx))
    }

    #[inline(always)]
    fn give(&self, account: &Account, resource: Resource, amount: u64) {
        if !account.credit.give(resource, amount, self.keep) {
            self.give_slow(account, resource, amount);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_slow(&self, account: &Account, resource: Resource, amount: u64) {
        let g = pin();
        self.with_state(&g, |state, cx| state.free(account, resource, amount, cx));
    }

    /// The account of an inode or a charge.
    #[inline]
    fn of<'g>(&'g self, number: u32, g: &'g Guard) -> &'g Account {
        self.accounts.get(number, g).expect(CHARGED)
    }

    /// The account of `owners`: the hint, else this CPU's last one, else by lookup in the map.
    #[inline(always)]
    fn account<'g>(&'g self, hint: u32, owners: Owners, g: &'g Guard) -> &'g Account {
        let owners = if self.by_owner {
            owners
        } else {
            Owners::NOBODY
        };
        if let Some(account) = self.accounts.get(hint, g)
            && account.owners == owners
        {
            return account;
        }
        self.other_account(owners, g)
    }

    #[inline(never)]
    fn other_account<'g>(&'g self, owners: Owners, g: &'g Guard) -> &'g Account {
        let recent = self.recent.get();
        // Relaxed: a hint; the account behind it says whose it is.
        if let Some(account) = self.accounts.get(recent.load(Relaxed), g)
            && account.owners == owners
        {
            return account;
        }
        let account = self.look_up(owners, g);
        // Relaxed: as above.
        recent.store(account.number, Relaxed);
        account
    }

    #[cold]
    fn look_up<'g>(&'g self, owners: Owners, g: &'g Guard) -> &'g Account {
        loop {
            let known = self.numbers.get_with(&owners, |&number| number);
            let number = known
                .unwrap_or_else(|| self.with_state(g, |state, cx| state.open_account(owners, cx)));
            // The account may have ended meanwhile, and its number may be another account's.
            if let Some(account) = self.accounts.get(number, g)
                && account.owners == owners
            {
                return account;
            }
        }
    }
}

impl Charge<'_> {
    /// Turns `amount` of the charge into use.
    pub fn spend(&mut self, amount: u64) {
        debug_assert!(amount <= self.left, "more was spent than charged");
        self.left -= amount.min(self.left);
    }

    #[cold]
    #[inline(never)]
    fn give_back(&self) {
        self.ledger.give(self.account, self.resource, self.left);
    }

    /// Number of the charged account.
    pub fn account(&self) -> u32 {
        self.account.number
    }
}

impl Drop for Charge<'_> {
    // Always inlined: mostly all is spent.
    #[inline(always)]
    fn drop(&mut self) {
        if self.left > 0 {
            self.give_back();
        }
    }
}

/// Accounts that a sample visits without releasing the state lock.
const SLICE: usize = 64;

const CHARGED: &str = "an account stays while something is charged to it";
