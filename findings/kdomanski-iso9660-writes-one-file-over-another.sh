#!/usr/bin/env bash
# github.com/kdomanski/iso9660 0.4.0 (Go); beside it github.com/diskfs/go-diskfs 1.9.4 (Go) and
# genisoimage 1.1.11 (package of Debian 12).
#
# Guess: ISO 9660 has short names of few letters. Who writes images without Rock Ridge makes such
# names, and where two files get the same one, they are numbered, or the second one is refused.
# Seen: go-diskfs and genisoimage number them: all are there. kdomanski/iso9660 cuts a name behind
# 24 letters, puts "_" for what is not allowed and makes capitals small; a file whose name comes out
# as that of another one replaces it. AddFile returns nil for both, WriteTo too, and the image has
# one file with the contents of the last one. Two reports whose names differ only at their end are
# one, Makefile and makefile, "a b" and a_b too; of two directories the contents are put together.
# So the files for an image are named by their number in it, or compared with it before it is used.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download genisoimage=9:1.1.11-3.4
for package in *.deb; do dpkg -x "$package" packages; done
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.24
require (
	github.com/diskfs/go-diskfs v1.9.4
	github.com/kdomanski/iso9660 v0.4.0
)
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/diskfs/go-diskfs"
	"github.com/diskfs/go-diskfs/disk"
	"github.com/diskfs/go-diskfs/filesystem"
	diskfsiso "github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/kdomanski/iso9660"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

var names = []string{
	"report-of-2026-december-draft.txt", "report-of-2026-december-final.txt",
	"Makefile", "makefile", "a b", "a_b", "one/first", "One/second",
}

func written(writer *iso9660.ImageWriter) string {
	image, err := os.Create("image.iso")
	check(err)
	check(writer.WriteTo(image, "volume"))
	opened, err := iso9660.OpenImage(image)
	check(err)
	root, err := opened.RootDir()
	check(err)
	return listed(root)
}

func listed(directory *iso9660.File) string {
	text := ""
	children, err := directory.GetChildren()
	check(err)
	for _, child := range children {
		if child.IsDir() {
			text += child.Name() + ": [" + listed(child) + "] "
			continue
		}
		content, err := io.ReadAll(child.Reader())
		check(err)
		text += fmt.Sprintf("%s holds %q; ", child.Name(), content)
	}
	return text
}

func main() {
	writer, err := iso9660.NewWriter()
	check(err)
	for _, name := range names {
		check(writer.AddFile(strings.NewReader(name), name))
	}
	fmt.Println(strings.TrimSpace(written(writer)))

	device, err := diskfs.Create("diskfs.iso", 4<<20, diskfs.SectorSizeDefault)
	check(err)
	device.LogicalBlocksize = 2048
	made, err := device.CreateFilesystem(disk.FilesystemSpec{FSType: filesystem.TypeISO9660})
	check(err)
	for _, name := range names[:6] {
		file, err := made.OpenFile(filepath.Base(name), os.O_CREATE|os.O_RDWR)
		check(err)
		_, err = io.WriteString(file, name)
		check(err)
	}
	check(made.(*diskfsiso.FileSystem).Finalize(diskfsiso.FinalizeOptions{}))
	device.Close()
	image, err := os.Open("diskfs.iso")
	check(err)
	opened, err := iso9660.OpenImage(image)
	check(err)
	root, err := opened.RootDir()
	check(err)
	children, err := root.GetChildren()
	check(err)
	fmt.Printf("go-diskfs: %d files of 6\n", len(children))
}
GO
go build -o probe . 2> messages || { cat messages >&2; exit 1; }
seen=$(./probe)
mkdir source
for name in report-of-2026-december-{draft,final}.txt Makefile makefile "a b" a_b; do
    echo "$name" > "source/$name"
done
status=0
packages/usr/bin/genisoimage -quiet -o made.iso source 2> messages || status=$?
count=$(packages/usr/bin/isoinfo -f -i made.iso 2> messages | wc -l)
seen+=$'\n'"genisoimage: status $status, $count files of 6"
printf '%s\n' "$seen"
expected='a_b holds "a_b"; makefile holds "makefile"; '
expected+='one: [first holds "one/first"; second holds "One/second"; ] '
expected+='report-of-2026-december-.txt holds "report-of-2026-december-final.txt";
go-diskfs: 6 files of 6
genisoimage: status 0, 6 files of 6'
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
