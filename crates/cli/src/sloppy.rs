//! `mount -s`: a table that several systems share has options that mean nothing here.

use crate::args::MountArgs;
use crate::{fstab, output, remount};
use hearth_fuse::MountOptions;

/// The call without unknown options, if it asks for that. One whose value is wrong stays, to be
/// refused.
pub fn understood(mut args: MountArgs) -> MountArgs {
    if args.sloppy {
        for list in &mut args.options {
            let options = hearth_fuse::split_options(list);
            let known = options.filter(|option| is_known(option, args.quiet));
            *list = known.collect::<Vec<_>>().join(",");
        }
    }
    args
}

fn is_known(option: &str, quiet: bool) -> bool {
    let read = MountOptions::default().set(option);
    let is_unknown = read.is_err_and(|error| error.expected.is_none());
    let is = !is_unknown || fstab::is_theirs(option) || remount::knows(option);
    if !is && !quiet {
        output::say(format_args!("option '{option}' is unknown and left out"));
    }
    is
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn options(line: &str) -> String {
        let args = fstab::helper(line.split(' ').map(OsString::from));
        let args = args.expect("a good call").expect("not a fake one");
        understood(args).options.join(",")
    }

    /// Once, they were refused, as without `-s`.
    #[test]
    fn a_sloppy_call_leaves_out_what_is_unknown_alone() {
        let typed = "memory: /m -o ro,frobnicate,size=1G,context=\"a,b\",size=x,nfsvers=4";
        let kept = "ro,size=1G,context=\"a,b\",size=x";
        assert_eq!(options(&format!("{typed} -s")), kept);
        let all = format!("{kept},nfsvers=4").replace("ro,", "ro,frobnicate,");
        assert_eq!(options(typed), all);
        let remount = "memory: /m -sn -o remount,noatime,user_id=0,nodiratime,rw,x1";
        let kept = "remount,noatime,user_id=0,nodiratime,rw";
        assert_eq!(options(remount), kept);
    }
}
