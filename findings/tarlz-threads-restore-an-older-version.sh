#!/usr/bin/env bash
# tarlz 0.23 (package of Debian 12), Linux.
#
# Guess: where an archive has a name twice, because a newer version was appended (tarlz -r), taking
# it out leaves the newer one, as the order in the archive says and as tar does.
# Seen: that is so with -n 0, by one thread. With two or more, and by default there are as many as
# processors, each thread takes out members of its own without waiting for the others, so whoever
# is late writes last. A thread that had a large member before the old version puts the old version
# over the new one. The status is 0 and nothing is said; on one machine the same archive comes out
# right and on the next one wrong. tarlz -d compares with both versions, and so complains of a tree
# that is right, too.
# So archives that were appended to are taken out with -n 0.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download tarlz=0.23-3
dpkg -x tarlz_*.deb package
tarlz=$dir/package/usr/bin/tarlz
mkdir in
cd in
# Members are dealt out in turn: with two threads, the large file and the old version go to one of
# them, the other file and the new version to the other one.
head -c 60M /dev/urandom > large
echo other > other
echo old > file
"$tarlz" -0 -cf ../archive.tar.lz large other file
echo new > file
"$tarlz" -0 -rf ../archive.tar.lz file
cd ..
try() { # WHAT OPTION...: takes the archive out
    local status=0
    mkdir out
    "$tarlz" "${@:2}" || status=$?
    echo "$1: status $status, $(cat out/file)"
    rm -r out
}
seen=$(
    try "one thread" -n 0 -C out -xf archive.tar.lz
    for _ in $(seq 20); do # on a busy machine the other thread may now and then be the late one
        line=$(try "two threads" -n 2 -C out -xf archive.tar.lz)
        case $line in *old) break ;; esac
    done
    echo "$line"
)
printf '%s\n' "$seen"
expected="one thread: status 0, new
two threads: status 0, old"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
