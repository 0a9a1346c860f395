//! Scripts of bash that say whether something is true.

use std::process::Command;

/// Runs a script by `enter`, a command that takes another one as its arguments.
///
/// # Errors
/// A command of the script fails, or one that is negated does not.
pub fn run(enter: &mut Command, script: &str) -> Result<(), String> {
    let bash = enter.args(["/bin/bash", "-euxo", "pipefail", "-c", &strict(script)]);
    bash.env_clear().env(
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    );
    bash.env("DEBIAN_FRONTEND", "noninteractive")
        .env("LC_ALL", "C.UTF-8");
    match bash.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("its script ended with {status}")),
        Err(error) => Err(format!("{:?}: {error}", bash.get_program())),
    }
}

/// A negated command that fails does not end a shell, so each becomes one that does.
fn strict(script: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix("! ") {
        Some(command) => format!("if {command}; then exit 1; fi\n"),
        None => format!("{line}\n"),
    };
    script.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_fails_by_what_is_so_and_should_not_be() {
        let ends_well = |script: &str| run(&mut Command::new("env"), script).is_ok();
        assert!(ends_well("  ! false\n  ! test -e /no/such\n  true\n"));
        assert!(!ends_well("  ! true\n  true\n"));
        assert!(!ends_well("  false\n  true\n"));
    }
}
