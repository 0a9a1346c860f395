//! SQLite with a write-ahead log from four processes: shared maps and record locks together.

use crate::harness;

use harness::{Below, Mounted, Transport};

harness::on_both_transports!(four_processes_share_a_database);

fn four_processes_share_a_database(transport: Transport) {
    share_database(&Mounted::new(transport, ""));
}

#[test]
fn four_processes_share_a_database_on_a_store() {
    share_database(&Mounted::new(
        Transport::Dev,
        "create,memory=32M,commit=0.2",
    ));
}

#[test]
fn four_processes_share_a_database_in_a_directory_of_the_host() {
    let below = Below::ext4();
    share_database(&Mounted::over(Transport::Dev, below.path(), ""));
}

fn share_database(mount: &Mounted) {
    let answer = mount.shell(
        "test \"$(sqlite3 db 'PRAGMA journal_mode=wal')\" = wal
         sqlite3 db 'CREATE TABLE t (writer INTEGER, number INTEGER, UNIQUE (writer, number));
                     CREATE TABLE total (n INTEGER); INSERT INTO total VALUES (0)'
         writer() {
             for i in $(seq 1 500); do
                 echo \"BEGIN IMMEDIATE; INSERT INTO t VALUES ($1, $i);
                       UPDATE total SET n = n + 1; COMMIT;\"
                 [ $((i % 50)) -ne 0 ] || echo 'SELECT count(*) FROM t;'
             done | sqlite3 -bail -cmd '.timeout 60000' db > /dev/null
         }
         pids=
         for w in 1 2 3 4; do writer $w & pids=\"$pids $!\"; done
         for p in $pids; do wait $p; done
         sqlite3 db 'PRAGMA integrity_check; SELECT count(*) FROM t; SELECT n FROM total;
                     SELECT count(DISTINCT writer) FROM t; PRAGMA wal_checkpoint(TRUNCATE)'",
    );
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines, ["ok", "2000", "2000", "4", "0|0|0"]);
}
