#!/usr/bin/env bash
# github.com/dgraph-io/badger/v4 4.9.6 (Go).
#
# Guess: transactions of badger are serializable, so a transaction that has scanned a prefix is
# refused at its commit when another one has put a key there meanwhile.
# Seen: only single keys are remembered: those that Get asked for, found or not, and those of a scan
# whose Item() was called. Two transactions that both find a prefix empty and both write a key of
# their own under it both commit; with Get of the other's key one is refused. A scan that counts
# with Valid and Next alone leaves no mark even for keys that are there: two transactions that each
# count two keys and delete one of them both commit, and none is left.
# So "nobody has registered yet", "fewer than N", "at least one stays" are not safe with a scan in
# the transaction; it has to Get and Set one key that stands for the whole range, a counter, say.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.21
require github.com/dgraph-io/badger/v4 v4.9.6
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"

	badger "github.com/dgraph-io/badger/v4"
)

// check stops at what must not happen here.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// scan counts the keys under a prefix and does something with each.
func scan(each func(*badger.Iterator)) func(*badger.Txn, string, string) int {
	return func(txn *badger.Txn, prefix, _ string) int {
		options := badger.DefaultIteratorOptions
		options.Prefix = []byte(prefix)
		iterator := txn.NewIterator(options)
		defer iterator.Close()
		count := 0
		for iterator.Rewind(); iterator.Valid(); iterator.Next() {
			each(iterator)
			count++
		}
		return count
	}
}

func get(txn *badger.Txn, prefix, other string) int {
	if _, err := txn.Get([]byte(prefix + other)); err != nil {
		return 0
	}
	return 1
}

func main() {
	db, err := badger.Open(badger.DefaultOptions(os.Args[1]).WithLogger(nil))
	check(err)
	defer db.Close()
	for _, way := range []struct {
		name string
		look func(*badger.Txn, string, string) int
	}{
		{"get", get},
		{"scan with values", scan(func(iterator *badger.Iterator) {
			_, err := iterator.Item().ValueCopy(nil)
			check(err)
		})},
		{"scan that counts", scan(func(*badger.Iterator) {})},
	} {
		for _, start := range []string{"empty", "full"} {
			prefix := way.name + start + "/"
			if start == "full" {
				check(db.Update(func(txn *badger.Txn) error {
					check(txn.Set([]byte(prefix+"1"), nil))
					return txn.Set([]byte(prefix+"2"), nil)
				}))
			}
			// Each looks first, then writes or removes its own key.
			one, two := db.NewTransaction(true), db.NewTransaction(true)
			seen := []int{way.look(one, prefix, "2"), way.look(two, prefix, "1")}
			if start == "empty" {
				check(one.Set([]byte(prefix+"1"), nil))
				check(two.Set([]byte(prefix+"2"), nil))
			} else {
				check(one.Delete([]byte(prefix + "1")))
				check(two.Delete([]byte(prefix + "2")))
			}
			committed := []bool{one.Commit() == nil, two.Commit() == nil}
			fmt.Printf("%s, %s: seen %v, committed %v\n", way.name, start, seen, committed)
		}
	}
}
GO
seen=$(go run . "$dir/db" 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="get, empty: seen [0 0], committed [true false]
get, full: seen [1 1], committed [true false]
scan with values, empty: seen [0 0], committed [true true]
scan with values, full: seen [2 2], committed [true false]
scan that counts, empty: seen [0 0], committed [true true]
scan that counts, full: seen [2 2], committed [true true]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
