#!/usr/bin/env bash
# bsdtar 3.6.2 of libarchive, GNU cpio 2.13, GNU tar 1.34 (packages of Debian 12), Linux.
#
# Guess: bsdtar takes one file out of a cpio archive (newc) with its contents, or complains, also
# when the file had several names; and a cpio archive that it writes again as tar holds the same.
# Seen: newc gives contents to the last of the linked names only, the others have size 0 there.
# GNU cpio waits for the last one, whichever name is asked for. bsdtar takes the first as an empty
# file, the second as a link to it, and fills them when the last comes by. When the last is not
# asked for, the files stay empty, with exit status 0. "bsdtar -cf new.tar @old.cpio" writes the
# empty file and two links to it: the contents are in no archive any more, with exit status 0. In a
# zip that is made so, two of the three names are empty.
# So bsdtar takes out a cpio archive as a whole only, into a directory, and a new archive is made
# from that; who needs one file, or has initramfs images to convert, takes GNU cpio.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download libarchive-tools=3.6.2-1+deb12u5 libarchive13=3.6.2-1+deb12u5 \
    cpio=2.13+dfsg-7.1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/bin:$dir/packages/usr/bin:$PATH
mkdir source
echo text > source/one
ln source/one source/two
ln source/one source/three
echo text > source/alone
(cd source && printf '%s\n' one two three alone | cpio -o -H newc --quiet) > old.cpio
bsdtar -tf old.cpio > names
first=$(sed -n 1p names) second=$(sed -n 2p names) last=$(sed -n 3p names)
told() { # WHAT COMMAND...: what it took out into an empty directory, each name with its size
    local what=$1 status=0
    shift
    rm -rf out
    mkdir out
    (cd out && "$@") > messages 2>&1 || status=$?
    echo "$what: status $status, $(cd out && for name in first:$first second:$second last:$last \
        alone:alone; do
        [ ! -f "${name#*:}" ] || echo "${name%:*} $(stat -c %s "${name#*:}")"
    done | paste -sd ' ')"
}
seen=$(
    told "cpio, first" sh -c 'cpio -i --quiet "$0" < ../old.cpio' "$first"
    told "bsdtar, all" bsdtar -xf ../old.cpio
    told "bsdtar, first" bsdtar -xf ../old.cpio "$first"
    told "bsdtar, first and second" bsdtar -xf ../old.cpio "$first" "$second"
    told "bsdcpio, first" sh -c 'bsdcpio -i --quiet "$0" < ../old.cpio' "$first"
    told "bsdtar, all but the last" bsdtar -xf ../old.cpio --exclude "$last"
    bsdtar -cf new.tar @old.cpio && echo "written as tar"
    told "tar of what was written" tar -xf ../new.tar
    bsdtar -cf new.zip --format=zip @old.cpio && echo "written as zip"
    told "zip of what was written" python3 -m zipfile -e ../new.zip .
)
printf '%s\n' "$seen"
expected="cpio, first: status 0, first 5
bsdtar, all: status 0, first 5 second 5 last 5 alone 5
bsdtar, first: status 0, first 0
bsdtar, first and second: status 0, first 0 second 0
bsdcpio, first: status 0, first 0
bsdtar, all but the last: status 0, first 0 second 0 alone 5
written as tar
tar of what was written: status 0, first 0 second 0 last 0 alone 5
written as zip
zip of what was written: status 0, first 0 second 0 last 5 alone 5"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
