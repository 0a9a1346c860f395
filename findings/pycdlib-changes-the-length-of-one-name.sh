#!/usr/bin/env bash
# pycdlib 1.22.0 (PyPI), Python 3.11; genisoimage and isoinfo of cdrkit 1.1.11 (package of Debian
# 12).
#
# Guess: InPlaceEditor.modify_file() gives a file of an image new contents. Where the image has a
# second name for the file (a hard link), that one has them too, or keeps the old ones.
# Seen: neither. The bytes are shared and are written over, but each name has a length of its own,
# and only one name gets the new one, with its Joliet twin, whichever name the file was changed by.
# By the other name a file that became shorter ends with the rest of the old contents, and one that
# became longer is cut. pycdlib reads it so itself, and isoinfo too; nothing is raised. genisoimage
# makes such images from every tree with hard links, so it needs no one who asked for them.
# So a file with more than one name is changed in place only to contents of the same length; for
# others the image is written anew.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download genisoimage=9:1.1.11-3.4
dpkg -x genisoimage_*.deb package
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install pycdlib==1.22.0
cat > try.py <<'PYTHON'
import io
import subprocess
import sys

import pycdlib


def read(image, **name):
    """What pycdlib reads by a name."""
    out = io.BytesIO()
    image.get_file_from_iso_fp(out, **name)
    return out.getvalue().decode()


def tell(what, *names):
    """Changes a file of the image by some of its names, and reads it by all."""
    for name, content in names:
        with pycdlib.InPlaceEditor("image") as editor:
            editor.modify_file(io.BytesIO(content), len(content), iso_path=name)
    image = pycdlib.PyCdlib()
    image.open("image")
    seen = {"one": read(image, rr_path="/one"), "two": read(image, rr_path="/two"),
            "Joliet one": read(image, joliet_path="/one")}
    image.close()
    other = subprocess.run([sys.argv[1], "-i", "image", "-R", "-x", "/two"],
                           check=True, capture_output=True, text=True).stdout
    print(f"{what}: {seen}, isoinfo two: {other}")


tell("as made")
tell("longer", ("/ONE.;1", b"much longer"))
tell("shorter", ("/ONE.;1", b"new"))
tell("by the other name", ("/TWO.;1", b"newer"))
PYTHON
mkdir tree
printf contents > tree/one
ln tree/one tree/two
package/usr/bin/genisoimage -quiet -J -R -o image tree
seen=$(venv/bin/python try.py package/usr/bin/isoinfo)
printf '%s\n' "$seen"
expected="as made: {'one': 'contents', 'two': 'contents', 'Joliet one': 'contents'}, isoinfo two: contents
longer: {'one': 'much longer', 'two': 'much lon', 'Joliet one': 'much longer'}, isoinfo two: much lon
shorter: {'one': 'new', 'two': 'newh lon', 'Joliet one': 'new'}, isoinfo two: newh lon
by the other name: {'one': 'newer', 'two': 'newerlon', 'Joliet one': 'newer'}, isoinfo two: newerlon"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
