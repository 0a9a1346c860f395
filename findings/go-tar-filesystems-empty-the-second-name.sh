#!/usr/bin/env bash
# github.com/spf13/afero 1.15.0 (its tarfs), github.com/mholt/archives 0.1.5 (its FileSystem), Go.
#
# Guess: in a file system over a tar archive each of two linked names gives the contents, as after
# tar -x, or an error.
# Seen: a tar archive has the contents at the first of the names, and a header of size 0 with the
# name of the first at the others. Both libraries make regular files of size 0 of those: Stat says
# so, and reading gives nothing and no error. Which name has the contents is up to the order that
# the archive was made in. A symbolic link reads as empty too, but is at least not a regular file.
# So trees with linked files (images of containers, stores of packages, backups) come out with empty
# ones. The archive is read once with archive/tar first to learn which names are links (TypeLink).
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
mkdir source
echo text > source/first
ln source/first source/second
ln -s first source/third
tar -cf all.tar -C source first second third
cat > go.mod <<'MOD'
module probe
go 1.24
require (
	github.com/mholt/archives v0.1.5
	github.com/spf13/afero v1.15.0
)
MOD
cat > main.go <<'GO'
package main

import (
	"archive/tar"
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/mholt/archives"
	"github.com/spf13/afero"
	"github.com/spf13/afero/tarfs"
)

// check stops at what must not happen here.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	file, err := os.Open("all.tar")
	check(err)
	first := afero.NewIOFS(tarfs.New(tar.NewReader(file)))
	second, err := archives.FileSystem(context.Background(), "all.tar", nil)
	check(err)
	for _, library := range []struct {
		name string
		fs   fs.FS
	}{{"afero", first}, {"archives", second}} {
		for _, name := range []string{"first", "second", "third"} {
			info, err := fs.Stat(library.fs, name)
			check(err)
			content, err := fs.ReadFile(library.fs, name)
			fmt.Printf("%s, %s: regular %v, size %d, read %q, error %v\n", library.name, name,
				info.Mode().IsRegular(), info.Size(), content, err)
		}
	}
}
GO
seen=$(go run . 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected='afero, first: regular true, size 5, read "text\n", error <nil>
afero, second: regular true, size 0, read "", error <nil>
afero, third: regular false, size 0, read "", error <nil>
archives, first: regular true, size 5, read "text\n", error <nil>
archives, second: regular true, size 0, read "", error <nil>
archives, third: regular false, size 0, read "", error <nil>'
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
