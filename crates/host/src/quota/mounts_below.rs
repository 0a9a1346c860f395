//! Mounts below the served directory: what is in them is counted with it.

use crate::pseudo::is_pseudo_type;
use crate::tree::Tree;
use rustix::fs::makedev;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether something that counts is mounted below `source`, other than what `tree` serves itself.
/// True if it cannot be known.
pub fn has_mounts_below(tree: &Tree, source: &Path) -> bool {
    if tree.options.xdev {
        return false;
    }
    let Ok(source) = source.canonicalize() else {
        return true;
    };
    let Ok(list) = std::fs::read("/proc/self/mountinfo") else {
        return true;
    };
    is_below(&list, &source, |dev| tree.is_own_device(dev))
}

fn is_below(list: &[u8], source: &Path, is_own: impl Fn(u64) -> bool) -> bool {
    list.split(|&byte| byte == b'\n').any(|line| {
        let mut words = line.split(|&byte| byte == b' ');
        let (Some(device), Some(at)) = (words.nth(2), words.nth(1)) else {
            return false;
        };
        let at = unescaped(at);
        let at = Path::new(OsStr::from_bytes(&at));
        // The type comes behind fields of which there may be none or more, and a dash.
        let mut rest = line
            .split(|&byte| byte == b' ')
            .skip_while(|&word| word != b"-");
        let is_pseudo = rest.nth(1).is_some_and(is_pseudo_type);
        let is_counted = !is_pseudo && !device_of(device).is_some_and(&is_own);
        at != source && at.starts_with(source) && is_counted
    })
}

fn device_of(word: &[u8]) -> Option<u64> {
    let (major, minor) = str::from_utf8(word).ok()?.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// A path of mountinfo(5), in which some bytes are three octal digits behind a backslash.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, tail @ ..] = rest {
        let octal = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok();
        let byte = tail.get(..3).and_then(octal).filter(|_| *first == b'\\');
        path.push(byte.unwrap_or(*first));
        rest = &tail[if byte.is_some() { 3 } else { 0 }..];
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_below_counts() {
        let list = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     30 22 0:40 / /srv/a\\040b rw - tmpfs x rw\n\
                     31 30 0:41 / /srv/a\\040b/c rw - fuse.hearth x rw\n";
        let below = |source: &str| is_below(list, Path::new(source), |dev| dev == makedev(0, 41));
        assert!(below("/srv"));
        assert!(!below("/srv/a"), "no name is a part of another");
        assert!(!below("/srv/a b"), "the mount itself, and its own");
        assert!(is_below(list, Path::new("/srv/a b"), |_| false));
        let proc = b"40 22 0:50 / /srv/proc rw shared:7 master:2 - proc proc rw\n";
        assert!(
            !is_below(proc, Path::new("/srv"), |_| false),
            "nothing to count"
        );
    }
}
