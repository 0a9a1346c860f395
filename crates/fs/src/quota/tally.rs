//! One resource of one record: what is granted, what the limits say to more of it.
//!
//! Plain data under the book's lock; amounts are units of the ledger (blocks, inodes), times are
//! seconds of the wall clock.

/// Limits in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub hard: Option<u64>,
    pub soft: Option<u64>,
    /// Seconds that use may stay above `soft`.
    pub grace: u64,
}

impl Bounds {
    pub const NONE: Bounds = Bounds {
        hard: None,
        soft: None,
        grace: 0,
    };

    /// Whether there is any.
    pub fn is_limit(&self) -> bool {
        self.hard.is_some() || self.soft.is_some()
    }
}

/// Why a limit says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The hard limit would be passed.
    Hard,
    /// Use has been above the soft limit for longer than the grace period.
    GraceEnded,
}

/// What has changed and is worth an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// Use is above the soft limit now; the grace period ends then.
    Crossed { deadline: i64 },
    /// Use is within the soft limit again.
    Returned,
    /// Use is above the hard limit now.
    Forced,
}

/// What a step has changed: at the soft limit, at the hard one.
pub(crate) type Changes = [Option<Noted>; 2];

/// One resource of one record.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Used, reserved, or credit of some core.
    pub granted: u64,
    pub bounds: Bounds,
    /// When the grace period ends; while this is set, no core has credit and `granted` is what is
    /// used or reserved.
    pub deadline: Option<i64>,
    /// The deadline whose end the book looks for, or has told of.
    pub watched: Option<i64>,
    /// Charges let through above the soft limit since it was crossed.
    pub warnings: u32,
    /// The last refusal that was told of, until something is given back.
    pub told: Option<RefusalReason>,
    /// Use is above the hard limit; no core has credit then.
    pub above: bool,
}

impl Tally {
    pub fn new(bounds: Bounds) -> Tally {
        Tally {
            granted: 0,
            bounds,
            deadline: None,
            watched: None,
            warnings: 0,
            told: None,
            above: false,
        }
    }

    /// Whether `amount` more passes no limit, even if all credit were used.
    pub fn fits_unseen(&self, amount: u64) -> bool {
        self.deadline.is_none() && self.granted.saturating_add(amount) <= self.ceiling()
    }

    /// What may be handed out as credit.
    pub fn room(&self) -> u64 {
        match self.deadline {
            Some(_) => 0,
            None => self.ceiling().saturating_sub(self.granted),
        }
    }

    /// Whether `amount` more is allowed. `granted` has no credit in it.
    pub fn admit(&self, amount: u64, now: i64) -> Result<(), RefusalReason> {
        let sum = self.granted.saturating_add(amount);
        if self.bounds.hard.is_some_and(|hard| sum > hard) {
            return Err(RefusalReason::Hard);
        }
        let over = self.bounds.soft.is_some_and(|soft| sum > soft);
        match self.deadline {
            Some(deadline) if over && now >= deadline => Err(RefusalReason::GraceEnded),
            _ => Ok(()),
        }
    }

    /// Grants `amount`.
    pub fn take(&mut self, amount: u64, now: i64) -> Changes {
        self.granted = self.granted.saturating_add(amount);
        if self.deadline.is_some() {
            self.warnings = self.warnings.saturating_add(1);
        }
        self.settle(now)
    }

    /// Takes `amount` back.
    pub fn put(&mut self, amount: u64, now: i64) -> Changes {
        debug_assert!(amount <= self.granted, "more came back than was granted");
        self.granted = self.granted.saturating_sub(amount);
        self.told = None;
        self.settle(now)
    }

    /// Other limits from now on. `granted` has no credit in it.
    pub fn set_bounds(&mut self, bounds: Bounds, now: i64) -> Changes {
        if bounds.grace != self.bounds.grace && self.deadline.is_some() {
            self.deadline = Some(end_of(bounds.grace, now));
        }
        self.bounds = bounds;
        self.told = None;
        self.settle(now)
    }

    fn settle(&mut self, now: i64) -> Changes {
        [self.settle_soft(now), self.settle_hard()]
    }

    fn settle_soft(&mut self, now: i64) -> Option<Noted> {
        let over = self.bounds.soft.is_some_and(|soft| self.granted > soft);
        match self.deadline {
            None if over => {
                let deadline = end_of(self.bounds.grace, now);
                self.deadline = Some(deadline);
                self.warnings = 1;
                Some(Noted::Crossed { deadline })
            }
            Some(_) if !over => {
                self.deadline = None;
                self.warnings = 0;
                Some(Noted::Returned)
            }
            _ => None,
        }
    }

    fn settle_hard(&mut self) -> Option<Noted> {
        let above = self.bounds.hard.is_some_and(|hard| self.granted > hard);
        let was_above = std::mem::replace(&mut self.above, above);
        (above && !was_above).then_some(Noted::Forced)
    }

    fn ceiling(&self) -> u64 {
        let soft = self.bounds.soft.unwrap_or(u64::MAX);
        soft.min(self.bounds.hard.unwrap_or(u64::MAX))
    }
}

fn end_of(grace: u64, now: i64) -> i64 {
    now.saturating_add_unsigned(grace)
}
