//! `hearth doctor`: can this machine mount, by which transport, and what to do if not.

mod check;
mod machine;

use crate::failure::Failure;
use crate::output::{self, Colour, Paint};
use check::{Check, Status};
use machine::Machine;
use std::path::Path;

/// Looks at the machine and prints what it finds; fails when it cannot mount.
pub fn run(json: bool) -> Result<(), Failure> {
    let machine = Machine::at(Path::new("/"), hearth_fuse::mount_right());
    let checks = check::all(&machine);
    let can_mount = check::can_mount(&checks);
    let transport = check::transport(&machine);
    let text = if json {
        let checks: Vec<serde_json::Value> = checks.iter().map(as_json).collect();
        let report = serde_json::json!({
            "can_mount": can_mount,
            "transport": can_mount.then_some(transport),
            "checks": checks,
        });
        format!("{report:#}\n")
    } else {
        as_text(&checks, can_mount, transport)
    };
    // The exit status is a verdict, whoever reads the text.
    output::print_and_go_on(&text)?;
    if can_mount {
        Ok(())
    } else {
        Err(Failure::refused(
            "this machine cannot mount yet; follow the lines marked 'do'",
        ))
    }
}

fn as_json(check: &Check) -> serde_json::Value {
    serde_json::json!({
        "name": check.name,
        "status": check.status.word(),
        "finding": check.finding,
        "remedy": check.remedy,
    })
}

fn as_text(checks: &[Check], can_mount: bool, transport: &str) -> String {
    let paint = Paint::for_stdout();
    let mut text = String::new();
    for check in checks {
        let colour = match check.status {
            Status::Ok => Colour::Green,
            Status::Note => Colour::Yellow,
            Status::Fail => Colour::Red,
        };
        let word = paint.paint(colour, &format!("{:<4}", check.status.word()));
        text.push_str(&format!("{word}  {:<12} {}\n", check.name, check.finding));
        if let Some(remedy) = &check.remedy {
            text.push_str(&format!("      {:<12} do: {remedy}\n", ""));
        }
    }
    text.push_str(&if can_mount {
        format!("this machine can mount; transport {transport}\n")
    } else {
        "this machine cannot mount\n".to_owned()
    });
    text
}
