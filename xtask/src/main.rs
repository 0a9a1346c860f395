//! The project's chores, as verbs of `cargo xtask`. Only the standard library.

mod bench;
mod check;
mod counted;
mod crates;
mod demo;
mod dist;
mod extras;
mod failures;
mod imports;
mod install;
mod layers;
mod miri;
mod page;
mod parts;
mod place;
mod process;
mod python;
mod readme;
mod rust_text;
#[cfg(test)]
mod shared_builds;
mod soak;
mod suite;
mod supervise;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask VERB

  demo                 build, and show in a temporary directory what Hearth is for
  test [FILTER...]     install what is missing, run every test, end with `N passed, N failed`
  readme [--write]     run every command of README.md and compare, or write what was printed
  dist [--dev|--try|--check]
                       what users install: static program, package, tarball, sums, components;
                       --dev: the package alone, of the program that the tests have built;
                       --try: that package installed, upgraded, removed in a system of its own,
                       and its units under a systemd that is booted there;
                       --check: whether all that was made is there and whole
  check                formatting, clippy, documentation, tidy, layers, licences
  bench [WHAT...]      benchmarks (hearth-bench, release build): lib, mount, seeds, ...
  conflicts [WHAT...]  the conflict runner of hearth-bench
  soak [MINUTES]       all operations on all threads (10 minutes); nothing may be left
  soak suites [MINUTES]  the long suites again and again with new seeds (60 minutes)
  soak cuts            a million power cuts under whole volumes, a flip of every byte of a store
  soak crowd [MINUTES]  a crowd behind and through a mount of a directory (60 minutes)
  soak schedules [MINUTES]  the races of the filesystem under new schedules (60 minutes)
  miri [FILTER...]     the unit tests of hearth-sync under Miri, which finds undefined behaviour
  python [ARGUMENT...] build the wheel, run its tests with pytest in a new virtual environment
  install-tools        install what `test` needs, and say what
  tidy                 sizes, unsafe homes, wording, what the pages say about the tree
  layers               direction of the crates, no rings between files
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let verb = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let done = match verb.as_str() {
        "demo" => demo::run(),
        "dist" => dist::run(&rest),
        "test" => suite::run(&rest),
        "readme" => readme::run(&rest),
        "check" => check::run(),
        "bench" => bench::run(&rest),
        "conflicts" => bench::conflicts(&rest),
        "soak" => soak::run(&rest),
        "miri" => miri::run(&rest),
        "python" => python::run(&rest),
        "install-tools" => install::everything(),
        "tidy" => tidy::run(),
        "layers" => layers::run(),
        "" | "help" | "-h" | "--help" => {
            print!("{USAGE}");
            Ok(())
        }
        other => {
            eprintln!("xtask: unknown verb '{other}'; the verbs are:\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask {verb}: {what}");
            ExitCode::FAILURE
        }
    }
}
