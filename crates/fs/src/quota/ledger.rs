//! Charging: the fast paths, and the way to the book.

use super::account::{Account, NO_ACCOUNT};
use super::book::{Book, BookLock, Hand, Refusal, Sample, Settings, Slow, Tuning, Usage};
use super::kind::{Owners, QuotaId, Resource};
use super::slots::Slots;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::lock::{self, Lock};
use hearth_sync::map::ConcurrentMap;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The quota ledger of a volume.
pub(crate) struct Ledger {
    pub(super) slots: Slots,
    /// Numbers of accounts by their owners. Written under `book`.
    numbers: ConcurrentMap<Owners, u32>,
    /// The account that each core looked up last; a hint.
    recent: PerCpu<AtomicU32>,
    book: BookLine,
    /// Seconds of the wall clock.
    clock: Box<dyn Fn() -> i64 + Send + Sync>,
    keep: u64,
    /// Whether owners are told apart; otherwise only the volume's own limits count.
    by_owner: bool,
    front: Front,
}

/// For kernels in front, which may acknowledge what a limit would refuse: see "Charged before it is
/// acknowledged" in `docs/design/quota.md`. Written under the book's lock; Relaxed: what orders
/// each is said there.
struct Front {
    /// Whatever the limits are.
    always: AtomicBool,
    charges_first: AtomicBool,
    /// Files that were opened before.
    leftovers: AtomicBool,
}

/// On lines of its own: who takes the book is no concern of those who charge beside it.
#[repr(align(64))]
struct BookLine(Lock<BookLock, Book>);

/// Units that are taken but not yet used; what is left goes back on drop.
#[must_use = "what is not spent goes back"]
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
            slots: Slots::new(),
            numbers: ConcurrentMap::new(),
            recent: PerCpu::new(|_| AtomicU32::new(NO_ACCOUNT)),
            book: BookLine(Lock::new(Book::new(tuning, blocks, inodes))),
            clock: Box::new(clock),
            keep: tuning.keep(),
            by_owner,
            front: Front {
                always: AtomicBool::new(false),
                charges_first: AtomicBool::new(false),
                leftovers: AtomicBool::new(false),
            },
        }
    }

    /// Charges first from now on, whatever the limits are.
    pub fn charge_first(&self, g: &Guard) {
        self.with_book(g, |book, _| {
            self.front.always.store(true, Relaxed);
            self.show(book);
        });
    }

    /// There are no files any more that were opened before. The caller sets no limits meanwhile.
    pub fn clear_leftovers(&self) {
        self.front.leftovers.store(false, Relaxed);
    }

    /// Charges something new to `owners`. `hint` is the number of an account that may be theirs.
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
                // Ended between the look and the lock; the next look finds another.
                Err(Slow::Stale) => {}
            }
        }
    }

    /// Charges more to the account `number` of an inode, which keeps the account.
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

    /// Number of the account of `owners`, who are charged for something.
    pub fn number_of(&self, owners: Owners, g: &Guard) -> u32 {
        self.account(NO_ACCOUNT, owners, g).number
    }

    /// Takes back what an inode of account `number` no longer uses.
    #[inline]
    pub fn free(&self, number: u32, resource: Resource, amount: u64, g: &Guard) {
        if amount > 0 {
            self.give(self.of(number, g), resource, amount);
        }
    }

    /// Moves a charge of blocks and inodes from account `from` to that of `owners`, whose number it
    /// answers. `force`: whatever the limits say.
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
            let moved = self.with_book(g, |book, hand| {
                book.transfer((left, entered), amounts, force, hand)
            });
            match moved {
                Ok(()) => return Ok(entered.number),
                Err(Slow::Refused(refusal)) => return Err(refusal),
                Err(Slow::Stale) => {}
            }
        }
    }

    /// What `who` uses, and the limits in force.
    pub fn usage(&self, who: QuotaId, g: &Guard) -> [Usage; 2] {
        self.sample(who, g).usage
    }

    /// What is known of `who`. However many accounts are theirs, nobody waits long for the book.
    pub fn sample(&self, who: QuotaId, g: &Guard) -> Sample {
        let (mut sample, mut more) = self.with_book(g, |book, hand| {
            let mut sample = book.sample(who);
            let more = book.go_on(&mut sample, SLICE, hand);
            (sample, more)
        });
        while more {
            more = self.with_book(g, |book, hand| book.go_on(&mut sample, SLICE, hand));
        }
        sample
    }

    /// Charges what is there already, whatever the limits say.
    pub fn charge_forced(&self, owners: Owners, amounts: [u64; 2], g: &Guard) {
        loop {
            let account = self.account(NO_ACCOUNT, owners, g);
            let charged = self.with_book(g, |book, hand| book.force(account, amounts, hand));
            if charged.is_ok() {
                return;
            }
        }
    }

    /// Calls back what credit nobody has used since the last pass, and ends accounts that own
    /// nothing: one slice of a pass, of `most` accounts from the number `from` on. Answers where
    /// the next one begins.
    pub fn settle(&self, from: u32, most: u32) -> Option<u32> {
        let g = pin();
        self.with_book(&g, |book, hand| book.settle(from, most, hand))
    }

    /// Tells of grace periods that have ended, of `most` of them, and of what was held back; false
    /// if more periods may have ended.
    pub fn tell_ended(&self, most: usize) -> bool {
        let g = pin();
        self.with_book(&g, |book, hand| book.tell_ended(most, hand))
    }

    /// Runs `work` with the book. Nothing else is locked inside.
    pub fn with_book<R>(&self, g: &Guard, work: impl FnOnce(&mut Book, &Hand<'_>) -> R) -> R {
        let mut book: lock::LockGuard<'_, BookLock, Book> = self.book.0.lock();
        let hand = Hand {
            slots: &self.slots,
            numbers: &self.numbers,
            g,
            // Under the lock: steps follow each other in time as well, so that nobody is let
            // through for a deadline that was told of as past.
            now: (self.clock)(),
        };
        work(&mut book, &hand)
    }

    /// Settings are about to hold: see [`Book::announce`].
    pub fn announce(&self, settings: Settings, g: &Guard) -> bool {
        self.with_book(g, |book, _| {
            let is_first = book.announce(settings);
            // Whoever may be left over is, until it is known better.
            if book.limits_bytes() && !self.front.charges_first.load(Relaxed) {
                self.front.leftovers.store(true, Relaxed);
            }
            self.show(book);
            is_first
        })
    }

    /// Puts what was announced into force; there are no leftovers if `none_left`.
    pub fn put(&self, settings: Settings, none_left: bool, g: &Guard) {
        self.with_book(g, |book, hand| {
            book.put(settings, hand);
            if none_left {
                self.front.leftovers.store(false, Relaxed);
            }
            self.show(book);
        });
    }

    /// What was announced does not come, if it was not put into force.
    pub fn withdraw(&self, g: &Guard) {
        self.with_book(g, |book, _| {
            book.withdraw();
            self.show(book);
        });
    }

    fn show(&self, book: &Book) {
        let first = self.front.always.load(Relaxed) || book.limits_bytes();
        self.front.charges_first.store(first, Relaxed);
    }

    /// Whether files must be opened so that nothing is acknowledged that is not charged.
    pub fn charges_first(&self) -> bool {
        self.front.charges_first.load(Relaxed)
    }

    /// Whether there may be files that were not opened so.
    pub fn has_leftovers(&self) -> bool {
        self.front.leftovers.load(Relaxed)
    }

    /// Whether owners are told apart.
    pub fn is_by_owner(&self) -> bool {
        self.by_owner
    }

    #[inline]
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
    fn take_slow(
        &self,
        account: &Account,
        resource: Resource,
        amount: u64,
        g: &Guard,
    ) -> Result<(), Slow> {
        self.with_book(g, |book, hand| book.charge(account, resource, amount, hand))
    }

    #[inline]
    fn give(&self, account: &Account, resource: Resource, amount: u64) {
        if !account.credit.give(resource, amount, self.keep) {
            self.give_slow(account, resource, amount);
        }
    }

    #[cold]
    fn give_slow(&self, account: &Account, resource: Resource, amount: u64) {
        let g = pin();
        self.with_book(&g, |book, hand| book.free(account, resource, amount, hand));
    }

    /// The account of an inode or a reservation.
    #[inline]
    fn of<'g>(&'g self, number: u32, g: &'g Guard) -> &'g Account {
        self.slots.get(number, g).expect(CHARGED)
    }

    /// The account of `owners`: that of the hint, this core's last one, or by a look into the map.
    #[inline]
    fn account<'g>(&'g self, hint: u32, owners: Owners, g: &'g Guard) -> &'g Account {
        let owners = if self.by_owner {
            owners
        } else {
            Owners::NOBODY
        };
        if let Some(account) = self.slots.get(hint, g)
            && account.owners == owners
        {
            return account;
        }
        let recent = self.recent.get();
        // Relaxed: a hint; the account behind it says whose it is.
        if let Some(account) = self.slots.get(recent.load(Relaxed), g)
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
                .unwrap_or_else(|| self.with_book(g, |book, hand| book.open_account(owners, hand)));
            // It may have been ended meanwhile, and its number given to another.
            if let Some(account) = self.slots.get(number, g)
                && account.owners == owners
            {
                return account;
            }
        }
    }
}

impl Charge<'_> {
    /// Turns `amount` of the reservation into use.
    pub fn spend(&mut self, amount: u64) {
        debug_assert!(amount <= self.left, "more was used than reserved");
        self.left -= amount.min(self.left);
    }

    /// Number of the account that pays.
    pub fn account(&self) -> u32 {
        self.account.number
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.ledger.give(self.account, self.resource, self.left);
        }
    }
}

/// Accounts that are looked at without letting go of the book.
const SLICE: usize = 64;

const CHARGED: &str = "an account stays while something is charged to it";
