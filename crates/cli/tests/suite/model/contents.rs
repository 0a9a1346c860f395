//! What is written and read past the kernel's cache, beside what goes through it.

use super::harness::{self, Mounted, Transport};
use super::{cases, inside, mount, runner};
use hearth_model::strategy::direct_script;
use hearth_model::{Op, compare, listing, reduced};
use proptest::strategy::{Strategy, ValueTree};
use std::cell::Cell;

harness::on_both_transports!(
    files_that_are_open_with_o_direct_and_without_are_one,
    files_that_are_open_with_o_direct_are_one_where_writes_pass_at_once,
    files_that_are_open_with_o_direct_are_one_where_nothing_is_cached,
);

const SCRIPTS: u32 = 60;

fn files_that_are_open_with_o_direct_and_without_are_one(transport: Transport) {
    random(transport, "");
}

fn files_that_are_open_with_o_direct_are_one_where_writes_pass_at_once(transport: Transport) {
    random(transport, "no_writeback");
}

fn files_that_are_open_with_o_direct_are_one_where_nothing_is_cached(transport: Transport) {
    random(transport, "direct_io,park=every");
}

fn random(transport: Transport, options: &str) {
    mount::check_machine();
    let mounted = Mounted::new(transport, options);
    let (scripts, mut runner, number) = (direct_script(1..80), runner(), Cell::new(0));
    let check = |steps: &[(usize, Op)]| {
        number.set(number.get() + 1);
        compare(&mut inside(&mounted, number.get()), steps, 0)
    };
    for _ in 0..cases(SCRIPTS) {
        let steps = scripts.new_tree(&mut runner).expect("a script").current();
        if let Err(first) = check(&steps) {
            let (why, steps) = reduced(&steps, first, check);
            panic!("seed {}: {why}\n{}", harness::seed(), listing(&steps));
        }
    }
}
