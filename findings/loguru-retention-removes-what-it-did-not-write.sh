#!/usr/bin/env bash
# loguru 0.7.3 (PyPI), Python 3.11, Linux.
#
# Guess: retention="10 days" of a log that is written to app.log removes old files of that log:
# those that the library itself has renamed, with a time in their names.
# Seen: every file of the folder goes whose name begins with "app." and has "log" as a part of its
# own between dots, whoever wrote it: another program's app.notes.log, app.2020.db.log and the copy
# of a configuration app.config.log.bak. apple.log and app.txt stay. No message says what was
# removed.
# So each log has a folder of its own.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install loguru==0.7.3
mkdir logs
cat > probe.py <<'PYTHON'
import os

from loguru import logger

os.chdir("logs")
names = ["app.notes.log", "app.2020.db.log", "app.config.log.bak", "app.log.txt"]
names += ["apple.log", "app.txt"]
for name in names:
    with open(name, "w") as file:
        file.write("not of the log")
    os.utime(name, (0, 0))
logger.remove()
logger.add("app.log", retention="10 days")
logger.info("a line")
logger.remove()
print("gone:", *[name for name in names if not os.path.exists(name)])
print("left:", *sorted(os.listdir(".")))
PYTHON
seen=$(venv/bin/python probe.py)
printf '%s\n' "$seen"
expected="gone: app.notes.log app.2020.db.log app.config.log.bak app.log.txt
left: app.log app.txt apple.log"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
