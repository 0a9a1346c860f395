# What a quota counts and refuses, one rule a line of output: name, blocks of 1 KiB, inodes, outcome,
# with tabs between. Runs as root in an empty filesystem of any kind with quotas on.
#
# Before it is read: HERE, the top of the filesystem; `used KIND ID`, which prints "KIB INODES";
# `limit KIND ID KIB INODES`, hard limits; `soft KIND ID KIB`, with a grace period of one second;
# `df_kib DIR`; `settle`, after which nothing is delayed any more, unless `used` sees to that.

set -u
export LC_ALL=C RUN
RUN=$(mktemp -d)
chmod 777 "$RUN"
USER_ID=1234
COUNT=0

# A new directory of the user, who is measured.
fresh() {
    COUNT=$((COUNT + 1))
    cd "$HERE" && mkdir "$COUNT" && chown "$USER_ID:$USER_ID" "$COUNT" && cd "$COUNT" || exit 1
    KIND=user ID=$USER_ID
}

# Measure another.
of() { KIND=$1 ID=$2; }

as() {
    local uid=$1
    shift
    setpriv --reuid "$uid" --regid "$uid" --groups "${GROUPS_OF:-$uid}" -- bash -c "$*"
}

u() { as "$USER_ID" "$@"; }
other() { as 4321 "$@"; }
root() { as 0 "$@"; }

# rule NAME WHO SCRIPT: what the script changes, and what it is told.
rule() {
    local name=$1 who=$2 before after said outcome=done
    settle
    before=($(used "$KIND" "$ID"))
    if ! said=$("$who" "$3" 2>&1 >/dev/null); then
        outcome=failed
        case $said in
        *"Disk quota exceeded"*) outcome=EDQUOT ;;
        *"No space left"*) outcome=ENOSPC ;;
        *"cross-device"*) outcome=EXDEV ;;
        *"not permitted"*) outcome=EPERM ;;
        *) outcome="failed: ${said//$'\n'/ }" ;;
        esac
    fi
    settle
    after=($(used "$KIND" "$ID"))
    printf '%s\t%+d\t%+d\t%s\n' \
        "$name" $((after[0] - before[0])) $((after[1] - before[1])) "$outcome"
}

# Keeps what a perl script opens open until `close_held`.
hold() {
    u "perl -e '$1; open(P, q(>), q($RUN/pid)); print P \$\$; close P; sleep 60' > /dev/null 2>&1 &
        for i in \$(seq 200); do [ -s $RUN/pid ] && exit; sleep 0.05; done; exit 1"
}
close_held() {
    kill "$(cat "$RUN/pid")"
    while kill -0 "$(cat "$RUN/pid")" 2>/dev/null; do sleep 0.05; done
    rm "$RUN/pid"
}

zeros() { printf 'dd if=/dev/zero of=%s bs=4k count=%s conv=notrunc,fsync status=none' "$1" "$2"; }
synced() { printf 'dd if=/dev/zero of=%s bs=4k count=%s conv=notrunc oflag=dsync status=none' "$1" "$2"; }
io() { printf 'xfs_io -c "%s" -c fsync %s' "$1" "$2"; }
RENAME='perl -e "rename(\$ARGV[0], \$ARGV[1]) or die \$!"'
EXCHANGE='perl -e "(\$a, \$b) = @ARGV; syscall(316, -100, \$a, -100, \$b, 2) == 0 or die \$!"'
LINK='perl -e "link(\$ARGV[0], \$ARGV[1]) or die \$!"'

# Contents.
fresh
rule 'a new file' u 'touch a'
rule 'three blocks written' u "$(zeros a 3)"
rule 'three blocks overwritten' u "$(zeros a 3)"
rule 'one byte appended to them' u 'printf x >> a'
rule 'one byte written far behind the end' u "$(io 'pwrite 1m 1' a)"
rule 'made longer' u 'truncate -s 1G a'
rule 'cut to nothing' u 'truncate -s 0 a'
rule 'eight blocks written' u "$(zeros a 8)"
rule 'cut to five blocks and a byte' u 'truncate -s 20481 a'
rule 'two blocks and a part punched out' u "$(io 'fpunch 4k 8292' a)"
rule 'a hole written through a mapping' u "$(io 'mmap -w 0 20k' a | sed 's/ -c fsync/ -c "mwrite 4k 4k" -c "msync -s" -c fsync/')"
rule 'removed' u 'rm a'
u 'touch b'
rule 'ten blocks preallocated' u "$(io 'falloc -k 0 40k' b)"
rule 'written where they were preallocated' u "$(zeros b 10)"
rule 'four blocks collapsed' u "$(io 'fcollapse 0 16k' b)"
rule 'four blocks of hole inserted' u "$(io 'finsert 4k 16k' b)"
u "$(io 'fpunch 4k 16k' b)"
rule 'zeroed, four blocks of hole as well' u "$(io 'fzero 0 40k' b)"
u "$(zeros b 10)"
rule 'ten blocks copied by copy_file_range' u 'touch c; xfs_io -c "copy_range -l 40k b" -c fsync c'
rule 'a file of one block in each of 40 places' u 'for i in $(seq 40); do
    xfs_io -f -c "pwrite -q $((i * 64))k 4k" e; done; sync e'

# Names.
fresh
u "$(zeros a 1)"
rule 'a second name' u 'ln a b'
rule 'one of two names removed' u 'rm b'
hold 'open(F, q(<), q(a))'
rule 'the last name removed while open' u 'rm a'
rule 'closed' close_held ''
rule 'a nameless file of two blocks' hold \
    'sysopen(F, q(.), 020200002, 0600) or die; syswrite(F, q(x) x 8192); syscall(74, fileno(F))' 2>/dev/null
rule 'a nameless file closed' close_held ''
u "$(zeros a 1); $(zeros b 2)"
rule 'two names exchanged' u "$EXCHANGE a b"
rule 'renamed over the smaller' u "$RENAME a b"
rule 'a directory' u 'mkdir d'
rule 'a hundred names in it' u 'for i in $(seq 100); do ln b d/a-name-of-some-length-$i; done'
rule 'the names and the directory removed' u 'rm -r d'
rule 'a short symbolic link' u 'ln -s target s'
rule 'one of 1,000 bytes' u 'ln -s $(printf %1000s | tr " " t) l'
rule 'a fifo' u 'mkfifo p'
rule 'an attribute of 50 bytes' u 'setfattr -n user.a -v $(printf %50s | tr " " v) b'
rule 'one of 200 bytes' u 'setfattr -n user.b -v $(printf %200s | tr " " v) b'
rule 'one of 3,000 bytes' u 'setfattr -n user.c -v $(printf %3000s | tr " " v) b'
rule 'the attributes removed' u 'for n in a b c; do setfattr -x user.$n b; done'

# Owners.
fresh
u "$(zeros a 4)"
rule 'given away by root' root 'chown 4321 a'
rule 'and back' root "chown $USER_ID a"
of group 777
chgrp 777 . && chmod 2777 .
rule 'a file in a setgid directory of the group' u "touch g; $(zeros g 2)"
limit group 777 0 3
rule 'a third inode of the group' u 'mkdir h'
rule 'a fourth' u 'touch i'
GROUPS_OF=$USER_ID,777 rule 'chgrp into the full group' u 'chgrp 777 a'
rule 'chgrp into it by root' root 'chgrp 777 a'
limit group 777 0 0

# Limits.
fresh
u "$(zeros old 1); touch a c"
limit user $USER_ID $(($(used user $USER_ID | cut -d' ' -f1) + 64)) 0
rule 'block by block to a hard limit 64 KiB away' u "$(synced a 20)"
rule 'overwritten at the limit' u "$(zeros a 16)"
rule 'a new empty file at the limit of blocks' u 'touch b'
rule 'renamed at the limit' u 'mv c d'
rule 'root writes into the file of the full user' root "$(synced d 1)"
rule 'preallocated beyond the limit' u "$(io 'falloc 0 1m' d)"
rule 'given by root to the full user' root "$(synced r 2); chown $USER_ID r"
rule 'cut at the limit' u 'truncate -s 4096 a'
limit user $USER_ID 0 $(($(used user $USER_ID | cut -d' ' -f2) + 2))
rule 'three files where two inodes are free' u 'touch 1; touch 2; touch 3'
limit user $USER_ID 8 2
rule 'appended when the limit went below use' u 'printf x > new; '"$(synced old 3)"
rule 'removed when the limit is below use' u 'rm 1 2'
limit user $USER_ID 0 0
of user 4321
chmod 777 .
KIND=user ID=4321
other 'touch t'
soft user 4321 4
rule 'above the soft limit within the grace period' other "$(synced s 3)"
sleep 2.5
rule 'after the grace period' other "printf x > t && sync t"
rule 'within the soft limit again' other 'truncate -s 0 s t && printf x > t && sync t'

# Projects.
fresh
u "mkdir p q p/sub; $(zeros q/f 2); mkdir q/dir"
chattr +P -p 7 p && chattr +P -p 7 p/sub
of project 7
rule 'a file in a project' u "touch p/a; $(zeros p/a 2)"
rule 'a directory in its subdirectory' u 'mkdir p/sub/d; touch p/sub/d/x'
rule 'renamed into it' u "$RENAME q/f p/f"
rule 'a directory renamed into it' u "$RENAME q/dir p/dir"
rule 'linked into it' u "$LINK q/f p/f"
rule 'moved into it by mv' u 'mv q/f p/f'
rule 'renamed inside' u "$RENAME p/f p/sub/f"
rule 'renamed out of it' u "$RENAME p/sub/f q/f"
rule 'a file taken out by its owner' u 'chattr -p 0 q/f'
rule 'a file taken out by root' root 'chattr -p 0 p/a'
u 'touch p/b p/c'
limit project 7 0 $(($(used project 7 | cut -d' ' -f2) + 2))
rule 'three directories where two inodes are free' u 'mkdir p/1 p/2 p/3'
FULL=$(($(used project 7 | cut -d' ' -f1) + 32))
limit project 7 $FULL 0
rule 'block by block to the hard limit of the project' u "$(synced p/b 20)"
rule 'the same by root' root "$(synced p/c 1)"
rule 'renamed inside the full project' u "$RENAME p/b p/sub/b"
rule 'removed from the full project' u 'rm p/sub/b'
printf '%s\t%+d\t%+d\t%s\n' \
    'what df of the project has beyond the limit' $(($(df_kib p) - FULL)) 0 done
