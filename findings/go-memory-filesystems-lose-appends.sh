#!/usr/bin/env bash
# github.com/spf13/afero 1.15.0 (MemMapFs) and github.com/go-git/go-billy 5.9.2 (memfs), Go.
#
# Guess: O_APPEND in the two file systems in memory that Go programs test with means that each write
# goes to the end of the file as it is then, whichever descriptor made it longer.
# Seen: in both it means that the descriptor starts at the end as it was at open. Two descriptors
# for appending write over each other's lines; no call fails. The same code on the disk keeps all.
# So a log or journal with two writers is neither tested nor usable there, and a test that finds
# lines missing has found the double, not the program.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.21
require (
	github.com/go-git/go-billy/v5 v5.9.2
	github.com/spf13/afero v1.15.0
)
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/spf13/afero"
)

// show appends to one file through two descriptors in turn and prints what is in it.
func show[F io.ReadWriteCloser](what, path string, open func(string, int, os.FileMode) (F, error)) {
	start := func(flags int) F {
		file, err := open(path, flags, 0o644)
		if err != nil {
			panic(err)
		}
		return file
	}
	one := start(os.O_WRONLY | os.O_APPEND | os.O_CREATE)
	two := start(os.O_WRONLY | os.O_APPEND)
	for _, step := range []struct {
		file F
		text string
	}{{one, "one "}, {two, "two "}, {one, "three "}, {two, "four "}} {
		if n, err := step.file.Write([]byte(step.text)); err != nil || n != len(step.text) {
			panic(err)
		}
	}
	one.Close()
	two.Close()
	file := start(os.O_RDONLY)
	text, err := io.ReadAll(file)
	if err != nil {
		panic(err)
	}
	file.Close()
	fmt.Printf("%s: [%s]\n", what, text)
}

func main() {
	show("disk", filepath.Join(os.Args[1], "log"), os.OpenFile)
	show("afero", "/log", afero.NewMemMapFs().OpenFile)
	show("billy", "/log", memfs.New().OpenFile)
}
GO
seen=$(go run . "$dir" 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="disk: [one two three four ]
afero: [two four  ]
billy: [two four  ]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
