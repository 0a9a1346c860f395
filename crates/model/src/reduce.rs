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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;

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
}
