#!/usr/bin/env bash
# github.com/spf13/afero 1.15.0 (Go), CopyOnWriteFs over a read-only base.
#
# Guess: a copy-on-write union either hides a file of the base that is removed, as overlayfs does,
# or fails to remove it.
# Seen: it depends. Remove of a file that only the base has fails. RemoveAll of a directory of the
# base returns nil and removes nothing. Remove of a file that has been changed returns nil, and the
# name is still there, with the contents from before the change. Rename of a changed file returns
# nil too: the new name has the new contents, the old name has the old ones again.
# So after a remove or a rename that succeeded the caller has a file that it believes gone, and a
# configuration or lock of yesterday is in force. Nothing that removes or renames belongs on this
# layer, unless every name it may touch was created above the base.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.21
require github.com/spf13/afero v1.15.0
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"

	"github.com/spf13/afero"
)

// union is a fresh layer over a base with three files.
func union() afero.Fs {
	base := afero.NewMemMapFs()
	for _, name := range []string{"/etc/one", "/etc/two", "/etc/sub/three"} {
		write(base, name, "base")
	}
	return afero.NewCopyOnWriteFs(afero.NewReadOnlyFs(base), afero.NewMemMapFs())
}

func write(fs afero.Fs, name, text string) {
	if err := afero.WriteFile(fs, name, []byte(text), 0o644); err != nil {
		panic(err)
	}
}

func show(what string, err error, fs afero.Fs, names ...string) {
	said := "nil"
	if err != nil {
		said = "an error"
	}
	fmt.Printf("%s returned %s;", what, said)
	for _, name := range names {
		text, err := afero.ReadFile(fs, name)
		if err != nil {
			text = []byte("gone")
		}
		fmt.Printf(" %s: %s", name, text)
	}
	fmt.Println()
}

func main() {
	fs := union()
	show("Remove of base", fs.Remove("/etc/one"), fs, "/etc/one")
	show("RemoveAll of base", fs.RemoveAll("/etc/sub"), fs, "/etc/sub/three")
	write(fs, "/etc/one", "changed")
	show("Remove of changed", fs.Remove("/etc/one"), fs, "/etc/one")
	write(fs, "/etc/two", "changed")
	show("Rename of changed", fs.Rename("/etc/two", "/etc/new"), fs, "/etc/two", "/etc/new")
}
GO
seen=$(go run . 2> log) || { cat log >&2; exit 1; }
printf '%s\n' "$seen"
expected="Remove of base returned an error; /etc/one: base
RemoveAll of base returned nil; /etc/sub/three: base
Remove of changed returned nil; /etc/one: base
Rename of changed returned nil; /etc/two: base /etc/new: changed"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
