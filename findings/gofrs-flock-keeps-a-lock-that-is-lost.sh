#!/usr/bin/env bash
# github.com/gofrs/flock 0.13.2 (Go), Linux.
#
# Guess: TryLock on a lock that is held shared either makes it exclusive or leaves it shared, and
# RLocked() tells which.
# Seen: flock(2) gives up the shared lock before it tries for the exclusive one. When another holder
# is in the way, TryLock returns false without an error, and the shared lock is gone; RLocked()
# still says true, and TryRLock returns true without asking the kernel. The other holder now gets
# its exclusive lock and writes, while the first one goes on reading as if it were protected.
# So after a TryLock that was refused the holder unlocks and locks again before it trusts anything
# that it has read; better not to upgrade at all, but to take a second lock file for writers.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.21
require github.com/gofrs/flock v0.13.2
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/gofrs/flock"
)

// got is the answer of a call that must not fail.
func got(ok bool, err error) bool {
	if err != nil {
		panic(err)
	}
	return ok
}

func main() {
	one, two := flock.New(os.Args[1]), flock.New(os.Args[1])
	fmt.Println("both shared:", got(one.TryRLock()), got(two.TryRLock()))
	fmt.Println("one wants all:", got(one.TryLock()))
	fmt.Println("two wants all:", got(two.TryLock()))
	fmt.Println("two has all:", two.Locked())
	fmt.Println("one believes it shares:", one.RLocked(), got(one.TryRLock()))
	third := flock.New(os.Args[1])
	fmt.Println("a third one shares:", got(third.TryRLock()))
}
GO
seen=$(go run . "$dir/lock" 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="both shared: true true
one wants all: false
two wants all: true
two has all: true
one believes it shares: true true
a third one shares: false"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
