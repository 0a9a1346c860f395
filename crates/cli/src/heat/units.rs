//! Sizes, times and rates as they are typed and shown.

use std::time::Duration;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// `30s`, `10m`, `2h`, `1d`; a number alone is seconds.
///
/// # Errors
/// What would be right.
pub fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "give a number with ms, s, m, h or d, such as 10m".to_owned();
    let (number, unit) = split(text);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    match Duration::try_from_secs_f64(number * scale) {
        Ok(time) if time >= Duration::from_millis(1) && time <= YEAR => Ok(time),
        _ => Err("give a time from 1ms to 365d".to_owned()),
    }
}

/// `200G`, `512MiB`, `1.5T`: a size that something can have.
///
/// # Errors
/// What would be right.
pub fn size(text: &str) -> Result<u64, String> {
    match hearth::amount::bytes(text) {
        Ok(0) => Err("give a size above 0, such as 200G".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

/// The number and the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    text.split_at(end.unwrap_or(text.len()))
}

/// Bytes for people: `0`, `512 B`, `1.5 GiB`.
pub fn bytes(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1023.5 {
            return match unit {
                "B" => format!("{value:.0} B"),
                _ => format!("{} {unit}", short(value)),
            };
        }
        value /= 1024.0;
    }
    format!("{} PiB", short(value))
}

/// A rate in the largest unit of time that gives at least one: `3.2/s`, `12/m`, `7/h`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 0.995 => format!("{}/s", short(r)),
        r if r * 60.0 >= 0.995 => format!("{}/m", short(r * 60.0)),
        r if r * 3600.0 >= 0.005 => format!("{}/h", short(r * 3600.0)),
        _ => "-".to_owned(),
    }
}

/// How long ago: `now`, `42s`, `5m`, `3h`, `2d`; nothing for never.
pub fn ago(then: Option<f64>, now: f64) -> String {
    let Some(then) = then else {
        return "-".to_owned();
    };
    match (now - then).max(0.0) {
        s if s < 1.0 => "now".to_owned(),
        s => span(s),
    }
}

/// A time: `42s`, `5m`, `3h`, `2d`.
pub fn span(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.0}s"),
        s if s < 3600.0 => format!("{:.0}m", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.0}h", s / 3600.0),
        s => format!("{:.0}d", s / 86400.0),
    }
}

/// Three digits or so.
fn short(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v.fract() < 0.05 && v >= 1.0 => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        for (text, seconds) in [
            ("10m", 600.0),
            ("30", 30.0),
            ("1.5h", 5400.0),
            ("2d", 172_800.0),
        ] {
            assert_eq!(time(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for (text, bytes) in [
            ("200G", 200 << 30),
            ("512MiB", 512 << 20),
            ("1.5k", 1536),
            ("7", 7),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_would_be_right() {
        for text in ["", "m", "-1m", "10x", "1e3", "ten"] {
            assert!(time(text).is_err_and(|why| why.contains("10m")), "{text}");
        }
        for text in ["0", "0s", "400d", "99999999999999999999d"] {
            assert!(time(text).is_err_and(|why| why.contains("365d")), "{text}");
        }
        for text in ["", "G", "-1G", "10Q", "lots", "0", "0G", "99999999999P"] {
            assert!(size(text).is_err_and(|why| why.contains("give ")), "{text}");
        }
    }

    #[test]
    fn people_are_shown_few_digits() {
        let sizes = [0.0, 512.0, 1536.0, 1048576.0, 1.5e12].map(bytes);
        assert_eq!(sizes, ["0 B", "512 B", "1.5 KiB", "1 MiB", "1.4 TiB"]);
        let rates = [0.0, 250.0, 1.25, 0.5, 0.0019].map(rate);
        assert_eq!(rates, ["-", "250/s", "1.2/s", "30/m", "6.8/h"]);
        let times = [100.0, 70.0, 0.0].map(|then| ago(Some(then), 100.0));
        assert_eq!(times, ["now", "30s", "2m"]);
        assert_eq!(ago(None, 5.0), "-");
    }
}
