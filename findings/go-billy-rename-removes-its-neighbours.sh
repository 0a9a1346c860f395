#!/usr/bin/env bash
# github.com/go-git/go-billy/v5 5.9.2 (Go), memfs and osfs.
#
# Guess: Rename of one file moves that file. Its neighbours stay, in memory as on disk.
# Seen: memfs takes every path that starts with the letters of the old name for something below it,
# without a separator between. From "work/log" to "work/new" it also "moves" work/log.1 and
# work/logs/x, each onto itself, and then deletes the old place: both are gone, and Rename returns
# no error. To another directory, "old/log", work/log.1 goes along and is old/log.1 afterwards.
# osfs moves the one file. The 6.0.0-beta.1 of the same module does right what goes to another
# directory.
# So log rotation, "write to a temporary name, then rename" with names such as state and state.tmp,
# and worktrees of go-git in memory lose files. Until 6.0: rename only names that no other name in
# the directory starts with, or read, write and remove instead.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.23
require github.com/go-git/go-billy/v5 v5.9.2
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-billy/v5/util"
)

var names = []string{"log", "log.1", "logs/x", "new", "other"}

// check stops at what must not happen here.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// after makes files, renames one of them, and tells where something can be read.
func after(fs billy.Filesystem, to string) string {
	for _, name := range []string{"log", "log.1", "logs/x", "other"} {
		check(util.WriteFile(fs, "work/"+name, []byte(name), 0o644))
	}
	check(fs.Rename("work/log", to))
	var seen []string
	for _, parent := range []string{"work/", "old/"} {
		for _, name := range names {
			// The contents of the directory end up here or there, by chance.
			if to == "old/log" && name == "logs/x" {
				continue
			}
			if content, err := util.ReadFile(fs, parent+name); err == nil {
				seen = append(seen, parent+name+"="+string(content))
			}
		}
	}
	return strings.Join(seen, " ")
}

func main() {
	for _, to := range []string{"work/new", "old/log"} {
		base, err := os.MkdirTemp(os.Args[1], "")
		check(err)
		fmt.Printf("on disk, to %s: %s\n", to, after(osfs.New(base), to))
		// The order of a map is one of chance, so it is tried several times.
		seen := map[string]bool{}
		for range 50 {
			seen[after(memfs.New(), to)] = true
		}
		for result := range seen {
			fmt.Printf("in memory, to %s: %s\n", to, result)
		}
	}
}
GO
seen=$(go run . "$dir" 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="on disk, to work/new: work/log.1=log.1 work/logs/x=logs/x work/new=log work/other=other
in memory, to work/new: work/new=log work/other=other
on disk, to old/log: work/log.1=log.1 work/other=other old/log=log
in memory, to old/log: work/other=other old/log=log old/log.1=log.1"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
