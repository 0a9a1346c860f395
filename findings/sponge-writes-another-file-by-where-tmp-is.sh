#!/usr/bin/env bash
# sponge of moreutils 0.67, attr 2.5.1 (packages of Debian 12), Linux, run as root.
#
# Guess: "filter < file | sponge file" ends as a redirection to the file would, had it waited for
# the end of its input: the same file has new contents. Or it always replaces the file by rename.
# Seen: it depends on where TMPDIR is. On the filesystem of the target, sponge renames its temporary
# file over it: another inode with the mode of the old one, but with the user and group of whoever
# ran it, without its attributes, and a second name (hard link) keeps the old contents. On another
# filesystem, as with /tmp on a tmpfs, it writes into the old file, and all of that stays. No word
# in either case, and status 0.
# So the same line in a script takes a configuration away from the user of a service on one machine
# and not on the next one, and a program that has the file open sees the change or not. Where the
# file must stay, TMPDIR=/dev/shm is set for sponge, or the result goes to a temporary file and from
# there through cat.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
memory=$(mktemp -d /dev/shm/XXXXXX)
trap 'rm -rf "$dir" "$memory"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download moreutils=0.67-1 attr=1:2.5.1-4
for package in *.deb; do dpkg -x "$package" packages; done
PATH=$dir/packages/usr/bin:$PATH
try() { # WHAT DIRECTORY: sorts a file, with the temporary file in that directory
    local inode
    rm -f file second
    printf 'b\na\n' > file
    ln file second
    chown 1234:1234 file
    chmod 640 file
    setfattr -n user.key -v value file
    inode=$(stat -c %i file)
    sort file | TMPDIR=$2 sponge file
    echo "$1: $(tr '\n' ' ' < file)in $([ "$(stat -c %i file)" = "$inode" ] &&
        echo "the old file" || echo "another file")"
    echo "    $(stat -c '%h names, mode %a, owner %u' file)," \
        "attributes $(getfattr file | grep -c user || true), by the second name:" $(cat second)
}
seen=$(try "same filesystem" "$dir" && try "another one" "$memory")
printf '%s\n' "$seen"
expected="same filesystem: a b in another file
    1 names, mode 640, owner 0, attributes 0, by the second name: b a
another one: a b in the old file
    2 names, mode 640, owner 1234, attributes 1, by the second name: a b"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
