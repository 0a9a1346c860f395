#!/usr/bin/env bash
# rsync 3.2.7, rdiff-backup 2.2.2, duplicity 0.8.22, beside them GNU tar 1.34 (packages of Debian
# 12), Linux.
#
# Guess: a file that is written again within the second of its last change, with other bytes of the
# same length, is in the next backup, as the file has another time (they are nanoseconds everywhere
# now, and rsync -a sets them), another ctime, or another inode number.
# Seen: rsync, rdiff-backup and duplicity compare the size and the whole seconds of mtime and
# nothing else. The version of the first part of the second stays the newest one in the backup, for
# good: no later run finds it either, whether the file was written in place or replaced by rename.
# They say that nothing has changed, with status 0. rsync -@-1 compares the nanoseconds that rsync
# keeps anyway; tar --listed-incremental notices both.
# So a counter, a flag or a database page that is written just before and just after a backup looks
# can be wrong in all of them: rsync takes -@-1, "rdiff-backup compare --method hash" shows it.
# A filesystem that keeps only seconds does this to all tools: nanoseconds are worth four bytes.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
: > none # no package is there yet for apt, so all that they need is named
apt-get -o Dir::State::status="$dir/none" --no-install-recommends -s install \
    rdiff-backup=2.2.2-1 duplicity=0.8.22-1+b3 rsync=3.2.7-1+deb12u6 |
    awk '$1 == "Inst" && $2 !~ /^(libc6|libpython3.*|python3\..*)$/ {print $2 "=" substr($3, 2)}' |
    xargs apt-get -qq download
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
export PYTHONPATH=$dir/packages/usr/lib/python3/dist-packages HOME=$dir
programs=$dir/packages/usr/bin
save() { # TOOL RUN: backs tree up for the first or second time
    case $1 in
        rdiff-backup) python3 "$programs/rdiff-backup" backup tree store ;;
        duplicity) python3 "$programs/duplicity" --no-encryption tree "file://$dir/store" ;;
        rsync) "$programs/rsync" -a tree/ store ;;
        rsync-@-1) "$programs/rsync" -a -@-1 tree/ store ;;
        tar) tar -cf "store$2.tar" --listed-incremental=list -C tree . ;;
    esac
}
restore() { # TOOL: takes the newest version out
    case $1 in
        rdiff-backup) python3 "$programs/rdiff-backup" restore store out ;;
        duplicity) python3 "$programs/duplicity" --no-encryption "file://$dir/store" out ;;
        rsync*) cp -a store out ;;
        tar) mkdir out && for run in 1 2; do
            tar -xf store$run.tar --listed-incremental=/dev/null -C out
        done ;;
    esac
}
seen=$(
    for tool in rsync rsync-@-1 rdiff-backup duplicity tar; do
        rm -rf tree store* out list
        mkdir tree
        echo before | tee tree/in-place > tree/replaced
        touch -d "2020-01-01 00:00:00.2" tree/in-place tree/replaced
        save $tool 1 > messages 2>&1
        echo AFTER. > tree/in-place
        echo AFTER. > tree/new
        mv tree/new tree/replaced
        touch -d "2020-01-01 00:00:00.7" tree/in-place tree/replaced
        sleep 1.1
        save $tool 2 > messages 2>&1
        restore $tool > messages 2>&1
        echo "$tool: in place $(< out/in-place), replaced $(< out/replaced)"
    done
)
printf '%s\n' "$seen"
expected="rsync: in place before, replaced before
rsync-@-1: in place AFTER., replaced AFTER.
rdiff-backup: in place before, replaced before
duplicity: in place before, replaced before
tar: in place AFTER., replaced AFTER."
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
