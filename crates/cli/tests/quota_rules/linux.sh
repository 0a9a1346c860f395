#!/bin/bash
# Runs the rules on ext4 (/dev/ubda) and on XFS (/dev/ubdb) in a kernel of its own (User Mode Linux);
# the root is the machine's, OUT a directory of it, SCRIPTS where this file is.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
export TMPDIR=/run HERE=/run/top
mkdir "$HERE"
# Neither insmod nor a quota tool is called: programs start slowly here.
insert='open(F, q(<), shift) or die; my $none = q(); syscall(313, fileno(F), $none, 0) == 0 or die $!'
for module in quota_tree quota_v2; do
    perl -e "$insert" "/usr/lib/uml/modules/$(uname -r)/kernel/fs/quota/$module.ko"
done

# Answers "KIND ID" with what quotactl(Q_GETQUOTA) of the device says after syncfs. XFS frees
# unlinked inodes in the background: a freeze (FIFREEZE, FITHAW) waits until it has.
TELL='
    my ($device, $top) = @ARGV;
    my %kinds = (user => 0, group => 1, project => 2);
    $| = 1;
    while (<STDIN>) {
        my ($kind, $id) = split;
        opendir(my $open, $top) or die;
        syscall(306, fileno($open));
        for my $call (0xC0045877, 0xC0045878) {
            syscall(16, fileno($open), $call, 0) == 0 or die $!;
        }
        closedir($open);
        my $block = "\0" x 72;
        my $failed = syscall(179, (0x800007 << 8) | $kinds{$kind}, $device, $id + 0, $block);
        my @words = unpack("Q8", $block);
        print $failed ? "0 0\n" : int(($words[2] + 1023) / 1024) . " $words[5]\n";
    }'
used() {
    echo "$1 $2" >&9
    read -r line <&8
    echo "$line"
}
word() { case $1 in user) echo -u ;; group) echo -g ;; project) echo -P ;; esac; }
limit() { setquota "$(word "$1")" "$2" 0 "$3" 0 "$4" "$HERE"; }
soft() {
    setquota "$(word "$1")" -t 1 1 "$HERE"
    setquota "$(word "$1")" "$2" "$3" 0 0 0 "$HERE"
}
df_kib() { df -k --output=size "$1" | tail -1; }
settle() { :; }

measure() {
    mount -t "$1" -o "$2" "$3" "$HERE" || exit 1
    coproc TELLER { exec perl -e "$TELL" "$3" "$HERE"; }
    local teller=$TELLER_PID
    # A coprocess is out of reach of subshells.
    exec 8<&"${TELLER[0]}" 9>&"${TELLER[1]}"
    (. "$SCRIPTS/rules.sh")
    kill "$teller"
    wait "$teller"
    cd / && umount "$HERE"
}
measure ext4 usrquota,grpquota,prjquota /dev/ubda > "$OUT/ext4" 2> "$OUT/ext4.err"
measure xfs uquota,gquota,pquota /dev/ubdb > "$OUT/xfs" 2> "$OUT/xfs.err"
sync
echo o > /proc/sysrq-trigger
sleep 10
