//! What a screen shows: the difference of two readings.

use super::hot::{self, HotList};
use super::operations::{self, Operation};
use super::reading::{Part, Reading};
use super::tenants::{self, TenantRow};
use super::volume::{self, Volume};
use serde_json::{Map, Value, json};
use std::path::Path;

/// What happened between two readings, and how it is now.
#[derive(Debug, Default)]
pub struct Frame {
    /// Seconds between them.
    pub seconds: f64,
    /// The later one, by the wall clock in seconds.
    pub wall: f64,
    /// The volume itself.
    pub volume: Volume,
    /// Operations that were ever done.
    pub operations: Vec<Operation>,
    /// Tenants.
    pub tenants: Part<Vec<TenantRow>>,
    /// Why their quotas are not known.
    pub no_quota: Option<String>,
    /// Heat: its state and rankings.
    pub heat: Part<(Value, Vec<HotList>)>,
    /// The lock profile.
    pub locks: Part<Value>,
}

impl Frame {
    /// What happened between two readings of `mount`.
    pub fn between(mount: &Path, before: &Reading, now: &Reading) -> Frame {
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
        let seconds = seconds.max(1e-3);
        let since = now.stats.since(&before.stats);
        let quota = now.quota.as_ref().and_then(|quota| quota.as_ref().ok());
        let tenants = mapped(&now.sched, |sched| {
            tenants::between(known(&before.sched), sched, quota, seconds)
        });
        let heat = mapped(&now.heat, |heat| {
            let before = known(&before.heat);
            let rankings = hot::between(mount, before, heat, seconds, now.wall);
            (heat.status.clone(), rankings)
        });
        Frame {
            seconds,
            wall: now.wall,
            volume: volume::between(&since, &now.stats, seconds),
            operations: operations::between(&since, &now.stats, seconds),
            tenants: without_first(tenants, before.sched.is_some()),
            no_quota: match &now.quota {
                Some(Err(why)) => Some(why.clone()),
                _ => None,
            },
            heat,
            locks: mapped(&now.locks, Value::clone),
        }
    }

    /// As one object.
    pub fn object(&self, mount: &Path) -> Value {
        let mut errors = Map::new();
        let mut note = |part: &str, why: &str| {
            errors.insert(part.to_owned(), Value::from(why));
        };
        let tenants = list(&self.tenants, |tenants| {
            Value::Array(tenants.iter().map(tenants::object).collect())
        });
        let heat = list(&self.heat, |(status, rankings)| {
            let ranking = |ranking: &HotList| {
                let rows = ranking.rows.iter().map(hot::object).collect();
                (ranking.ranked.name().to_owned(), Value::Array(rows))
            };
            let mut heat: Map<_, _> = rankings.iter().map(ranking).collect();
            heat.insert("status".to_owned(), status.clone());
            Value::Object(heat)
        });
        let locks = list(&self.locks, Value::clone);
        for (name, part) in [("tenants", &tenants), ("heat", &heat), ("locks", &locks)] {
            if let Err(why) = part {
                note(name, why);
            }
        }
        if let Some(why) = &self.no_quota {
            note("quota", why);
        }
        let operations = self.operations.iter().map(operations::object);
        json!({
            "mount": mount.to_string_lossy(),
            "time": self.wall,
            "interval_seconds": self.seconds,
            "volume": volume::object(&self.volume),
            "operations": operations.collect::<Vec<_>>(),
            "tenants": tenants.unwrap_or_default(),
            "heat": heat.unwrap_or_default(),
            "locks": locks.unwrap_or_default(),
            "errors": errors,
        })
    }
}

fn known<T>(part: &Part<T>) -> Option<&T> {
    part.as_ref().and_then(|part| part.as_ref().ok())
}

fn mapped<T, U>(part: &Part<T>, map: impl FnOnce(&T) -> U) -> Part<U> {
    part.as_ref().map(|part| match part {
        Ok(value) => Ok(map(value)),
        Err(why) => Err(why.clone()),
    })
}

/// Rates of what was not read before are not those of the interval: they are left out.
fn without_first(tenants: Part<Vec<TenantRow>>, was_read: bool) -> Part<Vec<TenantRow>> {
    tenants.map(|tenants| {
        tenants.map(|mut tenants| {
            for work in tenants.iter_mut().filter_map(|tenant| tenant.work.as_mut()) {
                if !was_read {
                    (work.per_second, work.held) = (0.0, 0.0);
                }
            }
            tenants
        })
    })
}

fn list<T>(part: &Part<T>, object: impl FnOnce(&T) -> Value) -> Result<Value, String> {
    match part {
        Some(Ok(value)) => Ok(object(value)),
        Some(Err(why)) => Err(why.clone()),
        None => Ok(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Samples;
    use std::time::{Duration, Instant};

    fn reading(at: Instant, text: &str) -> Reading {
        Reading {
            at,
            wall: 100.0,
            device: 1,
            stats: Samples::parse(text),
            sched: Some(Ok(
                json!({ "tenants": [{ "tenant": "system", "requests": 10 }] }),
            )),
            quota: Some(Err("no quota here".to_owned())),
            heat: Some(Err("not yours".to_owned())),
            locks: None,
        }
    }

    #[test]
    fn parts_that_cannot_be_read_do_not_hide_the_others() {
        let first = Instant::now();
        let text = "# TYPE hearth_op_seconds histogram\nhearth_op_seconds_count{op=\"read\"} 8\n";
        let before = reading(first, text);
        let now = reading(first + Duration::from_secs(2), &text.replace("} 8", "} 28"));
        let frame = Frame::between(Path::new("/mnt"), &before, &now);
        assert_eq!((frame.seconds, frame.volume.ops_per_second), (2.0, 10.0));
        let object = frame.object(Path::new("/mnt"));
        assert_eq!(object["operations"][0]["ops_per_second"], 10.0);
        assert_eq!(object["tenants"][0]["tenant"], "system");
        assert_eq!(
            object["errors"],
            json!({ "heat": "not yours", "quota": "no quota here" })
        );
        assert_eq!(
            (&object["heat"], &object["locks"]),
            (&Value::Null, &Value::Null)
        );
    }

    #[test]
    fn what_was_not_read_before_has_no_rate() {
        let first = Instant::now();
        let mut before = reading(first, "");
        before.sched = None;
        let now = reading(first + Duration::from_secs(1), "");
        let frame = Frame::between(Path::new("/mnt"), &before, &now);
        let tenants = frame.tenants.unwrap().unwrap();
        assert_eq!(tenants[0].work.unwrap().per_second, 0.0);
    }
}
