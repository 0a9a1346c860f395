//! What the benchmark must show, and whether it did.

use crate::table::Table;

/// One of the things that were asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// What is compared.
    pub what: String,
    /// Least value, inclusive.
    pub least: f64,
    /// Greatest value, inclusive.
    pub most: f64,
    /// The median; `None` if it could not be measured.
    pub got: Option<f64>,
    /// Smallest and largest of the runs.
    pub range: (f64, f64),
    /// The median by processor time, where that was measured: on a shared machine it is steadier.
    /// It does not decide.
    pub by_cpu: Option<f64>,
}

impl Ask {
    /// That the ratios, one for each run, have a median of at least `least`.
    pub fn at_least(what: impl Into<String>, least: f64, ratios: &[f64]) -> Ask {
        Ask::within(what, least, f64::INFINITY, ratios)
    }

    /// That the ratios have a median of at most `most`.
    pub fn at_most(what: impl Into<String>, most: f64, ratios: &[f64]) -> Ask {
        Ask::within(what, f64::NEG_INFINITY, most, ratios)
    }

    /// That the ratios have a median from `least` to `most`.
    pub fn within(what: impl Into<String>, least: f64, most: f64, ratios: &[f64]) -> Ask {
        let mut sorted = ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        Ask {
            what: what.into(),
            least,
            most,
            got: median(ratios),
            by_cpu: None,
            range: sorted
                .first()
                .zip(sorted.last())
                .map_or((f64::NAN, f64::NAN), |(&low, &high)| (low, high)),
        }
    }

    /// The same with the ratios by processor time beside it.
    pub fn by_cpu(self, ratios: &[f64]) -> Ask {
        Ask {
            by_cpu: median(ratios),
            ..self
        }
    }

    /// Whether it is met; `None` if it was not measured.
    pub fn is_met(&self) -> Option<bool> {
        self.got.map(|got| (self.least..=self.most).contains(&got))
    }
}

fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| crate::row::median(&mut values.to_vec()).0)
}

/// The asks as a table.
pub fn table(asks: &[Ask]) -> String {
    let heading = ["asked", "wanted", "median", "runs", "by CPU time", "met"];
    let mut table = Table::new(heading.map(str::to_owned));
    for ask in asks {
        let wanted = match (ask.least.is_finite(), ask.most.is_finite()) {
            (true, true) => format!("{} to {}", ask.least, ask.most),
            (false, _) => format!("<= {}", ask.most),
            (true, false) => format!(">= {}", ask.least),
        };
        let (median, runs) = match ask.got {
            Some(got) => (
                format!("{got:.2}"),
                format!("{:.2} to {:.2}", ask.range.0, ask.range.1),
            ),
            None => (String::new(), String::new()),
        };
        let by_cpu = ask
            .by_cpu
            .map_or(String::new(), |by_cpu| format!("{by_cpu:.2}"));
        let met = match ask.is_met() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "not measured",
        };
        table.row([
            ask.what.clone(),
            wanted,
            median,
            runs,
            by_cpu,
            met.to_owned(),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_decides() {
        let met = Ask::at_least("a", 1.8, &[1.7, 1.9, 1.85]);
        assert_eq!((met.got, met.is_met()), (Some(1.85), Some(true)));
        assert_eq!(met.range, (1.7, 1.9));
        assert_eq!(Ask::at_least("a", 1.8, &[1.7, 1.79]).is_met(), Some(false));
        assert_eq!(Ask::within("a", 0.97, 1.03, &[1.04]).is_met(), Some(false));
        assert_eq!(Ask::at_least("a", 1.8, &[]).is_met(), None);
    }

    #[test]
    fn the_table_says_what_was_missed_and_what_was_not_measured() {
        let asks = [
            Ask::at_least("twice", 2.0, &[1.0, 1.5, 2.5]).by_cpu(&[2.0, 2.2]),
            Ask::within("same", 0.97, 1.03, &[]),
            Ask::at_most("little", 1.1, &[1.0]),
        ];
        let text = table(&asks);
        let cells = |line: usize| -> Vec<String> {
            let line = text.lines().nth(line).unwrap();
            line.trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        };
        assert_eq!(
            cells(2),
            ["twice", ">= 2", "1.50", "1.00 to 2.50", "2.10", "NO"]
        );
        assert_eq!(
            cells(3),
            ["same", "0.97 to 1.03", "", "", "", "not measured"]
        );
        assert_eq!(cells(4)[1..3], ["<= 1.1", "1.00"]);
        assert_eq!(Ask::at_most("a", 1.1, &[1.2]).is_met(), Some(false));
    }
}
