//! A machine with other devices.

use super::{Private, program};
use std::process::Command;

/// Runs a script where `/dev` has nothing but what `devices` makes; `HEARTH` is the program, in a
/// place where every user may run it.
pub fn with_devices(private: &Private, devices: &str, script: &str) -> Command {
    let script = format!(
        "trap 'umount -l m 2> /dev/null || true' EXIT
         mount -t tmpfs devices /dev; mknod -m 666 /dev/null c 1 3; {devices}
         bin=$(mktemp -d --tmpdir=/dev); cp \"$PROGRAM\" $bin/hearth
         chmod -R 755 $bin; export HEARTH=$bin/hearth
         {script}"
    );
    let mut namespace = program("unshare");
    namespace.args(["--mount", "bash", "-euo", "pipefail", "-c", &script]);
    namespace
        .env("PROGRAM", env!("CARGO_BIN_EXE_hearth"))
        .current_dir(private.path());
    namespace
}
