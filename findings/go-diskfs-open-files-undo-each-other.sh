#!/usr/bin/env bash
# github.com/diskfs/go-diskfs 1.9.4 (Go), FAT32 in an image file.
#
# Guess: two different files of one FAT32 filesystem may be open at a time, and other names may come
# and go while a file is open; each write ends in its own file.
# Seen: an open file keeps the list of its directory as it was at open, and a write that makes the
# file longer puts that list back. A file or a directory that was made in between is gone, a file
# that was removed or renamed is there under its old name, and one that grew is as short as before.
# No call fails. What is written last wins: of two files that are written in turn, the first has
# size 0 after the write to the second, and the second is gone after the next write to the first.
# So an image builder that copies in parallel, keeps a log open in the image or opens a target
# before it makes the others ships an image with files missing. One file of a directory is open at a
# time, and everything is read back before the image is used.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.25.0
require github.com/diskfs/go-diskfs v1.9.4
MOD
cat > main.go <<'GO'
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/diskfs/go-diskfs"
	"github.com/diskfs/go-diskfs/disk"
	"github.com/diskfs/go-diskfs/filesystem"
)

func check[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

var volume filesystem.FileSystem

func open(path string) filesystem.File {
	return check(volume.OpenFile(path, os.O_RDWR|os.O_CREATE))
}

// write adds a whole number of clusters, all of one letter.
func write(file filesystem.File, letter string) {
	if check(file.Write(bytes.Repeat([]byte(letter), 4096))) != 4096 {
		panic("short write")
	}
}

func create(path, letter string) {
	file := open(path)
	write(file, letter)
	check(0, file.Close())
}

// list prints the names in a directory, each with its size and the first byte of its contents.
func list(what, at string) {
	fmt.Print(what, ":")
	for _, entry := range check(volume.ReadDir(at)) {
		if !entry.IsDir() {
			file := open(at + "/" + entry.Name())
			first := make([]byte, 1)
			count, _ := file.Read(first)
			check(0, file.Close())
			fmt.Printf(" %s %d %s", entry.Name(), check(entry.Info()).Size(), first[:count])
		} else if entry.Name() != "." && entry.Name() != ".." {
			fmt.Print(" ", entry.Name(), "/")
		}
	}
	fmt.Println()
}

// show opens the file "log" in a new directory, changes something beside it and writes to the log.
func show(what string, beside func(at string)) {
	at := "/" + what
	check(0, volume.Mkdir(at))
	create(at+"/before", "b")
	log := open(at + "/log")
	beside(at + "/")
	write(log, "l")
	check(0, log.Close())
	list(what, what)
}

func main() {
	image := check(diskfs.Create("image", 100<<20, diskfs.SectorSizeDefault))
	volume = check(image.CreateFilesystem(disk.FilesystemSpec{FSType: filesystem.TypeFat32}))
	show("nothing", func(string) {})
	show("create", func(at string) { create(at+"new", "n") })
	show("grow", func(at string) {
		before := open(at + "before")
		write(before, "b")
		write(before, "b")
		check(0, before.Close())
	})
	show("remove", func(at string) { check(0, volume.Remove(at+"before")) })
	show("rename", func(at string) { check(0, volume.Rename(at+"before", at+"after")) })
	show("mkdir", func(at string) { check(0, volume.Mkdir(at+"new")) })

	check(0, volume.Mkdir("/copies"))
	one, two := open("/copies/one"), open("/copies/two")
	write(one, "1")
	write(two, "2")
	list("two files, the second written last", "copies")
	write(one, "1")
	list("the first again", "copies")
	check(0, one.Close())
	check(0, two.Close())
	check(0, image.Close())
}
GO
go build -o probe . > messages 2>&1 || { cat messages >&2; exit 1; }
seen=$(./probe)
printf '%s\n' "$seen"
expected="nothing: before 4096 b log 4096 l
create: before 4096 b log 4096 l
grow: before 4096 b log 4096 l
remove: before 4096 b log 4096 l
rename: before 4096 b log 4096 l
mkdir: before 4096 b log 4096 l
two files, the second written last: one 0  two 4096 2
the first again: one 8192 1"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
