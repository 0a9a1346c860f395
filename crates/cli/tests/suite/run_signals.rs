//! Signals and `hearth run`: of processes, of the terminal, and those that are ignored.

use super::run::{AS_ROOT, AS_USER, Ground, OPEN_DEVICE, process_of};
use crate::harness::{program, said, until, with_devices};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn a_signal_to_the_runner_reaches_the_program() {
    for who in [AS_ROOT, AS_USER] {
        let ground = Ground::of(who);
        let mut bash = ground
            .start("trap \"echo got > term; exit 7\" TERM; : > up; while :; do sleep 0.05; done");
        let runner = process_of(bash.id(), "run -- sh").unwrap();
        kill_process(Pid::from_raw(runner as i32).unwrap(), Signal::TERM).unwrap();
        assert_eq!(bash.wait().unwrap().code(), Some(7));
        assert_eq!(ground.read("term"), "got\n");
        ground.is_clean();
    }
}

#[test]
fn ctrl_c_reaches_the_program_and_the_summary_comes_after_it() {
    let ground = Ground::of(AS_ROOT);
    // With exec, for `script` starts it by a shell, which may be one that ends by Ctrl-C itself.
    let typed = format!(
        "exec {} run -- sh -c 'trap \"echo got > int; exit 5\" INT; : > up; sleep 60'",
        env!("CARGO_BIN_EXE_hearth")
    );
    let script = format!(
        "cd w; (until [ -e up ]; do sleep 0.02; done; printf '\\003'; sleep 1) \
         | script -qec {} /dev/null",
        shell_word(&typed)
    );
    let mut bash = program("bash");
    bash.args(["-c", &script])
        .current_dir(ground.private.path());
    let said = said(&mut bash);
    assert_eq!(
        (said.status.code(), &*ground.read("int")),
        (Some(5), "got\n"),
        "{said:?}"
    );
    assert!(said.out.contains("operations"), "{said:?}");
    ground.is_clean();
}

/// Once, it was lost where the program was not up yet, and the program ran on.
#[test]
fn ctrl_c_while_the_program_is_started_ends_it() {
    let ground = Ground::of(AS_ROOT);
    let typed = format!(
        ": > begun; exec {} run -- sleep 20",
        env!("CARGO_BIN_EXE_hearth")
    );
    // The last of them find the program up, unless the machine is busy.
    for wait in 0..10 {
        let script = format!(
            "cd w; rm -f begun; (until [ -e begun ]; do sleep 0.01; done; \
             sleep {}; printf '\\003'; sleep 0.2) | script -qec {} /dev/null",
            f64::from(wait) * 0.012,
            shell_word(&typed)
        );
        let mut bash = program("bash");
        bash.args(["-c", &script])
            .current_dir(ground.private.path());
        let begun = Instant::now();
        let said = said(&mut bash);
        assert_eq!(said.status.code(), Some(130), "{wait}: {said:?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{wait}");
        ground.is_clean();
    }
}

/// Once, they did nothing until the server had counted the directory.
#[test]
fn a_signal_while_the_server_starts_ends_it() {
    let ground = Ground::of(AS_ROOT);
    // The count of these takes a while.
    for number in 0..3_000 {
        fs::write(ground.work.join(number.to_string()), "").unwrap();
    }
    let stopped = (0..20).any(|_| {
        let _ = fs::remove_file(ground.work.join("up"));
        let mut bash = ground.command("-- touch up").spawn().unwrap();
        let mut server = None;
        until("the server is there, or was", || {
            server = process_of(bash.id(), "run-server");
            server.is_some() || bash.try_wait().unwrap().is_some()
        });
        let server = server.and_then(|server| Pid::from_raw(server as i32));
        let stop = |signal| server.is_some_and(|server| kill_process(server, signal).is_ok());
        let runner = process_of(bash.id(), "run -- touch");
        let (true, Some(runner)) = (stop(Signal::STOP), runner) else {
            bash.wait().unwrap();
            return false;
        };
        std::thread::sleep(Duration::from_millis(100));
        let is_late =
            process_of(bash.id(), "run-init").is_some() || ground.work.join("up").exists();
        if is_late {
            stop(Signal::CONT);
            bash.wait().unwrap();
            return false;
        }
        let begun = Instant::now();
        kill_process(Pid::from_raw(runner as i32).unwrap(), Signal::TERM).unwrap();
        let mut ended = None;
        let ends = || {
            ended = bash.try_wait().unwrap();
            ended.is_some() || begun.elapsed() > Duration::from_secs(20)
        };
        until("the runner ends", ends);
        // One that has not heard the signal waits for the server.
        stop(Signal::CONT);
        assert_eq!(ended.and_then(|ended| ended.code()), Some(143));
        true
    });
    assert!(stopped, "the server was always ready before it was stopped");
    ground.is_clean();
}

/// Once, `nohup hearth run` ended with its terminal.
#[test]
fn what_the_runner_is_started_to_ignore_the_program_ignores_too() {
    let ground = Ground::of(AS_USER);
    let read = "-- grep SigIgn /proc/self/status";
    let script = |kinds: &str| {
        format!(
            "trap '' {kinds}; cd w; {} \"$HEARTH\" run {read}",
            ground.who
        )
    };
    for (kinds, wanted) in [
        ("HUP", 1),
        ("INT QUIT USR1 USR2", 0xa06),
        ("URG TERM", 0x4000),
    ] {
        let said = said(&mut with_devices(
            &ground.private,
            OPEN_DEVICE,
            &script(kinds),
        ));
        let mask = said.out.strip_prefix("SigIgn:").unwrap_or_default().trim();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        assert_eq!(mask & 0x4a07, wanted, "{kinds}: {said:?}");
    }
    ground.is_clean();
}

/// Once, the terminal stopped the server for its line, and the runner waited for it.
#[test]
fn a_terminal_that_stops_writers_of_the_background_stops_no_server() {
    let ground = Ground::of(AS_ROOT);
    let typed = format!(
        "stty tostop; exec timeout -s KILL 30 {} run -o bogus=1 -- true",
        env!("CARGO_BIN_EXE_hearth")
    );
    let script = format!("cd w; script -qec {} /dev/null", shell_word(&typed));
    let mut bash = program("bash");
    bash.args(["-c", &script])
        .current_dir(ground.private.path());
    let said = said(&mut bash);
    assert_eq!(said.status.code(), Some(125), "{said:?}");
    assert!(said.out.contains("bogus"), "{said:?}");
    ground.is_clean();
}

fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
