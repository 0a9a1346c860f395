#!/usr/bin/env bash
# github.com/otiai10/copy 1.14.1 (Go), Linux.
#
# Guess: copy.Copy(src, dst) of something to where it is already does nothing or fails, as cp does,
# and it fails for a link to the source too, which is the same file.
# Seen: the target is opened for writing, which empties it, and nothing is left to be read from it.
# A file, every file of a tree, the file behind a hard link and the one behind a symbolic link are
# all empty afterwards, and the error is nil. A path spelled otherwise (with "./", by way of a
# linked directory) does the same. The options that tell what to do with a directory that exists
# (merge, replace, leave alone) are asked for directories only; with Replace lower ones are gone.
# So "install these into the folder" with the folder itself as source loses all in it; the caller
# compares source and target with os.SameFile first, for a tree at each level, or copies into a new
# directory and renames it.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.23
require github.com/otiai10/copy v1.14.1
MOD
cat > main.go <<'GO'
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/otiai10/copy"
)

// check stops at what must not happen here.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// read tells what a file holds.
func read(path string) string {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "gone"
	}
	check(err)
	return fmt.Sprintf("'%s'", content)
}

// try makes a tree with two files and a link of each kind, and copies within it.
func try(from, to string, options ...copy.Options) {
	base, err := os.MkdirTemp(os.Args[1], "")
	check(err)
	check(os.MkdirAll(filepath.Join(base, "dir/sub"), 0o755))
	check(os.WriteFile(filepath.Join(base, "dir/one"), []byte("1"), 0o644))
	check(os.WriteFile(filepath.Join(base, "dir/sub/two"), []byte("2"), 0o644))
	check(os.Link(filepath.Join(base, "dir/one"), filepath.Join(base, "hard")))
	check(os.Symlink("dir/one", filepath.Join(base, "soft")))
	check(os.Symlink("dir", filepath.Join(base, "way")))
	err = copy.Copy(base+"/"+from, base+"/"+to, options...)
	said := "nil"
	if err != nil {
		said = "an error"
	}
	fmt.Printf("%s to %s: %s, one %s, two %s\n", from, to, said,
		read(filepath.Join(base, "dir/one")), read(filepath.Join(base, "dir/sub/two")))
}

func main() {
	try("dir", "other")
	try("dir/one", "dir/one")
	try("dir/one", "./dir/one")
	try("dir/one", "hard")
	try("dir/one", "soft")
	try("dir", "dir")
	try("dir", "way")
	replace := func(string, string) copy.DirExistsAction { return copy.Replace }
	try("dir", "dir", copy.Options{OnDirExists: replace})
}
GO
seen=$(timeout 60 go run . "$dir" 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="dir to other: nil, one '1', two '2'
dir/one to dir/one: nil, one '', two '2'
dir/one to ./dir/one: nil, one '', two '2'
dir/one to hard: nil, one '', two '2'
dir/one to soft: nil, one '', two '2'
dir to dir: nil, one '', two ''
dir to way: nil, one '', two ''
dir to dir: nil, one '', two gone"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
