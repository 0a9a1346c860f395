#!/usr/bin/env bash
# inotifywait 3.22.6.0 of inotify-tools (package of Debian 12), watchdog 7.1.0 (PyPI), Python 3.11,
# Linux.
#
# Guess: a directory that is moved out of a tree that is watched recursively is gone from it: the
# watchers report that, and nothing more of what happens to it.
# Seen: a watch of inotify is on the inode and goes along. Both report what is made in the directory
# at its new place under the path that it had in the tree, where there is no such file, at every
# depth, until a new directory takes the name in inotifywait, and beyond that in watchdog: there
# nothing tells the events of the two apart any more, though it has reported the first one as
# deleted. A directory that is renamed within the tree is followed by its new name, as it should be.
# So a synchronizer or an index that believes these events stores names that are not there, or
# takes "created" for a file that is not the one under this path; it looks with stat for each event,
# and compares device and inode of the parent where names come back. A watcher takes the watches of
# a whole tree off when its top has gone.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
tools=
observer=
trap 'for pid in $tools $observer; do kill "$pid" 2>/dev/null || true; done
      wait; rm -rf "$dir"' EXIT
cd "$dir"
chmod 777 .
apt-get -qq download inotify-tools=3.22.6.0-4 libinotifytools0=3.22.6.0-4 > /dev/null
for package in *.deb; do dpkg -x "$package" packages; done
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install watchdog==7.1.0
mkdir -p tree/dir/sub tree/other elsewhere
LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu \
    packages/usr/bin/inotifywait -m -r -e create tree > inotifywait.seen 2> inotifywait.says &
tools=$!
cat > watch.py <<'PYTHON'
import threading

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer


class Teller(FileSystemEventHandler):
    def on_created(self, event):
        print("created", event.src_path, flush=True)

    def on_deleted(self, event):
        print("deleted", event.src_path, flush=True)


observer = Observer()
observer.schedule(Teller(), "tree", recursive=True)
observer.start()
print("ready", flush=True)
threading.Event().wait()
PYTHON
venv/bin/python watch.py > watchdog.seen &
observer=$!
await() { # FILE TEXT: waits until the file has the text
    for _ in $(seq 600); do ! grep -q "$2" "$1" || return 0; sleep 0.05; done
    echo "no '$2' in $1" >&2
    return 1
}
await inotifywait.says established
await watchdog.seen ready
mv tree/dir elsewhere/dir
await watchdog.seen "deleted tree/dir"
touch elsewhere/dir/above elsewhere/dir/sub/below
await watchdog.seen below
mv tree/other tree/renamed
sleep 1
touch tree/renamed/inside
await watchdog.seen inside
mkdir tree/dir
sleep 1
touch tree/dir/here elsewhere/dir/there
await watchdog.seen there
sleep 2
{
    sed 's/^/inotifywait: /' inotifywait.seen
    grep -v ready watchdog.seen | sed 's/^/watchdog: /'
    echo "in the tree: $(cd tree && find . -type f | sort | paste -sd ' ')"
} > results
cat results
diff - results <<'EXPECTED' || { echo "this is no longer what is described above" >&2; exit 1; }
inotifywait: tree/dir/ CREATE above
inotifywait: tree/dir/sub/ CREATE below
inotifywait: tree/renamed/ CREATE inside
inotifywait: tree/ CREATE,ISDIR dir
inotifywait: tree/dir/ CREATE here
watchdog: deleted tree/dir
watchdog: created tree/dir/above
watchdog: created tree/dir/sub/below
watchdog: created tree/renamed/inside
watchdog: created tree/dir
watchdog: created tree/dir/here
watchdog: created tree/dir/there
in the tree: ./dir/here ./renamed/inside
EXPECTED
