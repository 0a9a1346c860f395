#!/usr/bin/env bash
# github.com/spf13/afero 1.15.0 (Go), CacheOnReadFs over files of the host.
#
# Guess: ReadAt leaves the position of a file where it is, as io.ReaderAt demands, and what is
# written to a file of CacheOnReadFs goes to the same place in the cache and in the base.
# Seen: the file is two files, and ReadAt moves the position of the one in the base behind what it
# read; the one in the cache stays. The next Write, or Read, goes on from there: the bytes land at
# one place in the cache, which is what everyone sees as long as it is there, and at another one in
# the base, which is what stays. No error. Seek sets both right again.
# So a file of CacheOnReadFs that is read with ReadAt (io.SectionReader, archive/zip) and written is
# written with WriteAt, or with a Seek before each Write; the base is to be compared, not the cache.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.23
require github.com/spf13/afero v1.15.0
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/afero"
)

// check stops at what must not happen here.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// try reads with ReadAt, does something, writes, and tells what is where.
func try(what string, between func(afero.File)) {
	parent, err := os.MkdirTemp(os.Args[1], "")
	check(err)
	host := afero.NewOsFs()
	base := afero.NewBasePathFs(host, filepath.Join(parent, "base"))
	cache := afero.NewBasePathFs(host, filepath.Join(parent, "cache"))
	for _, fs := range []afero.Fs{base, cache} {
		check(fs.MkdirAll("/", 0o755))
	}
	check(afero.WriteFile(base, "file", []byte("0123456789"), 0o644))
	fs := afero.NewCacheOnReadFs(base, cache, 0)
	file, err := fs.OpenFile("file", os.O_RDWR, 0)
	check(err)
	between(file)
	_, err = file.Write([]byte("AB"))
	check(err)
	check(file.Close())
	seen, err := afero.ReadFile(fs, "file")
	check(err)
	kept, err := afero.ReadFile(base, "file")
	check(err)
	fmt.Printf("%s: seen %s, in the base %s\n", what, seen, kept)
}

func main() {
	buffer := make([]byte, 3)
	readAt := func(file afero.File) {
		_, err := file.ReadAt(buffer, 4)
		check(err)
	}
	try("write", func(afero.File) {})
	try("ReadAt, write", readAt)
	try("ReadAt, seek, write", func(file afero.File) {
		readAt(file)
		_, err := file.Seek(0, io.SeekStart)
		check(err)
	})
	try("read, write", func(file afero.File) {
		_, err := io.ReadFull(file, buffer)
		check(err)
	})
}
GO
seen=$(go run . "$dir" 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="write: seen AB23456789, in the base AB23456789
ReadAt, write: seen AB23456789, in the base 0123456AB9
ReadAt, seek, write: seen AB23456789, in the base AB23456789
read, write: seen 012AB56789, in the base 012AB56789"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
