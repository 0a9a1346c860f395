#!/usr/bin/env bash
# @parcel/watcher 2.6.0 (npm), its snapshots on Linux, Node.js.
#
# Guess: getEventsSince(dir, snapshot) tells what has changed since writeSnapshot, by what stat
# gives: size, times and inode number, as rsync, git and tar do at least with some of them.
# Seen: of a name that is in both it compares the time of the last change of the data and nothing
# else, and only where the name is no directory now. A file that is longer but has its old time
# (touch -r, cp -p, an archive taken out, a build with SOURCE_DATE_EPOCH) is no event; two files of
# one time that have changed places are none; and a file that has become a directory, or the other
# way round, is none either, whatever its time.
# So a cache that is kept by these events serves what is no longer there. Whoever stores times for
# such tools keeps them exact; whoever compares takes ctime, size and inode number as well.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund @parcel/watcher@2.6.0 > /dev/null
cat > probe.cjs <<'JS'
const watcher = require("@parcel/watcher");

const [, , what, tree, snapshot] = process.argv;
if (what === "write") {
  watcher.writeSnapshot(tree, snapshot);
} else {
  watcher.getEventsSince(tree, snapshot).then((events) => {
    const lines = events.map(({ type, path }) => `${type} ${path.slice(tree.length + 1)}`);
    console.log(lines.sort().join(", ") || "no event");
  });
}
JS
try() { # NAME COMMAND...: the events of a change in a tree of two files of one time
    local name=$1
    shift
    rm -rf tree
    mkdir -p tree/empty
    echo short > tree/one
    echo "somewhat longer" > tree/two
    touch -d 2020-01-01 tree/one tree/two
    node probe.cjs write "$dir/tree" "$dir/snapshot"
    (cd tree && "$@")
    echo "$name: $(node probe.cjs events "$dir/tree" "$dir/snapshot")"
}
appended() { echo more >> one; }
appended_with_old_time() { appended && touch -d 2020-01-01 one; }
swapped() { mv one three && mv two one && mv three two; }
to_directory() { rm one && mkdir one; }
to_file() { rmdir empty && touch empty; }
seen=$(
    try "new file" touch new
    try "appended" appended
    try "appended, old time" appended_with_old_time
    try "two files swapped" swapped
    try "file to directory" to_directory
    try "directory to file" to_file
)
printf '%s\n' "$seen"
expected="new file: create new
appended: update one
appended, old time: no event
two files swapped: no event
file to directory: no event
directory to file: no event"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
