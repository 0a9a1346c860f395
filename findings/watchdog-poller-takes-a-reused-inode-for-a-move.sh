#!/usr/bin/env bash
# watchdog 7.1.0 (PyPI), Python 3.11, ext4 of Linux 6.18 (made by e2fsprogs 1.47.0, a package of
# Debian 12), run as root; beside it tmpfs, which does not give the same inode number again at once.
#
# Guess: the comparison of two snapshots (DirectorySnapshotDiff), which the polling observer makes
# of network and FUSE mounts, pairs a name that is gone with a new one as a move only when it is the
# same file: it has size and time of both to compare.
# Seen: the inode number alone decides. ext4 gives the number of a removed file to the next one that
# is made, so "invoice removed, photo written" between two polls is reported as invoice moved to
# photo, and modified; there is no deletion and no creation. Three files removed and three others
# made come out as three moves. The same steps on tmpfs are deletions and creations.
# So a program that follows moves (renames its records, its thumbnails, the remote copy) gives a new
# file the history of an old one, depending on the filesystem; it takes a move of the poller for
# a deletion and a creation, or compares contents itself.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 libcom-err2=1.47.0-2+b2
for package in *.deb; do dpkg -x "$package" packages; done
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install watchdog==7.1.0
cat > probe.py <<'PYTHON'
import os
import sys

from watchdog.utils.dirsnapshot import DirectorySnapshot, DirectorySnapshotDiff


def write(name, text):
    with open(f"mount/{name}", "w") as file:
        file.write(text)


def step(what, old, new):
    """Removes some files, makes others, and tells what two polls around that see."""
    for name in old:
        write(name, "old")
        os.utime(f"mount/{name}", (1, 1))
    before = DirectorySnapshot("mount")
    for name in old:
        os.unlink(f"mount/{name}")
    for name in new:
        write(name, "something else, and longer")
    seen = DirectorySnapshotDiff(before, DirectorySnapshot("mount"))
    counts = {
        "moved": seen.files_moved,
        "modified": seen.files_modified,
        "deleted": seen.files_deleted,
        "created": seen.files_created,
    }
    shown = ", ".join(f"{len(files)} {name}" for name, files in counts.items())
    print(f"{sys.argv[1]}, {what}: {shown}")


step("one", ["invoice"], ["photo"])
step("three", ["a", "b", "c"], ["x", "y", "z"])
PYTHON
mkdir mount
truncate -s 16M image
LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu packages/sbin/mke2fs -q -F -t ext4 image
mount -o loop image mount
seen=$(venv/bin/python probe.py ext4)
umount mount
mount -t tmpfs tmpfs mount
seen="$seen
$(venv/bin/python probe.py tmpfs)"
printf '%s\n' "$seen"
expected="ext4, one: 1 moved, 1 modified, 0 deleted, 0 created
ext4, three: 3 moved, 3 modified, 0 deleted, 0 created
tmpfs, one: 0 moved, 0 modified, 1 deleted, 1 created
tmpfs, three: 0 moved, 0 modified, 3 deleted, 3 created"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
