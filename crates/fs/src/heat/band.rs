//! Temperatures by name.

/// From this temperature on something is warm.
pub const WARM_FROM: f64 = 25.0;
/// From this temperature on something is hot.
pub const HOT_FROM: f64 = 60.0;

/// The name of a temperature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// Below [`WARM_FROM`].
    Cold,
    /// Below [`HOT_FROM`].
    Warm,
    /// [`HOT_FROM`] to 100.
    Hot,
}

impl Band {
    /// Of a temperature from 0.0 to 100.0.
    pub fn of(temperature: f64) -> Band {
        match temperature {
            t if t >= HOT_FROM => Band::Hot,
            t if t >= WARM_FROM => Band::Warm,
            _ => Band::Cold,
        }
    }

    /// Of the middle of a bucket of the map.
    pub fn of_bucket(bucket: u8) -> Band {
        Band::of((f64::from(bucket) + 0.5) / 2.56)
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Band::Cold => "cold",
            Band::Warm => "warm",
            Band::Hot => "hot",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_belong_to_the_warmer_band() {
        let names = [0.0, 24.99, 25.0, 59.99, 60.0, 100.0].map(|t| Band::of(t).name());
        assert_eq!(names, ["cold", "cold", "warm", "warm", "hot", "hot"]);
        let buckets = [0, 63, 64, 153, 154, 255].map(|b| Band::of_bucket(b).name());
        assert_eq!(buckets, ["cold", "cold", "warm", "warm", "hot", "hot"]);
    }
}
