#!/usr/bin/env bash
# mtree of NetBSD (mtree-netbsd 20180822), bsdtar 3.6.2 of libarchive (packages of Debian 12),
# github.com/vbatts/go-mtree 0.7.0 (Go), Linux.
#
# Guess: a list of files in mtree's format that one program wrote is checked by another one with the
# same result: a file that nobody has touched is as the list says. Times have a decimal point.
# Seen: mtree and bsdtar write the nanoseconds behind the point as a number without zeros in front:
# a second and 5 ns is "1.5", half a second is "1.500000000". They read each other's lists well.
# go-mtree reads the same as a decimal fraction and calls each file whose nanoseconds have fewer
# than nine digits changed, one in ten; what it writes itself has nine digits and is right for all.
# A sorted or compared list of the other two puts times in a wrong order, too.
# So a list that is to be checked elsewhere has whole seconds (touch -d @N), or is made by go-mtree.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download mtree-netbsd=20180822-7 libarchive-tools=3.6.2-1+deb12u5 \
    libarchive13=3.6.2-1+deb12u5
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/usr/bin:$PATH
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.24
require github.com/vbatts/go-mtree v0.7.0
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/vbatts/go-mtree"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	keywords := []mtree.Keyword{"type", "time"}
	if os.Args[1] == "write" {
		list, err := mtree.Walk("tree", nil, keywords, nil)
		check(err)
		_, err = list.WriteTo(os.Stdout)
		check(err)
		return
	}
	file, err := os.Open(os.Args[1])
	check(err)
	list, err := mtree.ParseSpec(file)
	check(err)
	changes, err := mtree.Check("tree", list, keywords, nil)
	check(err)
	fmt.Printf("%d changed\n", len(changes))
}
GO
go build -o go-mtree . 2> messages || { cat messages >&2; exit 1; }
mkdir tree
for number in $(seq 100); do # a hundred times, spread over one second
    touch -d "@1700000000.$(printf %09d $((number * 9999999)))" "tree/$number"
done
touch -d @1700000000.5 tree
mtree -c -k type,time -p tree > mtree.list
bsdtar -cf bsdtar.list --format=mtree --options='!all,type,time' -C tree .
./go-mtree write > go.list
seen=$(
    echo "$(grep -c 'time=1700000000\.[0-9]\{1,8\}\( \|$\)' mtree.list) short fractions"
    for list in mtree bsdtar go; do
        echo "$list.list by mtree: $(mtree -f $list.list -p tree | wc -l) lines," \
            "by go-mtree: $(./go-mtree $list.list)"
    done
)
printf '%s\n' "$seen"
expected="10 short fractions
mtree.list by mtree: 0 lines, by go-mtree: 10 changed
bsdtar.list by mtree: 0 lines, by go-mtree: 10 changed
go.list by mtree: 0 lines, by go-mtree: 0 changed"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
