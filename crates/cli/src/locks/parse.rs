//! `.hearth/locks.json` back into what the library shows.

use hearth::{LockCounts, LockProfile, LockRow, LockSide, SiteRow};
use serde_json::Value;

/// `None` if something is missing or of another kind.
pub fn profile(text: &str) -> Option<LockProfile> {
    let json: Value = serde_json::from_str(text).ok()?;
    let locks = json["locks"].as_array()?.iter().map(row);
    Some(LockProfile {
        running: json["running"].as_bool()?,
        exact: json["exact"].as_bool()?,
        elapsed_ns: json["elapsed_ns"].as_u64()?,
        lost: json["lost"].as_u64()?,
        locks: locks.collect::<Option<_>>()?,
    })
}

fn row(json: &Value) -> Option<LockRow> {
    let sites = json["sites"].as_array()?.iter().map(site);
    Some(LockRow {
        class: json["class"].as_str()?.to_owned(),
        side: match json["side"].as_str()? {
            "write" => LockSide::Write,
            "read" => LockSide::Read,
            "wait" => LockSide::Wait,
            _ => return None,
        },
        sites: sites.collect::<Option<_>>()?,
    })
}

fn site(json: &Value) -> Option<SiteRow> {
    let number = |name: &str| json[name].as_u64();
    // Null where nothing was timed or nobody waited.
    let longest = |name: &str| number(name).unwrap_or(0);
    Some(SiteRow {
        site: json["site"].as_str()?.to_owned(),
        counts: LockCounts {
            free: number("free")?,
            waited: number("waited")?,
            refused: number("refused")?,
            bounced: number("bounced")?,
            timed: number("timed")?,
            hold_ns: number("hold_ns")?,
            hold_ns_max: longest("hold_ns_max"),
            wait_ns: number("wait_ns")?,
            wait_ns_max: longest("wait_ns_max"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_writes_is_read_back_whole() {
        let counts = LockCounts {
            free: 1,
            waited: 2,
            refused: 3,
            bounced: 4,
            timed: 5,
            hold_ns: 6,
            hold_ns_max: 7,
            wait_ns: 8,
            wait_ns_max: 9,
        };
        let row = |side| LockRow {
            class: "a \"quoted\" class".to_owned(),
            side,
            sites: vec![SiteRow {
                site: "a.rs:1".to_owned(),
                counts,
            }],
        };
        let sent = LockProfile {
            running: true,
            exact: false,
            elapsed_ns: 10,
            lost: 11,
            locks: vec![row(LockSide::Write), row(LockSide::Read)],
        };
        assert_eq!(profile(&sent.json()), Some(sent));
        assert_eq!(
            profile(&LockProfile::default().json()),
            Some(LockProfile::default())
        );
        assert_eq!(profile("{}"), None);
    }
}
