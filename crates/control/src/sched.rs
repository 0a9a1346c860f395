//! `.hearth/sched` and `.hearth/sched.json`: the scheduler per core and per tenant.

use hearth::sched::{CoreStats, DEFAULT_WEIGHT, Histogram, Limits, Service, Stats, TenantStats};
use hearth::{TenantId, Volume};
use std::fmt::Write;

/// A table of CPUs and a table of tenants, for people.
pub(crate) fn table(volume: &Volume) -> String {
    let stats = volume.scheduler().stats();
    let mut out = String::from(
        "core driven  queued   tasks at-once  steals  stolen   given  sleeps \
         |    run p50      p99      max |   wait p50      p99      max\n",
    );
    for (number, core) in stats.cores.iter().enumerate() {
        let _ = writeln!(
            out,
            "{number:>4} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} | {} | {}",
            if core.driven { "yes" } else { "no" },
            queued(core),
            core.switches,
            core.served,
            core.steals,
            core.stolen,
            core.given,
            core.sleeps,
            quantiles(&core.run),
            quantiles(&core.wait),
        );
    }
    out.push_str(
        "\nweight  share requests at-once |   wait p50      p99      max | throttled     iops\
         \x20          bw  tenant\n",
    );
    for tenant in ranked(&stats) {
        let (limits, service) = (limits(volume, tenant), &tenant.service);
        let some = |limit: Option<u64>| limit.map_or("-".to_owned(), |limit| limit.to_string());
        let _ = writeln!(
            out,
            "{:>6} {:>5.1}% {:>8} {:>7} | {:>10} {:>8} {:>8} | {:>9} {:>8} {:>12}  {}",
            tenant.weight,
            tenant.share * 100.0,
            requests(tenant),
            service.served,
            time(service.wait_quantile_ns(0.5)),
            time(service.wait_quantile_ns(0.99)),
            time(service.wait.max_ns()),
            time(tenant.throttled_ns),
            some(limits.ops),
            some(limits.bytes),
            name(tenant.id),
        );
    }
    let _ = writeln!(
        out,
        "\n{} tasks not finished, {} panicked",
        stats.tasks, stats.panics
    );
    out
}

/// The report as JSON, with whole histograms: pairs of upper limit in nanoseconds and count.
pub(crate) fn json(volume: &Volume) -> String {
    let stats = volume.scheduler().stats();
    let mut out = format!(
        "{{\"tasks\":{},\"panics\":{},\"cores\":[",
        stats.tasks, stats.panics
    );
    for (number, core) in stats.cores.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(
            out,
            "{comma}\n{{\"core\":{number},\"driven\":{},\"queued\":{},\"realtime\":{},\
             \"normal\":{},\"idle\":{},\"inbox\":{},\"switches\":{},\"served\":{},\
             \"steals\":{},\"stolen\":{},\"given\":{},\"sleeps\":{},\"run_ns\":{},\"wait_ns\":{}}}",
            core.driven,
            queued(core),
            core.realtime,
            core.normal,
            core.idle,
            core.inbox,
            core.switches,
            core.served,
            core.steals,
            core.stolen,
            core.given,
            core.sleeps,
            histogram(&core.run),
            histogram(&core.wait),
        );
    }
    out.push_str("\n],\"tenants\":[");
    for (number, tenant) in ranked(&stats).into_iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(out, "{comma}\n{}", one(volume, tenant));
    }
    out.push_str("\n]}\n");
    out
}

/// One tenant as one line of JSON.
pub(crate) fn of(volume: &Volume, who: TenantId) -> String {
    let mut tenants = volume.scheduler().stats().tenants.into_iter();
    let tenant = tenants.find(|tenant| tenant.id == who.number());
    one(volume, &tenant.unwrap_or_else(|| unused(who))) + "\n"
}

/// The row of a tenant without work and settings. A query creates no tenant.
fn unused(who: TenantId) -> TenantStats {
    TenantStats {
        id: who.number(),
        weight: DEFAULT_WEIGHT,
        service: Service::default(),
        share: 0.0,
        tasks: 0,
        given: 0,
        ops: 0,
        bytes: 0,
        throttled_ns: 0,
    }
}

fn one(volume: &Volume, tenant: &TenantStats) -> String {
    let (limits, service) = (limits(volume, tenant), &tenant.service);
    let some = |limit: Option<u64>| limit.map_or("null".to_owned(), |limit| limit.to_string());
    format!(
        "{{\"tenant\":\"{}\",\"weight\":{},\"share\":{:.6},\"requests\":{},\"at_once\":{},\
         \"run_ns\":{},\"wait_p50_ns\":{},\"wait_p99_ns\":{},\"wait_max_ns\":{},\
         \"wait_sum_ns\":{},\"wait_ns\":{},\"throttled_ns\":{},\"charged_ops\":{},\
         \"charged_bytes\":{},\"iops\":{},\"bw\":{}}}",
        name(tenant.id),
        tenant.weight,
        tenant.share,
        requests(tenant),
        service.served,
        service.run_ns,
        service.wait_quantile_ns(0.5),
        service.wait_quantile_ns(0.99),
        service.wait.max_ns(),
        service.wait.sum_ns(),
        histogram(&service.wait),
        tenant.throttled_ns,
        tenant.ops,
        tenant.bytes,
        some(limits.ops),
        some(limits.bytes),
    )
}

/// All tenants, the busiest first.
fn ranked(stats: &Stats) -> Vec<&TenantStats> {
    let mut tenants: Vec<_> = stats.tenants.iter().collect();
    tenants.sort_by_key(|tenant| (std::cmp::Reverse(tenant.service.run_ns), tenant.id));
    tenants
}

/// Requests, and tasks of the volume itself.
fn requests(tenant: &TenantStats) -> u64 {
    tenant.service.served + tenant.tasks + tenant.given
}

fn limits(volume: &Volume, tenant: &TenantStats) -> Limits {
    let sched = volume.scheduler();
    let known = sched.known_tenant(tenant.id);
    known.map_or_else(Limits::default, |tenant| sched.limits(tenant))
}

fn name(id: u64) -> String {
    TenantId::from_number(id).map_or_else(|| id.to_string(), |tenant| tenant.to_string())
}

fn queued(core: &CoreStats) -> usize {
    core.realtime + core.normal + core.idle + core.inbox
}

fn quantiles(times: &Histogram) -> String {
    let (half, most) = (times.quantile_ns(0.5), times.quantile_ns(0.99));
    let (half, most, max) = (time(half), time(most), time(times.max_ns()));
    format!("{half:>10} {most:>8} {max:>8}")
}

fn histogram(times: &Histogram) -> String {
    let cells: Vec<_> = times
        .cells()
        .map(|(upper, count)| format!("[{upper},{count}]"))
        .collect();
    format!("[{}]", cells.join(","))
}

/// Three digits and a unit.
fn time(ns: u64) -> String {
    let (unit, name) = match ns {
        0 => return "0".to_owned(),
        1..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns as f64 / unit;
    match value {
        ..10.0 => format!("{value:.2}{name}"),
        ..100.0 => format!("{value:.1}{name}"),
        _ => format!("{value:.0}{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_three_digits() {
        let shown: Vec<_> = [0, 7, 999, 1_000, 12_345, 999_000, 1_500_000, 2_000_000_000]
            .map(time)
            .into();
        let expected = [
            "0", "7ns", "999ns", "1.00us", "12.3us", "999us", "1.50ms", "2.00s",
        ];
        assert_eq!(shown, expected);
    }
}
