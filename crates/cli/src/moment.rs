//! Moments of the wall clock for people, as ISO 8601 has them.

/// Seconds of a day.
const DAY: i64 = 86_400;

/// `2026-11-28T13:05:09Z` for seconds since 1970.
pub fn iso(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `2026-11-28T13:05:09.123456Z` for seconds since 1970.
pub fn iso_micros(seconds: f64) -> String {
    let micros = (seconds * 1e6).floor() as i64;
    let (whole, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let whole = iso(whole);
    format!("{}.{micros:06}Z", whole.trim_end_matches('Z'))
}

/// Year, month and day so many days after the beginning of 1970. Years begin in March here, so that
/// the leap day is the last of one; 400 of them have 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    // Days since the first of March of year 0.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, shown) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_763_720_000, "2025-11-21T10:13:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(iso(seconds), shown);
        }
    }

    #[test]
    fn a_moment_is_the_one_that_date_prints() {
        for (seconds, shown) in [
            (0.0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400.25, "2000-02-29T00:00:00.250000Z"),
            (1_763_720_000.5, "2025-11-21T10:13:20.500000Z"),
            (4_107_542_399.0, "2100-02-28T23:59:59.000000Z"),
            (-1.0, "1969-12-31T23:59:59.000000Z"),
        ] {
            assert_eq!(iso_micros(seconds), shown);
        }
    }
}
