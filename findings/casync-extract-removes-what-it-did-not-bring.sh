#!/usr/bin/env bash
# casync 2+20201210 (package of Debian 12), Linux.
#
# Guess: casync extract puts the files of an archive into a directory, as tar -x, bsdtar and
# unsquashfs -f do: what is there under other names stays.
# Seen: the directory is made equal to the archive. Each file and each tree in it that the archive
# does not have is removed, at every depth, without a question or a message, with status 0.
# --delete=no leaves them alone; it is the other way round than with rsync, where removal is asked
# for.
# So "extract it into /opt", into a home or into the directory that the archive itself lies in is
# the end of everything else there. Into a directory that is in use goes --delete=no, or the archive
# is taken out into a new one.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download casync=2+20201210-1+b1 libzstd1=1.5.4+dfsg2-5+deb12u1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
mkdir -p in/shared
echo new > in/program
echo new > in/shared/new
packages/usr/bin/casync make archive.catar in > messages
try() { # OPTION...: what is in a directory after the archive came into it
    local status=0
    rm -rf out
    mkdir -p out/shared out/own
    echo mine | tee out/notes out/own/file > out/shared/mine
    packages/usr/bin/casync extract "$@" archive.catar out > messages 2>&1 || status=$?
    echo "extract $*: status $status, says $(wc -l < messages) lines"
    (cd out && find . -type f | sort)
}
seen=$(try && try --delete=no)
printf '%s\n' "$seen"
expected="extract : status 0, says 0 lines
./program
./shared/new
extract --delete=no: status 0, says 0 lines
./notes
./own/file
./program
./shared/mine
./shared/new"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
