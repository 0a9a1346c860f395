//! What mount(8) and fstab add: options that are theirs, and the call of a mount helper.

use crate::args::MountArgs;
use crate::failure::Failure;
use std::ffi::OsString;

/// Options that mount(8) and boot scripts act on, or that ask for what is so anyway.
const THEIRS: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
    "_netdev",
    "async",
    "mand",
    "nomand",
    "silent",
    "loud",
    "diratime",
    "nodiratime",
    "iversion",
    "noiversion",
    "lazytime",
    "nolazytime",
    "norelatime",
    "nostrictatime",
];

/// The options that are meant for Hearth, of any number of `-o` arguments.
pub fn ours(arguments: &[String]) -> Vec<&str> {
    typed(arguments)
        .filter(|option| !is_theirs(option))
        .collect()
}

/// All options of any number of `-o` arguments.
pub fn typed(arguments: &[String]) -> impl Iterator<Item = &str> {
    arguments
        .iter()
        .flat_map(|list| hearth_fuse::split_options(list))
}

/// Whether an option is for mount(8), boot scripts or systemd.
pub fn is_theirs(option: &str) -> bool {
    let starts = |prefix: &str| option.starts_with(prefix);
    THEIRS.contains(&option)
        || starts("x-")
        || starts("X-")
        || starts("comment=")
        || starts("user=")
}

/// What mount(8) calls for `-t hearth`, and for `-t fuse.hearth`, as the kernel names the type.
const HELPERS: [&str; 2] = ["mount.hearth", "mount.fuse.hearth"];

/// Whether the program was called as mount(8) calls a helper.
pub fn is_helper(program: &OsString) -> bool {
    std::path::Path::new(program)
        .file_name()
        .is_some_and(|name| HELPERS.iter().any(|helper| name == *helper))
}

/// Reads `mount.hearth SOURCE MOUNTPOINT [-sfnv] [-o OPTS] [-t TYPE] [-N NAMESPACE]`; `None` when
/// nothing is to be mounted (`-f`).
pub fn helper(mut words: impl Iterator<Item = OsString>) -> Result<Option<MountArgs>, Failure> {
    let (mut places, mut options) = (Vec::new(), Vec::new());
    let (mut fake, mut verbose, mut sloppy) = (false, false, false);
    while let Some(place) = words.next() {
        // A place may have any name; what is not UTF-8 is no option.
        let word = place.to_str().unwrap_or_default();
        match word {
            "-o" => options.push(value(word, words.next())?),
            "-t" | "-N" => drop(value(word, words.next())?),
            _ if word.len() > 1 && word.starts_with('-') => {
                if let Some(unknown) = word[1..].chars().find(|c| !"sfnv".contains(*c)) {
                    return Err(Failure::usage(format!(
                        "option '-{unknown}' is unknown; mount.hearth takes -o -t -N -s -f -n -v"
                    )));
                }
                fake |= word.contains('f');
                verbose |= word.contains('v');
                sloppy |= word.contains('s');
            }
            _ => places.push(place),
        }
    }
    let [source, mountpoint] = <[OsString; 2]>::try_from(places).map_err(|places| {
        Failure::usage(format!(
            "mount.hearth takes a source and a mount point, not {} words; \
             use: mount -t hearth memory: MOUNTPOINT",
            places.len()
        ))
    })?;
    Ok((!fake).then(|| MountArgs {
        places: vec![source.into(), mountpoint.into()],
        config: None,
        options,
        foreground: false,
        log: None,
        detach: false,
        by_hand: false,
        quiet: !verbose,
        sloppy,
    }))
}

fn value(option: &str, value: Option<OsString>) -> Result<String, Failure> {
    let needs = || Failure::usage(format!("option '{option}' needs a value after it"));
    let nonsense = |value: OsString| {
        let value = value.to_string_lossy().into_owned();
        Failure::usage(format!("'{value}' after '{option}' is no UTF-8"))
    };
    value.ok_or_else(needs)?.into_string().map_err(nonsense)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split(' ').map(OsString::from)
    }

    #[test]
    fn options_of_others_are_dropped_and_ours_stay() {
        let typed = [
            "defaults,noauto,ro".to_owned(),
            "x-systemd.automount,_netdev,nodiratime,user=alice,size=1G".into(),
        ];
        assert_eq!(ours(&typed), ["ro", "size=1G"]);
        let both = ["ro,nodev,rw,dev,suid,exec".to_owned()];
        assert_eq!(ours(&both), ["ro", "nodev", "rw", "dev", "suid", "exec"]);
    }

    #[test]
    fn a_place_may_have_any_name() {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let place = OsString::from_vec(b"/mnt/\xff".to_vec());
        let call = [OsString::from("memory:"), place.clone()].into_iter();
        let args = helper(call).expect("a good call").expect("not a fake one");
        assert_eq!(args.places[1].as_os_str().as_bytes(), place.as_bytes());
        let call = [OsString::from("-o"), place].into_iter();
        let failure = helper(call).expect_err("no option");
        assert!(failure.line.contains("no UTF-8"), "{failure:?}");
    }

    #[test]
    fn a_call_of_mount_is_understood() {
        let call = helper(words("memory: /mnt/a -sn -o ro,noauto -t fuse.hearth"));
        let args = call.expect("a good call").expect("not a fake one");
        assert_eq!(
            (&*args.source(), &*args.options),
            ("memory:", &["ro,noauto".to_owned()][..])
        );
        assert!(helper(words("memory: /mnt/a -f")).expect("fake").is_none());
        let host = helper(words("host:/srv/data /mnt/a -o ro")).expect("a good call");
        assert_eq!(host.expect("not a fake one").options, ["ro"]);
    }

    #[test]
    fn a_wrong_call_is_named() {
        for (line, word) in [("memory:", "1 words"), ("a b -q", "-q"), ("a b -o", "-o")] {
            let failure = helper(words(line)).expect_err(line);
            assert!(
                failure.status == 2 && failure.line.contains(word),
                "{failure:?}"
            );
        }
    }
}
