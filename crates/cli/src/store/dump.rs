//! `hearth dump`.

use super::DumpArgs;
use super::place;
use super::progress::Progress;
use crate::failure::{Failure, reason};
use crate::printable::printable_path;
use crate::{output, patience, wrong_place};
use hearth_store::dump::{self, DumpError, FirstRoot};
use hearth_store::{Kv, OpenMode};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// Writes a volume as one stream.
pub fn run(args: &DumpArgs) -> Result<(), Failure> {
    let options = place::options(&args.options, &["encrypt"], "dump")?;
    let directory = place::directory(&args.place)?;
    let to_stdout = args.file == Path::new("-");
    if to_stdout && std::io::stdout().is_terminal() {
        let line = "a dump is nothing for a terminal; give a FILE, or a pipe";
        return Err(Failure::usage(line));
    }
    if to_stdout {
        output::check()?;
    }
    patience::watch(directory);
    let user = place::user(directory)?;
    let store = place::open(directory, OpenMode::ReadOnly, &options)?;
    if let Some(who) = user {
        output::say(format_args!(
            "{}: in use by {who}: the dump has what its last commit has; 'hearth sync' before it \
             makes that everything",
            directory.display()
        ));
    }
    let first = first_root(directory)?;
    let size = Kv::info_of(directory)
        .map_err(|error| place::refusal(directory, &error))?
        .size;
    let mut progress = Progress::new();
    let mut watch = |done: &dump::Progress| {
        progress.show(|| {
            let bytes = place::amount(done.bytes);
            format!(
                "{}: {} names, {bytes}",
                printable_path(directory),
                done.members
            )
        });
    };
    if to_stdout {
        let out = BufWriter::with_capacity(BUFFER, std::io::stdout().lock());
        let done = dump::save(&store, first, size, out, &mut watch);
        return done.map(drop).map_err(|error| match error {
            // A part of a dump is none: a pipeline must see that.
            DumpError::Stream { errno, .. } if errno == hearth::Errno::EPIPE => Failure::at(
                directory,
                "who reads the dump has ended before it; take it again",
            ),
            error => failed(directory, &error),
        });
    }
    let mut options = File::options();
    // It holds what the modes of the files in it keep from others.
    let made = options.write(true).create_new(true).mode(0o600);
    let file = made.open(&args.file).map_err(|error| {
        let what = match error.kind() {
            ErrorKind::AlreadyExists => "exists already; choose another name".to_owned(),
            _ => format!("{}; give a file that can be made", reason(&error)),
        };
        Failure::at(&args.file, what)
    })?;
    let written = dump::save(&store, first, size, Synced::new(&file), &mut watch);
    drop(progress);
    match written {
        Ok(done) => output::print_and_go_on(&format!(
            "hearth: {}: {} names, {}\n",
            printable_path(&args.file),
            done.members,
            place::amount(done.bytes)
        )),
        Err(error) => {
            // A part of a dump is none.
            let _ = std::fs::remove_file(&args.file);
            Err(failed(directory, &error))
        }
    }
}

/// The failure of a dump that was begun.
fn failed(directory: &Path, error: &DumpError) -> Failure {
    let is_read = matches!(error, DumpError::At { .. });
    match place::user(directory) {
        // Only there is what a dump reads not kept for it.
        Ok(Some(_)) if is_read => {
            let what = "the volume is in use, and on a disk that is nearly full it may give up \
                        what a dump reads: make room, or unmount it first";
            Failure::at(directory, format!("{error}; {what}"))
        }
        _ => Failure::at(directory, error),
    }
}

/// The root that a mount makes of a new volume: it belongs to whoever made the volume.
fn first_root(directory: &Path) -> Result<FirstRoot, Failure> {
    let made = std::fs::metadata(directory)
        .map_err(|error| wrong_place::failure(directory, &error, "give a volume"))?;
    Ok(FirstRoot {
        uid: made.uid(),
        gid: made.gid(),
        time: hearth::Time {
            sec: made.mtime(),
            nsec: made.mtime_nsec() as u32,
        },
    })
}

/// A file that is durable once it was flushed.
struct Synced<'a> {
    file: &'a File,
    buffer: BufWriter<&'a File>,
}

impl<'a> Synced<'a> {
    fn new(file: &'a File) -> Synced<'a> {
        let buffer = BufWriter::with_capacity(BUFFER, file);
        Synced { file, buffer }
    }
}

impl Write for Synced<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.buffer.flush()?;
        match self.file.sync_all() {
            // A pipe or a device cannot be synced.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
            done => done,
        }
    }
}
