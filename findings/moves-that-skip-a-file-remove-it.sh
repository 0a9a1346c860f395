#!/usr/bin/env bash
# rclone 1.60.1, lftp 4.9.2, zip 3.0, beside them rsync 3.5.0 (packages of Debian 12), mv of
# coreutils 9.1, GNU tar 1.34, Linux.
#
# Guess: a move that is told to pass over what is older than at the destination (or is there
# already) leaves what it passed over at the source: only what has arrived is removed, as mv -u and
# rsync --update --remove-source-files do.
# Seen: rclone move --update removes the older file of the source, although the destination has
# other contents, and so its only copy; with --ignore-existing it stays. lftp mirror removes it with
# --only-newer and with --only-missing. zip -um and zip -fm remove it and keep in the archive what
# was there, also when they end with "nothing to do" (status 12); beside another file, that is added
# to the archive, the status is 0 as of the others. tar -u --remove-files keeps the file.
# So clocks that differ, or a restored file with its old time, are enough to lose a version for
# good: these are run as a copy, and a second step that compares removes what has arrived.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
: > none # no package is there yet for apt, so all that they need is named
apt-get -o Dir::State::status="$dir/none" --no-install-recommends -s install \
    rclone=1.60.1+dfsg-2+b5 lftp=4.9.2-2+b1 zip=3.0-13+deb12u1 rsync=3.5.0+ds1-0+deb12u1 |
    awk '$1 == "Inst" && $2 !~ /^(libc6|perl.*|libgcc-s1|gcc-.*)$/ {print $2 "=" substr($3, 2)}' |
    xargs apt-get -qq download
for package in *.deb; do dpkg -x "$package" packages; done
export HOME=$dir
PATH=$dir/packages/usr/bin:$PATH
libraries=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
moved() { # COMMAND...: of from/file, which is older, to to/file or to/archive.*
    local status=0 word=kept
    rm -rf from to
    mkdir from to
    echo "the only copy" > from/file
    echo new > from/new
    echo "another version" > to/file
    touch -d 2020-01-01 from/file
    touch -d 2021-01-01 to/file
    (
        cd to
        zip -q archive.zip file
        tar -cf archive.tar file
    )
    (cd from && LD_LIBRARY_PATH=$libraries "$@") > messages 2>&1 || status=$?
    [ -e from/file ] || word=removed
    case $1 in
        zip) unzip -p to/archive.zip file > arrived ;;
        tar) tar -xOf to/archive.tar > arrived ;;
        *) cat to/file > arrived ;;
    esac
    [ "$(cat arrived)" = "another version" ] || word+=", arrived"
    echo "$*: status $status, $word"
}
seen=$(
    moved mv -u file ../to/file
    moved rsync -a --update --remove-source-files ./ ../to
    moved rclone move --update . ../to
    moved rclone move --ignore-existing . ../to
    moved lftp -c "mirror --only-newer --Remove-source-files file:$dir/from $dir/to"
    moved lftp -c "mirror --only-missing --Remove-source-files file:$dir/from $dir/to"
    moved zip -um ../to/archive.zip file
    moved zip -um ../to/archive.zip file new
    moved zip -fm ../to/archive.zip file
    moved tar -uf ../to/archive.tar --remove-files file
)
seen=${seen//"$dir/"/}
printf '%s\n' "$seen"
expected="mv -u file ../to/file: status 0, kept
rsync -a --update --remove-source-files ./ ../to: status 0, kept
rclone move --update . ../to: status 0, removed
rclone move --ignore-existing . ../to: status 0, kept
lftp -c mirror --only-newer --Remove-source-files file:from to: status 0, removed
lftp -c mirror --only-missing --Remove-source-files file:from to: status 0, removed
zip -um ../to/archive.zip file: status 12, removed
zip -um ../to/archive.zip file new: status 0, removed
zip -fm ../to/archive.zip file: status 12, removed
tar -uf ../to/archive.tar --remove-files file: status 0, kept"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
