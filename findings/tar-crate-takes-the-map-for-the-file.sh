#!/usr/bin/env bash
# tar 0.4.46 (crates.io), GNU tar 1.34 (Debian 12), Linux.
#
# Guess: the crate reads sparse files of GNU tar, or says that it cannot.
# Seen: it does so for the old form (--format=gnu). The three forms of --format=posix (GNU.sparse
# 0.0, 0.1 and 1.0; the last is what tar -S writes there today) come out wrong without an error: the
# pieces of data one behind the other with no holes between, in 1.0 with the list of the pieces in
# front, in 0.1 and 1.0 under a name like GNUSparseFile.123/image. size() and unpack() agree with
# that. GNU tar itself and Python's tarfile read all four.
# So a program that unpacks what others packed looks for the records GNU.sparse.* among
# pax_extensions() and refuses such a member.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/src"
cat > "$dir/Cargo.toml" <<'TOML'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[dependencies]
tar = "=0.4.46"
[profile.dev]
debug = 0
[workspace]
TOML
cat > "$dir/src/main.rs" <<'RUST'
use std::io::Read;

fn main() -> std::io::Result<()> {
    let archive = std::env::args().nth(1).unwrap();
    let mut archive = tar::Archive::new(std::fs::File::open(archive)?);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let is_named = entry.path()?.as_os_str() == "image";
        let size = entry.size();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        let is_right = bytes == std::fs::read("image")?;
        print!("size {size}, {} bytes, named right {is_named}, right {is_right}", bytes.len());
    }
    Ok(())
}
RUST
(cd "$dir" && cargo build --quiet)
cd "$dir"
# Two pieces of 4 KiB in a file of 10 MiB.
truncate -s 10M image
head -c 4096 /dev/urandom | dd of=image conv=notrunc status=none
head -c 4096 /dev/urandom | dd of=image conv=notrunc status=none bs=1M seek=5
pack() { tar -cSf "$1.tar" "${@:2}" image; }
pack gnu --format=gnu
pack 0.0 --format=posix --sparse-version=0.0
pack 0.1 --format=posix --sparse-version=0.1
pack 1.0 --format=posix
seen=
for form in gnu 0.0 0.1 1.0; do
    python3 - "$form.tar" <<'PYTHON'
import sys
import tarfile

with tarfile.open(sys.argv[1]) as archive, open("image", "rb") as image:
    assert archive.extractfile("image").read() == image.read()
PYTHON
    seen+="$form: $(target/debug/probe "$form.tar")"$'\n'
done
expected="gnu: size 10485760, 10485760 bytes, named right true, right true
0.0: size 8192, 8192 bytes, named right true, right false
0.1: size 8192, 8192 bytes, named right false, right false
1.0: size 8704, 8704 bytes, named right false, right false
"
printf '%s' "$seen"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
