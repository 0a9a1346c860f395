//! Are commuting operations conflict-free? The test of the scalable commutativity rule.
//!
//! For each case: a fresh state, both threads warm, then operation A alone on one core and
//! operation B alone on another. Every cache line that each touched is noted; a line that one of
//! them wrote and the other touched is a conflict. The two run one after the other, so the verdict
//! does not depend on timing. A case counts only if the reference model gives the same results and
//! the same state in both orders. `docs/design/conflicts.md` has the method and the allow-list.
//!
//! The library must be compiled with the compiler's ThreadSanitizer pass, whose calls
//! `recorder.c` implements: [`hearth_bench::instrumented`] does that and runs `hearth-conflicts`.

pub mod allow_list;
pub mod argument;
pub mod bare_tree;
pub mod case;
pub mod case_state;
pub mod commute;
pub mod cores;
pub mod enumerate;
pub mod field;
pub mod fixture;
pub mod injected;
pub mod lackey_trace;
pub mod marks;
pub mod matrix;
pub mod operation;
pub mod opts;
pub mod overlap;
pub mod perform;
pub mod plan;
pub mod reference;
pub mod run;
pub mod tally;
pub mod verb;
pub mod verdict;
mod warm;

#[cfg(feature = "recorder")]
pub mod hot;
#[cfg(feature = "recorder")]
pub mod lackey_check;
#[cfg(feature = "recorder")]
pub mod recorder;
#[cfg(feature = "recorder")]
pub mod report;
mod reserve;
#[cfg(feature = "recorder")]
pub mod run_plan;
#[cfg(feature = "recorder")]
pub mod self_check;
#[cfg(feature = "recorder")]
pub mod shared_lines;
#[cfg(feature = "recorder")]
pub mod source;
#[cfg(feature = "recorder")]
pub mod steps;
#[cfg(feature = "recorder")]
pub mod window;
#[cfg(feature = "recorder")]
pub mod workers;
