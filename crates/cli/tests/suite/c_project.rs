//! A C project, configured and built on the mount with `make -j4`; make then finds nothing to do,
//! and exactly the right things after a change: times and renames are what it lives on.

use crate::harness;

use harness::{Mounted, Transport};
use std::fmt::Write;
use std::fs;
use std::path::Path;

harness::on_both_transports!(a_c_project_is_configured_built_and_built_again);

const UNITS: u32 = 120;

const CONFIGURE: &str = r##"#!/bin/sh
set -e
printf 'checking for a C compiler... '
printf 'int main(void) { return 0; }\n' > conftest.c
cc -o conftest conftest.c && ./conftest && echo yes
for header in stdint.h sys/stat.h no_such_header.h; do
    printf '#include <%s>\n' "$header" > conftest.c
    name=HAVE_$(echo "$header" | tr 'a-z/.' 'A-Z__')
    if cc -c conftest.c 2> conftest.log; then
        echo "#define $name 1" >> config.h.new
    else
        echo "/* no $name */" >> config.h.new
    fi
done
mv config.h.new config.h
sed "s/@UNITS@/$(ls unit*.c | sed 's/c$/o/' | tr '\n' ' ')/" Makefile.in > Makefile
rm -f conftest*
"##;

const MAKEFILE: &str = "
OBJECTS = @UNITS@
all: program
program: main.o libunits.a
\tcc -o $@ main.o libunits.a
libunits.a: $(OBJECTS)
\trm -f $@; ar rc $@ $(OBJECTS)
%.o: %.c config.h units.h
\tcc -O1 -Wall -Werror -c -o $@.new $< && mv $@.new $@ && echo $< >> compiled
";

fn a_c_project_is_configured_built_and_built_again(transport: Transport) {
    build_project(&Mounted::new(transport, ""));
}

#[test]
fn a_c_project_on_a_store_is_configured_built_and_built_again() {
    build_project(&Mounted::new(
        Transport::Dev,
        "create,memory=32M,commit=0.2",
    ));
}

fn build_project(mount: &Mounted) {
    let project = mount.path().join("project");
    make(&project);
    let expected: u32 = (0..UNITS).map(|unit| unit * 3).sum();
    mount.shell(&format!(
        "cd project
             ./configure
             grep -q 'define HAVE_SYS_STAT_H' config.h && grep -q 'no HAVE_NO_SUCH' config.h
             make --silent -j4
             test \"$(./program)\" = {expected}
             make --question
             test $(wc -l < compiled) -eq $(({UNITS} + 1))
             rm compiled; sleep 0.02; echo '/* changed */' >> unit7.c
             make --silent -j4
             test \"$(cat compiled)\" = unit7.c
             make --question"
    ));
}

fn make(project: &Path) {
    fs::create_dir(project).unwrap();
    let mut header = String::new();
    let mut sum = String::from("0");
    for unit in 0..UNITS {
        writeln!(header, "unsigned unit{unit}(unsigned x);").unwrap();
        write!(sum, " + unit{unit}(3)").unwrap();
        let text = format!(
            "#include \"config.h\"\n#include \"units.h\"\n#include <stdio.h>\n\
             unsigned unit{unit}(unsigned x) {{ return {unit} * x; }}\n"
        );
        fs::write(project.join(format!("unit{unit}.c")), text).unwrap();
    }
    let main = format!(
        "#include \"units.h\"\n#include <stdio.h>\n\
         int main(void) {{ printf(\"%u\\n\", {sum}); return 0; }}\n"
    );
    fs::write(project.join("units.h"), header).unwrap();
    fs::write(project.join("main.c"), main).unwrap();
    fs::write(project.join("Makefile.in"), MAKEFILE).unwrap();
    let configure = project.join("configure");
    fs::write(&configure, CONFIGURE).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(configure, mode).unwrap();
}
