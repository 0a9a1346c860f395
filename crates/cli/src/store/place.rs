//! Where a volume lives, which options a verb takes, and what its refusals look like.

use crate::failure::Failure;
use crate::{fstab, served, wrong_place};
use hearth::{Compress, Errno, VolumeOptions};
use hearth_store::Error;
use hearth_store::backend::{MakeOptions, StoreBackend, StoreOptions};
use hearth_store::codec::{Compression, Passphrase};
use hearth_store::{Kv, OpenMode};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The directory that `DIR` or `store:DIR` names.
pub fn directory(typed: &Path) -> Result<&Path, Failure> {
    let bytes = typed.as_os_str().as_bytes();
    let rest = bytes.strip_prefix(b"store:").unwrap_or(bytes);
    if rest.is_empty() {
        let line = format!(
            "'{}' names no directory; give DIR or store:DIR",
            typed.display()
        );
        return Err(Failure::usage(line));
    }
    for other in ["memory:", "host:", "s3:"] {
        if rest.starts_with(other.as_bytes()) && !Path::new(OsStr::from_bytes(rest)).exists() {
            let typed = typed.display();
            let line = format!("'{typed}' is no volume in a directory; give DIR or store:DIR");
            return Err(Failure::usage(line));
        }
    }
    Ok(Path::new(OsStr::from_bytes(rest)))
}

/// Whether a volume is meant, and not a plain directory.
pub fn is_store(typed: &Path) -> bool {
    typed.as_os_str().as_bytes().starts_with(b"store:")
}

/// Reads options, of which `verb` takes those in `taken`.
pub fn options(typed: &[String], taken: &[&str], verb: &str) -> Result<VolumeOptions, Failure> {
    let mut options = VolumeOptions::default();
    for option in fstab::ours(typed) {
        let name = option.split('=').next().unwrap_or(option);
        if !taken.contains(&name) {
            let taken = taken.join(", ");
            return Err(Failure::usage(format!(
                "option '{name}' means nothing here; hearth {verb} takes {taken}"
            )));
        }
        options
            .set(option)
            .map_err(|error| Failure::usage(format!("{error}; see 'hearth {verb} --help'")))?;
    }
    Ok(options)
}

/// The passphrase that options name.
pub fn passphrase(options: &VolumeOptions) -> Result<Option<Passphrase>, Failure> {
    let source = options.store.encrypt.as_deref();
    source.map(read_passphrase).transpose()
}

fn read_passphrase(source: &str) -> Result<Passphrase, Failure> {
    Passphrase::from_source(source).map_err(|error| {
        let why = match error {
            Error::WrongKey { why } => why.to_owned(),
            Error::Io { errno, .. } => errno.to_string(),
            other => other.to_string(),
        };
        Failure::refused(format!(
            "encrypt={source}: {why}; give a file with the passphrase, or env"
        ))
    })
}

/// What a new volume with these options is like.
pub fn making(options: &VolumeOptions) -> Result<MakeOptions, Failure> {
    let mut making = MakeOptions {
        passphrase: passphrase(options)?,
        size: options.size.unwrap_or(0),
        ..MakeOptions::default()
    };
    if let Some(compress) = options.store.compress {
        making.compression = match compress {
            Compress::None => Compression::None,
            Compress::Lz4 => Compression::Lz4,
            Compress::Zstd(level) => Compression::Zstd(level.into()),
        };
    }
    Ok(making)
}

/// Makes a volume in `directory`.
pub fn make(directory: &Path, options: &VolumeOptions) -> Result<(), Failure> {
    let making = making(options)?;
    StoreBackend::mkfs(directory, &making).map_err(|error| refusal(directory, &error))
}

/// Opens the volume in `directory`.
pub fn open(
    directory: &Path,
    mode: OpenMode,
    options: &VolumeOptions,
) -> Result<StoreBackend, Failure> {
    tried(directory, mode, options)?.map_err(|error| refusal(directory, &error))
}

/// As [`open`]; what the store itself says is for the caller to judge.
pub fn tried(
    directory: &Path,
    mode: OpenMode,
    options: &VolumeOptions,
) -> Result<Result<StoreBackend, Error>, Failure> {
    // Before the passphrase is asked for: what is no volume needs none.
    let info = Kv::info_of(directory).map_err(|error| refusal(directory, &error))?;
    let passphrase = passphrase(options)?;
    if passphrase.is_some() && info.cipher == 0 {
        return Err(refusal(directory, &Error::NotEncrypted));
    }
    let how = StoreOptions {
        passphrase,
        ..StoreOptions::new(mode)
    };
    Ok(StoreBackend::open(directory, how))
}

/// The process that has the volume open for writing: a reader sees its last commit then.
pub fn user(directory: &Path) -> Result<Option<String>, Failure> {
    Kv::user_of(directory).map_err(|error| refusal(directory, &error))
}

/// An error of the store as a line that names the directory.
pub fn refusal(directory: &Path, error: &Error) -> Failure {
    if let Error::Io {
        op: "make the folder",
        errno: Errno::ENOENT,
        ..
    } = error
    {
        let above = directory.parent().unwrap_or(directory).display();
        let what = format!("its parent does not exist; mkdir -p {above}");
        return Failure::at(directory, what);
    }
    if matches!(
        error,
        Error::Io {
            errno: Errno::EROFS,
            ..
        }
    ) {
        return Failure::at(directory, "its disk is read-only; remount it with rw");
    }
    let is_plain = matches!(error, Error::NotAVolume { .. });
    if let Some(at) = is_plain
        .then(|| served::place_of(directory).ok()?)
        .flatten()
    {
        let at = at.display();
        let what = format!(
            "no volume, but a directory of the host that is served at {at}; 'hearth info {at}' \
             tells of it"
        );
        return Failure::at(directory, what);
    }
    if let Error::Io { errno, .. } = error {
        let error = std::io::Error::from_raw_os_error(errno.0);
        if wrong_place::is_dead(&error) || error.kind() == ErrorKind::PermissionDenied {
            return wrong_place::failure(directory, &error, "give a directory that is there");
        }
    }
    let line = error.to_string();
    let shown = directory.display().to_string();
    if line.starts_with(&shown) {
        Failure::refused(line)
    } else {
        Failure::at(directory, line)
    }
}

/// Bytes in the unit that people read.
pub fn amount(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut number = bytes as f64;
    while number >= 1024.0 && unit + 1 < units.len() {
        number /= 1024.0;
        unit += 1;
    }
    if unit == 0 || number.fract() == 0.0 {
        format!("{number:.0} {}", units[unit])
    } else {
        format!("{number:.1} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_may_be_typed_with_and_without_the_word() {
        for (typed, wanted) in [
            ("store:/a", "/a"),
            ("/a", "/a"),
            ("a/b", "a/b"),
            ("store:a", "a"),
        ] {
            assert_eq!(directory(Path::new(typed)), Ok(Path::new(wanted)));
        }
        for typed in ["store:", "memory:", "s3://bucket/x"] {
            let failure = directory(Path::new(typed)).expect_err(typed);
            assert!(
                failure.status == 2 && failure.line.contains("store:DIR"),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn an_option_that_a_verb_does_not_take_is_named_with_those_that_it_takes() {
        let typed = ["size=1G,memory=1G".to_owned()];
        let failure = options(&typed, &["size", "encrypt"], "mkfs").expect_err("refused");
        assert!(
            failure
                .line
                .contains("'memory' means nothing here; hearth mkfs takes size, encrypt")
        );
        let typed = ["compress=zip".to_owned()];
        let failure = options(&typed, &["compress"], "mkfs").expect_err("refused");
        assert!(failure.line.contains("zstd:LEVEL"), "{failure:?}");
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!(amount(5), "5 B");
        assert_eq!(amount(1 << 30), "1 GiB");
        assert_eq!(amount(1536), "1.5 KiB");
    }
}
