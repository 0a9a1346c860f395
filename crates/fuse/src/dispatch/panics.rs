//! A panic in one operation: caught, reported with its backtrace, and turned into an error.

use hearth_sync::primitive::{OnceLock, thread_local};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

thread_local! {
    /// Whether this thread runs inside [`catch`].
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// What the hook saw of the last panic inside.
    static SEEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`; a panic becomes `Err` with message, place and backtrace.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    install();
    let outer = INSIDE.replace(true);
    // What the panic left half done is behind the core's own locks, which release on unwinding; the
    // volume becomes read-only (or as `errors=` says) before anybody can build on it.
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(outer);
    result.map_err(|_| {
        SEEN.take()
            .unwrap_or_else(|| "panic without a report".to_owned())
    })
}

/// Chains a hook in front of the program's: inside [`catch`] the report is kept instead of printed.
fn install() {
    static HOOK: OnceLock<()> = OnceLock::new();
    HOOK.get_or_init(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| match INSIDE.get() {
            true => SEEN.set(Some(report(info))),
            false => previous(info),
        }));
    });
}

fn report(info: &PanicHookInfo<'_>) -> String {
    format!("{info}\n{}", Backtrace::force_capture())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_report_with_place_and_backtrace() {
        let report = catch(|| panic!("the {} broke", "wheel")).unwrap_err();
        assert!(
            report.contains("the wheel broke") && report.contains("panics.rs"),
            "{report}"
        );
        assert!(report.contains("panics::"), "no backtrace in {report}");
        assert_eq!(catch(|| 5), Ok(5));
    }
}
