//! `hearth-forgetting BELOW AT`: serves BELOW at AT and forgets what nobody synced. Commands come
//! as lines of standard input, whose end unmounts in order, or of a socket.

use hearth_testing::forgetting::{Fault, Forgetting, Options};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const USAGE: &str =
    "hearth-forgetting BELOW AT [--delay MS] [--keep] [--journal] [--control SOCKET]
  --delay MS        each sync takes that long
  --keep            only be slow: what is written is kept at once
  --journal         any sync keeps all names, as a journal does
  --control SOCKET  take commands there too
commands, a line each:
  cut [SEED]        lose what was not synced; by a seed, some of it
  delay MS
  fault none|broken|full
  counts            syncs, directory syncs, writes, bytes written";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("hearth-forgetting: {what}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let (mut places, mut options, mut control) = (Vec::new(), Options::default(), None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match &*arg {
            "--journal" => options.journals = true,
            "--keep" => options.is_forgetful = false,
            "--delay" => options.delay = delay(args.next().as_deref())?,
            "--control" => control = Some(PathBuf::from(args.next().ok_or(USAGE)?)),
            _ => places.push(PathBuf::from(arg)),
        }
    }
    let [below, at] = &places[..] else {
        return Err(USAGE.into());
    };
    let mount = Forgetting::mount(below, at, options).map_err(|error| error.to_string())?;
    let mount = Arc::new(Mutex::new(mount));
    if let Some(path) = control {
        let named = |error| format!("{}: {error}", path.display());
        let listener = UnixListener::bind(&path).map_err(named)?;
        let mount = Arc::clone(&mount);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Ok(mut answers) = stream.try_clone() else {
                    continue;
                };
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    // Whoever does not wait for the answer does not want it.
                    let _ = writeln!(answers, "{}", answer(&mount, &line));
                }
            }
        });
    }
    for line in std::io::stdin().lines().map_while(Result::ok) {
        println!("{}", answer(&mount, &line));
    }
    Ok(())
}

fn answer(mount: &Mutex<Forgetting>, line: &str) -> String {
    let mut mount = mount.lock().unwrap_or_else(PoisonError::into_inner);
    let words: Vec<&str> = line.split_whitespace().collect();
    let done = match words[..] {
        ["cut"] => mount.cut(None).map_err(|error| error.to_string()),
        ["cut", seed] => match seed.parse() {
            Ok(seed) => mount.cut(Some(seed)).map_err(|error| error.to_string()),
            Err(_) => Err(format!("'{seed}' is not a number")),
        },
        ["delay", ms] => delay(Some(ms)).map(|delay| mount.set_delay(delay)),
        ["fault", what] => fault(what).map(|fault| mount.set_fault(fault)),
        ["counts"] => return format!("{:?}", mount.counts()),
        _ => Err(format!(
            "unknown command '{line}'; cut, delay, fault, counts"
        )),
    };
    done.map_or_else(|what| what, |()| "done".into())
}

fn delay(ms: Option<&str>) -> Result<Duration, String> {
    let ms = ms.ok_or(USAGE)?;
    let number = ms.parse().map_err(|_| format!("'{ms}' is not a number"))?;
    Ok(Duration::from_millis(number))
}

fn fault(word: &str) -> Result<Fault, String> {
    match word {
        "none" => Ok(Fault::None),
        "broken" => Ok(Fault::Broken),
        "full" => Ok(Fault::Full),
        _ => Err(format!("'{word}' is none of none, broken, full")),
    }
}
