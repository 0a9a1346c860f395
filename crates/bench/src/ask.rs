//! What a benchmark must show, and whether it did.

use crate::cells;
use crate::stats::{interval, middle, range};
use crate::table::Table;

/// One requirement: a value between two bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub what: String,
    /// Least value, inclusive.
    pub least: f64,
    /// Greatest value, inclusive.
    pub most: f64,
    /// The median; `None` if it could not be measured.
    pub got: Option<f64>,
    /// What lies around it: the smallest and largest run, or an interval.
    pub range: (f64, f64),
    /// The median by processor time, where that was measured: on a shared machine it is steadier.
    /// It does not decide.
    pub by_cpu: Option<f64>,
    /// The whole range has to be out of bounds for it to be missed; else the median decides.
    pub needs_range: bool,
    /// It is missed if it was not measured.
    pub must_be_measured: bool,
}

/// How a requirement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Met,
    /// The bound is within the interval, which has to be on one side of it.
    Undecided,
    Missed,
    Unmeasured,
}

impl Ask {
    /// The median of the samples has to be `least` or more.
    pub fn at_least(what: impl Into<String>, least: f64, samples: &[f64]) -> Ask {
        Ask::within(what, least, f64::INFINITY, samples)
    }

    /// The median of the samples has to be `most` or less.
    pub fn at_most(what: impl Into<String>, most: f64, samples: &[f64]) -> Ask {
        Ask::within(what, f64::NEG_INFINITY, most, samples)
    }

    /// The median of the samples has to be from `least` to `most`.
    pub fn within(what: impl Into<String>, least: f64, most: f64, samples: &[f64]) -> Ask {
        Ask {
            what: what.into(),
            least,
            most,
            got: middle(samples),
            range: range(samples),
            by_cpu: None,
            needs_range: false,
            must_be_measured: false,
        }
    }

    /// An estimate between the ends of its interval has to be `least` or more; it is missed only if
    /// the whole interval is below.
    pub fn surely_at_least(what: impl Into<String>, least: f64, [low, got, high]: [f64; 3]) -> Ask {
        Ask {
            range: (low, high),
            needs_range: true,
            ..Ask::at_least(what, least, &[got])
        }
    }

    /// Shows the interval of the median instead of the smallest and largest run, and has to be
    /// measured.
    pub fn strict(self, samples: &[f64]) -> Ask {
        let range = match samples {
            [] => self.range,
            _ => (interval(samples)[0], interval(samples)[2]),
        };
        Ask {
            range,
            must_be_measured: true,
            ..self
        }
    }

    /// With the median by processor time beside it.
    pub fn by_cpu(self, samples: &[f64]) -> Ask {
        Ask {
            by_cpu: middle(samples),
            ..self
        }
    }

    pub fn standing(&self) -> Standing {
        let is_in = |value: f64| (self.least..=self.most).contains(&value);
        match self.got {
            None => Standing::Unmeasured,
            Some(_) if self.needs_range && self.is_open() => Standing::Undecided,
            Some(got) if is_in(got) => Standing::Met,
            Some(_) => Standing::Missed,
        }
    }

    /// Whether a bound is within the range, so that more runs may change how it stands.
    pub fn is_open(&self) -> bool {
        let is_in = |value: f64| (self.least..=self.most).contains(&value);
        self.got.is_some() && is_in(self.range.0) != is_in(self.range.1)
    }

    /// Whether it makes a run fail.
    pub fn is_missed(&self) -> bool {
        match self.standing() {
            Standing::Missed => true,
            Standing::Unmeasured => self.must_be_measured,
            Standing::Met | Standing::Undecided => false,
        }
    }
}

pub fn table(asks: &[Ask]) -> String {
    let mut table = Table::new(["asked", "wanted", "got", "range", "by CPU time", "met"]);
    for ask in asks {
        let wanted = match (ask.least.is_finite(), ask.most.is_finite()) {
            (true, true) => format!("{} to {}", ask.least, ask.most),
            (false, _) => format!("<= {}", ask.most),
            (true, false) => format!(">= {}", ask.least),
        };
        // Bounds on ratios differ in the third digit.
        let digits = |value: f64| if value.abs() < 10.0 { 3 } else { 1 };
        let figure = |value: f64| format!("{value:.*}", digits(value));
        let shown = |value: Option<f64>| value.map_or(String::new(), figure);
        let range = ask.got.map_or(String::new(), |_| {
            format!("{} to {}", figure(ask.range.0), figure(ask.range.1))
        });
        let met = match ask.standing() {
            Standing::Met => "yes",
            Standing::Undecided => "undecided",
            Standing::Missed => "NO",
            Standing::Unmeasured => "not measured",
        };
        table.row(cells![
            ask.what,
            wanted,
            shown(ask.got),
            range,
            shown(ask.by_cpu),
            met
        ]);
    }
    table.text()
}

/// Prints the asks; an error if one is missed, unless this is just a first look.
pub fn verdict(asks: &[Ask], is_quick: bool) -> Result<(), String> {
    if asks.is_empty() {
        return Ok(());
    }
    println!("\n## What it must show\n\n{}", table(asks));
    let missed: Vec<&str> = asks
        .iter()
        .filter(|ask| ask.is_missed())
        .map(|ask| &*ask.what)
        .collect();
    let said = format!("{} of {} asks are not met", missed.len(), asks.len());
    match missed[..] {
        [] => Ok(()),
        _ if is_quick => {
            println!("{said} in this first look");
            Ok(())
        }
        _ => Err(format!("{said}: {}", missed.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::cells_of;

    #[test]
    fn the_median_decides() {
        let met = Ask::at_least("a", 1.8, &[1.7, 1.9, 1.85]);
        assert_eq!((met.got, met.standing()), (Some(1.85), Standing::Met));
        assert_eq!(met.range, (1.7, 1.9));
        assert_eq!(
            Ask::at_least("a", 1.8, &[1.7, 1.79]).standing(),
            Standing::Missed
        );
        assert_eq!(
            Ask::within("a", 0.97, 1.03, &[1.04]).standing(),
            Standing::Missed
        );
        assert_eq!(Ask::at_most("a", 1.1, &[1.2]).standing(), Standing::Missed);
        let unmeasured = Ask::at_least("a", 1.8, &[]);
        assert_eq!(unmeasured.standing(), Standing::Unmeasured);
        assert!(!unmeasured.is_missed() && unmeasured.strict(&[]).is_missed());
    }

    #[test]
    fn an_interval_has_to_be_on_one_side() {
        let standing = |interval| Ask::surely_at_least("a", 0.99, interval).standing();
        assert_eq!(standing([0.99, 1.0, 1.1]), Standing::Met);
        assert_eq!(standing([0.9, 1.0, 1.1]), Standing::Undecided);
        assert_eq!(standing([0.9, 0.95, 0.98]), Standing::Missed);
        let open = |samples: &[f64]| Ask::at_most("a", 4.0, samples).strict(samples).is_open();
        assert!(open(&[3.0, 3.5, 4.1]) && !open(&[3.0, 3.5, 4.0]) && !open(&[4.1, 4.5, 4.6]));
    }

    #[test]
    fn the_table_says_what_was_missed_and_what_was_not_measured() {
        let asks = [
            Ask::at_least("twice", 2.0, &[1.0, 1.5, 2.5]).by_cpu(&[2.0, 2.2]),
            Ask::within("same", 0.97, 1.03, &[]),
            Ask::at_most("little", 1.1, &[1.0]),
        ];
        let text = table(&asks);
        let wanted = ["twice", ">= 2", "1.500", "1.000 to 2.500", "2.100", "NO"];
        assert_eq!(cells_of(&text, 2), wanted);
        let wanted = ["same", "0.97 to 1.03", "", "", "", "not measured"];
        assert_eq!(cells_of(&text, 3), wanted);
        assert_eq!(cells_of(&text, 4)[1..3], ["<= 1.1", "1.000"]);
        assert!(verdict(&asks, false).unwrap_err().contains("1 of 3"));
        assert_eq!(verdict(&asks, true), Ok(()));
    }
}
