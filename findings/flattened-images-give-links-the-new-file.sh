#!/usr/bin/env bash
# github.com/google/go-containerregistry 0.22.1 (Go), Extract of its package mutate, GNU tar 1.34
# (Debian 12).
#
# Guess: an image whose layers are put together to one tar archive holds what a container of it
# shows: the layers one over the other. A file that a later layer replaces or removes leaves the
# other names (hard links) that the old one had alone.
# Seen: Extract takes the layers from the last to the first and leaves out what a later one has
# replaced. The second name is still written as a link to the first one, which is the new file now:
# tar gives both the new contents, with status 0, and the old ones are in no place of the archive.
# Where the first name was removed, the link points to nothing; tar says so, with status 2, and the
# second name is missing.
# So which of two names is damaged depends on the order in the lower layer's archive: the name that
# has the contents there must not change later. Images with linked files (git, busybox, package
# stores) are taken out layer by layer, in order, into one directory. Whoever leaves the first name
# of a link out of an archive has to move its contents to the next one.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
mkdir layer-1 layer-2 one flat
for name in replaced removed; do
    echo old > "layer-1/$name"
    ln "layer-1/$name" "layer-1/second-name-of-$name"
done
echo new > layer-2/replaced
: > layer-2/.wh.removed
tar --sort=name -C layer-1 -cf layer-1.tar .
tar --sort=name -C layer-2 -cf layer-2.tar .
cat > go.mod <<'MOD'
module probe
go 1.25
require github.com/google/go-containerregistry v0.22.1
MOD
cat > main.go <<'GO'
package main

import (
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// The layers are given as tar archives, the lowest first; the image goes to standard output.
func main() {
	image := empty.Image
	for _, name := range os.Args[1:] {
		layer, err := tarball.LayerFromFile(name)
		must(err)
		image, err = mutate.AppendLayers(image, layer)
		must(err)
	}
	flat := mutate.Extract(image)
	_, err := io.Copy(os.Stdout, flat)
	must(err)
	must(flat.Close())
}
GO
go build -o probe . 2> messages || { cat messages >&2; exit 1; }
./probe layer-1.tar > one.tar
./probe layer-1.tar layer-2.tar > flat.tar
tell() { # ARCHIVE DIRECTORY: what comes out of it
    local status=0 name
    tar -C "$2" -xf "$1" 2> messages || status=$?
    echo "$1: tar ends with status $status"
    for name in replaced second-name-of-replaced removed second-name-of-removed; do
        echo "    $name: $(cat "$2/$name" 2>/dev/null || echo "not there")"
    done
}
seen=$(tell one.tar one && tell flat.tar flat)
printf '%s\n' "$seen"
expected="one.tar: tar ends with status 0
    replaced: old
    second-name-of-replaced: old
    removed: old
    second-name-of-removed: old
flat.tar: tar ends with status 2
    replaced: new
    second-name-of-replaced: new
    removed: not there
    second-name-of-removed: not there"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
