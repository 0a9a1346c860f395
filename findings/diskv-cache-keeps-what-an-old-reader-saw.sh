#!/usr/bin/env bash
# github.com/peterbourgon/diskv/v3 3.0.1 (Go), with CacheSizeMax set.
#
# Guess: after Write has returned, Read gives the new value, and after Erase there is none, also
# when somebody was in the middle of ReadStream then. That reader sees the old value or an error.
# Seen: a stream collects what it reads and puts it into the cache when it comes to the end, without
# a look whether the key has been written or erased since. From then on Read gives that, though the
# disk has the new value: with TempDir (written beside and renamed) the old value, without (written
# over in place) the start of the old value and the rest of the new one, which nobody ever wrote.
# After Erase, Has says yes and Read gives the value, until the cache needs the room or the program
# starts again.
# Read is such a stream too, just a short one, so two goroutines are enough for it. A store that is
# written while it is read has CacheSizeMax 0 and a TempDir, or a lock of the program's own around
# both; its cache is for what never changes.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.21
require github.com/peterbourgon/diskv/v3 v3.0.1
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/peterbourgon/diskv/v3"
)

// check stops at what must not happen here.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// during reads a value by a stream and does something when three bytes are read.
func during(store *diskv.Diskv, something func() error) {
	check(store.Write("key", []byte("old value")))
	stream, err := store.ReadStream("key", false)
	check(err)
	defer stream.Close()
	_, err = io.ReadFull(stream, make([]byte, 3))
	check(err)
	check(something())
	_, err = io.Copy(io.Discard, stream)
	check(err)
}

func main() {
	for _, way := range []string{"in place", "renamed", "no cache"} {
		options := diskv.Options{BasePath: os.Args[1] + "/" + way}
		if way != "no cache" {
			options.CacheSizeMax = 1 << 20
		}
		if way == "renamed" {
			options.TempDir = os.Args[1] + "/temporary"
		}
		store := diskv.New(options)
		during(store, func() error { return store.Write("key", []byte("NEW VALUE, LONGER")) })
		read, err := store.Read("key")
		check(err)
		disk, err := os.ReadFile(options.BasePath + "/key")
		check(err)
		fmt.Printf("%s, written: read %q, disk %q\n", way, read, disk)
		during(store, func() error { return store.Erase("key") })
		read, err = store.Read("key")
		fmt.Printf("%s, erased: has %v, read %q, missing %v\n",
			way, store.Has("key"), read, os.IsNotExist(err))
	}
}
GO
seen=$(go run . "$dir" 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected='in place, written: read "old VALUE, LONGER", disk "NEW VALUE, LONGER"
in place, erased: has true, read "old value", missing false
renamed, written: read "old value", disk "NEW VALUE, LONGER"
renamed, erased: has true, read "old value", missing false
no cache, written: read "NEW VALUE, LONGER", disk "NEW VALUE, LONGER"
no cache, erased: has false, read "", missing true'
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
