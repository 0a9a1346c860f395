//! The home that every user has a clone of, and whether a script left it as it should.

use std::fmt::Write;
use std::io::Result;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

/// More than the instances of any line of the script.
const INSTANCES: usize = 12;
/// Words of the letters and reports.
const WORDS: [&str; 16] = [
    "the", "river", "carries", "wood", "and", "stone", "to", "a", "harbour", "where", "ships",
    "wait", "for", "wind", "from", "north",
];

/// Makes a home, whose owner is `user` if one is given.
pub fn clone_to(home: &Path, user: Option<u32>) -> Result<()> {
    let maker = HomeMaker { home, user };
    for directory in [
        "", "bin", "doc", "edit", "empty", "move", "moved", "new", "old",
    ] {
        maker.directory(directory)?;
    }
    for directory in ["out", "src", "data", "tree"] {
        maker.directory(directory)?;
    }
    maker.documents()?;
    maker.sources()?;
    for number in 1..=INSTANCES {
        maker.file(&format!("edit/{number}"), &prose(number, 30))?;
        maker.file(&format!("move/{number}"), "to be moved\n")?;
        maker.file(&format!("old/{number}"), "to be removed\n")?;
        maker.directory(&format!("empty/{number}"))?;
    }
    for number in 1..=4 {
        maker.directory(&format!("data/{number}"))?;
        maker.directory(&format!("tree/{number}"))?;
        for file in 1..=4 {
            let lines = 20 * file;
            maker.file(
                &format!("data/{number}/{file}"),
                &prose(number + file, lines),
            )?;
            maker.file(&format!("tree/{number}/{file}"), &prose(file, 5))?;
        }
    }
    Ok(())
}

/// Everything in a home, sorted: the path, and the size of a file whose size is known.
pub fn contents(home: &Path) -> Result<Vec<(PathBuf, Option<u64>)>> {
    let mut found = Vec::new();
    let mut open = vec![home.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let path = entry.path();
            let meta = entry.metadata()?;
            let varies = path.extension().is_some_and(|ending| ending == "any");
            let size = (meta.is_file() && !varies).then_some(meta.len());
            let name = path.strip_prefix(home).unwrap_or(&path).to_owned();
            found.push((name, size));
            if meta.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

struct HomeMaker<'a> {
    home: &'a Path,
    user: Option<u32>,
}

impl HomeMaker<'_> {
    fn directory(&self, name: &str) -> Result<()> {
        let path = self.home.join(name);
        std::fs::create_dir(&path)?;
        self.give(&path)
    }

    fn file(&self, name: &str, text: &str) -> Result<()> {
        let path = self.home.join(name);
        std::fs::write(&path, text)?;
        self.give(&path)
    }

    fn give(&self, path: &Path) -> Result<()> {
        match self.user {
            Some(user) => chown(path, Some(user), Some(user)),
            None => Ok(()),
        }
    }

    fn documents(&self) -> Result<()> {
        let report = prose(3, 200);
        self.file("doc/report.txt", &report)?;
        self.file("doc/report.old", &report.replace("river", "road"))?;
        self.file(
            "doc/letter.txt",
            &format!("{}an harbor mesage\n", prose(5, 40)),
        )?;
        self.file("doc/notes.txt", &prose(7, 60))?;
        self.file(
            "doc/script.ed",
            "g/river/s//canal/g\n1d\n$a\nthe end\n.\nw\nq\n",
        )?;
        self.file("doc/hello.sh", HELLO)?;
        let mut manual = String::from(".TH MANUAL 1\n.SH NAME\nmanual \\- of the benchmark\n");
        for section in 1..=6 {
            let _ = write!(manual, ".SH SECTION {section}\n{}.PP\n", prose(section, 12));
        }
        self.file("doc/manual.1", &manual)
    }

    fn sources(&self) -> Result<()> {
        self.file("src/main.c", MAIN)?;
        self.file("src/list.c", LIST)?;
        self.file("src/list.h", "int lines_of(const char *path);\n")?;
        let mut text = String::from("#include <stddef.h>\n");
        for number in 0..20 {
            let _ = writeln!(
                text,
                "size_t f{number}(const char *s) {{ size_t n = {number}; \
                 while (*s++) n = n * 31 + (size_t)*s; return n; }}"
            );
        }
        self.file("src/text.c", &text)?;
        self.file("src/Makefile", MAKEFILE)
    }
}

const HELLO: &str = "\
for word in one two three four five six seven eight; do
    case $word in
        t*) set -- \"$@\" \"$word\" ;;
    esac
done
(cd data && echo \"$#: $*\" */*)
";

const MAIN: &str = "\
#include <stdio.h>
#include \"list.h\"
int main(int argc, char **argv) {
    for (int n = 1; n < argc; n++)
        printf(\"%d %s\\n\", lines_of(argv[n]), argv[n]);
    return 0;
}
";

const LIST: &str = "\
#include <stdio.h>
#include \"list.h\"
int lines_of(const char *path) {
    FILE *file = fopen(path, \"r\");
    int c, lines = 0;
    if (!file)
        return -1;
    while ((c = getc(file)) != EOF)
        lines += c == '\\n';
    fclose(file);
    return lines;
}
";

const MAKEFILE: &str = "\
all: $(OUT)/both $(OUT)/sorted
$(OUT)/both: $(OUT)/one $(OUT)/two
\tcat $^ > $@
$(OUT)/one: doc/notes.txt
\tmkdir -p $(OUT) && cp $< $@
$(OUT)/two: doc/letter.txt
\tmkdir -p $(OUT) && wc $< > $@
$(OUT)/sorted: $(OUT)/both
\tsort $< > $@
";

/// Text of `lines` lines, fixed by `seed`.
fn prose(seed: usize, lines: usize) -> String {
    let mut text = String::new();
    for line in 0..lines {
        for word in 0..9 {
            let at = seed * 5 + line * 7 + word * (1 + line % 3);
            text.push_str(WORDS[at % WORDS.len()]);
            text.push(if word == 8 { '\n' } else { ' ' });
        }
    }
    text
}
