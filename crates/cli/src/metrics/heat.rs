//! Heat of the users, groups and projects of a mount: those that are hottest, and the rates of the
//! others as one sum. Only the owner of a volume may see them all.

use super::exposition::{Exposition, Metric};
use super::names::Names;
use serde_json::Value;

const TEMPERATURE: Metric = Metric::gauge(
    "hearth_heat_tenant_temperature_ratio",
    "Temperature of what a tenant owns, 0 for never used to 1.",
);
/// Fields that are rates, which halve with the half-life of heat.
const RATES: [(&str, Metric); 3] = [
    (
        "reads_per_second",
        Metric::gauge(
            "hearth_heat_tenant_reads_per_second",
            "Reads of what a tenant owns, as heat averages them.",
        ),
    ),
    (
        "writes_per_second",
        Metric::gauge(
            "hearth_heat_tenant_writes_per_second",
            "Writes of what a tenant owns, as heat averages them.",
        ),
    ),
    (
        "bytes_per_second",
        Metric::gauge(
            "hearth_heat_tenant_bytes_per_second",
            "Bytes read and written of what a tenant owns, as heat averages them.",
        ),
    ),
];

/// Adds what `.hearth/heat/tenants.json` says, nothing of a daemon that says something else.
pub fn add(page: &mut Exposition, mount: &str, json: &str, names: &mut Names, limit: usize) {
    let Ok(Value::Array(rows)) = serde_json::from_str(json) else {
        return;
    };
    for kind in ["user", "group", "project"] {
        let mut rows: Vec<&Value> = rows.iter().filter(|row| row["kind"] == kind).collect();
        rows.sort_by(|a, b| heat(b).total_cmp(&heat(a)));
        let others = rows.split_off(limit.min(rows.len()));
        let tenant = |row: &Value| format!("{kind}:{}", row["id"]);
        names.find(rows.iter().map(|row| tenant(row)));
        for row in rows {
            let tenant = tenant(row);
            let name = names.of(&tenant);
            let labels = [
                ("mount", mount),
                ("kind", kind),
                ("tenant", &tenant),
                ("name", name),
            ];
            page.add(&TEMPERATURE, &labels, heat(row) / 100.0);
            for (field, metric) in RATES {
                page.add(&metric, &labels, rate(row, field));
            }
        }
        if !others.is_empty() {
            let labels = [
                ("mount", mount),
                ("kind", kind),
                ("tenant", "other"),
                ("name", "other"),
            ];
            for (field, metric) in RATES {
                page.add(
                    &metric,
                    &labels,
                    others.iter().map(|row| rate(row, field)).sum(),
                );
            }
        }
    }
}

/// Degrees, as the daemon tells them.
fn heat(row: &Value) -> f64 {
    rate(row, "temperature")
}

fn rate(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_have_numbers_of_their_own_and_the_others_one_sum() {
        let row = |id: u32, temperature: u32| {
            format!(
                "{{\"kind\":\"project\",\"id\":{id},\"temperature\":{temperature}.0,\
                 \"reads_per_second\":{id}.5,\"writes_per_second\":0.0,\"bytes_per_second\":8.0}}"
            )
        };
        let json = format!(
            "[{},{},{},{}]",
            row(1, 10),
            row(2, 90),
            row(3, 50),
            row(4, 5)
        );
        let mut page = Exposition::default();
        add(&mut page, "/m", &json, &mut Names::default(), 2);
        let text = page.text();
        let of = |id: &str| format!("mount=\"/m\",kind=\"project\",tenant=\"{id}\",name=\"{id}\"");
        for line in [
            format!(
                "hearth_heat_tenant_temperature_ratio{{{}}} 0.9",
                of("project:2")
            ),
            format!(
                "hearth_heat_tenant_temperature_ratio{{{}}} 0.5",
                of("project:3")
            ),
            format!(
                "hearth_heat_tenant_reads_per_second{{{}}} 2.5",
                of("project:2")
            ),
            format!("hearth_heat_tenant_reads_per_second{{{}}} 6", of("other")),
            format!("hearth_heat_tenant_bytes_per_second{{{}}} 16", of("other")),
        ] {
            assert!(text.lines().any(|is| is == line), "{line}\n{text}");
        }
        assert!(
            !text.contains("project:1") && !text.contains("project:4"),
            "{text}"
        );
        let mut none = Exposition::default();
        add(&mut none, "/m", "null", &mut Names::default(), 2);
        assert_eq!(none.text(), "");
    }
}
