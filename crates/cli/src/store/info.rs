//! `hearth info`: what a volume says of itself, and who has it open. Nothing is changed.

use super::InfoArgs;
use super::place::{self, amount, refusal};
use crate::failure::Failure;
use crate::mounted_info;
use crate::output::{self, Colour, Paint};
use crate::patience;
use hearth::Errno;
use hearth_store::{Error, Info, Kv, OpenMode};
use serde_json::{Value, json};
use std::path::Path;

/// What is told.
struct Told {
    info: Info,
    /// The process that has it open for writing.
    user: Option<String>,
    /// The last commit; `None` where that takes a passphrase that was not given.
    last_epoch: Option<u64>,
    /// What is wrong with it.
    damage: Option<String>,
}

/// Describes a volume.
pub fn run(args: &InfoArgs) -> Result<(), Failure> {
    patience::watch(&args.place);
    if let Some(mounted) = mounted_info::at(&args.place) {
        return mounted_info::run(&mounted, args.json);
    }
    let options = place::options(&args.options, &["encrypt"], "info")?;
    let directory = place::directory(&args.place)?;
    let info = Kv::info_of(directory).map_err(|error| refusal(directory, &error))?;
    let user = Kv::user_of(directory).map_err(|error| refusal(directory, &error))?;
    let mut told = Told {
        info,
        user,
        last_epoch: None,
        damage: None,
    };
    if told.info.cipher == 0 || options.store.encrypt.is_some() {
        match place::tried(directory, OpenMode::ReadOnly, &options)? {
            Ok(store) => {
                told.last_epoch = Some(store.kv().epoch());
                told.damage = store.kv().damage().map(|error| error.to_string());
            }
            // A wrong passphrase, missing rights and a lack of means are the caller's; anything
            // else is told with the rest.
            Err(error) if options.store.encrypt.is_some() || !is_damage(&error) => {
                return Err(unread(directory, &error));
            }
            Err(error) => told.damage = Some(refusal(directory, &error).line),
        }
    }
    output::print(&if args.json {
        format!("{}\n", in_json(&told))
    } else {
        text(&told, Paint::for_stdout())
    })
}

/// Whether an error is about the volume, and not about who looks at it.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::Io { errno, .. } => !MEANS.contains(errno),
        Error::NoSpace { .. } => false,
        _ => true,
    }
}

/// What a caller lacks who cannot look into a healthy volume.
const MEANS: [Errno; 5] = [
    Errno::EACCES,
    Errno::EPERM,
    Errno::EMFILE,
    Errno::ENFILE,
    Errno::ENOMEM,
];

fn unread(directory: &Path, error: &Error) -> Failure {
    match error {
        Error::Io { errno, path, .. } if [Errno::EACCES, Errno::EPERM].contains(errno) => {
            let path = path.display();
            let what = format!(
                "not readable for this user, at {path}; run it as one who may read it, or as root"
            );
            Failure::at(directory, what)
        }
        error => refusal(directory, error),
    }
}

fn id(told: &Told) -> String {
    told.info
        .id
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn codec(told: &Told) -> &'static str {
    match told.info.codec {
        0 => "none",
        1 => "lz4",
        2 => "zstd",
        _ => "unknown",
    }
}

fn cipher(told: &Told) -> Option<&'static str> {
    match told.info.cipher {
        0 => None,
        1 => Some("xchacha20-poly1305"),
        _ => Some("unknown"),
    }
}

/// Features by name; this version knows none yet.
fn features(told: &Told) -> Vec<String> {
    let classes = ["compatible", "read-only compatible", "incompatible"];
    let classes = classes.iter().zip(told.info.features);
    let of_class = |(class, bits): (&&str, u64)| {
        let set = (0..64).filter(move |bit| bits & (1 << bit) != 0);
        let class = *class;
        set.map(move |bit| format!("{class} {bit}"))
            .collect::<Vec<_>>()
    };
    classes.flat_map(of_class).collect()
}

/// One word on what the next mount finds.
fn state(told: &Told) -> &'static str {
    match told {
        Told {
            damage: Some(_), ..
        } => "damaged",
        Told { user: Some(_), .. } => "in use",
        Told {
            last_epoch: None, ..
        } => "locked",
        Told {
            info,
            last_epoch: Some(last),
            ..
        } if *last > info.checkpoint => "to replay",
        _ => "clean",
    }
}

fn in_json(told: &Told) -> Value {
    json!({
        "id": id(told),
        "version": told.info.version,
        "features": features(told),
        "codec": codec(told),
        "cipher": cipher(told),
        "size": (told.info.size > 0).then_some(told.info.size),
        "opened": told.info.opened,
        "last_epoch": told.last_epoch,
        "checkpoint": told.info.checkpoint,
        "clean": state(told) == "clean",
        "state": state(told),
        "used_by": told.user,
        "damage": told.damage,
    })
}

fn text(told: &Told, paint: Paint) -> String {
    let last = told.last_epoch;
    let state_text = match state(told) {
        "clean" => paint.paint(Colour::Green, "clean"),
        "in use" => paint.paint(Colour::Yellow, "in use"),
        "locked" => "encrypted; -o encrypt=FILE|env looks into its log".to_owned(),
        "to replay" => format!(
            "ended without an unmount; the next mount applies {} commits of its log",
            last.unwrap_or(0) - told.info.checkpoint
        ),
        _ => paint.paint(Colour::Red, "damaged"),
    };
    let features = features(told);
    let rows = [
        ("id", Some(id(told))),
        ("format", Some(told.info.version.to_string())),
        (
            "features",
            Some(if features.is_empty() {
                "none".into()
            } else {
                features.join(", ")
            }),
        ),
        ("compress", Some(codec(told).to_owned())),
        ("encrypt", Some(cipher(told).unwrap_or("no").to_owned())),
        (
            "size",
            Some(match told.info.size {
                0 => "as much as the disk has".to_owned(),
                bytes => amount(bytes),
            }),
        ),
        (
            "opened",
            Some(format!("{} times for writing", told.info.opened)),
        ),
        ("last epoch", last.map(|epoch| epoch.to_string())),
        ("checkpoint", Some(told.info.checkpoint.to_string())),
        ("state", Some(state_text)),
        ("used by", told.user.clone()),
        ("damage", told.damage.clone()),
    ];
    let rows = rows
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    rows.map(|(name, value)| format!("{name:<11} {value}\n"))
        .collect()
}
