//! The example for users does what it says.

mod harness;

use std::process::Command;

#[test]
fn one_volume_is_embedded_and_mounted_at_the_same_time() {
    // It must end by itself; `timeout` ends what hangs, and the kernel unmounts with it.
    let mut example = Command::new("timeout");
    example.args(["--kill-after=5", "60"]);
    let directory = harness::fresh_directory();
    let program = harness::daemon().with_file_name("embed_and_mount");
    let output = example.arg(program).arg(&directory).output().unwrap();
    let (said, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said}{error}");
    for line in [
        "mounted at",
        "another program reads: written through the library",
        "after a change it reads: changed behind the kernel",
    ] {
        assert!(said.contains(line), "{said}");
    }
    std::fs::remove_dir(&directory).expect("nothing is left mounted");
}
