//! What is true of the package where systemd runs.

/// Facts in their order, each with the script that fails if it is none.
type Facts = &'static [(&'static str, &'static str)];

/// How the system starts, and what is true until it goes down. What one leaves on its disk, the
/// next one finds.
pub const BOOTS: &[(&str, Facts)] = &[
    ("for the first time", FIRST),
    ("again, after an orderly end", SECOND),
    ("again, after all processes were killed", THIRD),
];

const FIRST: Facts = &[
    (
        "an installation starts and enables nothing",
        r#"
        for i in $(seq 200); do test ! -S /run/systemd/private || break; sleep 0.05; done
        test "$(systemctl is-system-running --wait)" = running
        dpkg --install /hearth.deb
        ! systemctl list-units --all --plain --no-legend | grep hearth
        ! systemctl is-enabled hearth@data
        systemctl cat hearth@data hearth-metrics > /dev/null
        "#,
    ),
    (
        "a unit is up when its mount works, and its messages are in the journal",
        r#"
        mkdir -p /srv/data /srv/files /srv/kept /srv/auto /srv/plain
        printf '%s\n' 'mountpoint = "/srv/data"' 'source = "host:/srv/files"' \
            'options = ["quota=background", "hot_track"]' > /etc/hearth/data.toml
        systemctl start hearth@data
        test "$(findmnt -n -o FSTYPE /srv/data)" = fuse.hearth
        echo text > /srv/data/file
        grep -q text /srv/files/file
        pid=$(systemctl show -P MainPID hearth@data)
        test "$(cat /srv/data/.hearth/pid)" = $pid
        grep -q '/hearth@data.service$' /proc/$pid/cgroup
        test -d /var/lib/hearth
        journalctl -u hearth@data | grep -q /srv/data
        "#,
    ),
    (
        "a daemon that is killed is started again, and its dead mount goes first",
        r#"
        pid=$(systemctl show -P MainPID hearth@data)
        systemctl kill --kill-whom=main --signal=KILL hearth@data
        for i in $(seq 100); do
            test "$(systemctl show -P NRestarts hearth@data)" != 1 || break
            sleep 0.1
        done
        systemctl start hearth@data
        test "$(systemctl show -P NRestarts hearth@data)" = 1
        test "$(cat /srv/data/.hearth/pid)" != $pid
        test "$(findmnt -n /srv/data | wc -l)" = 1
        test "$(cat /srv/data/file)" = text
        "#,
    ),
    (
        "a mistake in the file is named, and not tried again",
        r#"
        printf '%s\n' 'mountpoint = "/srv/wrong"' 'sourse = "memory:"' > /etc/hearth/wrong.toml
        ! systemctl start hearth@wrong
        test "$(systemctl show -P ExecMainStatus hearth@wrong)" = 2
        test "$(systemctl show -P NRestarts hearth@wrong)" = 0
        test "$(systemctl is-active hearth@wrong || true)" = failed
        journalctl -u hearth@wrong | grep -q "sourse.*source"
        rm /etc/hearth/wrong.toml
        systemctl reset-failed hearth@wrong
        "#,
    ),
    (
        "a store is whole after a stop, which waits for the daemon",
        r#"
        hearth mkfs store:/srv/volume
        printf '%s\n' 'mountpoint = "/srv/kept"' 'source = "store:/srv/volume"' \
            > /etc/hearth/kept.toml
        systemctl start hearth@kept
        pid=$(systemctl show -P MainPID hearth@kept)
        echo stopped > /srv/kept/file
        systemctl stop hearth@kept
        ! test -e /proc/$pid
        ! findmnt /srv/kept
        test "$(systemctl show -P Result hearth@kept)" = success
        hearth fsck store:/srv/volume
        systemctl start hearth@kept
        test "$(cat /srv/kept/file)" = stopped
        systemctl restart hearth@kept
        test "$(cat /srv/kept/file)" = stopped
        "#,
    ),
    (
        "a mount in use is detached by a stop, and started again beside its users",
        r#"
        exec 3> /srv/kept/open
        echo before >&3
        systemctl stop hearth@kept
        test "$(systemctl show -P Result hearth@kept)" = success
        ! findmnt /srv/kept
        exec 3>&-
        systemctl start hearth@kept
        test "$(cat /srv/kept/open)" = before
        "#,
    ),
    (
        "an upgrade touches no unit that runs",
        r#"
        pid=$(systemctl show -P MainPID hearth@data)
        exec 3>> /srv/data/file
        dpkg --install /hearth.deb
        test "$(systemctl show -P MainPID hearth@data)" = $pid
        test "$(cat /srv/data/.hearth/pid)" = $pid
        echo more >&3; exec 3>&-
        grep -q more /srv/files/file
        systemctl restart hearth@data
        test "$(realpath /proc/$(systemctl show -P MainPID hearth@data)/exe)" = /usr/bin/hearth
        "#,
    ),
    (
        "metrics are served by their unit, of all units' mounts",
        r#"
        systemctl start hearth-metrics
        for i in $(seq 100); do
            { exec 3<> /dev/tcp/127.0.0.1/9749; } 2> /dev/null && break || sleep 0.1
        done
        printf 'GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n' >&3
        cat <&3 > /tmp/page; exec 3>&-
        grep -q '^hearth_up{mount="/srv/data"} 1' /tmp/page
        grep -q '^hearth_up{mount="/srv/kept"} 1' /tmp/page
        systemctl stop hearth-metrics
        test "$(systemctl show -P Result hearth-metrics)" = success
        "#,
    ),
    (
        "a line of fstab with x-systemd.automount mounts at the first access",
        r#"
        hearth mkfs store:/srv/second
        echo 'store:/srv/second /srv/auto hearth x-systemd.automount,hot_track 0 0' > /etc/fstab
        echo 'memory: /srv/plain hearth nofail,size=64m 0 0' >> /etc/fstab
        if test -e /dev/autofs; then
            systemctl daemon-reload
            systemctl start srv-auto.automount
            ! systemctl is-active srv-auto.mount
            test "$(findmnt -n -o FSTYPE /srv/auto)" = autofs
        else
            echo 'this kernel is built without autofs: the mount of fstab is started by its unit'
            sed -i 's/x-systemd.automount/rw/' /etc/fstab
            systemctl daemon-reload
            systemctl start srv-auto.mount
        fi
        echo first > /srv/auto/file
        systemctl is-active srv-auto.mount
        findmnt -n -o FSTYPE /srv/auto | grep -qx fuse.hearth
        grep -q '/srv-auto.mount$' /proc/$(cat /srv/auto/.hearth/pid)/cgroup
        "#,
    ),
    (
        "systemctl reload remounts with the options of fstab, while files are open",
        r#"
        has() { findmnt -n -t fuse.hearth -o VFS-OPTIONS /srv/auto | tr , '\n' | grep -qx $1; }
        pid=$(cat /srv/auto/.hearth/pid)
        exec 3> /srv/auto/open
        ! has noexec
        sed -i 's/,hot_track/,noexec,no_hot_track/' /etc/fstab
        systemctl daemon-reload
        systemctl reload srv-auto.mount
        has noexec
        test "$(cat /srv/auto/.hearth/sys/fs/hot-track)" = 0
        echo open >&3; exec 3>&-
        test "$(cat /srv/auto/open)" = open
        sed -i 's/,no_hot_track/,nosuchoption/' /etc/fstab
        systemctl daemon-reload
        ! systemctl reload srv-auto.mount
        journalctl -u srv-auto.mount | grep -q "unknown mount option 'nosuchoption'"
        sed -i 's/,nosuchoption//' /etc/fstab
        systemctl daemon-reload
        test "$(cat /srv/auto/.hearth/pid)" = $pid
        "#,
    ),
    (
        "a mount unit stops and comes back at the next access, also after a kill",
        r#"
        pid=$(cat /srv/auto/.hearth/pid)
        systemctl stop srv-auto.mount
        # umount(8) does not wait for the daemon.
        for i in $(seq 300); do test -e /proc/$pid || break; sleep 0.1; done
        ! test -e /proc/$pid
        if test -e /dev/autofs; then
            test "$(findmnt -n -o FSTYPE /srv/auto)" = autofs
            systemctl is-active srv-auto.automount
        else
            ! findmnt /srv/auto
            systemctl start srv-auto.mount
        fi
        test "$(cat /srv/auto/file)" = first
        kill -9 $(cat /srv/auto/.hearth/pid)
        ! cat /srv/auto/file
        systemctl restart srv-auto.mount
        test "$(cat /srv/auto/file)" = first
        "#,
    ),
    (
        "the system goes down with everything mounted",
        r#"
        systemctl enable hearth@data hearth@kept
        printf '%s\n' '[Unit]' 'Requires=hearth@kept.service' 'After=hearth@kept.service' \
            '[Service]' 'Type=oneshot' 'ExecStart=/bin/cp /srv/kept/down /run/seen' \
            '[Install]' 'WantedBy=multi-user.target' > /etc/systemd/system/user.service
        systemctl enable user
        for mount in data kept auto; do echo down > /srv/$mount/down; done
        echo 'goes down' | systemd-cat
        systemctl poweroff
        "#,
    ),
];

const SECOND: Facts = &[
    (
        "the next boot mounts what is enabled, before what needs it",
        r#"
        for i in $(seq 200); do test ! -S /run/systemd/private || break; sleep 0.05; done
        test "$(systemctl is-system-running --wait)" = running
        for mount in data kept plain; do
            test "$(findmnt -n -o FSTYPE /srv/$mount)" = fuse.hearth
        done
        test "$(cat /run/seen)" = down
        for mount in data kept auto; do test "$(cat /srv/$mount/down)" = down; done
        # No daemon was killed on the way down, which the journal has seen.
        journalctl --boot=-1 | sed -n '/goes down/,$p' > /tmp/down
        grep 'Stopped hearth@kept.service' /tmp/down
        ! grep -E 'hearth.*(SIGKILL|timed out)|status=9/KILL' /tmp/down
        "#,
    ),
    (
        "what is durable stands when all processes end at once",
        r#"
        for mount in data kept auto; do
            echo cut > /srv/$mount/cut
            sync /srv/$mount/cut
        done
        # Process 1 of this system, and so all of them.
        systemctl poweroff --force --force
        "#,
    ),
];

const THIRD: Facts = &[
    (
        "the mounts are back with what was synced",
        r#"
        for i in $(seq 200); do test ! -S /run/systemd/private || break; sleep 0.05; done
        test "$(systemctl is-system-running --wait)" = running
        for mount in data kept auto; do test "$(cat /srv/$mount/cut)" = cut; done
        "#,
    ),
    (
        "a removal stops the metrics and leaves the mounts, which umount(8) ends",
        r#"
        systemctl start hearth-metrics
        pid=$(systemctl show -P MainPID hearth@kept)
        dpkg --remove hearth
        ! systemctl is-active hearth-metrics
        test "$(cat /srv/kept/cut)" = cut
        umount /srv/kept /srv/data /srv/plain /srv/auto
        for i in $(seq 300); do ! test -e /proc/$pid && break; sleep 0.1; done
        ! test -e /proc/$pid
        systemctl poweroff
        "#,
    ),
];
