#!/usr/bin/env bash
# GNU tar 1.34, bsdtar 3.6.2 of libarchive, 7z 26.02 (p7zip-full; packages of Debian 12), tarfile of
# Python 3.11, github.com/mholt/archives 0.1.5 and afero 1.15.0 (its tarfs; Go), Linux.
#
# Guess: a full backup by GNU tar -g (--listed-incremental) is a tar archive like others. Who does
# not know its list of names per directory passes over it and takes the same tree out.
# Seen: GNU tar and bsdtar do. A directory has type D there, and each header has the access time
# where ustar has the first part of a long path. 7z and Python take that time for a directory: all
# is below a directory with eleven digits for a name. 7z ends with status 0. Python makes a file of
# each directory, with the list in it, and stops at the first file below. Both Go libraries make a
# file of it too, and what is in the directory is not there at all: no name, no error.
# So backups by tar -g come back with GNU tar or bsdtar only, and a tool that looks through archives
# (a search, a scan, an index) has not seen what is in them.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download p7zip-full=16.02+really26.02+dfsg-0+deb12u1 libarchive-tools=3.6.2-1+deb12u5 \
    libarchive13=3.6.2-1+deb12u5
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
mkdir -p source/letters/old
echo one > source/letters/first
echo two > source/letters/old/second
tar -C source -g list -cf backup.tar letters
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

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	file, err := os.Open("backup.tar")
	check(err)
	first := afero.NewIOFS(tarfs.New(tar.NewReader(file)))
	second, err := archives.FileSystem(context.Background(), "backup.tar", nil)
	check(err)
	for _, library := range []struct {
		name string
		fs   fs.FS
	}{{"afero", first}, {"archives", second}} {
		fmt.Printf("%s:", library.name)
		check(fs.WalkDir(library.fs, ".", func(path string, entry fs.DirEntry, err error) error {
			check(err)
			if path != "." {
				fmt.Printf(" %s (directory %v)", path, entry.IsDir())
			}
			return nil
		}))
		fmt.Println()
	}
}
GO
go build -o probe . 2> messages || { cat messages >&2; exit 1; }
cat > take.py <<'PYTHON'
import sys
import tarfile

try:
    with tarfile.open(sys.argv[1]) as archive:
        archive.extractall(sys.argv[2])
except OSError as error:
    sys.exit(type(error).__name__)
PYTHON
taken() { # NAME COMMAND...: what a command leaves in a directory of that name
    local status=0
    mkdir "$1"
    "${@:2}" > messages 2>&1 || status=$?
    echo "$1: status $status, $(cd "$1" && find . -mindepth 1 -printf '%P (%y)\n' | LC_ALL=C sort |
        sed -E 's|^[0-7]{11}|TIME|' | paste -sd ' ')"
}
seen=$(
    taken tar tar -xf backup.tar -C tar
    taken bsdtar packages/usr/bin/bsdtar -xf backup.tar -C bsdtar
    taken 7z packages/usr/lib/p7zip/7z x -y -o7z backup.tar
    taken python python3 take.py backup.tar python
    ./probe
)
printf '%s\n' "$seen"
tree="letters (d) letters/first (f) letters/old (d) letters/old/second (f)"
expected="tar: status 0, $tree
bsdtar: status 0, $tree
7z: status 0, TIME (d) TIME/${tree// l/ TIME/l}
python: status 1, TIME (d) TIME/letters (f)
afero: letters (directory false)
archives: letters (directory false)"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
