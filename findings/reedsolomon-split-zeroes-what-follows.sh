#!/usr/bin/env bash
# github.com/klauspost/reedsolomon 1.14.2 (Go).
#
# Guess: Split(data) reads the bytes that it is given: the shards are slices of it, or copies where
# padding is needed. What lies behind the slice in the caller's buffer is not its business.
# Seen: Split looks at cap, not at len. A slice of a larger buffer (a record in a block that was
# read, a chunk in a ring) is stretched over what follows it: that is set to zeros at once, as
# padding and as room for the parity shards, and Encode then writes the parity there. No error, and
# Verify is content: the shards are right, it is the neighbour that is gone.
# So a slice goes in with its end closed, data[a:b:b], or as a copy. Whoever writes an interface
# that borrows slices in Go says whether it keeps to len.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.24
require github.com/klauspost/reedsolomon v1.14.2
MOD
cat > main.go <<'GO'
package main

import (
	"bytes"
	"fmt"

	"github.com/klauspost/reedsolomon"
)

// block is 64 bytes, no two alike: eight records of eight bytes each, A to H.
func block() []byte {
	all := make([]byte, 64)
	for i := range all {
		all[i] = byte(3*i + 1)
	}
	return all
}

// intact says which records of a block are as block has made them.
func intact(all []byte) string {
	var names []byte
	for at := 0; at < len(all); at += 8 {
		if bytes.Equal(all[at:at+8], block()[at:at+8]) {
			names = append(names, byte('A'+at/8))
		}
	}
	return string(names)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	coder, err := reedsolomon.New(4, 2)
	must(err)
	for _, closed := range []bool{false, true} {
		all := block()
		record := all[8:24] // B and C
		if closed {
			record = all[8:24:24]
		}
		shards, err := coder.Split(record)
		must(err)
		fmt.Printf("end closed %v, after Split: %s\n", closed, intact(all))
		must(coder.Encode(shards))
		ok, err := coder.Verify(shards)
		must(err)
		fmt.Printf("end closed %v, after Encode: %s, verified %v\n", closed, intact(all), ok)
		fmt.Printf("end closed %v, parity in the record behind: %v\n",
			closed, bytes.Equal(all[24:28], shards[4]))
	}
}
GO
seen=$(go run . 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="end closed false, after Split: ABCEFGH
end closed false, after Encode: ABCEFGH, verified true
end closed false, parity in the record behind: true
end closed true, after Split: ABCDEFGH
end closed true, after Encode: ABCDEFGH, verified true
end closed true, parity in the record behind: false"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
