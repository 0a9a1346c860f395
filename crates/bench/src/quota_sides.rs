//! What quotas cost: both sides of a workload, in the library and on mounts.

use crate::pair::{Pair, Side, Verdict};
use crate::row::Row;
use crate::table::{Table, short};

/// Threads that work at once, as in the run of the patch set that started all this.
pub(crate) const TASKS: u32 = 16;

/// Both sides of one workload.
#[derive(Default)]
pub(crate) struct Measured {
    /// Operations per second.
    pub speed: Pair,
    /// Processor microseconds per operation.
    pub cpu: Pair,
}

impl Measured {
    /// Adds a line to the table and rows for both sides; says so if less than `enough` of the speed
    /// without quotas is left, by the surer measure. Where its interval has `enough` in it, nothing
    /// is decided.
    pub fn show(
        &self,
        name: &str,
        enough: f64,
        target: &str,
        table: &mut Table,
        rows: &mut Vec<Row>,
    ) -> Option<String> {
        let verdict = Verdict {
            by_clock: self.speed.ratio(),
            by_cpu: self.cpu.inverse(),
        };
        let ratio = |(ratio, half)| format!("{ratio:.3} ±{half:.3}");
        table.row([
            name.to_owned(),
            short(self.speed.of(Side::Without).0),
            short(self.speed.of(Side::With).0),
            ratio(verdict.by_clock),
            ratio(verdict.by_cpu),
            match verdict.is_surely(enough) || verdict.is_below(enough) {
                true => format!("{enough:.2}"),
                false => format!("{enough:.2}, undecided"),
            },
        ]);
        let tasks = TASKS as usize;
        for (pair, metric) in [
            (&self.speed, ("ops_per_s", "1/s")),
            (&self.cpu, ("cpu_us_per_op", "us")),
        ] {
            rows.extend(pair.rows("quota", name, target, tasks, metric));
        }
        let (ratio, half) = verdict.surer();
        verdict
            .is_below(enough)
            .then(|| format!("{name}: {ratio:.3} ±{half:.3} of the speed without"))
    }
}

/// The heading of [`Measured::show`].
pub(crate) fn table(what: &str) -> Table {
    let heading = [what, "off", "on", "on/off", "by processor time", "asked"];
    Table::new(heading.map(str::to_owned))
}
