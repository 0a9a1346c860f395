//! Numbers in few places.

/// A count: `7`, `999`, `12.3k`, `4.5M`.
pub fn count(count: f64) -> String {
    let (mut value, mut unit) = (count, "");
    for larger in ["k", "M", "G", "T"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    match unit {
        "" => format!("{value:.0}"),
        _ if value < 99.95 => format!("{value:.1}{unit}"),
        _ => format!("{value:.0}{unit}"),
    }
}

/// A rate: as a count, with a digit behind the point where it is small, and a dash for nothing.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r < 0.05 => "-".to_owned(),
        r if r < 9.95 => format!("{r:.1}"),
        r => count(r),
    }
}

/// Bytes: `0`, `512`, `1.5K`, `12M`, `3.4G`.
pub fn bytes(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes, "");
    for larger in ["K", "M", "G", "T", "P"] {
        if value < 1023.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    match unit {
        "" => format!("{value:.0}"),
        _ if value < 9.95 => format!("{value:.1}{unit}"),
        _ => format!("{value:.0}{unit}"),
    }
}

/// Bytes a second, with a dash for nothing.
pub fn bytes_rate(per_second: f64) -> String {
    match per_second {
        r if r < 0.5 => "-".to_owned(),
        r => bytes(r),
    }
}

/// A time: `0`, `850ns`, `12us`, `3.4ms`, `12s`.
pub fn time(seconds: f64) -> String {
    if seconds <= 0.0 {
        return "0".to_owned();
    }
    let (value, unit) = match seconds {
        s if s < 0.999_5e-6 => return format!("{:.0}ns", s * 1e9),
        s if s < 0.999_5e-3 => (s * 1e6, "us"),
        s if s < 0.999_5 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    match value {
        v if v < 9.95 => format!("{v:.1}{unit}"),
        v => format!("{v:.0}{unit}"),
    }
}

/// A part of a whole in percent: `0.4%`, `12%`.
pub fn percent(part: f64) -> String {
    match part * 100.0 {
        p if p > 0.0 && p < 9.95 => format!("{p:.1}%"),
        p => format!("{p:.0}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_longer_than_five_places() {
        let counts = [0.0, 999.0, 999.7, 12_345.0, 999_960.0, 4.5e9].map(count);
        assert_eq!(counts, ["0", "999", "1.0k", "12.3k", "1.0M", "4.5G"]);
        let sizes = [0.0, 1023.0, 1024.0, 1536.0, 1023.6 * 1024.0, 2e12].map(bytes);
        assert_eq!(sizes, ["0", "1023", "1.0K", "1.5K", "1.0M", "1.8T"]);
        let times = [0.0, 256e-9, 9.99e-7, 1.2e-5, 0.9999, 61.0].map(time);
        assert_eq!(times, ["0", "256ns", "999ns", "12us", "1.0s", "61s"]);
        let rates = [0.0, 0.2, 9.94, 250.4].map(rate);
        assert_eq!(rates, ["-", "0.2", "9.9", "250"]);
        assert_eq!(
            [0.0, 0.004, 0.5, 1.0].map(percent),
            ["0%", "0.4%", "50%", "100%"]
        );
        for value in (0..60).map(|power| 1.37_f64.powi(power * 2)) {
            for text in [count(value), bytes(value), rate(value)] {
                assert!(text.len() <= 5 || value > 1e15, "{value}: {text}");
            }
        }
    }
}
