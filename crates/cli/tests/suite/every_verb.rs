//! Every verb where no mount is that answers: one line names the path and the way out.

mod old_daemon;
mod places;
mod table;

use crate::harness::{Private, Said, hearth, program, refused, said, succeed};
use places::{Place, Places};
use table::{VERBS, WITHOUT_A_PATH};

/// The verbs that can be typed behind `words`, as the program's own help lists them.
fn listed(words: &[String], found: &mut Vec<String>) {
    let help = succeed(hearth().args(words).arg("--help"));
    let usage = help.lines().find(|line| line.starts_with("Usage: "));
    let usage = usage.unwrap_or_else(|| panic!("{help}"));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    // A description that goes on is indented further.
    let commands = commands.filter_map(|line| line.strip_prefix("  "));
    let names = commands.filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split(' ').next());
    for name in names.filter(|name| *name != "help") {
        let words = [words, &[name.to_owned()]].concat();
        listed(&words, found);
    }
    if !words.is_empty() && !usage.ends_with(" <COMMAND>") {
        found.push(words.join(" "));
    }
}

#[test]
fn every_verb_of_the_help_has_its_place_in_the_table() {
    let mut found = Vec::new();
    listed(&[], &mut found);
    assert!(found.len() > 40, "{found:?}");
    found.sort();
    let known = VERBS.iter().map(|typed| typed.verb);
    let mut known: Vec<_> = known
        .chain(WITHOUT_A_PATH.iter().map(|(v, _)| *v))
        .collect();
    known.sort();
    known.dedup();
    assert_eq!(found, known, "left: the help; right: every_verb/table.rs");
}

#[test]
fn every_verb_refuses_a_wrong_place_with_a_line_that_names_it_and_the_way_out() {
    let places = Places::new();
    let mut wrong = Vec::new();
    for place in Place::ALL {
        for path in places.paths(place) {
            for typed in VERBS {
                let works = typed.works.iter().any(|(works, _)| *works == place);
                // The others would change the place for those that come after them.
                if works && !["info", "metrics"].contains(&typed.verb) {
                    continue;
                }
                let path = path.to_str().expect("a path in UTF-8");
                let words = format!("{} {}", typed.verb, typed.arguments.replace('@', path));
                let mut hearth = hearth();
                hearth.args(words.split(' ')).current_dir(places.beside());
                let said = said(&mut hearth);
                let fault = match works {
                    true => (!said.success()).then_some("it does not work"),
                    false => fault(&said, path, place),
                };
                if let Some(why) = fault {
                    wrong.push(format!("{place:?}: hearth {words}: {why}: {said:?}"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of them:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// What is wrong with a refusal.
fn fault(said: &Said, path: &str, place: Place) -> Option<&'static str> {
    let line = &said.err;
    let is_one = line.lines().count() == 1 && said.out.is_empty();
    match said.status.code() {
        Some(1 | 8) => {}
        _ => return Some("not refused by its own status"),
    }
    match () {
        () if !is_one || !line.starts_with("hearth: ") => Some("not one line"),
        () if line.contains("(os error") => Some("a number of the system"),
        () if !line.contains(path) => Some("the path is not named"),
        () if !place.remedies().iter().any(|way| line.contains(way)) => Some("no way out"),
        () => None,
    }
}

#[test]
fn a_configuration_file_that_cannot_be_read_is_named_with_what_to_give() {
    let private = Private::new();
    let bytes = private.path().join("bytes.toml");
    std::fs::write(&bytes, b"mountpoint = \"\xff\"").expect("a file");
    let gone = private.path().join("gone.toml");
    // Once, the one was read until there was no memory, and the other waited for.
    let pipe = private.path().join("pipe");
    succeed(program("mkfifo").arg(&pipe));
    let files = [
        ("/dev/zero".into(), "is longer than 1 MiB"),
        (pipe, "is a named pipe"),
        (bytes, "UTF-8"),
        (gone, "does not exist"),
        (private.path().to_owned(), "directory"),
    ];
    for verb in ["mount", "umount"] {
        for (file, why) in &files {
            let name = file.to_str().expect("a path in UTF-8");
            let said = said(hearth().args([verb, "--config", name]));
            let words = [name, why, "give a file such as /etc/hearth/NAME.toml"];
            refused(verb, &said, 1, &words);
        }
    }
}
