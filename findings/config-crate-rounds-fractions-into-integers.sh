#!/usr/bin/env bash
# config 0.15.27 (crates.io), TOML files, Linux.
#
# Guess: a setting that is an integer in the program refuses 1.9 in the file, as serde with toml
# does.
# Seen: it is rounded: 1.9 becomes 2 and 0.4 becomes 0, without an error, for u64 as for u32. From
# the environment 1.9 is refused; with try_parsing(true), which is needed for lists there, it is 2
# as well, and a text such as 007 (an id, a version 1.10) arrives as 7 (and 1.1).
# So limits and sizes are checked for the kind of value before serde sees them, or read with a crate
# that keeps kinds apart; ids never pass through try_parsing(true).
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/src"
cat > "$dir/Cargo.toml" <<'TOML'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[dependencies]
config = { version = "=0.15.27", default-features = false, features = ["toml"] }
serde = { version = "=1.0.228", features = ["derive"] }
toml = "=1.2.2"
[profile.dev]
debug = 0
[workspace]
TOML
cat > "$dir/src/main.rs" <<'RUST'
use config::{Config, Environment, File, FileFormat};

#[derive(serde::Deserialize, Debug)]
struct Settings {
    limit: Option<u64>,
    small: Option<u32>,
    id: Option<String>,
}

fn show<E>(what: &str, read: Result<Settings, E>) {
    match read {
        Ok(Settings { limit, small, id }) => println!("{what}: limit {limit:?}, small {small:?}, id {id:?}"),
        Err(_) => println!("{what}: refused"),
    }
}

fn environment(parsed: bool) -> Result<Settings, config::ConfigError> {
    let source = Environment::with_prefix("PROBE").try_parsing(parsed);
    Config::builder().add_source(source).build()?.try_deserialize()
}

fn main() {
    let text = "limit = 1.9\nsmall = 0.4";
    show("toml", toml::from_str(text));
    let source = File::from_str(text, FileFormat::Toml);
    let built = Config::builder().add_source(source).build().unwrap();
    show("config, file", built.try_deserialize());
    std::env::set_var("PROBE_LIMIT", "1.9");
    show("config, environment", environment(false));
    show("config, environment parsed", environment(true));
    std::env::remove_var("PROBE_LIMIT");
    for id in ["007", "1.10"] {
        std::env::set_var("PROBE_ID", id);
        show(&format!("{id} as it is"), environment(false));
        show(&format!("{id} parsed"), environment(true));
    }
}
RUST
(cd "$dir" && cargo build --quiet)
seen=$("$dir/target/debug/probe")
printf '%s\n' "$seen"
expected='toml: refused
config, file: limit Some(2), small Some(0), id None
config, environment: refused
config, environment parsed: limit Some(2), small None, id None
007 as it is: limit None, small None, id Some("007")
007 parsed: limit None, small None, id Some("7")
1.10 as it is: limit None, small None, id Some("1.10")
1.10 parsed: limit None, small None, id Some("1.1")'
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
