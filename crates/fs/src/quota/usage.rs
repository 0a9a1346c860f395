//! One resource of one record: how much is reserved, and whether its limits admit more.
//!
//! Plain data under the state lock. Amounts are units of the ledger (blocks, inodes), times are
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

/// Why a limit refuses a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The hard limit would be passed.
    Hard,
    /// Use has been above the soft limit for longer than the grace period.
    GraceEnded,
}

/// A limit that was crossed, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitCrossing {
    /// Use is above the soft limit now; the grace period ends at `deadline`.
    Crossed { deadline: i64 },
    /// Use is within the soft limit again.
    Returned,
    /// Use is above the hard limit now.
    Forced,
}

/// The crossings of one step: of the soft limit, of the hard limit.
pub(crate) type Crossings = [Option<LimitCrossing>; 2];

/// One resource of one record.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// Units that are used, charged, or credit of some CPU.
    pub reserved: u64,
    pub bounds: Bounds,
    /// When the grace period ends. While this is set no CPU has credit, so `reserved` is exact.
    pub deadline: Option<i64>,
    /// The deadline that is in the list of deadlines, or that was reported.
    pub watched: Option<i64>,
    /// Charges let through above the soft limit since it was crossed.
    pub warnings: u32,
    /// The last refusal that was reported, until something is given back.
    pub reported: Option<RefusalReason>,
    /// Use is above the hard limit; no CPU has credit then.
    pub above: bool,
}

impl Usage {
    pub fn new(bounds: Bounds) -> Usage {
        Usage {
            reserved: 0,
            bounds,
            deadline: None,
            watched: None,
            warnings: 0,
            reported: None,
            above: false,
        }
    }

    /// Whether `amount` more stays below all limits, even if all credit is used.
    pub fn fits_unseen(&self, amount: u64) -> bool {
        self.deadline.is_none() && self.reserved.saturating_add(amount) <= self.ceiling()
    }

    /// Units that may be handed out as credit.
    pub fn room(&self) -> u64 {
        match self.deadline {
            Some(_) => 0,
            None => self.ceiling().saturating_sub(self.reserved),
        }
    }

    /// Whether the limits admit `amount` more. `reserved` contains no credit.
    pub fn admit(&self, amount: u64, now: i64) -> Result<(), RefusalReason> {
        let sum = self.reserved.saturating_add(amount);
        if self.bounds.hard.is_some_and(|hard| sum > hard) {
            return Err(RefusalReason::Hard);
        }
        let over = self.bounds.soft.is_some_and(|soft| sum > soft);
        match self.deadline {
            Some(deadline) if over && now >= deadline => Err(RefusalReason::GraceEnded),
            _ => Ok(()),
        }
    }

    /// Reserves `amount`.
    pub fn take(&mut self, amount: u64, now: i64) -> Crossings {
        self.reserved = self.reserved.saturating_add(amount);
        if self.deadline.is_some() {
            self.warnings = self.warnings.saturating_add(1);
        }
        self.settle(now)
    }

    /// Releases `amount`.
    pub fn put(&mut self, amount: u64, now: i64) -> Crossings {
        debug_assert!(amount <= self.reserved, "more came back than was reserved");
        self.reserved = self.reserved.saturating_sub(amount);
        self.reported = None;
        self.settle(now)
    }

    /// Replaces the limits. `reserved` contains no credit.
    pub fn set_bounds(&mut self, bounds: Bounds, now: i64) -> Crossings {
        if bounds.grace != self.bounds.grace && self.deadline.is_some() {
            self.deadline = Some(end_of(bounds.grace, now));
        }
        self.bounds = bounds;
        self.reported = None;
        self.settle(now)
    }

    /// Goes on with a grace period that ends at `end`, if use is above the new soft limit.
    /// `reserved` contains no credit.
    pub fn resume(&mut self, bounds: Bounds, end: i64) {
        self.bounds = bounds;
        if bounds.soft.is_some_and(|soft| self.reserved > soft) {
            self.deadline = Some(end);
            self.warnings = 1;
        }
    }

    fn settle(&mut self, now: i64) -> Crossings {
        [self.settle_soft(now), self.settle_hard()]
    }

    fn settle_soft(&mut self, now: i64) -> Option<LimitCrossing> {
        let over = self.bounds.soft.is_some_and(|soft| self.reserved > soft);
        match self.deadline {
            None if over => {
                let deadline = end_of(self.bounds.grace, now);
                self.deadline = Some(deadline);
                self.warnings = 1;
                Some(LimitCrossing::Crossed { deadline })
            }
            Some(_) if !over => {
                self.deadline = None;
                self.warnings = 0;
                Some(LimitCrossing::Returned)
            }
            _ => None,
        }
    }

    fn settle_hard(&mut self) -> Option<LimitCrossing> {
        let above = self.bounds.hard.is_some_and(|hard| self.reserved > hard);
        let was_above = std::mem::replace(&mut self.above, above);
        (above && !was_above).then_some(LimitCrossing::Forced)
    }

    fn ceiling(&self) -> u64 {
        let soft = self.bounds.soft.unwrap_or(u64::MAX);
        soft.min(self.bounds.hard.unwrap_or(u64::MAX))
    }
}

fn end_of(grace: u64, now: i64) -> i64 {
    now.saturating_add_unsigned(grace)
}
