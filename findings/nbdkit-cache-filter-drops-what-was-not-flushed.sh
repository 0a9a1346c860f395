#!/usr/bin/env bash
# nbdkit 1.32.5 with its cache filter, nbdcopy of libnbd 1.14.2 (packages of Debian 12), Linux.
#
# Guess: the cache filter of nbdkit holds writes back until the client flushes, or until there is
# time. When the last client has gone and the server ends in good order, what it still holds is
# written; only a crash loses something.
# Seen: it is thrown away. A client that copies an image to the server and does not flush, which
# nbdcopy does not do unless it is told to, has written nothing: nbdcopy and nbdkit both end with
# status 0, and the file is as it was before, all of it. So it is with the default of the filter
# (cache=writeback). With nbdcopy --flush or cache=writethrough the file is right; with cache=unsafe
# a flush does not help either.
# So a copy to a server is made with --flush, or with a filter that writes through, and is compared.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download nbdkit=1.32.5-1 libnbd-bin=1.14.2-1 libnbd0=1.14.2-1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/usr/bin:$PATH
parts=$dir/packages/usr/lib/x86_64-linux-gnu/nbdkit
head -c 4M /dev/urandom > image
told() { # OPTIONS-OF-THE-FILTER OPTIONS-OF-NBDCOPY
    local status=0 what=mixed
    rm -f disk
    truncate -s 4M disk
    nbdkit -U - --filter="$parts/filters/nbdkit-cache-filter.so" \
        "$parts/plugins/nbdkit-file-plugin.so" disk $1 \
        --run "nbdcopy $2 image \"\$uri\"" || status=$?
    ! cmp -s image disk || what="all stored"
    ! cmp -s <(head -c 4M /dev/zero) disk || what="nothing stored"
    echo "${1:-no option}, nbdcopy ${2:-alone}: status $status, $what"
}
seen=$(
    for options in "" cache=writeback cache=writethrough cache=unsafe; do
        told "$options" ""
        told "$options" --flush
    done
)
printf '%s\n' "$seen"
expected="no option, nbdcopy alone: status 0, nothing stored
no option, nbdcopy --flush: status 0, all stored
cache=writeback, nbdcopy alone: status 0, nothing stored
cache=writeback, nbdcopy --flush: status 0, all stored
cache=writethrough, nbdcopy alone: status 0, all stored
cache=writethrough, nbdcopy --flush: status 0, all stored
cache=unsafe, nbdcopy alone: status 0, nothing stored
cache=unsafe, nbdcopy --flush: status 0, nothing stored"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
