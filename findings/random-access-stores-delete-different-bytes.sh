#!/usr/bin/env bash
# random-access-file 4.1.2 and random-access-memory 6.2.1 (npm), Node.js, Linux.
#
# Guess: the two are one interface, and the store in memory stands in for the file in tests: after
# del(offset, length) both give zeros there, or both refuse to be read there, with the same length.
# Seen: the file is punched, reads zeros there and keeps its length, also when the range reaches its
# end. The memory drops whole pages of 1 MiB only and otherwise keeps every byte as it was; a range
# that reaches the end cuts it off. Only del to Infinity does the same in both. Nothing is an error.
# So code that deletes from the middle (a sparse log, a cache of blocks) and checks what is left
# passes with one and fails with the other: in memory the old data is still there, on disk the
# length is. Tests of such code use the file; whoever gives deletion to an interface says what is
# read afterwards.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund random-access-file@4.1.2 random-access-memory@6.2.1 \
    > /dev/null
cat > probe.cjs <<'JS'
const File = require("random-access-file");
const Memory = require("random-access-memory");

const MIB = 1 << 20;
let files = 0;

/** Calls a method that takes a callback. */
function call(store, method, ...values) {
  return new Promise((resolve, reject) => {
    store[method](...values, (error, value) => (error ? reject(error) : resolve(value)));
  });
}

/** The length that is left of 4 MiB of letters, and how many letters, after a deletion. */
async function left(store, offset, length) {
  await call(store, "write", 0, Buffer.alloc(4 * MIB, "x"));
  await call(store, "del", offset, length);
  const { size } = await call(store, "stat");
  const bytes = await call(store, "read", 0, size);
  return `${size / MIB} MiB, ${bytes.filter((byte) => byte !== 0).length / MIB} of letters`;
}

async function main() {
  for (const [name, offset, length] of [
    ["half a page", MIB, MIB / 2],
    ["two halves of pages", MIB / 2, MIB],
    ["two pages", MIB, 2 * MIB],
    ["up to the end", 3 * MIB, MIB],
    ["to Infinity", 3 * MIB, Infinity],
  ]) {
    console.log(`${name}, file: ${await left(new File(`file${files++}`), offset, length)}`);
    console.log(`${name}, memory: ${await left(new Memory(), offset, length)}`);
  }
}

main();
JS
seen=$(node probe.cjs)
printf '%s\n' "$seen"
expected="half a page, file: 4 MiB, 3.5 of letters
half a page, memory: 4 MiB, 4 of letters
two halves of pages, file: 4 MiB, 3 of letters
two halves of pages, memory: 4 MiB, 4 of letters
two pages, file: 4 MiB, 2 of letters
two pages, memory: 4 MiB, 2 of letters
up to the end, file: 4 MiB, 3 of letters
up to the end, memory: 3 MiB, 3 of letters
to Infinity, file: 3 MiB, 3 of letters
to Infinity, memory: 3 MiB, 3 of letters"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
