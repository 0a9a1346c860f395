//! What administrators and users ask of the quotas of a volume: limits, reports, events, checks.
//!
//! Named after `quotactl(2)`. Everything here is a slow path; charging is in [`crate::quota`].

mod charges;
mod check;
mod collecting;
mod error;
mod event;
mod files;
mod limits;
mod record;
mod tree;

pub use charges::{Amounts, Charges, KeptSetting};
pub use error::{QuotaError, QuotaNumber};
pub use limits::{LimitChange, LimitUpdate};
pub use record::QuotaDefaults;

use crate::caller::Credentials;
use crate::quota::{QuotaEvent, QuotaId, QuotaKind};
use crate::superblock::Superblock;
use crate::volume::Volume;

/// Quotas of a volume.
///
/// ```
/// use hearth::{LimitUpdate, Credentials, LimitChange, QuotaId, Volume};
///
/// let volume = Volume::memory();
/// let quota = volume.quota();
/// let hard = LimitChange { bytes_hard: LimitUpdate::To(8192), ..LimitChange::default() };
/// quota.set(QuotaId::user(1000), &hard)?;
///
/// let root = volume.process(Credentials::root());
/// root.mkdir("/home", 0o777).and(root.chmod("/home", 0o777)).expect("an empty volume");
/// let user = volume.process(Credentials::user(1000, 1000));
/// let fd = user.open("/home/a", libc::O_CREAT | libc::O_WRONLY, 0o600).expect("room for it");
/// assert_eq!(user.pwrite(fd, &[1; 10_000], 0), Ok(8192), "as far as it fits");
/// assert_eq!(user.pwrite(fd, &[1; 10_000], 8192), Err(hearth::Errno::EDQUOT));
/// assert_eq!(quota.get(QuotaId::user(1000))?.bytes.used, 8192);
/// # Ok::<(), hearth::QuotaError>(())
/// ```
#[derive(Clone)]
pub struct Quota<'v> {
    sb: &'v Superblock,
    /// The caller; `None` may do everything.
    caller: Option<Credentials>,
    /// Limits come into force although a kernel collects writes of files.
    forced: bool,
}

impl Volume {
    /// The volume's quotas, with every right.
    pub fn quota(&self) -> Quota<'_> {
        Quota::of(&self.sb)
    }
}

impl<'v> Quota<'v> {
    /// The quotas of the volume behind its handles, with every right.
    pub(crate) fn of(sb: &'v Superblock) -> Quota<'v> {
        Quota {
            sb,
            caller: None,
            forced: false,
        }
    }

    /// These quotas with the rights of `caller`: root and the volume's owner may do everything,
    /// others see their own user's and groups' quotas, and those of projects.
    #[must_use]
    pub fn on_behalf_of(&self, caller: Credentials) -> Quota<'v> {
        Quota {
            sb: self.sb,
            caller: Some(caller),
            forced: self.forced,
        }
    }

    /// These quotas, but a first limit of bytes comes into force although files are open for
    /// writing ([`QuotaError::Collecting`]): what does not fit of them is lost, and `fsync` or
    /// `close` says so.
    #[must_use]
    pub fn forced(&self) -> Quota<'v> {
        Quota {
            forced: true,
            ..self.clone()
        }
    }

    /// The owner of the volume, who manages its quotas like root.
    pub fn owner(&self) -> u32 {
        self.sb.options.owner.0
    }

    /// The events after number `sequence` (0: all that are kept), oldest first. Walks the tree for
    /// the paths of files, if there are events about files.
    ///
    /// # Errors
    /// [`QuotaError::NotKeeper`].
    pub fn events(&self, sequence: u64) -> Result<Vec<QuotaEvent>, QuotaError> {
        self.check_keeper()?;
        let mut events = self.with_state(|state, cx| {
            state.tell_lost(cx);
            state.events_after(sequence)
        });
        self.name_files(&mut events);
        Ok(events)
    }

    /// Number of the latest event; 0 before the first.
    pub fn latest_event(&self) -> u64 {
        self.with_state(|state, cx| {
            state.tell_lost(cx);
            state.latest_event()
        })
    }

    fn with_state<R>(
        &self,
        work: impl FnOnce(&mut crate::quota::QuotaState, &crate::quota::QuotaCx<'_>) -> R,
    ) -> R {
        let g = hearth_sync::epoch::pin();
        self.sb.quotas.ledger.with_state(&g, work)
    }

    /// Only root and the owner of the volume.
    fn check_keeper(&self) -> Result<(), QuotaError> {
        let owner = self.owner();
        match &self.caller {
            Some(caller) if caller.uid != 0 && caller.uid != owner => {
                Err(QuotaError::NotKeeper { owner })
            }
            _ => Ok(()),
        }
    }

    fn check_visible(&self, who: QuotaId) -> Result<(), QuotaError> {
        let Some(caller) = &self.caller else {
            return Ok(());
        };
        let own = match who.kind {
            QuotaKind::Volume | QuotaKind::Project => true,
            QuotaKind::User => who.id == caller.uid,
            QuotaKind::Group => who.id == caller.gid || caller.groups.contains(&who.id),
        };
        if own || self.check_keeper().is_ok() {
            Ok(())
        } else {
            let owner = self.owner();
            Err(QuotaError::NotYours { who, owner })
        }
    }
}

impl std::fmt::Debug for Quota<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let caller = &self.caller;
        f.debug_struct("Quota").field("caller", caller).finish()
    }
}

/// Ids end before the number that stands for none.
fn check_id(who: QuotaId) -> Result<(), QuotaError> {
    match who {
        QuotaId { id: u32::MAX, .. } => Err(QuotaError::NoSuchId { who }),
        QuotaId {
            kind: QuotaKind::Volume,
            id: 1..,
        } => Err(QuotaError::NoSuchId { who }),
        _ => Ok(()),
    }
}
