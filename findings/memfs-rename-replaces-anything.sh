#!/usr/bin/env bash
# memfs 4.80.1 (npm), Node.js; beside it node:fs on a local filesystem.
#
# Guess: the rename of a file system in memory that stands in for node:fs in tests refuses what
# rename(2) refuses, and renames a symbolic link and not what it points to.
# Seen: it refuses nothing. A directory replaces a directory that is not empty, whose files are gone
# without an error; a directory replaces a file and a file a directory; a directory moved below
# itself is no longer to be found, with all it held. Renaming a symbolic link moves its target and
# leaves the link behind, broken. Renaming one hard link onto another takes a name away, where
# rename(2) does nothing. A descriptor that was opened for reading can be written.
# So code that publishes by rename (a lock directory, an atomic replacement, a trash) is not tested
# by memfs: the case that must fail succeeds there. Such tests want a temporary directory.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund memfs@4.80.1 > /dev/null
cat > probe.cjs <<'JS'
const node = require("node:fs");
const { Volume, createFsFromVolume } = require("memfs");

/** What each case comes to, on one file system, below one directory. */
function cases(fs, root) {
  const at = (name) => `${root}/${name}`;
  const lines = [];
  const see = (name, run) => {
    let seen;
    try {
      seen = run();
    } catch (error) {
      seen = error.code;
    }
    lines.push(`${name}: ${seen}`);
  };
  const directory = (name) => {
    fs.mkdirSync(at(name), { recursive: true });
    fs.writeFileSync(at(`${name}/inside`), "data");
  };
  const file = (name) => fs.writeFileSync(at(name), "data");
  const rename = (from, to) => fs.renameSync(at(from), at(to));
  fs.mkdirSync(root, { recursive: true });

  see("onto a full directory", () => {
    directory("full");
    fs.mkdirSync(at("empty"));
    rename("empty", "full");
    return `${fs.readdirSync(at("full")).length} names left`;
  });
  see("directory onto a file", () => {
    directory("moved");
    file("plain");
    rename("moved", "plain");
    return "done";
  });
  see("file onto a directory", () => {
    file("text");
    directory("taken");
    rename("text", "taken");
    return "done";
  });
  see("below itself", () => {
    directory("tree");
    rename("tree", "tree/below");
    return fs.existsSync(at("tree")) ? "done" : "the tree is gone";
  });
  see("of a symbolic link", () => {
    file("target");
    fs.symlinkSync("target", at("link"));
    rename("link", "link2");
    return `target ${fs.existsSync(at("target")) ? "there" : "gone"}`;
  });
  see("of one hard link onto another", () => {
    file("one");
    fs.linkSync(at("one"), at("two"));
    rename("one", "two");
    return `first name ${fs.existsSync(at("one")) ? "there" : "gone"}`;
  });
  see("write to a descriptor for reading", () => {
    file("read");
    fs.writeSync(fs.openSync(at("read"), "r"), "changed");
    return "done";
  });
  return lines;
}

for (const line of cases(node, `${process.cwd()}/node`)) console.log(`node, ${line}`);
for (const line of cases(createFsFromVolume(new Volume()), "/memory")) console.log(`memfs, ${line}`);
JS
seen=$(node probe.cjs)
printf '%s\n' "$seen"
expected="node, onto a full directory: ENOTEMPTY
node, directory onto a file: ENOTDIR
node, file onto a directory: EISDIR
node, below itself: EINVAL
node, of a symbolic link: target there
node, of one hard link onto another: first name there
node, write to a descriptor for reading: EBADF
memfs, onto a full directory: 0 names left
memfs, directory onto a file: done
memfs, file onto a directory: done
memfs, below itself: the tree is gone
memfs, of a symbolic link: target gone
memfs, of one hard link onto another: first name gone
memfs, write to a descriptor for reading: done"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
