//! Quotas of a mount: use and limits of those who are nearest to a limit, else of those who use
//! most, and the use of the others as one sum. Only the owner of a volume may see them all.

use super::exposition::{Exposition, Metric};
use super::names::Names;
use crate::quota::{Report, Usage};
use hearth::QuotaKind;
use std::path::Path;

type QuotaRow = (String, Usage, Usage);

const KNOWN: Metric = Metric::gauge(
    "hearth_quota_tenants",
    "Users, groups and projects that use something or have a limit.",
);
const ABOVE: Metric = Metric::gauge(
    "hearth_quota_tenants_above_soft",
    "How many of them are above a soft limit.",
);
const GRACE: Metric = Metric::gauge(
    "hearth_quota_grace_end_timestamp_seconds",
    "When the grace period ends of who is above a soft limit.",
);

struct Metrics {
    used: Metric,
    soft: Metric,
    hard: Metric,
}

const BYTES: Metrics = Metrics {
    used: Metric::gauge("hearth_quota_used_bytes", "Bytes in use."),
    soft: Metric::gauge("hearth_quota_soft_limit_bytes", "Soft limit of bytes."),
    hard: Metric::gauge("hearth_quota_hard_limit_bytes", "Hard limit of bytes."),
};
const INODES: Metrics = Metrics {
    used: Metric::gauge("hearth_quota_used_inodes", "Inodes in use."),
    soft: Metric::gauge("hearth_quota_soft_limit_inodes", "Soft limit of inodes."),
    hard: Metric::gauge("hearth_quota_hard_limit_inodes", "Hard limit of inodes."),
};

/// Adds what `.hearth/quota/report.json` says, nothing of a daemon that says something else.
pub fn add(page: &mut Exposition, mount: &str, json: &str, names: &mut Names, limit: usize) {
    let Ok(report) = Report::parse(json, Path::new(mount)) else {
        return;
    };
    for kind in [QuotaKind::User, QuotaKind::Group, QuotaKind::Project] {
        let of_kind = report.records.iter().filter(|r| r.who.kind == kind);
        let mut records: Vec<QuotaRow> = of_kind
            .map(|r| (format!("{}:{}", kind.name(), r.who.id), r.bytes, r.inodes))
            .collect();
        if records.is_empty() {
            continue;
        }
        let labels = [("mount", mount), ("kind", kind.name())];
        page.add(&KNOWN, &labels, records.len() as f64);
        let above = records.iter().filter(|(_, bytes, inodes)| {
            [bytes, inodes].into_iter().any(|of| of.deadline.is_some())
        });
        page.add(&ABOVE, &labels, above.count() as f64);
        records.sort_by(|a, b| {
            let by_room = nearness(b).total_cmp(&nearness(a));
            by_room.then(b.1.used.cmp(&a.1.used))
        });
        let others = records.split_off(limit.min(records.len()));
        names.find(records.iter().map(|(tenant, ..)| tenant.clone()));
        for record in &records {
            add_one(page, &labels, record, names);
        }
        if !others.is_empty() {
            let sum = |of: fn(&QuotaRow) -> u64| others.iter().map(of).sum::<u64>() as f64;
            let labels = [labels[0], labels[1], ("tenant", "other"), ("name", "other")];
            page.add(&BYTES.used, &labels, sum(|record| record.1.used));
            page.add(&INODES.used, &labels, sum(|record| record.2.used));
        }
    }
}

fn add_one(page: &mut Exposition, labels: &[(&str, &str); 2], record: &QuotaRow, names: &Names) {
    let (tenant, bytes, inodes) = record;
    let labels = [
        labels[0],
        labels[1],
        ("tenant", tenant),
        ("name", names.of(tenant)),
    ];
    for (resource, metrics, usage) in [("bytes", BYTES, bytes), ("inodes", INODES, inodes)] {
        page.add(&metrics.used, &labels, usage.used as f64);
        for (metric, limit) in [(metrics.soft, usage.soft), (metrics.hard, usage.hard)] {
            if let Some(limit) = limit {
                page.add(&metric, &labels, limit as f64);
            }
        }
        if let Some(end) = usage.deadline {
            let labels: Vec<_> = labels.into_iter().chain([("resource", resource)]).collect();
            page.add(&GRACE, &labels, end as f64);
        }
    }
}

/// Use as a part of the nearest limit, 0 without one.
fn nearness((_, bytes, inodes): &QuotaRow) -> f64 {
    let parts = [bytes, inodes].into_iter().flat_map(|usage| {
        let limits = [usage.soft, usage.hard].into_iter().flatten();
        limits.map(|limit| usage.used as f64 / (limit as f64).max(1.0))
    });
    parts.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u32, used: u64, hard: Option<u64>) -> String {
        let hard = hard.map_or("null".to_owned(), |hard| hard.to_string());
        let none = "\"hard\":null,\"soft\":null,\"grace\":1,\"deadline\":null";
        format!(
            "{{\"kind\":\"project\",\"id\":{id},\"bytes\":{{\"used\":{used},\"hard\":{hard},\
             \"soft\":10,\"grace\":1,\"deadline\":{}}},\"inodes\":{{\"used\":1,{none}}}}}",
            if used > 10 { "99" } else { "null" }
        )
    }

    #[test]
    fn who_is_near_a_limit_comes_before_who_uses_much() {
        let rules = |kind: &str| {
            let none = "{\"hard\":null,\"soft\":null,\"grace\":1}";
            format!("{{\"kind\":\"{kind}\",\"enforced\":true,\"bytes\":{none},\"inodes\":{none}}}")
        };
        let records = [
            record(1, 5, None),
            record(2, 9, Some(9)),
            record(3, 12, None),
        ];
        let json = format!(
            "{{\"kinds\":[{}],\"records\":[{}]}}",
            rules("project"),
            records.join(",")
        );
        let mut page = Exposition::default();
        add(&mut page, "/m", &json, &mut Names::default(), 2);
        let text = page.text();
        let of = |id: &str| format!("mount=\"/m\",kind=\"project\",tenant=\"{id}\",name=\"{id}\"");
        for line in [
            format!("hearth_quota_used_bytes{{{}}} 12", of("project:3")),
            format!("hearth_quota_used_bytes{{{}}} 9", of("project:2")),
            format!("hearth_quota_hard_limit_bytes{{{}}} 9", of("project:2")),
            format!("hearth_quota_used_bytes{{{}}} 5", of("other")),
            format!("hearth_quota_used_inodes{{{}}} 1", of("other")),
            "hearth_quota_tenants{mount=\"/m\",kind=\"project\"} 3".to_owned(),
            "hearth_quota_tenants_above_soft{mount=\"/m\",kind=\"project\"} 1".to_owned(),
            format!(
                "hearth_quota_grace_end_timestamp_seconds{{{},resource=\"bytes\"}} 99",
                of("project:3")
            ),
        ] {
            assert!(text.lines().any(|is| is == line), "{line}\n{text}");
        }
        assert!(!text.contains("project:1"), "{text}");
    }
}
