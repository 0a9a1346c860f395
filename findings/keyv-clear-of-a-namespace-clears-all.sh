#!/usr/bin/env bash
# keyv 5.6.0 with its store in memory and keyv-file 5.3.5 (npm), Node.js.
#
# Guess: two Keyv objects with a namespace each can share a store, as the keys of one never meet the
# keys of the other; clear() empties the namespace that it is called on.
# Seen: get, set and delete keep to the namespace. clear() is handed to the store, and a Map and
# KeyvFile do not know which namespace is meant: they drop everything, of all namespaces, at once,
# and the file is written empty.
# So with these stores clear() means all; each namespace gets a store, and a file, of its own, or
# its keys are deleted one by one.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts keyv@5.6.0 keyv-file@5.3.5
cat > probe.mjs <<'NODE'
import { Keyv } from "keyv";
import { KeyvFile } from "keyv-file";

const file = (filename) => new KeyvFile({ filename, writeDelay: 1 });
const written = () => new Promise((resolve) => setTimeout(resolve, 500));

async function tell(what, first, second, reopen) {
    // Two namespaces, one of which is cleared.
    const users = new Keyv({ store: first, namespace: "users" });
    const jobs = new Keyv({ store: second, namespace: "jobs" });
    await users.set("one", "a user");
    await jobs.set("one", "a job");
    await jobs.delete("one");
    await jobs.set("two", "a job");
    await written();
    const before = `${await users.get("one")}, ${await jobs.get("two")}`;
    await jobs.clear();
    await written();
    const after = `${await users.get("one")}, ${await jobs.get("two")}`;
    const later = new Keyv({ store: reopen(), namespace: "users" });
    console.log(`${what}: ${before}; cleared jobs: ${after}; opened again: ` +
        `${await later.get("one")}`);
}

const map = new Map();
await tell("a map", map, map, () => map);
const shared = file("shared.json");
await tell("a file", shared, shared, () => file("shared.json"));
await tell("two files", file("users.json"), file("jobs.json"), () => file("users.json"));
process.exit(0);
NODE
seen=$(node probe.mjs)
printf '%s\n' "$seen"
expected="a map: a user, a job; cleared jobs: undefined, undefined; opened again: undefined
a file: a user, a job; cleared jobs: undefined, undefined; opened again: undefined
two files: a user, a job; cleared jobs: a user, undefined; opened again: a user"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
