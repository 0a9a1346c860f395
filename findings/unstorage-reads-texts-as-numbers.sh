#!/usr/bin/env bash
# unstorage 1.17.6 (npm), its stores in memory and in files (fs-lite), Node.js.
#
# Guess: a text that is stored with setItem comes back from getItem as that text. Objects are JSON
# in the store; it notes what was a text, or parses only what it wrote as JSON itself.
# Seen: whatever looks like a number, true, false or null is made one when it is read, at most 16
# digits of it: the version "1.10" is 1.1, the id 9007199254740993 is one less, the commit "12345e7"
# is 123450000000 and "1234e567" is Infinity; the text "null" is null, as if there were no such key.
# More digits, or a zero in front, and it stays a text, so of two ids of one kind one comes back as
# it was. The store itself holds the text as it was given. Besides, the part of a key from a
# question mark on is dropped, so "a?1" and "a?2" are one key.
# So ids, versions, hashes and tokens of users are stored in an object ({ id }), whose texts stay
# texts, or with setItemRaw and getItemRaw. A store that takes strings and objects writes down which
# it was given.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts unstorage@1.17.6
cat > probe.mjs <<'NODE'
import { createStorage } from "unstorage";
import files from "unstorage/drivers/fs-lite";

const texts = ["1.10", "9007199254740993", "90071992547409930", "007", "12345e7", "1234e567",
    "12345f7", "true", "null"];

async function tell(name, store) {
    for (const text of texts) {
        await store.setItem("key", text);
        await store.setItem("object", { text });
        const got = await store.getItem("key");
        const inside = (await store.getItem("object")).text;
        const raw = String(await store.getItemRaw("key"));
        console.log(`${name}: ${text} is ${got === text ? "the same" : `${typeof got} ${got}`}` +
            `${inside === text ? "" : ", other in an object"}${raw === text ? "" : ", other raw"}`);
    }
    await store.setItem("a?1", "one");
    await store.setItem("a?2", "two");
    console.log(`${name}: a?1 is ${await store.getItem("a?1")}`);
}

await tell("memory", createStorage());
await tell("files", createStorage({ driver: files({ base: "./files" }) }));
NODE
seen=$(node probe.mjs)
printf '%s\n' "$seen"
expected=$(for name in memory files; do
    echo "$name: 1.10 is number 1.1
$name: 9007199254740993 is number 9007199254740992
$name: 90071992547409930 is the same
$name: 007 is the same
$name: 12345e7 is number 123450000000
$name: 1234e567 is number Infinity
$name: 12345f7 is the same
$name: true is boolean true
$name: null is object null
$name: a?1 is two"
done)
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
