//! Instructions of one operation with heat and without, as a table.

use crate::pair::{Pair, Side};
use crate::row::Row;
use crate::table::Table;

/// How many times as many instructions are let pass.
const TOO_MANY: f64 = 1.01;

/// What was counted of one workload.
pub struct Count {
    /// Its name.
    pub name: String,
    /// Operations of each run.
    pub operations: u64,
    /// Instructions of one operation, run by run.
    pub pair: Pair,
}

impl Count {
    /// Whether heat takes more than it may, by the median of the runs.
    pub fn is_too_much(&self) -> bool {
        self.pair.ratio().0 > TOO_MANY
    }
}

/// Prints them, the last column headed by `operations`, keeps them as rows, and answers what is too
/// much.
pub fn verdict(operations: &str, counts: &[Count], rows: &mut Vec<Row>) -> Vec<String> {
    let heading = [
        "instructions per operation",
        "with",
        "without",
        "ratio",
        operations,
    ];
    let mut table = Table::new(heading.map(str::to_owned));
    let mut many = Vec::new();
    for count in counts {
        let Count {
            name,
            operations,
            pair,
        } = count;
        let ratio = pair.ratio().0;
        table.row([
            name.clone(),
            figure(pair.of(Side::With).0),
            figure(pair.of(Side::Without).0),
            format!("{ratio:.4}"),
            operations.to_string(),
        ]);
        if count.is_too_much() {
            many.push(format!("{name}: {ratio:.3} times the instructions"));
        }
        let metric = ("instructions_per_op", "1");
        rows.extend(pair.rows("heat", name, "lib", 1, metric));
    }
    println!("{}", table.text());
    many
}

/// Where an operation is a byte, it is few.
fn figure(value: f64) -> String {
    match value {
        v if v < 100.0 => format!("{v:.3}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_hundredth_is_too_much_and_each_side_is_a_row() {
        let count = |name: &str, with: f64| {
            let mut pair = Pair::default();
            pair.push(Side::With, with);
            pair.push(Side::Without, 1000.0);
            Count {
                name: name.to_owned(),
                operations: 7,
                pair,
            }
        };
        let mut rows = Vec::new();
        let counts = [count("dear", 1011.0), count("cheap", 1009.0)];
        let many = verdict("operations", &counts, &mut rows);
        assert_eq!(many, ["dear: 1.011 times the instructions"]);
        let kept: Vec<_> = rows.iter().map(|row| (&*row.target, row.value)).collect();
        let due = [
            ("lib, off", 1000.0),
            ("lib, on", 1011.0),
            ("lib, off", 1000.0),
            ("lib, on", 1009.0),
        ];
        assert_eq!(kept, due);
        assert_eq!(
            (figure(1.23456), figure(1234.5)),
            ("1.235".into(), "1234".into())
        );
    }
}
