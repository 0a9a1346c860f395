//! What a release has to have, and that it has it: every file that is promised, with its sum, and
//! in each of them what users look for.

use super::{image, read, script, stage, version};
use crate::{crates, place, process};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The endings of the files that `docs/packaging.md` promises. Nothing else is given away.
pub const PROMISED: &[&str] = &[".deb", ".tar.gz", ".cdx.json", ".whl"];

/// The system that a release is for.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The file with their sums.
pub const SUMS: &str = "SHA256SUMS";

/// What has to be true of the package and the tarball in `$1`, both unpacked into `$2`.
const UNPACKED: &str = r#"
cd "$1"
mkdir "$2/deb" "$2/tar"
dpkg-deb -x *.deb "$2/deb"
tar -xzf *.tar.gz -C "$2/tar"
dpkg-deb -c *.deb | awk '{ if ($2 != "root/root") exit 1 }'
cd "$2/tar/$3"
# One program: debhelper has taken the comments of the compiler out of its own.
objcopy --output-target binary --only-section .text bin/hearth "$2/tar.text"
objcopy --output-target binary --only-section .text "$2/deb/usr/bin/hearth" "$2/deb.text"
test -s "$2/tar.text"
cmp "$2/tar.text" "$2/deb.text"
test "$(bin/hearth version | head -1)" = "hearth $4"
# Static: it needs no loader and no library.
for program in bin/hearth "$2/deb/usr/bin/hearth"; do
    readelf -hlW $program > "$2/headers"
    grep -q 'Entry point' "$2/headers"
    if grep INTERP "$2/headers" || readelf -dW $program | grep NEEDED; then exit 1; fi
done
test "$(dpkg-deb -f "$1"/*.deb Version)" = "$4"
ls LICENSE-MIT LICENSE-APACHE docs/README.md grafana/hearth.json prometheus/hearth.rules.yml \
    etc/example.toml systemd/hearth@.service systemd/hearth-metrics.service
# Each verb has a page, in both.
bin/hearth help \
    | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on && $1 != "help" { print $1 }' \
    > "$2/verbs"
test "$(wc -l < "$2/verbs")" -gt 10
while read -r verb; do
    test -s man/hearth-$verb.1
    test -s "$2/deb/usr/share/man/man1/hearth-$verb.1.gz"
    for completions in completions/*; do grep -q -w -e "$verb" $completions; done
done < "$2/verbs"
test "$(ls completions | paste -sd' ')" = '_hearth hearth.bash hearth.fish'
for page in man/*; do grep -q '^\.TH' $page; done
"#;

/// What has to be true of the list of components and the wheel in `$1`.
const LISTED: &str = r#"
cd "$1"
python3 - *.cdx.json *.whl "$2" <<'PYTHON'
import json, sys, zipfile
listed, wheel, version = sys.argv[1:]
with open(listed) as file:
    bill = json.load(file)
assert bill["bomFormat"] == "CycloneDX" and bill["specVersion"] == "1.5", bill["specVersion"]
for part in bill["components"]:
    assert part["version"] and part.get("licenses"), part
    assert part["purl"].startswith("pkg:cargo/"), part
    if part["purl"].startswith("pkg:cargo/hearth"):
        continue
    assert any(each["alg"] == "SHA-256" for each in part["hashes"]), part
with zipfile.ZipFile(wheel) as archive:
    assert archive.testzip() is None
    names = archive.namelist()
    [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
    assert f"\nVersion: {version}\n" in archive.read(metadata).decode()
for wanted in ["hearth_fs/_native.abi3.so", "hearth_fs/__init__.py", "hearth_fs/py.typed"]:
    assert wanted in names, names
assert "-abi3-manylinux_" in wheel, wheel
print("\n".join(sorted(part["name"] + " " + part["version"] for part in bill["components"])))
PYTHON
"#;

/// Sees that the files of a release in `folder` are whole.
///
/// # Errors
/// The first thing that is missing or wrong.
pub fn check(folder: &Path) -> Result<(), String> {
    files(folder)?;
    let name = name()?;
    let version = version()?;
    let work = folder.with_extension("unpacked");
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let mut given = Command::new("env");
    let unpacked = with(UNPACKED, &[&shown(folder), &shown(&work), &name, &version]);
    script::run(&mut given, &unpacked).map_err(|error| format!("package, tarball: {error}"))?;
    image::check(&work.join("tar").join(&name))?;
    std::fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let listed = with(LISTED, &[&shown(folder), &version]);
    let printed = stage::output(Command::new("bash").args(["-euo", "pipefail", "-c", &listed]))?;
    components(&printed)
}

/// The name of the tarball and of the list of components, without the ending.
pub fn name() -> Result<String, String> {
    Ok(format!("hearth-{}-x86_64-linux", version()?))
}

/// SHA-256 of each file that is given away.
pub fn sums(folder: &Path) -> Result<(), String> {
    let endings = PROMISED.join(" *");
    let sums = format!("sha256sum *{endings} > {}", SUMS);
    process::run(Command::new("sh").args(["-ec", &sums]).current_dir(folder))
}

/// Sees that there is one file of each ending and nothing else, and that the sums are theirs.
fn files(folder: &Path) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for ending in PROMISED {
        let file = stage::only(folder, ending)?;
        let name = file.file_name().unwrap_or_default();
        names.insert(name.to_string_lossy().into_owned());
    }
    let sums = read(&folder.join(SUMS))?;
    let summed = sums.lines().filter_map(|line| line.split("  ").nth(1));
    let summed: BTreeSet<String> = summed.map(str::to_owned).collect();
    if summed != names {
        return Err(format!("{SUMS} is of {summed:?}, and there are {names:?}"));
    }
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != SUMS && !names.contains(&name) {
            return Err(format!("{}: nobody has asked for {name}", folder.display()));
        }
    }
    let mut sum = Command::new("sha256sum");
    stage::output(sum.args(["--check", "--strict", SUMS]).current_dir(folder)).map(drop)
}

/// Compares the components that are listed with those that cargo builds into the program.
fn components(listed: &str) -> Result<(), String> {
    let mut tree = process::cargo();
    tree.args(["tree", "--locked", "--package", "hearth-cli", "--target"]);
    tree.args([TARGET, "--edges", "normal"]);
    tree.args(["--prefix", "none", "--no-dedupe", "--format", "{p}"]);
    let built = stage::output(tree.current_dir(place::root()))?;
    let listed: BTreeSet<&str> = listed.lines().collect();
    let named = built.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?.strip_prefix('v')?))
    });
    let own = crates::members();
    for (name, version) in named {
        let is_own = own.iter().any(|member| member.name == name);
        if !is_own && !listed.contains(&*format!("{name} {version}")) {
            return Err(format!("the list of components lacks {name} {version}"));
        }
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A script with its arguments in front of it.
fn with(script: &str, arguments: &[&str]) -> String {
    let quoted = arguments.iter().map(|word| format!(" '{word}'"));
    format!("set --{}\n{script}", quoted.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a file of each ending, and their sums.
    fn release(test: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("hearth-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for ending in PROMISED {
            std::fs::write(folder.join(format!("hearth{ending}")), ending).unwrap();
        }
        sums(&folder).unwrap();
        folder
    }

    #[test]
    fn a_release_without_a_promised_file_or_with_a_changed_one_is_refused() {
        let folder = release("artefacts");
        files(&folder).unwrap();
        for ending in PROMISED {
            let file = folder.join(format!("hearth{ending}"));
            std::fs::write(&file, "changed").unwrap();
            assert!(files(&folder).is_err_and(|said| said.contains("sha256sum")));
            std::fs::remove_file(&file).unwrap();
            assert!(files(&folder).is_err_and(|said| said.contains(ending)));
            std::fs::write(&file, ending).unwrap();
        }
        std::fs::write(folder.join("more"), "").unwrap();
        assert!(files(&folder).is_err_and(|said| said.contains("more")));
        std::fs::remove_file(folder.join("more")).unwrap();
        std::fs::write(folder.join(SUMS), "").unwrap();
        assert!(files(&folder).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_component_that_is_not_listed_is_named() {
        let said = components("serde 1.0.0\n").unwrap_err();
        assert!(said.starts_with("the list of components lacks "), "{said}");
    }

    #[test]
    fn the_page_promises_what_is_checked() {
        let page = read(&place::root().join("docs/packaging.md")).unwrap();
        let table = page.split("## ").next().unwrap();
        let promised = table.lines().filter_map(|line| {
            let file = line.strip_prefix("| `")?.split('`').next()?;
            file.find('.').map(|_| file.to_owned())
        });
        let promised: Vec<String> = promised.collect();
        assert_eq!(promised.len(), PROMISED.len(), "{promised:?}");
        for ending in PROMISED {
            assert!(
                promised.iter().any(|file| file.ends_with(ending)),
                "{ending}"
            );
        }
        assert!(table.contains(&format!("| `{SUMS}` |")));
    }
}
