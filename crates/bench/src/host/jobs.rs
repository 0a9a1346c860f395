//! What programs do in a directory, a shell command each.

use crate::children::output;
use crate::failure::Context;
use crate::git_checkout::{Checkout, git};
use std::fs;
use std::path::Path;

/// One job.
pub struct HostJob {
    pub name: &'static str,
    /// Runs in the directory.
    pub line: &'static str,
    /// Whether the kernel may pass its reads and writes through.
    pub passes: bool,
    prepare: Prepare,
}

/// Makes what a job finds in the directory.
type Prepare = fn(&Path, &Checkout) -> Result<(), String>;

pub const ALL: &[HostJob] = &[
    HostJob {
        name: "git checkout",
        line: "git -C clone checkout --quiet --force",
        passes: false,
        prepare: clone,
    },
    HostJob {
        name: "C build, 60 files",
        line: "make --silent -j2",
        passes: false,
        prepare: sources,
    },
    HostJob {
        name: "grep of a tree",
        line: "grep -r --count main . > /dev/null",
        passes: false,
        prepare: sources,
    },
    HostJob {
        name: "write 256 MiB",
        line: "dd if=/dev/zero of=large bs=1M count=256 conv=fsync status=none",
        passes: true,
        prepare: |_, _| Ok(()),
    },
    HostJob {
        name: "read 256 MiB, cached below",
        line: "dd if=large of=/dev/null bs=1M status=none",
        passes: true,
        prepare: large,
    },
];

/// C files of the build.
const SOURCES: usize = 60;

impl HostJob {
    /// Makes what the job finds.
    pub fn prepare(&self, directory: &Path, repository: &Checkout) -> Result<(), String> {
        (self.prepare)(directory, repository)
    }
}

fn clone(directory: &Path, repository: &Checkout) -> Result<(), String> {
    let mut clone = git();
    clone.args(["clone", "--quiet", "--shared", "--no-checkout"]);
    output(clone.arg(repository.path()).arg(directory.join("clone"))).map(drop)
}

fn sources(directory: &Path, _: &Checkout) -> Result<(), String> {
    let write = |name: String, text: String| {
        let path = directory.join(name);
        fs::write(&path, text).at(&path)
    };
    let mut objects = String::new();
    for n in 0..SOURCES {
        let functions: String = (0..40)
            .map(|f| format!("int f{n}_{f}(int x) {{ return x * {f} + {n}; }}\n"))
            .collect();
        write(
            format!("part{n}.c"),
            format!("#include <stdio.h>\n{functions}"),
        )?;
        objects += &format!(" part{n}.o");
    }
    write("main.c".into(), "int main(void) { return 0; }\n".into())?;
    let rule = "%.o: %.c\n\tgcc -c -o $@ $<\n";
    write(
        "Makefile".into(),
        format!("all:{objects} main.o\n\tgcc -o all $^\n{rule}"),
    )
}

fn large(directory: &Path, _: &Checkout) -> Result<(), String> {
    let path = directory.join("large");
    fs::write(&path, vec![7; 256 << 20]).at(&path)
}
