//! `hearth mount`: the part that runs in the terminal.
//!
//! In the background the daemon is this program started again (no thread of one process has to
//! survive a fork): it mounts, reports on its standard output, and detaches. The parent passes
//! the report on once the mount answers.

use crate::args::MountArgs;
use crate::failure::{Failure, reason};
use crate::printable::printable_path;
use crate::{allocator, config, host, mounts, output, patience, remount, serve, served, umount};
use hearth::Source;
use hearth_fuse::MountError;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::{IsTerminal, Read, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The memory of a volume from which on it does not matter when the allocator gives back what is
/// not used.
const MUCH_MEMORY: u64 = 1 << 30;

/// Mounts a volume, in the background unless asked otherwise.
pub fn run(args: &MountArgs) -> Result<(), Failure> {
    let mut args = config::completed(args.clone())?;
    if remount::is_asked(&args) {
        return remount::run(&args);
    }
    let source = source(&args)?;
    if args.detach {
        return serve::run(source, &args);
    }
    let options = serve::options(&source, &args)?;
    if !args.foreground {
        patience::watch(args.mountpoint());
    }
    clear_dead(&args)?;
    if !args.by_hand && served::is_at(&source, args.mountpoint()) {
        // For 'mount -a', which is no failure then.
        if let Err(differs) = remount::check_mounted(&args) {
            output::say(format_args!("{}", differs.line));
        }
        return Ok(());
    }
    if let [place] = &*args.places {
        check_alone(place)?;
    }
    if let Source::Host(directory) = &source {
        host::check(directory, args.mountpoint())?;
        // Before the directory is counted.
        check_mount(args.mountpoint())?;
    }
    if let Source::Store(directory) = &source {
        apart(directory, args.mountpoint())?;
        // Before a volume is made.
        check_mount(args.mountpoint())?;
        let is_asked = options.volume.store.create || options.volume.read_only;
        // Whoever types this at a terminal may want a new volume; what a file names was there.
        let by_hand = args.by_hand && args.config.is_none();
        if !is_asked && by_hand && stdin().is_terminal() && hearth::is_free(directory) {
            args.options.push("create".to_owned());
        }
    }
    let has_little_memory = (options.volume.memory).is_some_and(|bytes| bytes < MUCH_MEMORY);
    if args.foreground {
        allocator::begin_again(has_little_memory);
        return serve::run(source, &args);
    }
    let mut daemon = daemon(&args);
    allocator::gives_back(&mut daemon, has_little_memory);
    in_background(daemon, &args)
}

/// Where the volume lives: of a directory any bytes of a path, absolute, since the daemon leaves
/// its own.
fn source(args: &MountArgs) -> Result<Source, Failure> {
    let parsed = args
        .source()
        .parse::<Source>()
        .map_err(|error| Failure::usage(error.to_string()))?;
    let [typed, _] = &*args.places else {
        return Ok(parsed);
    };
    let bytes = typed.as_os_str().as_bytes();
    let absolute = |word: &[u8]| {
        let path = bytes.strip_prefix(word).unwrap_or(bytes);
        let path = std::path::absolute(OsStr::from_bytes(path));
        path.map_err(|error| Failure::at(typed, reason(&error)))
    };
    Ok(match parsed {
        Source::Memory => Source::Memory,
        Source::Store(_) => Source::Store(absolute(b"store:")?),
        Source::Host(_) => Source::Host(absolute(b"host:")?),
    })
}

/// Refuses what a mount would refuse at its end.
fn check_mount(mountpoint: &Path) -> Result<(), Failure> {
    let checked = hearth_fuse::check_mountpoint(mountpoint);
    let checked = checked.and_then(|()| hearth_fuse::check_device());
    checked.map_err(Failure::refused)
}

/// Refuses a directory with files that was typed alone: whoever means that one has to say where it
/// shall be seen.
fn check_alone(place: &Path) -> Result<(), Failure> {
    match hearth_fuse::check_mountpoint(place) {
        Err(MountError::NotEmpty { .. }) => {
            let shown = place.display();
            let what = format!(
                "alone is where a volume in memory would be seen, and it is not empty; give an \
                 empty directory, or 'hearth mount {shown} MOUNTPOINT' to serve what is in it"
            );
            Err(Failure::at(place, what))
        }
        _ => Ok(()),
    }
}

/// Refuses a store that its own mount would cover, or that would be mounted inside itself.
fn apart(directory: &Path, mountpoint: &Path) -> Result<(), Failure> {
    let (store, place) = (mounts::resolved(directory), mounts::resolved(mountpoint));
    let what = if store.starts_with(&place) {
        "lies below the mount point, which would cover it; mount elsewhere"
    } else if place.starts_with(&store) {
        "holds the mount point; mount outside of the volume's own directory"
    } else {
        return Ok(());
    };
    Err(Failure::at(directory, what))
}

/// Takes a mount whose daemon is gone off the mount point, and says so.
fn clear_dead(args: &MountArgs) -> Result<(), Failure> {
    let mountpoint = args.mountpoint();
    let place = mounts::resolved(mountpoint);
    while is_dead(&place) {
        let mounted = mounts::at(&place).map_err(|error| Failure::at(mountpoint, error))?;
        if !mounted.is_some_and(|mounted| mounted.is_ours()) {
            return Err(Failure::at(
                mountpoint,
                format!(
                    "holds a dead mount that is not Hearth's; 'umount -l {}' removes it",
                    place.display()
                ),
            ));
        }
        umount::detach(&place, true).map_err(|what| Failure::at(mountpoint, what))?;
        if args.quiet {
            continue;
        }
        output::print_and_go_on(&format!(
            "hearth: {}: the daemon of an earlier mount is gone; unmounted what it left\n",
            printable_path(mountpoint)
        ))?;
    }
    Ok(())
}

/// Asks for something that the kernel never answers from a cache, so that a dying daemon is seen as
/// well. A question that is lost with the daemon (io_uring cancels it) is asked again.
fn is_dead(place: &Path) -> bool {
    loop {
        match rustix::fs::statfs(place) {
            Err(Errno::CONNABORTED | Errno::CANCELED) => {}
            answer => return answer.err() == Some(Errno::NOTCONN),
        }
    }
}

fn in_background(mut daemon: Command, args: &MountArgs) -> Result<(), Failure> {
    let mut daemon = daemon
        .spawn()
        .map_err(|error| Failure::refused(format!("daemon: {}", reason(&error))))?;
    let mut report = String::new();
    if let Some(mut pipe) = daemon.stdout.take() {
        pipe.read_to_string(&mut report)
            .map_err(|error| Failure::refused(format!("daemon: {}", reason(&error))))?;
    }
    if report.is_empty() {
        return Err(ended(&mut daemon));
    }
    // The kernel holds this call back until the daemon has answered the first request.
    rustix::fs::statfs(args.mountpoint())
        .map_err(|error| unanswered(args.mountpoint(), &serve::log_name(args), error))?;
    match args.quiet {
        true => Ok(()),
        false => output::print_and_go_on(&report),
    }
}

/// The failure of a daemon that ended after its report.
fn unanswered(mountpoint: &Path, log: &Path, error: Errno) -> Failure {
    let (place, log) = (mountpoint.display(), log.display());
    let what = format!(
        "does not answer: {error}; see {log}, then 'hearth umount --lazy {place}' and mount again"
    );
    Failure::at(mountpoint, what)
}

/// This program again, as the daemon; the options travel as they were typed.
fn daemon(args: &MountArgs) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["mount", "--detach"]);
    for options in &args.options {
        command.arg("-o").arg(options);
    }
    if let Some(log) = &args.log {
        command.arg("--log").arg(log);
    }
    command.arg("--").args(&args.places);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// The failure of a daemon that ended. It has written why to the standard error that it shares
/// with us, so only its status is left.
fn ended(daemon: &mut Child) -> Failure {
    match daemon.wait().map(|status| status.code()) {
        Ok(Some(code @ 1..=255)) => {
            std::process::exit(code);
        }
        Ok(_) => Failure::refused(
            "the daemon was killed before the mount answered; --foreground shows why",
        ),
        Err(error) => Failure::refused(format!("daemon: {}", reason(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_does_not_answer_is_named_with_its_log_and_what_to_do() {
        let failure = unanswered(Path::new("m"), Path::new("/var/log/hearth.log"), Errno::IO);
        assert_eq!(failure.status, 1);
        assert!(failure.line.starts_with("m: does not answer: "));
        let words = ["/var/log/hearth.log", "hearth umount --lazy m"];
        let missing = words.iter().find(|word| !failure.line.contains(**word));
        assert_eq!(missing, None, "{}", failure.line);
    }
}
