#!/usr/bin/env bash
# @zenfs/core 2.7.6 (npm), its InMemory file system, Node.js; beside it node:fs.
#
# Guess: read and write with a position are pread and pwrite: they leave the descriptor's own
# position where it is, as in node:fs, whose interface ZenFS offers. A descriptor with flag "a"
# writes at the end.
# Seen: each call with a position moves the descriptor there, so the next call without one goes on
# from a wrong place: a header that is patched at the end of writing makes all later writes
# overwrite what follows it. With flag "a" a write at position 0 overwrites the start. No call
# fails.
# So on ZenFS positions and plain calls are not to be mixed on one descriptor, and code that was
# tested there proves nothing of node:fs.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund @zenfs/core@2.7.6 > /dev/null
cat > probe.mjs <<'JS'
import node from "node:fs";
import { configure, fs as zen, InMemory } from "@zenfs/core";

await configure({ mounts: { "/": InMemory } });

function cases(name, fs, root) {
  const show = (what, bytes) => console.log(`${name}, ${what}: ${bytes.toString().replaceAll("\0", ".")}`);
  fs.mkdirSync(root, { recursive: true });
  const path = `${root}/file`;

  let file = fs.openSync(path, "w+");
  fs.writeSync(file, "........first");
  fs.writeSync(file, "HEADER", 0);
  fs.writeSync(file, "second");
  fs.closeSync(file);
  show("header patched between two writes", fs.readFileSync(path));

  file = fs.openSync(path, "r");
  const part = Buffer.alloc(6);
  fs.readSync(file, part, 0, 5, 8);
  fs.readSync(file, part, 0, 6, null);
  fs.closeSync(file);
  show("read from the start after a read at 8", part);

  fs.writeFileSync(path, "log line");
  file = fs.openSync(path, "a");
  fs.writeSync(file, "!", 0);
  fs.closeSync(file);
  show("append with a position", fs.readFileSync(path));
}

cases("node", node, `${process.cwd()}/node`);
cases("zenfs", zen, "/memory");
JS
seen=$(node probe.mjs)
printf '%s\n' "$seen"
expected="node, header patched between two writes: HEADER..firstsecond
node, read from the start after a read at 8: HEADER
node, append with a position: log line!
zenfs, header patched between two writes: HEADERsecondt
zenfs, read from the start after a read at 8: condt.
zenfs, append with a position: !og line"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
