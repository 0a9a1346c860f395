#!/usr/bin/env bash
# tables 3.11.1 (PyTables, PyPI) with numpy 2.4.6, Python 3.11.
#
# Guess: undo() to a mark leaves the file as it was at the mark.
# Seen: it takes back what happened to the tree: new, moved and removed nodes, and attributes.
# Values are not part of it. Rows that were appended to a table or an array stay, elements that were
# written over stay so, removed rows are not there again; redo() does not change that. No error and
# no warning. A node that was removed comes back with the values that it had when it was removed,
# not with those of the mark; so one undo() gives a state that never was, where an attribute that
# counts the rows no longer agrees with them.
# So undo() is for the tree alone. Who needs the data back too copies the node before
# (file.copy_node), or works on a copy of the file.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install tables==3.11.1 numpy==2.4.6
cat > "$dir/try.py" <<'PYTHON'
import sys

import tables


class Row(tables.IsDescription):
    number = tables.Int32Col()


file = tables.open_file(sys.argv[1], "w")
table = file.create_table("/", "table", Row)
table.append([(1,), (2,), (3,)])
table.attrs.rows = 3
array = file.create_array("/", "array", [1, 2, 3])
removed = file.create_earray("/", "removed", tables.Int32Atom(), (0,))
removed.append([1, 2, 3])


def tell(what):
    file.flush()
    root = file.root
    nodes = " ".join(sorted(node.name for node in file.iter_nodes("/")))
    gone = root.removed[:].tolist() if "removed" in root else "gone"
    print(f"{what}: {nodes}; table {root.table.col('number').tolist()}, its attribute "
          f"{root.table.attrs.rows}; array {root.array[:]}; removed {gone}")


file.enable_undo()
file.mark("mark")
tell("at the mark")
table.remove_rows(0, 1)
table.append([(4,), (5,)])
table.attrs.rows = 4
array[0] = 100
removed.append([4])
file.remove_node("/removed")
file.create_array("/", "new", [1])
tell("changed")
file.undo("mark")
tell("undone")
file.close()
PYTHON
seen=$("$dir/venv/bin/python" "$dir/try.py" "$dir/file.h5")
printf '%s\n' "$seen"
expected="at the mark: array removed table; table [1, 2, 3], its attribute 3; array [1, 2, 3]; removed [1, 2, 3]
changed: array new table; table [2, 3, 4, 5], its attribute 4; array [100, 2, 3]; removed gone
undone: array removed table; table [2, 3, 4, 5], its attribute 3; array [100, 2, 3]; removed [1, 2, 3, 4]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
