#!/usr/bin/env bash
# fuse-overlayfs 1.10 with libfuse 3.14.0 (packages of Debian 12), Linux 6.18, run as root.
# Beside it the overlayfs of the kernel.
#
# Guess: in a directory with the set-group-ID bit new files and new directories get its group, and
# directories get the bit too, as on every local filesystem and on the kernel's overlayfs.
# Seen: a new directory gets the group of the process and no bit, so nothing below it inherits the
# group. A new file does get the group in a directory that was made through the mount; in one that
# comes from the lower layer not even that.
# So shared trees (chmod g+s for a group of users, core.sharedRepository of git) come out with wrong
# groups from rootless builds and containers on it, and mkdir is where it starts; they want chgrp -R
# and find -type d -exec chmod g+s as the last step.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'umount "$dir/all/mount" 2>/dev/null || true
      [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; umount "$dir/all" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download fuse-overlayfs=1.10-1 libfuse3-3=3.14.0-4
for package in *.deb; do dpkg -x "$package" packages; done
mkdir all
try() { # NAME: makes files and directories on a union, in a directory of each layer
    mount -t tmpfs tmpfs all
    mkdir all/lower all/upper all/work all/mount all/lower/old
    chgrp 555 all/lower/old
    chmod 2775 all/lower/old
    local options=lowerdir=all/lower,upperdir=all/upper,workdir=all/work
    if [ "$1" = kernel ]; then
        mount -t overlay -o "$options" overlay all/mount
    else
        LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu \
            packages/usr/bin/fuse-overlayfs -f -o "$options" all/mount &
        server=$!
        for _ in $(seq 400); do mountpoint -q all/mount && break; sleep 0.05; done
        mountpoint -q all/mount
    fi
    mkdir all/mount/new
    chgrp 555 all/mount/new
    chmod 2775 all/mount/new
    for parent in new old; do
        touch "all/mount/$parent/file"
        mkdir "all/mount/$parent/directory"
        touch "all/mount/$parent/directory/file"
        for name in file directory directory/file; do
            echo "$1, $parent/$name: $(stat -c '%g %A' "all/mount/$parent/$name")"
        done
    done
    umount all/mount
    wait ${server:+"$server"} || true
    server=
    umount all
}
umask 022
{ try kernel; try fuse; } > seen
seen=$(cat seen)
printf '%s\n' "$seen"
expected="kernel, new/file: 555 -rw-r--r--
kernel, new/directory: 555 drwxr-sr-x
kernel, new/directory/file: 555 -rw-r--r--
kernel, old/file: 555 -rw-r--r--
kernel, old/directory: 555 drwxr-sr-x
kernel, old/directory/file: 555 -rw-r--r--
fuse, new/file: 555 -rw-r--r--
fuse, new/directory: 0 drwxr-xr-x
fuse, new/directory/file: 0 -rw-r--r--
fuse, old/file: 0 -rw-r--r--
fuse, old/directory: 0 drwxr-xr-x
fuse, old/directory/file: 0 -rw-r--r--"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
