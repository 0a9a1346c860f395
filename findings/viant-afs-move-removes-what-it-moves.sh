#!/usr/bin/env bash
# github.com/viant/afs 1.29.0 (Go), its file:// and mem:// storage, Linux.
#
# Guess: Move of a file to where it is already does nothing or fails, and leaves the file; Move of a
# directory onto one that has files in it fails, as rename(2) does, or puts the files beside the
# others, as Copy of the same two does.
# Seen: whatever has the target's name is removed first, then the source is renamed. A file that is
# moved onto itself is gone, on the disk as in memory; there is an error, but it comes too late and
# says that the source does not exist. A directory that is moved to the name of another one replaces
# all that was in it, and the error is nil. Copy of the same directories merges, and Copy of a file
# onto itself leaves it.
# So "move into the archive" with the archive itself as source, or a second run of a job that moves
# the directory of the day, removes what it was to keep. The caller compares the two URLs, and asks
# Exists of the target before it moves a directory. rename(2) alone would have replaced a file as
# well, without the moment in which neither is there.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.23
require github.com/viant/afs v1.29.0
MOD
cat > main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/viant/afs"
)

// check stops at what must not happen here.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// try makes two directories, runs one call on them, and tells what is there then.
func try(name, base, call, from, to string) {
	ctx := context.Background()
	fs := afs.New()
	names := []string{"new/file", "old/other"}
	for _, name := range names {
		check(fs.Upload(ctx, base+"/"+name, 0o644, strings.NewReader("text")))
	}
	run := fs.Move
	if call == "Copy" {
		run = fs.Copy
	}
	said := "nil"
	if err := run(ctx, base+"/"+from, base+"/"+to); err != nil {
		said = "an error"
	}
	var left []string
	for _, name := range append(names, "old/file") {
		there, err := fs.Exists(ctx, base+"/"+name)
		check(err)
		if there {
			left = append(left, name)
		}
	}
	fmt.Printf("%s, %s %s to %s: %s, left %s\n", name, call, from, to, said,
		strings.Join(left, " "))
}

func main() {
	for _, name := range []string{"disk", "memory"} {
		for number, paths := range [][2]string{{"new/file", "new/file"}, {"new", "old"}} {
			for _, call := range []string{"Copy", "Move"} {
				base := fmt.Sprintf("mem://localhost/%d%s", number, call)
				if name == "disk" {
					base = fmt.Sprintf("file://%s/%d%s", os.Args[1], number, call)
				}
				try(name, base, call, paths[0], paths[1])
			}
		}
	}
}
GO
mkdir files
seen=$(timeout 60 go run . "$dir/files" 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="disk, Copy new/file to new/file: nil, left new/file old/other
disk, Move new/file to new/file: an error, left old/other
disk, Copy new to old: nil, left new/file old/other old/file
disk, Move new to old: nil, left old/file
memory, Copy new/file to new/file: nil, left new/file old/other
memory, Move new/file to new/file: an error, left old/other
memory, Copy new to old: nil, left new/file old/other old/file
memory, Move new to old: nil, left old/file"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
