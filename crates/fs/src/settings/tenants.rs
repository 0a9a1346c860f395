//! Weights and rate limits of tenants as settings.

use super::key::{TENANT, key, name_in};
use super::words::{Undecodable, Words, WordsBuf};
use crate::tenant::TenantId;
use hearth_sched::{DEFAULT_WEIGHT, Limits};

/// What is set for a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TenantSettings {
    pub weight: u32,
    pub limits: Limits,
}

/// Key and value; no value for the defaults.
pub(super) fn encode(who: TenantId, settings: &TenantSettings) -> (Box<[u8]>, Option<Box<[u8]>>) {
    let weight = (settings.weight != DEFAULT_WEIGHT).then_some(settings.weight);
    let words = WordsBuf::new()
        .put_some("weight", weight)
        .put_some("iops", settings.limits.ops)
        .put_some("bw", settings.limits.bytes);
    (key(TENANT, who), words.finish())
}

/// What a setting says of a tenant; `None` for one of another kind.
pub(super) fn decode(
    key: &[u8],
    value: &[u8],
) -> Option<Result<(TenantId, TenantSettings), Undecodable>> {
    Some(read(name_in(key, TENANT)?, value))
}

fn read(who: &str, value: &[u8]) -> Result<(TenantId, TenantSettings), Undecodable> {
    let words = Words::of(value)?;
    let settings = TenantSettings {
        weight: words.parse("weight")?.unwrap_or(DEFAULT_WEIGHT),
        limits: Limits {
            ops: words.parse("iops")?,
            bytes: words.parse("bw")?,
        },
    };
    Ok((who.parse().map_err(|_| Undecodable)?, settings))
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_as_it_was_and_defaults_take_no_value() {
        let who = TenantId::Project(7);
        let mut settings = TenantSettings {
            weight: 300,
            limits: Limits {
                ops: None,
                bytes: Some(1 << 40),
            },
        };
        let (key, value) = encode(who, &settings);
        let value = value.expect("something is set");
        assert_eq!(decode(&key, &value), Some(Ok((who, settings))));
        (settings.weight, settings.limits) = (DEFAULT_WEIGHT, Limits::default());
        assert_eq!(encode(who, &settings).1, None);
        assert_eq!(decode(b"sched/user:x", b"1"), Some(Err(Undecodable)));
        assert_eq!(decode(b"other/user:1", b"1"), None);
    }
}
