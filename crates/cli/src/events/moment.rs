//! Moments for people, as ISO 8601 has them.

const DAY: i64 = 86_400;

/// Seconds since 1970 as `2026-11-28T12:50:01.123456Z`.
pub fn moment(seconds: f64) -> String {
    let micros = (seconds * 1e6).floor() as i64;
    let (whole, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (year, month, day) = date(whole.div_euclid(DAY));
    let second = whole.rem_euclid(DAY);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let second = second % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day of a day after 1970-01-01.
fn date(mut day: i64) -> (i64, usize, i64) {
    let mut year = 1970;
    // The calendar repeats after 400 years.
    year += 400 * day.div_euclid(146_097);
    day = day.rem_euclid(146_097);
    while day >= days(year).iter().sum() {
        day -= days(year).iter().sum::<i64>();
        year += 1;
    }
    let mut month = 0;
    while day >= days(year)[month] {
        day -= days(year)[month];
        month += 1;
    }
    (year, month + 1, day + 1)
}

/// The days of the months.
fn days(year: i64) -> [i64; 12] {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if is_leap { 29 } else { 28 };
    [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn a_moment_is_the_one_that_date_prints() {
        for (seconds, shown) in [
            (0.0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400.25, "2000-02-29T00:00:00.250000Z"),
            (1_763_720_000.5, "2025-11-21T10:13:20.500000Z"),
            (1_764_334_201.0, "2025-11-28T12:50:01.000000Z"),
            (4_107_542_399.0, "2100-02-28T23:59:59.000000Z"),
            (4_107_542_400.0, "2100-03-01T00:00:00.000000Z"),
            (-1.0, "1969-12-31T23:59:59.000000Z"),
        ] {
            assert_eq!(moment(seconds), shown);
        }
    }
}
