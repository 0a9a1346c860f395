#!/usr/bin/env bash
# github.com/nutsdb/nutsdb 1.0.4 (Go).
#
# Guess: a transaction of nutsdb sees its own writes, as in bbolt and badger, and of two writes to a
# key the second one counts.
# Seen: of two Put of one key in a transaction the first one wins, and the second returns no error
# either. Only Get sees what was put. Two LPop give the same item twice and remove two at the
# commit: the second one is gone and nobody had it. Of two Append (or Incr, GetSet) only the
# first remains, Delete of a key that was just put is "key not found" and leaves it there, GetAll
# and PrefixScan show the state before.
# So a transaction has one call for each key, list or set; who needs two takes two transactions.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.24
require github.com/nutsdb/nutsdb v1.0.4
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/nutsdb/nutsdb"
)

const bucket = "bucket"

var key = []byte("key")

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func text(value []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(value)
}

// transaction changes a new store that has the key in each kind of bucket, and tells the rest.
func transaction(name string, change func(tx *nutsdb.Tx) string) {
	dir, err := os.MkdirTemp(".", "store")
	check(err)
	db, err := nutsdb.Open(nutsdb.DefaultOptions, nutsdb.WithDir(dir))
	check(err)
	check(db.Update(func(tx *nutsdb.Tx) error {
		check(tx.NewBucket(nutsdb.DataStructureBTree, bucket))
		return tx.NewBucket(nutsdb.DataStructureList, bucket)
	}))
	check(db.Update(func(tx *nutsdb.Tx) error {
		for _, item := range []string{"a", "b", "c"} {
			check(tx.RPush(bucket, key, []byte(item)))
		}
		return tx.Put(bucket, key, []byte("1"), 0)
	}))
	var told string
	check(db.Update(func(tx *nutsdb.Tx) error {
		told = change(tx)
		return nil
	}))
	check(db.View(func(tx *nutsdb.Tx) error {
		list, err := tx.LRange(bucket, key, 0, -1)
		check(err)
		fmt.Printf("%s: %s; then key %s, new %s, list %s\n", name, told,
			text(tx.Get(bucket, key)), text(tx.Get(bucket, []byte("new"))), list)
		return nil
	}))
	check(db.Close())
}

func main() {
	transaction("LPop", func(tx *nutsdb.Tx) string {
		return text(tx.LPop(bucket, key)) + " " + text(tx.LPop(bucket, key))
	})
	transaction("Append", func(tx *nutsdb.Tx) string {
		return fmt.Sprint(tx.Append(bucket, key, []byte("2")), tx.Append(bucket, key, []byte("3")))
	})
	for _, name := range []string{"key", "new"} {
		transaction("Put "+name, func(tx *nutsdb.Tx) string {
			check(tx.Put(bucket, []byte(name), []byte("one"), 0))
			check(tx.Put(bucket, []byte(name), []byte("two"), 0))
			_, all, err := tx.GetAll(bucket)
			check(err)
			return fmt.Sprintf("Get %s, GetAll %s", text(tx.Get(bucket, []byte(name))), all)
		})
	}
	transaction("Delete of new", func(tx *nutsdb.Tx) string {
		check(tx.Put(bucket, []byte("new"), []byte("one"), 0))
		return fmt.Sprint(tx.Delete(bucket, []byte("new")))
	})
}
GO
go build -o probe . 2> messages || { cat messages >&2; exit 1; }
seen=$(./probe)
printf '%s\n' "$seen"
expected="LPop: a a; then key 1, new key not found, list [c]
Append: <nil> <nil>; then key 12, new key not found, list [a b c]
Put key: Get one, GetAll [1]; then key one, new key not found, list [a b c]
Put new: Get one, GetAll [1]; then key 1, new one, list [a b c]
Delete of new: key not found; then key 1, new one, list [a b c]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
