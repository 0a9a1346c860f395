//! Whether what a volume may take in memory is there: said at the mount, because a daemon that
//! takes more than its container may is killed in the middle of its work.

use crate::cgroup;
use crate::host;
use crate::output;
use crate::store::amount;
use hearth::{Source, VolumeOptions};
use std::path::Path;

/// Says so if the kernel lets this program have less memory than its volume may take.
pub fn warn(source: &Source, options: &VolumeOptions) {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram.saturating_mul(machine.mem_unit.into());
    let promised = match source {
        Source::Memory => Promise::new("size", options.size, machine / 2),
        Source::Store(_) => Promise::new("memory", options.memory, machine / 8),
        // Contents stay below.
        Source::Host(_) => Promise::new("memory", options.memory, host::MEMORY),
    };
    if let Some((limit, file)) = cgroup::memory_limit()
        && let Some(line) = promised.beyond(limit, &file)
    {
        output::say(format_args!("{source} {line}"));
    }
}

/// What an option lets a volume take.
struct Promise {
    option: &'static str,
    bytes: u64,
    is_default: bool,
}

impl Promise {
    fn new(option: &'static str, given: Option<u64>, default: u64) -> Promise {
        Promise {
            option,
            bytes: given.unwrap_or(default),
            is_default: given.is_none(),
        }
    }

    /// The line about a promise that is more than `limit`, which `file` has.
    fn beyond(&self, limit: u64, file: &Path) -> Option<String> {
        let (option, of_what) = (
            self.option,
            if self.is_default { " by default" } else { "" },
        );
        (self.bytes > limit).then(|| {
            format!(
                "may take {option}={}{of_what}, and this container has {} ({}): the kernel kills \
                 the daemon before it has taken that; mount with a smaller '{option}='",
                amount(self.bytes),
                amount(limit),
                file.display()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_beyond_the_limit_is_told_with_its_option_and_the_file() {
        let file = Path::new("/sys/fs/cgroup/memory.max");
        let line = |given, default, limit| Promise::new("size", given, default).beyond(limit, file);
        assert_eq!(line(Some(1 << 30), 0, 1 << 30), None);
        let told = line(Some(2 << 30), 0, 1 << 30).expect("more than there is");
        assert!(told.contains("size=2 GiB, and") && told.contains("/sys/fs/cgroup/memory.max"));
        let told = line(None, 3 << 30, 1 << 30).expect("more than there is");
        assert!(told.contains("size=3 GiB by default"), "{told}");
    }
}
