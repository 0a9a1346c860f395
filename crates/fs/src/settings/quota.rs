//! Limits, grace periods and their ends as settings.

use super::key::{QUOTA_GRACE, QUOTA_ID, QUOTA_KIND, key, name_in};
use super::words::{Undecodable, Words, WordsBuf};
use crate::quota::{IdSettings, KeptQuota, KindSettings, Limit, QuotaId, QuotaKind, Resource};

/// Key and value of what is kept; no value where there is nothing to say.
pub(crate) fn encode(kept: &KeptQuota) -> (Box<[u8]>, Option<Box<[u8]>>) {
    let mut words = WordsBuf::new();
    let key = match kept {
        KeptQuota::Id(who, own) => {
            for resource in Resource::ALL {
                let at = resource as usize;
                words = words
                    .put_some(resource.name(), own.limits[at].map(shown))
                    .put_some(grace_name(resource), own.grace[at]);
            }
            key(QUOTA_ID, who)
        }
        KeptQuota::Kind(kind, rules) => {
            for resource in Resource::ALL {
                let at = resource as usize;
                words = words
                    .put(resource.name(), shown(rules.defaults[at]))
                    .put(grace_name(resource), rules.grace[at]);
            }
            words = words.put("enforced", u8::from(rules.enforced));
            key(QUOTA_KIND, kind.name())
        }
        KeptQuota::Grace(who, ends) => {
            for resource in Resource::ALL {
                words = words.put_some(resource.name(), ends[resource as usize]);
            }
            key(QUOTA_GRACE, who)
        }
    };
    (key, words.finish())
}

/// What a setting says of quotas; `None` for one of another kind.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<Result<KeptQuota, Undecodable>> {
    if let Some(who) = name_in(key, QUOTA_ID) {
        return Some(id_settings(who, value));
    }
    if let Some(kind) = name_in(key, QUOTA_KIND) {
        return Some(kind_settings(kind, value));
    }
    name_in(key, QUOTA_GRACE).map(|who| grace(who, value))
}

/// Whether a setting is of quotas and just as [`encode`] has it, so that nothing of it is passed
/// over; without a value, whether its key is.
pub(crate) fn is_whole(key: &[u8], value: Option<&[u8]>) -> bool {
    if let Some(value) = value {
        let read = decode(key, value).and_then(Result::ok);
        let written = read.map(|kept| encode(&kept));
        return written.is_some_and(|(as_key, as_value)| {
            *as_key == *key && as_value.as_deref() == Some(value)
        });
    }
    let is_id = |who: &str| id(who).is_ok_and(|id| id.to_string() == who);
    name_in(key, QUOTA_KIND).is_some_and(|name| kind(name).is_ok())
        || name_in(key, QUOTA_ID).is_some_and(is_id)
        || name_in(key, QUOTA_GRACE).is_some_and(is_id)
}

fn id_settings(who: &str, value: &[u8]) -> Result<KeptQuota, Undecodable> {
    let words = Words::of(value)?;
    let mut own = IdSettings::default();
    for resource in Resource::ALL {
        let limit = words.get(resource.name()).map(limit).transpose()?;
        own.limits[resource as usize] = limit;
        own.grace[resource as usize] = words.parse(grace_name(resource))?;
    }
    Ok(KeptQuota::Id(id(who)?, own))
}

fn kind_settings(name: &str, value: &[u8]) -> Result<KeptQuota, Undecodable> {
    let words = Words::of(value)?;
    let mut rules = KindSettings::default();
    for resource in Resource::ALL {
        let text = words.get(resource.name()).ok_or(Undecodable)?;
        rules.defaults[resource as usize] = limit(text)?;
        rules.grace[resource as usize] = words.need(grace_name(resource))?;
    }
    rules.enforced = match words.get("enforced") {
        Some("0") => false,
        Some("1") => true,
        _ => return Err(Undecodable),
    };
    Ok(KeptQuota::Kind(kind(name)?, rules))
}

fn grace(who: &str, value: &[u8]) -> Result<KeptQuota, Undecodable> {
    let words = Words::of(value)?;
    let mut ends = [None; 2];
    for resource in Resource::ALL {
        ends[resource as usize] = words.parse(resource.name())?;
    }
    Ok(KeptQuota::Grace(id(who)?, ends))
}

fn grace_name(resource: Resource) -> &'static str {
    match resource {
        Resource::Blocks => "bytes-grace",
        Resource::Inodes => "inodes-grace",
    }
}

/// A kind whose ids have numbers.
fn kind(name: &str) -> Result<QuotaKind, Undecodable> {
    let mut kinds = QuotaKind::ALL.into_iter().skip(1);
    kinds.find(|kind| kind.name() == name).ok_or(Undecodable)
}

fn id(who: &str) -> Result<QuotaId, Undecodable> {
    if who == QuotaKind::Volume.name() {
        return Ok(QuotaId::VOLUME);
    }
    let (name, id) = who.split_once(':').ok_or(Undecodable)?;
    let kind = kind(name)?;
    let id = id.parse().map_err(|_| Undecodable)?;
    Ok(QuotaId { kind, id })
}

/// `HARD:SOFT`, each a number or `-`.
fn shown(limit: Limit) -> String {
    let amount = |amount: Option<u64>| amount.map_or("-".to_owned(), |amount| amount.to_string());
    format!("{}:{}", amount(limit.hard), amount(limit.soft))
}

fn limit(text: &str) -> Result<Limit, Undecodable> {
    let amount = |text: &str| match text {
        "-" => Ok(None),
        text => text.parse().map(Some).map_err(|_| Undecodable),
    };
    let (hard, soft) = text.split_once(':').ok_or(Undecodable)?;
    Ok(Limit {
        hard: amount(hard)?,
        soft: amount(soft)?,
    })
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_as_it_was() {
        let limit = Limit {
            hard: Some(u64::MAX),
            soft: None,
        };
        let own = IdSettings {
            limits: [Some(limit), None],
            grace: [None, Some(60)],
        };
        let rules = KindSettings {
            defaults: [Limit::default(), limit],
            enforced: false,
            ..KindSettings::default()
        };
        for kept in [
            KeptQuota::Id(QuotaId::user(u32::MAX), own),
            KeptQuota::Id(QuotaId::project(3), own),
            KeptQuota::Id(QuotaId::VOLUME, own),
            KeptQuota::Kind(QuotaKind::Group, rules),
            KeptQuota::Grace(QuotaId::group(5), [Some(-3), Some(i64::MAX)]),
        ] {
            let (key, value) = encode(&kept);
            let value = value.expect("has something to say");
            assert_eq!(decode(&key, &value), Some(Ok(kept)));
        }
        let nothing = KeptQuota::Id(QuotaId::user(1), IdSettings::default());
        assert_eq!(encode(&nothing).1, None);
    }

    #[test]
    fn nothing_of_a_whole_setting_is_passed_over() {
        let is =
            |key: &str, value: Option<&str>| is_whole(key.as_bytes(), value.map(str::as_bytes));
        assert!(is("quota/id/user:1", Some("1 bytes=62:- bytes-grace=5")));
        assert!(is("quota/id/user:1", None) && is("quota/kind/group", None));
        for (key, value) in [
            ("quota/id/user:1", Some("1 bytes=62x:-")),
            ("quota/id/user:1", Some("1 bytxs=62:-")),
            ("quota/id/user:1", Some("1 bytes=62:- ?")),
            ("quota/id/user:01", Some("1 bytes=62:-")),
            ("quota/id/user:1", Some("2 bytes=62:-")),
            ("quota/ie/user:1", Some("1 bytes=62:-")),
            ("quota/id/user:1 1 bytes=62:-", None),
            ("quota/kind/grouq", None),
            ("", None),
        ] {
            assert!(!is(key, value), "{key} {value:?}");
        }
    }

    #[test]
    fn a_damaged_setting_is_told_from_one_of_another_kind() {
        let damaged: [(&[u8], &[u8]); 5] = [
            (b"quota/id/user:many", b"1 bytes=1:2"),
            (b"quota/id/volume:1", b"1 bytes=1:2"),
            (b"quota/id/user:1", b"1 bytes=1"),
            (b"quota/kind/user", b"1 bytes=-:-"),
            (b"quota/grace/\xff", b"1"),
        ];
        for (key, value) in damaged {
            assert_eq!(decode(key, value), Some(Err(Undecodable)));
        }
        assert_eq!(decode(b"quota/later/user:1", b"9"), None);
    }
}
