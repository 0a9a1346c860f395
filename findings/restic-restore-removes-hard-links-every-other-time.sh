#!/usr/bin/env bash
# restic 0.14.0 (package of Debian 12), Linux.
#
# Guess: a snapshot that is restored where its files are already (a second try, a repair of the live
# directory) leaves the files of the snapshot, whatever was there.
# Seen: of a file with several names one name is left, and the others are removed, without a message
# and with exit status 0; only --verify notices. The next restore puts the names back, the one after
# that removes them again. A restore into an empty directory is right, and files with one name
# always are.
# So restic restore goes into an empty directory only, and is moved from there; who has restored in
# place (package caches, mail stores, backups by rsync --link-dest) runs it with --verify, and once
# more when that complains.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download restic=0.14.0-1+b5
dpkg -x restic_*.deb package
export RESTIC_PASSWORD=secret
run() { package/usr/bin/restic -q -r "$dir/repository" --no-cache "$@"; }
mkdir -p source/below
echo text > source/first
ln source/first source/second
ln source/first source/below/third
echo text > source/alone
run init
(cd source && ../package/usr/bin/restic -q -r ../repository --no-cache backup .)
told() { # WHAT DIRECTORY: the names that it holds
    echo "$1: $(cd "$2" && find . -type f | sort | paste -sd ' ')"
}
seen=$(
    told source source
    for round in 1 2 3 4; do
        run restore latest --target restored 2>&1
        told "restore $round" restored
    done
    run restore latest --target source 2>&1
    told "over the source" source
    for round in 1 2; do
        run restore latest --target source --verify > messages 2>&1 && verified=well || verified=not
        told "with --verify, $verified" source
    done
)
printf '%s\n' "$seen"
expected="source: ./alone ./below/third ./first ./second
restore 1: ./alone ./below/third ./first ./second
restore 2: ./alone ./below/third
restore 3: ./alone ./below/third ./first ./second
restore 4: ./alone ./below/third
over the source: ./alone ./below/third
with --verify, well: ./alone ./below/third ./first ./second
with --verify, not: ./alone ./below/third"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
