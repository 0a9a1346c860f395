use super::*;

/// A lock that was asked for 200 times in 2 s: 150 at once, 40 after a wait, 10 in vain.
const COUNTS: LockCounts = LockCounts {
    free: 150,
    waited: 40,
    refused: 10,
    bounced: 50,
    timed: 190,
    hold_ns: 400_000_000,
    hold_ns_max: 9_000_000,
    wait_ns: 80_000_000,
    wait_ns_max: 7_000_000,
};
const ELAPSED: u64 = 2_000_000_000;

fn columns(side: LockSide) -> Columns {
    Columns::of(&COUNTS, side, ELAPSED)
}

#[test]
fn util_is_the_share_of_time_that_the_lock_was_held() {
    assert_eq!(columns(LockSide::Write).util, Some(100.0 * 0.4 / 2.0));
    assert_eq!(Columns::of(&COUNTS, LockSide::Write, 0).util, None);
}

#[test]
fn con_is_the_share_of_requests_not_granted_at_once() {
    assert_eq!(
        columns(LockSide::Write).con,
        Some(100.0 - 100.0 * 150.0 / 200.0)
    );
}

#[test]
fn hold_is_time_held_by_requests_and_the_longest() {
    let columns = columns(LockSide::Write);
    assert_eq!(columns.hold_mean, Some(400_000_000.0 / 200.0));
    assert_eq!(columns.hold_max, Some(9_000_000));
}

#[test]
fn wait_is_the_mean_time_of_requests_that_waited_and_the_longest() {
    let columns = columns(LockSide::Write);
    assert_eq!(columns.wait_mean, Some(80_000_000.0 / 40.0));
    assert_eq!(columns.wait_max, Some(7_000_000));
}

#[test]
fn total_is_all_requests_and_bounce_those_from_another_cpu() {
    let columns = columns(LockSide::Write);
    assert_eq!((columns.total, columns.bounce), (200, Some(25.0)));
}

#[test]
fn columns_without_a_measurement_are_empty() {
    let waits = columns(LockSide::Wait);
    assert_eq!(
        (waits.util, waits.con, waits.hold_mean, waits.bounce),
        (None, None, None, None)
    );
    assert_eq!((waits.wait_mean, waits.total), (Some(2_000_000.0), 200));
    let untimed = LockCounts { timed: 0, ..COUNTS };
    let untimed = Columns::of(&untimed, LockSide::Write, ELAPSED);
    assert_eq!(
        (untimed.util, untimed.hold_mean, untimed.hold_max),
        (None, None, None)
    );
    assert_eq!(untimed.con, Some(25.0));
    let nothing = Columns::of(&LockCounts::default(), LockSide::Write, ELAPSED);
    assert_eq!(
        (nothing.con, nothing.wait_mean, nothing.total),
        (None, None, 0)
    );
}

/// Class `a` at two sites; class `b` on all sides, asked for less but waited for longer.
fn profile() -> LockProfile {
    let site = |line: u32, counts: LockCounts| SiteRow {
        site: format!("x.rs:{line}"),
        counts,
    };
    let few = LockCounts {
        free: 1,
        waited: 3,
        timed: 4,
        hold_ns: 40_000,
        hold_ns_max: 20_000,
        wait_ns: 30_000_000,
        wait_ns_max: 29_000_000,
        ..LockCounts::default()
    };
    let row = |class: &str, side, sites| LockRow {
        class: class.to_owned(),
        side,
        sites,
    };
    LockProfile {
        running: false,
        exact: true,
        elapsed_ns: ELAPSED,
        lost: 0,
        locks: vec![
            row("a", LockSide::Write, vec![site(7, few), site(9, COUNTS)]),
            row("b", LockSide::Write, vec![site(1, few)]),
            row("b", LockSide::Read, vec![site(2, few)]),
            row("b", LockSide::Wait, vec![site(3, few)]),
        ],
    }
}

#[test]
fn sites_add_up_to_their_class_and_classes_to_the_total() {
    let profile = profile();
    let a = profile.locks[0].counts();
    assert_eq!(
        (a.total(), a.hold_ns, a.wait_ns),
        (204, 400_040_000, 110_000_000)
    );
    assert_eq!((a.hold_ns_max, a.wait_ns_max), (9_000_000, 29_000_000));
    assert_eq!(profile.counts().total(), 204 + 4 + 4);
    let parts: f64 = profile.locks[0]
        .sites
        .iter()
        .filter_map(|site| Columns::of(&site.counts, LockSide::Write, ELAPSED).util)
        .sum();
    let whole = Columns::of(&a, LockSide::Write, ELAPSED)
        .util
        .expect("held");
    assert!((parts - whole).abs() < 1e-9);
}

#[test]
fn the_table_has_the_total_first_and_call_sites_under_their_class() {
    let text = profile().text(LockSort::Util);
    let words = |line: usize| -> Vec<&str> {
        text.lines()
            .nth(line)
            .expect("a line")
            .split_whitespace()
            .collect()
    };
    assert_eq!(words(1).last(), Some(&"NAME"));
    assert_eq!(
        words(2),
        [
            "-",
            "27.83%",
            "1.9ms(9.0ms)",
            "3.5ms(29ms)",
            "212",
            "23.58%",
            "*TOTAL*"
        ]
    );
    assert_eq!(
        words(3),
        [
            "20.00%",
            "25.98%",
            "2.0ms(9.0ms)",
            "2.6ms(29ms)",
            "204",
            "24.51%",
            "a"
        ]
    );
    let site = text.lines().nth(4).expect("a site");
    assert!(
        site.ends_with("  x.rs:9") && site.contains("25.00%"),
        "{text}"
    );
    let wait = text.lines().find(|line| line.ends_with("b (wait)"));
    let wait: Vec<&str> = wait.expect("a line").split_whitespace().collect();
    assert_eq!(wait, ["-", "-", "-", "10ms(29ms)", "4", "-", "b", "(wait)"]);
}

#[test]
fn each_order_puts_its_largest_first() {
    let first = |sort| {
        let text = profile().text(sort);
        let line = text.lines().nth(3).expect("a class").to_owned();
        line.split_whitespace().nth(6).expect("a name").to_owned()
    };
    assert_eq!(first(LockSort::Util), "a");
    assert_eq!(first(LockSort::Total), "a");
    assert_eq!(first(LockSort::Con), "b");
    assert_eq!(first(LockSort::Wait), "b");
}

#[test]
fn json_has_the_columns_and_null_for_what_was_not_measured() {
    let json = profile().json();
    assert!(json.starts_with("{\"running\":false,\"exact\":true,\"elapsed_ns\":2000000000,"));
    let wait = json.split("\"side\":\"wait\"").nth(1).expect("a row");
    assert!(
        wait.starts_with(",\"util_percent\":null,\"con_percent\":null,"),
        "{wait}"
    );
    assert!(
        json.contains("\"site\":\"x.rs:9\",\"util_percent\":20,\"con_percent\":25,"),
        "{json}"
    );
}
