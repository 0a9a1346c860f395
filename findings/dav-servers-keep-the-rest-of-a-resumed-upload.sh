#!/usr/bin/env bash
# golang.org/x/net 0.62.0 (its webdav; Go), rclone 1.60.1 (serve webdav), lighttpd 1.4.69 with
# mod_webdav (packages of Debian 12), webdav-server 2.6.3 (npm), wsgidav 4.4.0 with cheroot 11.1.2
# (PyPI), curl, Linux.
#
# Guess: an upload that is resumed with curl -C OFFSET -T FILE sends the rest with Content-Range. A
# server of WebDAV that does not write into the middle of files refuses such a PUT: HTTP demands it
# (status 400), and as a whole file the rest would be wrong.
# Seen: lighttpd and wsgidav refuse. The other three pass over the header, replace the file with the
# rest and answer 200 or 201; curl ends with status 0. What had been uploaded before is gone, and
# the file has the size of what was still to be sent. "curl -C -" does not help: it does not look at
# what the server has, starts at 0 and sends all of it again.
# So an upload to these is never resumed, and one that was is compared with its source by size.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
servers=()
finish() {
    [ ${#servers[@]} = 0 ] || kill "${servers[@]}" 2> /dev/null || true
    wait
    rm -rf "$dir"
}
trap finish EXIT
cd "$dir"
chmod 755 .
apt-get -qq download rclone=1.60.1+dfsg-2+b5 lighttpd=1.4.69-1 lighttpd-mod-webdav=1.4.69-1
for package in *.deb; do dpkg -x "$package" packages; done
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install wsgidav==4.4.0 cheroot==11.1.2
npm install --silent --no-audit --no-fund webdav-server@2.6.3 > messages 2>&1 ||
    { cat messages; exit 1; }
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.24
require golang.org/x/net v0.62.0
MOD
cat > main.go <<'GO'
package main

import (
	"net/http"
	"os"

	"golang.org/x/net/webdav"
)

func main() {
	files := webdav.Dir(os.Args[2])
	handler := &webdav.Handler{FileSystem: files, LockSystem: webdav.NewMemLS()}
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], handler))
}
GO
go build -o go-webdav . 2> messages || { cat messages >&2; exit 1; }
cat > serve.js <<'JAVASCRIPT'
const { WebDAVServer, PhysicalFileSystem } = require('webdav-server').v2;
const server = new WebDAVServer({ hostname: '127.0.0.1', port: Number(process.argv[2]) });
server.setFileSystem('/', new PhysicalFileSystem(process.argv[3]), () => server.start(() => {}));
JAVASCRIPT
free_port() {
    python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])'
}
head -c 10000 /dev/urandom > source
told() { # NAME COMMAND...: runs a server (PORT and FILES are replaced) and resumes an upload
    local name=$1 port status what
    port=$(free_port)
    mkdir "files-$name"
    shift
    "${@//PORT/$port}" > messages-"$name" 2>&1 &
    servers+=($!)
    for _ in $(seq 100); do
        curl -s -o page "http://127.0.0.1:$port/" && break
        sleep 0.2
    done
    curl -sf -o page -T <(head -c 4000 source) "http://127.0.0.1:$port/file" # all that got through
    status=$(curl -s -o page -w '%{http_code}' -C 4000 -T source "http://127.0.0.1:$port/file")
    cmp -s <(tail -c 6000 source) "files-$name/file" && what="the rest alone" || what="as before"
    seen+="$name: answer $status, $(stat -c %s "files-$name/file") bytes, $what"$'\n'
}
cat > lighttpd.conf <<CONF
server.document-root = "$dir/files-lighttpd"
server.bind = "127.0.0.1"
server.modules = ("mod_webdav")
server.upload-dirs = ("$dir")
webdav.activate = "enable"
CONF
seen=
told lighttpd sh -c "echo server.port = PORT >> lighttpd.conf
    exec packages/usr/sbin/lighttpd -D -f lighttpd.conf -m packages/usr/lib/lighttpd"
told wsgidav venv/bin/wsgidav --host 127.0.0.1 -p PORT -r files-wsgidav --auth anonymous -q
told go-webdav ./go-webdav PORT files-go-webdav
told rclone env HOME="$dir" packages/usr/bin/rclone serve webdav --addr 127.0.0.1:PORT files-rclone
told npm node serve.js PORT files-npm
printf '%s' "$seen"
expected="lighttpd: answer 400, 4000 bytes, as before
wsgidav: answer 400, 4000 bytes, as before
go-webdav: answer 201, 6000 bytes, the rest alone
rclone: answer 201, 6000 bytes, the rest alone
npm: answer 200, 6000 bytes, the rest alone
"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
