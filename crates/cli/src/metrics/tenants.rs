//! Tenants of a mount: what the scheduler did for each, and what it may have.

use super::exposition::{Exposition, Labels, Metric};
use super::names::Names;
use super::ranking::{Counts, TenantRanking};
use serde_json::Value;
use std::time::Instant;

const KNOWN: Metric = Metric::gauge(
    "hearth_tenants",
    "Tenants that the scheduler knows: users, projects, and the volume's own work.",
);
const WEIGHT: Metric = Metric::gauge(
    "hearth_tenant_weight",
    "Weight of a tenant where cores are short; 100 is usual.",
);
/// Fields of `.hearth/sched.json` that are limits.
const LIMITS: [(&str, Metric); 2] = [
    (
        "iops",
        Metric::gauge(
            "hearth_tenant_limit_ops_per_second",
            "Rate limit of operations, where one is set.",
        ),
    ),
    (
        "bw",
        Metric::gauge(
            "hearth_tenant_limit_bytes_per_second",
            "Rate limit of bytes, where one is set.",
        ),
    ),
];
/// Fields that count up, with how many of them make a unit.
const COUNTERS: [(&str, Metric, f64); 5] = [
    (
        "requests",
        Metric::counter("hearth_tenant_requests_total", "Requests of a tenant."),
        1.0,
    ),
    (
        "run_ns",
        Metric::counter(
            "hearth_tenant_run_seconds_total",
            "How long the daemon worked for a tenant.",
        ),
        1e9,
    ),
    (
        "throttled_ns",
        Metric::counter(
            "hearth_tenant_throttled_seconds_total",
            "By how long rate limits delayed requests of a tenant.",
        ),
        1e9,
    ),
    (
        "charged_ops",
        Metric::counter(
            "hearth_tenant_charged_ops_total",
            "Operations charged to rate limits of a tenant.",
        ),
        1.0,
    ),
    (
        "charged_bytes",
        Metric::counter(
            "hearth_tenant_charged_bytes_total",
            "Bytes charged to rate limits of a tenant.",
        ),
        1.0,
    ),
];
/// Place of `run_ns`: who uses most.
const USE: usize = 1;
const WAIT: Metric = Metric::histogram(
    "hearth_tenant_wait_seconds",
    "How long requests of a tenant waited for a core; those answered at once count with nothing.",
);
const WAIT_SUM: &str = "wait_sum_ns";
/// Upper bounds of the times that are told apart, as powers of two of nanoseconds: 1 us to 17 s.
/// The daemon's own cells end at each of them.
const BOUNDS: std::ops::RangeInclusive<u32> = 10..=34;
const STEP: usize = 4;

/// What one answer of a daemon says of its tenants.
pub struct Tenants {
    rows: Vec<Value>,
    counts: Vec<(String, Counts)>,
}

impl Tenants {
    /// Reads `.hearth/sched.json`; nothing of a daemon that writes something else.
    pub fn parse(json: &str) -> Option<Tenants> {
        let mut value: Value = serde_json::from_str(json).ok()?;
        let rows = match value.get_mut("tenants")?.take() {
            Value::Array(rows) => rows,
            _ => return None,
        };
        let counts = rows.iter().map(|row| {
            let name = row["tenant"].as_str()?;
            Some((name.to_owned(), counts(row)))
        });
        let counts = counts.collect::<Option<Vec<_>>>()?;
        Some(Tenants { rows, counts })
    }

    /// Adds those with numbers of their own, at most `limit`, and the sum of the others.
    pub fn add(
        &self,
        page: &mut Exposition,
        mount: &str,
        ranking: &mut TenantRanking,
        names: &mut Names,
        limit: usize,
    ) {
        page.add(&KNOWN, &[("mount", mount)], self.rows.len() as f64);
        let places = ranking.update(Instant::now(), &self.counts, USE, limit);
        names.find(places.iter().map(|&place| self.counts[place].0.clone()));
        for place in places {
            let (tenant, counts) = &self.counts[place];
            let labels = [
                ("mount", mount),
                ("tenant", tenant),
                ("name", names.of(tenant)),
            ];
            self.add_counts(page, &labels, counts);
            let row = &self.rows[place];
            let gauges = [("weight", WEIGHT)].into_iter().chain(LIMITS);
            for (field, metric) in gauges {
                if let Some(value) = row[field].as_f64() {
                    page.add(&metric, &labels, value);
                }
            }
        }
        if let Some(counts) = ranking.other() {
            let labels = [("mount", mount), ("tenant", "other"), ("name", "other")];
            self.add_counts(page, &labels, counts);
        }
    }

    fn add_counts(&self, page: &mut Exposition, labels: &Labels<'_>, counts: &Counts) {
        for ((field, metric, unit), count) in COUNTERS.iter().zip(counts) {
            if self.has(field) {
                page.add(metric, labels, *count as f64 / unit);
            }
        }
        if !self.has(WAIT_SUM) {
            return;
        }
        let [sum, waits @ ..] = &counts[COUNTERS.len()..] else {
            return;
        };
        let bucket = |page: &mut Exposition, bound: &str, below: u64| {
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound)]).collect();
            page.add_part(&WAIT, "_bucket", &labels, below as f64);
        };
        let mut below = 0;
        for (power, count) in BOUNDS.step_by(STEP).zip(waits) {
            below += count;
            bucket(page, &((1u64 << power) as f64 / 1e9).to_string(), below);
        }
        let all = waits.iter().sum();
        bucket(page, "+Inf", all);
        page.add_part(&WAIT, "_sum", labels, *sum as f64 / 1e9);
        page.add_part(&WAIT, "_count", labels, all as f64);
    }

    /// Whether this daemon writes the field.
    fn has(&self, field: &str) -> bool {
        self.rows.iter().any(|row| row.get(field).is_some())
    }
}

/// The counters of a tenant, the sum of its waits, and how many waits ended below each bound and
/// above all.
fn counts(row: &Value) -> Counts {
    let number = |field: &str| row[field].as_u64().unwrap_or(0);
    let mut counts: Counts = COUNTERS.iter().map(|(field, ..)| number(field)).collect();
    counts.push(number(WAIT_SUM));
    let bounds: Vec<u64> = BOUNDS.step_by(STEP).map(|power| 1 << power).collect();
    let mut waits = vec![0; bounds.len() + 1];
    waits[0] = number("at_once");
    for cell in row["wait_ns"].as_array().into_iter().flatten() {
        if let Some((upper, count)) = cell[0].as_u64().zip(cell[1].as_u64()) {
            waits[bounds.partition_point(|&bound| bound <= upper)] += count;
        }
    }
    counts.extend(waits);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(json: &str, limit: usize) -> String {
        let (mut page, mut ranking) = (Exposition::default(), TenantRanking::new(true));
        let tenants = Tenants::parse(json).unwrap();
        tenants.add(&mut page, "/m", &mut ranking, &mut Names::default(), limit);
        page.text()
    }

    #[test]
    fn waits_become_a_histogram_with_what_was_answered_at_once() {
        let json = r#"{"tenants":[{"tenant":"user:0","weight":100,"requests":9,"at_once":5,
            "run_ns":2000000000,"wait_sum_ns":3000,"wait_ns":[[1023,1],[1279,2],[99999999999,1]],
            "iops":50,"bw":null}]}"#;
        let text = page(json, 5);
        let labels = "mount=\"/m\",tenant=\"user:0\",name=\"user:root\"";
        for line in [
            format!("hearth_tenant_requests_total{{{labels}}} 9"),
            format!("hearth_tenant_run_seconds_total{{{labels}}} 2"),
            format!("hearth_tenant_limit_ops_per_second{{{labels}}} 50"),
            format!("hearth_tenant_wait_seconds_bucket{{{labels},le=\"0.000001024\"}} 6"),
            format!("hearth_tenant_wait_seconds_bucket{{{labels},le=\"0.000016384\"}} 8"),
            format!("hearth_tenant_wait_seconds_bucket{{{labels},le=\"+Inf\"}} 9"),
            format!("hearth_tenant_wait_seconds_sum{{{labels}}} 0.000003"),
            format!("hearth_tenant_wait_seconds_count{{{labels}}} 9"),
            "hearth_tenants{mount=\"/m\"} 1".to_owned(),
        ] {
            assert!(text.lines().any(|is| is == line), "{line}\n{text}");
        }
        assert!(!text.contains("hearth_tenant_limit_bytes"), "{text}");
        // What this daemon does not say is not there, not even as a zero.
        assert!(
            !text.contains("charged") && !text.contains("throttled"),
            "{text}"
        );
        assert!(!text.contains("other"), "{text}");
    }

    #[test]
    fn an_older_daemon_has_no_histogram() {
        let json = r#"{"tenants":[{"tenant":"user:0","run_ns":1,"wait_ns":[[1,1]]}]}"#;
        let text = page(json, 5);
        assert!(
            text.contains("run_seconds") && !text.contains("wait_seconds"),
            "{text}"
        );
        assert!(Tenants::parse("{}").is_none() && Tenants::parse("x").is_none());
    }

    #[test]
    fn the_others_are_one_sum() {
        let row = |id: u32| format!("{{\"tenant\":\"project:{id}\",\"run_ns\":{id}}}");
        let rows: Vec<String> = (1..=100).map(row).collect();
        let text = page(&format!("{{\"tenants\":[{}]}}", rows.join(",")), 2);
        let lines = text
            .lines()
            .filter(|line| line.starts_with("hearth_tenant_run"));
        let values: Vec<&str> = lines.filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(values, ["0.0000001", "0.000000099", "0.000004851"]);
    }
}
