//! Shrinking a failing script.

/// Removes steps while the script still fails: first whole stretches, then single steps.
///
/// It works on the script itself, and therefore after proptest, whose steps depend on each other.
pub fn reduce<T: Clone>(script: &[T], fails: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut script = script.to_vec();
    let mut stretch = script.len().next_power_of_two();
    while stretch > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < script.len() {
            let end = (at + stretch).min(script.len());
            let candidate = [&script[..at], &script[end..]].concat();
            if fails(&candidate) {
                script = candidate;
                shorter = true;
            } else {
                at = end;
            }
        }
        if !(shorter && stretch == 1) {
            stretch /= 2;
        }
    }
    script
}

/// Reduces a script that has failed like `first`. Returns why the rest fails; or, where that does
/// not fail when it is run again, `first` and the whole script. On a mount what a script meets may
/// depend on what else the machine does.
pub fn reduced<T: Clone, E>(
    script: &[T],
    first: E,
    check: impl Fn(&[T]) -> Result<(), E>,
) -> (E, Vec<T>) {
    let shorter = reduce(script, |script| check(script).is_err());
    match check(&shorter) {
        Err(why) => (why, shorter),
        Ok(()) => (first, script.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;
    use std::cell::Cell;

    #[test]
    fn shrinking_keeps_only_the_steps_that_matter() {
        let fd = |fd| (1, Op::Close { fd });
        let script: Vec<_> = (0..50).map(fd).collect();
        let fails = |script: &[(usize, Op)]| {
            let has = |n| script.contains(&fd(n));
            has(3) && has(31) && has(47)
        };
        assert_eq!(reduce(&script, fails), [fd(3), fd(31), fd(47)]);
    }

    /// Once, all that was told of such a script was that it had failed before.
    #[test]
    fn of_a_script_that_fails_once_the_first_reason_is_told() {
        let script: Vec<_> = (0..9).collect();
        let times = Cell::new(0);
        let check = |script: &[i32]| {
            times.set(times.get() + 1);
            match times.get() {
                1 => Err(script.len()),
                _ => Ok(()),
            }
        };
        let first = check(&script).unwrap_err();
        assert_eq!(reduced(&script, first, check), (9, script));
    }
}
