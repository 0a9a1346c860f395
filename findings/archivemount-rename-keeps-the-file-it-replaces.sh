#!/usr/bin/env bash
# archivemount 0.8.7 with libfuse 2.9.9 and libarchive 3.6.2 (packages of Debian 12), Linux 6.18,
# run as root.
#
# Guess: in a mounted tar archive a rename over an existing file replaces it, in the mount and in
# the archive that is written back at the unmount; of two linked names one can be removed.
# Seen: "mv new file" keeps the old contents of file and throws those of new away, at once in the
# mount and in the archive afterwards. Every call says that it was done, the archive is sound. Of
# two linked names the contents belong to the first: when that is removed or renamed, the archive
# that is written back has a link whose target is not in it, and tar cannot take it out.
# So editors and tools that write beside and rename (sed -i, git, rsync) change nothing and lose the
# new text. On such a mount a file is removed before something is renamed to its name, or written in
# place, and archives with linked names are for reading (readonly).
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'umount "$dir/mount" 2>/dev/null || true
      [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download archivemount=0.8.7-1+b1 libfuse2=2.9.9-6+b1 libarchive13=3.6.2-1+deb12u5
for package in *.deb; do dpkg -x "$package" packages; done
libraries=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
mkdir source mount
cd source
echo "old text" > file
echo "new text" > new
echo linked > first
ln first second
cd ..
try() { # WHAT COMMAND...: runs it in a mount of the archive, tells what tar takes out afterwards
    local what=$1 status=0
    shift
    rm -rf archive.tar* out
    tar -cf archive.tar -C source file new first second
    LD_LIBRARY_PATH=$libraries packages/usr/bin/archivemount -f archive.tar mount 2> messages &
    server=$!
    for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
    mountpoint -q mount
    (cd mount && timeout 60 "$@") > said 2>&1 || status=$?
    umount mount
    wait "$server" || status=$?
    server=
    mkdir out
    local fails=
    tar -xf archive.tar -C out 2> /dev/null || fails="tar fails, "
    echo "$what: status $status, said '$(cat said)', then $fails$(cd out
        for name in *; do echo "$name '$(cat "$name")'"; done | paste -sd ' ')"
}
{
    try "remove and rename" sh -c "rm file && mv new file && cat file"
    try "rename" sh -c "mv new file && cat file"
    try "sed" sh -c "sed -i s/old/better/ file && cat file"
    try "remove first" rm first
    try "rename first" mv first third
    try "remove second" rm second
} > results
cat results
diff - results <<'EXPECTED' || { echo "this is no longer what is described above" >&2; exit 1; }
remove and rename: status 0, said 'new text', then file 'new text' first 'linked' second 'linked'
rename: status 0, said 'old text', then file 'old text' first 'linked' second 'linked'
sed: status 0, said 'old text', then file 'old text' first 'linked' new 'new text' second 'linked'
remove first: status 0, said '', then tar fails, file 'old text' new 'new text'
rename first: status 0, said '', then tar fails, file 'old text' new 'new text' third 'linked'
remove second: status 0, said '', then file 'old text' first 'linked' new 'new text'
EXPECTED
