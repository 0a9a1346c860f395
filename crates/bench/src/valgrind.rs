//! Whether valgrind is there.

use std::fmt::Display;
use std::process::{Command, Stdio};

pub fn look() -> Result<(), String> {
    look_for(&mut Command::new("valgrind"))
}

/// What is said of one that does not start.
pub fn missing(why: impl Display) -> String {
    format!("valgrind: {why}; install it with `cargo xtask install-tools`")
}

fn look_for(valgrind: &mut Command) -> Result<(), String> {
    let asked = valgrind.arg("--version").stdout(Stdio::null()).status();
    match asked.map_err(missing)? {
        status if status.success() => Ok(()),
        status => Err(missing(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_not_there_is_named_with_the_remedy() {
        let said = look_for(&mut Command::new("/no/such/valgrind")).unwrap_err();
        assert!(said.contains("cargo xtask install-tools"), "{said}");
        assert_eq!(look_for(&mut Command::new("true")), Ok(()));
        assert!(look_for(&mut Command::new("false")).is_err());
    }
}
