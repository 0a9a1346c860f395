#!/usr/bin/env bash
# lmdb 3.5.6 (npm), Node.js.
#
# Guess: a callback of transaction() or transactionSync() that throws, or returns ABORT, leaves the
# database as it was, and get() says so, with cache: true too.
# Seen: transactionSync does so in the database. With cache: true get() gives the values that were
# undone, also for a key that was never stored, while getRange() sees the old ones. transaction()
# undoes nothing: its promise is rejected with the error of the callback, and what the callback put
# before it is committed; with ABORT it is the same. Only childTransaction is right in all cases.
# So "the promise was rejected, try again" counts twice with transaction(): whatever may fail stands
# before the first put, or it is childTransaction; and a database whose synchronous transactions may
# fail is opened without the cache.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts lmdb@3.5.6
cat > probe.mjs <<'NODE'
import { open, ABORT } from "lmdb";

const fail = () => { throw new Error("no"); };
const abort = () => ABORT;

async function tell(what, cache, call, end) {
    // A new database with one key, and a transaction that changes it, adds another and ends badly.
    const db = open({ path: `${what}-${cache}`, encoding: "json", cache });
    await db.put("old", 1);
    let result;
    try {
        result = await db[call](() => { db.put("old", 2); db.put("new", 2); return end(); });
        result = result === ABORT ? "ABORT" : result;
    } catch (error) {
        result = error.message === "no" ? "thrown" : "refused";
    }
    const stored = [...db.getRange()].map(({ key, value }) => `${key} ${value}`).join(" ");
    const got = `get ${db.get("old")} ${db.get("new")}`;
    console.log(`${what}, ${cache ? "with" : "no"} cache: ${result}, ${got}, range ${stored}`);
    await db.close();
}

for (const cache of [false, true]) {
    for (const call of ["transactionSync", "transaction", "childTransaction"]) {
        await tell(`${call} throws`, cache, call, fail);
        await tell(`${call} aborts`, cache, call, abort);
    }
}
NODE
seen=$(node probe.mjs)
printf '%s\n' "$seen"
expected="transactionSync throws, no cache: thrown, get 1 undefined, range old 1
transactionSync aborts, no cache: ABORT, get 1 undefined, range old 1
transaction throws, no cache: thrown, get 2 2, range new 2 old 2
transaction aborts, no cache: ABORT, get 2 2, range new 2 old 2
childTransaction throws, no cache: thrown, get 1 undefined, range old 1
childTransaction aborts, no cache: ABORT, get 1 undefined, range old 1
transactionSync throws, with cache: thrown, get 2 2, range old 1
transactionSync aborts, with cache: ABORT, get 2 2, range old 1
transaction throws, with cache: thrown, get 2 2, range new 2 old 2
transaction aborts, with cache: ABORT, get 2 2, range new 2 old 2
childTransaction throws, with cache: thrown, get 1 undefined, range old 1
childTransaction aborts, with cache: ABORT, get 1 undefined, range old 1"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
