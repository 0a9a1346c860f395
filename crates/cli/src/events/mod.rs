//! `hearth events`: the control file `.hearth/events` for people and for programs.

use crate::failure::Failure;
use crate::moment::iso_micros;
use crate::printable::printable;
use crate::wrong_place::unreached;
use crate::{control_file, output};
use hearth_sync::primitive::thread;
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The pause between two looks when there was nothing new.
const PACE: Duration = Duration::from_millis(100);
/// What a kernel asks for in one piece.
const PIECE: usize = 128 << 10;
const DENIED: &str = "only the owner of the mount and root may read all names; ask them";

/// `hearth events`.
#[derive(Debug, clap::Args)]
pub struct NameEventsArgs {
    /// Where the volume is mounted
    mount: PathBuf,
    /// Print JSON, an object a line
    #[arg(long)]
    json: bool,
    /// End after so many events
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// Prints what happens to names from now on, until an interrupt or the end of the mount.
pub fn run(args: &NameEventsArgs) -> Result<(), Failure> {
    let mount = &args.mount;
    let mut stream = Lines::open(mount)?;
    output::say(format_args!("listening to {}", mount.display()));
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let lines = stream.next(mount)?;
        if lines.is_empty() {
            thread::sleep(PACE);
        }
        let mut text = String::new();
        for line in lines
            .lines()
            .take(usize::try_from(left).unwrap_or(usize::MAX))
        {
            text += &match args.json {
                true => format!("{line}\n"),
                false => shown(line, mount)?,
            };
            left -= 1;
        }
        if !text.is_empty() {
            output::print(&text)?;
        }
    }
    Ok(())
}

/// The lines of an open stream.
struct Lines {
    file: File,
    offset: u64,
    /// A line whose end has not been read yet.
    begun: Vec<u8>,
}

impl Lines {
    fn open(mount: &Path) -> Result<Lines, Failure> {
        let opened = control_file::open_to_read(mount, "events");
        let opened = opened.map_err(|error| unreached(mount, "events", &error, DENIED));
        let lines = Lines {
            file: opened?,
            offset: 0,
            begun: Vec::new(),
        };
        match control_file::read(mount, "version") {
            Ok(text) if text.is_empty() => Err(Failure::empty(mount)),
            _ => Ok(lines),
        }
    }

    /// The whole lines that there are by now.
    fn next(&mut self, mount: &Path) -> Result<String, Failure> {
        let mut piece = vec![0; PIECE];
        let got = self.file.read_at(&mut piece, self.offset);
        let got = got.map_err(|error| unreached(mount, "events", &error, DENIED))?;
        self.offset += got as u64;
        self.begun.extend_from_slice(&piece[..got]);
        let whole = self.begun.iter().rposition(|&byte| byte == b'\n');
        let rest = self.begun.split_off(whole.map_or(0, |end| end + 1));
        let whole = std::mem::replace(&mut self.begun, rest);
        String::from_utf8(whole).map_err(|_| foreign(mount))
    }
}

/// `2026-11-28T12:50:01.123456Z rename file /a -> /b uid=1000 gid=1000 pid=4711 mount`.
fn shown(line: &str, mount: &Path) -> Result<String, Failure> {
    let event: Value = serde_json::from_str(line).map_err(|_| foreign(mount))?;
    let what = event["event"].as_str().ok_or_else(|| foreign(mount))?;
    if what == "overflow" {
        return Ok(format!("overflow: {} events lost\n", event["lost"]));
    }
    let word = |name: &str| event[name].as_str().unwrap_or("?").to_owned();
    let to = match (what, event["exchanged_ino"].is_null()) {
        ("rename", true) => format!(" -> {}", place(&event, "new_")),
        ("rename", false) => format!(" <-> {}", place(&event, "new_")),
        _ => String::new(),
    };
    Ok(format!(
        "{} {what} {} {}{to} uid={} gid={} pid={} {}\n",
        iso_micros(event["time"].as_f64().unwrap_or(0.0)),
        word("kind"),
        place(&event, ""),
        event["uid"],
        event["gid"],
        event["pid"],
        word("origin"),
    ))
}

/// The path; without it the number of the directory and the name.
fn place(event: &Value, prefix: &str) -> String {
    let field = |name: &str| &event[format!("{prefix}{name}")];
    let shown = match field("path").as_str() {
        Some(path) => path.to_owned(),
        None => {
            let name = field("name").as_str().unwrap_or("?");
            format!("(inode {})/{name}", field("directory"))
        }
    };
    printable(&shown)
}

fn foreign(mount: &Path) -> Failure {
    let what = "its daemon writes another form of events; use the 'hearth' that mounted it";
    Failure::at(mount, what)
}
