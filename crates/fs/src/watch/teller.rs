//! Telling changes of names that are not the volume's own.

use super::event::{EventInode, NameChange, NameChanger, NameEvent, NamePlace};
use super::ring::NameRing;
use crate::attr::{Kind, Time};
use crate::caller::Caller;
use crate::volume::Volume;
use hearth_sync::primitive::Arc;
use std::fmt;

/// Puts changes into the stream of a volume, for whoever serves other files beside it; see
/// [`Volume::watch`].
#[derive(Clone)]
pub struct NameTeller(Arc<NameRing>);

impl Volume {
    /// What tells changes that are not this volume's own.
    pub fn name_teller(&self) -> NameTeller {
        NameTeller(Arc::clone(&self.sb.watched_names))
    }
}

impl NameTeller {
    /// Whether somebody listens. One load.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.0.is_watched()
    }

    /// Tells that `caller` changed a name of `what`.
    pub fn tell(
        &self,
        caller: &Caller<'_>,
        time: Time,
        what: Option<(EventInode, Kind)>,
        at: NamePlace,
        change: NameChange,
    ) {
        self.0.tell(NameEvent {
            sequence: 0,
            time,
            change,
            what,
            at,
            by: NameChanger::from(caller),
            is_foreign: true,
        });
    }
}

impl fmt::Debug for NameTeller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameTeller").finish_non_exhaustive()
    }
}
