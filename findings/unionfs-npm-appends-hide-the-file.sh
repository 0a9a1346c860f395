#!/usr/bin/env bash
# unionfs 4.6.0 and memfs 4.80.1 (npm), Node 20, Linux.
#
# Guess: in a union of the disk with a memfs above it, a change of a file that only the disk has
# goes to the disk, where the file is, or to a copy of the whole file above. What one call has
# changed, the next one sees.
# Seen: each call is tried on the layers from the top, and the first one that does not fail ends it.
# An open for reading and writing finds the file on the disk. An append makes a new file above, when
# the directory is there too: it holds the new line alone, and hides the whole file. A rename or a
# copy of a file of the disk onto a name that is above as well succeeds on the disk, and the name
# still shows the old contents: the file seems to be lost. When the directory is not above, the same
# append goes to the disk.
# So a log read back through the union has lost its past after the first append, and which of the
# two happens depends on the names that were in the upper layer. What is appended to, renamed or
# copied belongs in one layer with its directory; the union is for reading.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts unionfs@4.6.0 memfs@4.80.1
cat > probe.mjs <<'NODE'
import fs from "node:fs";
import { Volume } from "memfs";
import { Union } from "unionfs";

function tell(what, above, call, shown = "log") {
    const base = fs.mkdtempSync(`${process.cwd()}/disk-`);
    fs.writeFileSync(`${base}/log`, "old,");
    const upper = Volume.fromJSON(above ? { [`${base}/other`]: "other," } : {});
    const union = new Union();
    union.use(fs).use(upper);
    call(union, base);
    const disk = fs.readdirSync(base).map((name) => {
        return `${name} ${fs.readFileSync(`${base}/${name}`, "utf8")}`;
    });
    console.log(`${what}: ${shown} shows ${union.readFileSync(`${base}/${shown}`, "utf8")}`
        + ` the disk has ${disk.join(" ")}`);
}

function write(flags) {
    return (union, base) => {
        const file = union.openSync(`${base}/log`, flags);
        union.writeSync(file, "new,");
        union.closeSync(file);
    };
}

const append = (union, base) => union.appendFileSync(`${base}/log`, "new,");
const rename = (union, base) => union.renameSync(`${base}/log`, `${base}/other`);
const copy = (union, base) => union.copyFileSync(`${base}/log`, `${base}/other`);

tell("read and write", true, write("r+"));
tell("appendFile, directory below only", false, append);
tell("appendFile", true, append);
tell("open for appending", true, write("a"));
tell("rename", true, rename, "other");
tell("copy", true, copy, "other");
NODE
seen=$(node probe.mjs)
printf '%s\n' "$seen"
expected="read and write: log shows new, the disk has log new,
appendFile, directory below only: log shows old,new, the disk has log old,new,
appendFile: log shows new, the disk has log old,
open for appending: log shows new, the disk has log old,
rename: other shows other, the disk has other old,
copy: other shows other, the disk has log old, other old,"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
