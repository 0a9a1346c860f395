#!/usr/bin/env bash
# gopkg.in/natefinch/lumberjack.v2 2.2.1 (Go).
#
# Guess: with MaxBackups and MaxAge at 0, which keep all old logs, no line is lost: each rotation
# gives the log another name, with its time in it, and would take the next free one or fail.
# Seen: the time has milliseconds, and the old log is renamed to it whatever is there. Two rotations
# in one millisecond, by Rotate or because MaxSize (1 MiB at least) is full, take one name, and the
# second replaces the first. No error is returned. On a fast disk a program that writes large
# records loses whole files when it is busiest, which is when the log would be read.
# So a name from a clock is made with O_EXCL or link(2), or has a number; with lumberjack MaxSize is
# so large that it takes far longer than a millisecond to fill.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.21
require gopkg.in/natefinch/lumberjack.v2 v2.2.1
MOD
cat > main.go <<'GO'
package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
)

const rounds = 200

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// left counts the lines in all files of a directory.
func left(dir string) int {
	count := 0
	names, err := os.ReadDir(dir)
	must(err)
	for _, name := range names {
		data, err := os.ReadFile(dir + "/" + name.Name())
		must(err)
		count += bytes.Count(data, []byte("\n"))
	}
	return count
}

// run writes one line a rotation and says what became of them.
func run(name string, line []byte, pause time.Duration, rotate bool) {
	dir, err := os.MkdirTemp(os.Args[1], "")
	must(err)
	log := &lumberjack.Logger{Filename: dir + "/log", MaxSize: 1}
	for i := 0; i < rounds; i++ {
		_, err := log.Write(line)
		must(err)
		if rotate {
			must(log.Rotate())
		}
		time.Sleep(pause)
	}
	must(log.Close())
	if lost := rounds - left(dir); lost > 0 {
		fmt.Printf("%s: lines are lost\n", name)
	} else {
		fmt.Printf("%s: all lines are there\n", name)
	}
	must(os.RemoveAll(dir))
}

func main() {
	short := []byte("line\n")
	long := append(bytes.Repeat([]byte("x"), 700<<10), '\n')
	run("Rotate, 3 ms apart", short, 3*time.Millisecond, true)
	run("Rotate at once", short, 0, true)
	run("MaxSize, 3 ms apart", long, 3*time.Millisecond, false)
	run("MaxSize, at once", long, 0, false)
}
GO
go build -o probe . 2> messages || { cat messages >&2; exit 1; }
memory=$(mktemp -d /dev/shm/XXXXXX)
trap 'rm -rf "$dir" "$memory"' EXIT
seen=$(./probe "$memory")
printf '%s\n' "$seen"
expected="Rotate, 3 ms apart: all lines are there
Rotate at once: lines are lost
MaxSize, 3 ms apart: all lines are there
MaxSize, at once: lines are lost"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
