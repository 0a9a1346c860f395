//! `cargo xtask dist`: what users install, in `target/dist`.
//!
//! One static program of the release profile, a Debian package and a tarball around it, sums, and a
//! list of components. With `--dev` the package is made around the program that the tests have
//! built, which takes seconds; [`trial`] tries that one.

mod artefacts;
mod boot;
mod boot_facts;
mod components;
mod image;
mod package;
mod release;
mod script;
mod stage;
mod trial;

use crate::{install, place, process};
use std::path::{Path, PathBuf};

/// Makes what `args` ask for.
///
/// # Errors
/// One line that names what went wrong.
pub fn run(args: &[String]) -> Result<(), String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        [] => {
            install::packages(package::needs)?;
            release::make()
        }
        ["--dev"] => {
            install::packages(package::needs)?;
            process::build_program()?;
            println!("{}", package::of_tests()?.display());
            Ok(())
        }
        ["--try"] => {
            install::packages(package::needs)?;
            trial::run()
        }
        ["--check"] => artefacts::check(&folder("release")),
        ["--inside", package, base, root] => {
            trial::inside(Path::new(package), Path::new(base), Path::new(root))
        }
        _ => Err("takes nothing, --dev, --try or --check".to_owned()),
    }
}

pub use trial::part;

/// A folder of `target/dist`.
fn folder(name: &str) -> PathBuf {
    place::target().join("dist").join(name)
}

/// The version of all crates.
fn version() -> Result<String, String> {
    let manifest = place::root().join("Cargo.toml");
    let text = read(&manifest)?;
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("version = "));
    let version = version.ok_or("Cargo.toml names no version")?;
    Ok(version.trim_matches('"').to_owned())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_has_the_version_of_the_crates() {
        let changelog = read(&place::root().join("packaging/debian/changelog")).unwrap();
        let version = version().unwrap();
        assert!(
            changelog.starts_with(&format!("hearth ({version}) ")),
            "{version}"
        );
    }

    #[test]
    fn what_is_typed_wrong_is_refused() {
        assert!(run(&["--all".to_owned()]).is_err_and(|said| said.contains("--dev")));
    }
}
