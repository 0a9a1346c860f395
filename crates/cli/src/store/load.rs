//! `hearth load`.

use super::LoadArgs;
use super::mkfs::OPTIONS;
use super::place::{self, refusal};
use super::progress::Progress;
use crate::failure::{Failure, reason};
use crate::printable::printable_path;
use crate::{fstab, output, wrong_place};
use hearth::VolumeOptions;
use hearth_store::dump::{self, DumpReader, Head};
use hearth_store::{Error, Kv, OpenMode};
use std::fs::File;
use std::io::{BufReader, ErrorKind, IsTerminal, Read};
use std::path::Path;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;

/// Options that say what a new volume is like, once and for all.
const OF_MKFS: [&str; 2] = ["size", "compress"];

/// Makes a volume, or plain files, of a dump.
pub fn run(args: &LoadArgs) -> Result<(), Failure> {
    let options = place::options(&args.options, OPTIONS, "load")?;
    let directory = place::directory(&args.place)?;
    let is_store = place::is_store(&args.place);
    if !is_store && !args.options.is_empty() {
        let shown = directory.display();
        let line = format!("options are for a volume; give store:{shown}, or leave them out");
        return Err(Failure::usage(line));
    }
    if args.file == Path::new("-") {
        if std::io::stdin().is_terminal() {
            let line = "a dump is not typed at a terminal; give a FILE, or a pipe";
            return Err(Failure::usage(line));
        }
        return load(std::io::stdin().lock(), args, directory, is_store, &options);
    }
    let file = File::open(&args.file).map_err(|error| {
        let what = format!("{}; give a file that 'hearth dump' wrote", reason(&error));
        Failure::at(&args.file, what)
    })?;
    load(file, args, directory, is_store, &options)
}

fn load(
    from: impl Read,
    args: &LoadArgs,
    directory: &Path,
    is_store: bool,
    options: &VolumeOptions,
) -> Result<(), Failure> {
    let from = BufReader::with_capacity(BUFFER, from);
    // Before anything is made.
    let begun = DumpReader::new(from).map_err(|error| Failure::at(&args.file, error));
    let (mut reader, head) = begun?;
    if is_store {
        into_volume(&mut reader, &head, args, directory, options)
    } else {
        into_directory(&mut reader, directory)
    }
}

fn into_volume(
    reader: &mut DumpReader<impl Read>,
    head: &Head,
    args: &LoadArgs,
    directory: &Path,
    options: &VolumeOptions,
) -> Result<(), Failure> {
    // A volume that was made and never mounted takes a dump as well.
    let is_made = Kv::info_of(directory).is_ok();
    if is_made && let Some(option) = OF_MKFS.into_iter().find(|name| names(args, name)) {
        let what = format!(
            "a volume already, for which {option}= comes too late; give it to 'hearth mkfs', or \
             load into a new directory"
        );
        return Err(Failure::at(directory, what));
    }
    if !is_made {
        let mut options = options.clone();
        // As large as the volume that was dumped, unless something else is asked for.
        let size = Some(head.size).filter(|size| *size > 0);
        options.size = options.size.or(size);
        place::make(directory, &options)?;
    }
    let who = "hearth load".to_owned();
    let store = place::open(directory, OpenMode::Write { who }, options)?;
    let told = |error: Error| refusal(directory, &error);
    let size = Kv::info_of(directory).map_err(told)?.size;
    // Else what is there would be refused as a part.
    if !store.is_new().map_err(told)? {
        return Err(Failure::at(directory, dump::DumpError::NotEmpty));
    }
    Kv::begin_load(directory).map_err(told)?;
    let mut progress = Progress::new();
    let mut watch = |done: &dump::Progress| progress.show(|| shown(directory, done));
    let done = dump::into_volume(reader, head, &store, size, &mut watch);
    drop(progress);
    let closed = store.kv().close();
    let done = done.map_err(|error| {
        let what = format!(
            "{error}; what was loaded is a part and is not mounted: remove it; into a plain \
             directory a part is loaded too"
        );
        Failure::at(directory, what)
    })?;
    closed.map_err(told)?;
    Kv::end_load(directory).map_err(told)?;
    output::print_and_go_on(&format!("hearth: store:{}\n", shown(directory, &done)))
}

/// Whether an option of this name was typed.
fn names(args: &LoadArgs, name: &str) -> bool {
    let mut typed = fstab::ours(&args.options).into_iter();
    typed.any(|option| option.split('=').next() == Some(name))
}

fn into_directory(reader: &mut DumpReader<impl Read>, directory: &Path) -> Result<(), Failure> {
    if Kv::info_of(directory).is_ok() {
        let shown = directory.display();
        let what = format!("is a volume; give store:{shown}, or an empty directory");
        return Err(Failure::at(directory, what));
    }
    match std::fs::metadata(directory) {
        Ok(found) if !found.is_dir() => {
            return Err(Failure::at(directory, "is no directory; give an empty one"));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let remedy = "give a directory that can be made";
            return Err(wrong_place::failure(directory, &error, remedy));
        }
        _ => {}
    }
    match std::fs::create_dir(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            let what = format!("{}; give a directory that can be made", reason(&error));
            return Err(Failure::at(directory, what));
        }
        _ => {}
    }
    let mut progress = Progress::new();
    let mut watch = |done: &dump::Progress| progress.show(|| shown(directory, done));
    let loaded = dump::into_directory(reader, directory, &mut watch);
    drop(progress);
    let (done, mut left_out) = loaded.map_err(|error| incomplete(directory, &error))?;
    let too_large = left_out.remove(dump::TOO_LARGE);
    let mut text = format!("hearth: {}\n", shown(directory, &done));
    for (what, (count, first)) in left_out {
        let first = first.escape_ascii();
        text += &format!("hearth: left out: {what} of {count} files, the first is '{first}'\n");
    }
    output::print_and_go_on(&text)?;
    match too_large {
        Some((count, first)) => {
            let first = first.escape_ascii();
            let what = format!(
                "without {count} files that are too large for its filesystem, the first is \
                 '{first}'; load into a volume, or on another filesystem"
            );
            Err(Failure::at(directory, what))
        }
        None => Ok(()),
    }
}

/// The failure of a load that may have begun.
fn incomplete(directory: &Path, error: &dump::DumpError) -> Failure {
    match error {
        dump::DumpError::NotEmpty => Failure::at(directory, error),
        _ => {
            let what = format!("{error}; what was loaded is a part, remove it");
            Failure::at(directory, what)
        }
    }
}

fn shown(directory: &Path, done: &dump::Progress) -> String {
    let bytes = place::amount(done.bytes);
    format!(
        "{}: {} names, {bytes}",
        printable_path(directory),
        done.members
    )
}
