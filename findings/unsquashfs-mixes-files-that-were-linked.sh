#!/usr/bin/env bash
# unsquashfs of squashfs-tools 4.5.1, fsck.erofs of erofs-utils 1.5, GNU cpio 2.13, GNU tar 1.34
# (packages of Debian 12), zipfile and tarfile of Python 3.11, Linux.
#
# Guess: taking an image out over an older tree (unsquashfs -f, fsck.erofs --extract --overwrite)
# puts a new file under each name, so the tree holds afterwards what the image holds.
# Seen: the file that is there is written over in place. Two names that were linked in the old tree
# and are two files in the image stay one file: with fsck.erofs, zipfile and tarfile both have what
# came last. unsquashfs opens both before it writes either, and the file is a mixture: the start of
# one, the rest of the other. All end with status 0. A second name outside the tree (the backup of
# yesterday by cp -al) is written over too. tar and cpio -u put new files there, and are right.
# So an image is taken out into an empty directory, and the directories are exchanged; or the old
# names are removed first.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download squashfs-tools=1:4.5.1-1 erofs-utils=1.5-1 cpio=2.13+dfsg-7.1 \
    liblzo2-2=2.10-2 liblz4-1=1.9.4-1 libselinux1=3.4-1+b6
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/bin:$dir/packages/usr/bin:$PATH
mkdir new
head -c 300000 /dev/zero | tr '\0' A > new/long
head -c 300 /dev/zero | tr '\0' B > new/short
{
    mksquashfs new image.squashfs -quiet
    mkfs.erofs image.erofs new
} > messages 2>&1
(cd new && printf '%s\n' long short | cpio -o -H newc --quiet) > image.cpio
tar -cf image.tar -C new long short
(cd new && python3 -m zipfile -c ../image.zip long short)
told() { # WHAT COMMAND...: what it leaves of an old tree whose two files are one
    local what=$1 status=0 name
    shift
    rm -rf out yesterday
    mkdir out yesterday
    echo old > out/long
    ln out/long out/short
    ln out/long yesterday/long
    "$@" > messages 2>&1 || status=$?
    echo "$what: status $status, $(for name in long short; do
        cmp -s "new/$name" "out/$name" && echo "$name right" || echo "$name wrong"
    done | paste -sd ' '), yesterday $(stat -c %s yesterday/long)," \
        "letters $(fold -w 1 out/long | head -n 300000 | sort | uniq -c | awk '{print $2 $1}' |
            paste -sd ' ')"
}
seen=$(
    for _ in $(seq 20); do # its threads may, rarely, have written one before the other is opened
        line=$(told unsquashfs unsquashfs -f -d out image.squashfs)
        case $line in *"A299700 B300") break ;; esac
    done
    echo "$line"
    told fsck.erofs fsck.erofs --extract=out --overwrite image.erofs
    told zipfile python3 -m zipfile -e image.zip out
    told tarfile python3 -m tarfile -e image.tar out
    told tar tar -xf image.tar -C out
    told cpio sh -c 'cd out && cpio -iu --quiet < ../image.cpio'
)
printf '%s\n' "$seen"
expected="unsquashfs: status 0, long wrong short wrong, yesterday 300000, letters A299700 B300
fsck.erofs: status 0, long wrong short right, yesterday 300, letters B300
zipfile: status 0, long wrong short right, yesterday 300, letters B300
tarfile: status 0, long wrong short right, yesterday 300, letters B300
tar: status 0, long right short right, yesterday 4, letters A300000
cpio: status 0, long right short right, yesterday 4, letters A300000"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
