//! Scripts that once told library and model apart; the kernel runs them too.

use hearth::Volume;
use hearth_model::{compare, regressions};

use crate::driver::Library;

#[test]
fn every_script_that_told_systems_apart_agrees_with_the_library() {
    for (fact, steps) in regressions::all() {
        if let Err(difference) = compare(&mut Library::new(Volume::memory()), &steps, 1) {
            panic!("{fact}: {difference}");
        }
    }
}
