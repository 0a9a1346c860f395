//! FUSE passthrough over directories of the host: the kernel reads and writes the files below by
//! itself, where nobody has to see the data.

use crate::harness;

use harness::{Below, Mounted, Transport, hearth, program, refused, said, shell, succeed};
use rustix::fs::{fstat, stat};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::thread::sleep;
use std::time::Duration;

harness::on_both_transports!(
    data_goes_past_the_daemon_and_is_right,
    stores_through_a_mapping_are_seen_at_once,
    attributes_of_a_file_that_no_mapping_writes_are_asked_for_once_for_each_write,
    opens_of_one_file_agree_whatever_is_switched_meanwhile,
    heat_by_opens_is_counted_and_says_so,
);

const DIRECT: &str = "
    dd if=/bin/bash of=copy bs=4096 count=24 oflag=direct,sync status=none
    dd if=copy of=back bs=4096 iflag=direct status=none
    cmp copy back
    cmp -n 98304 /bin/bash copy";

/// Bytes that the daemon has read and written so far, of files and of requests.
fn carried(mounted: &Mounted) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/io", mounted.daemon())).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    let chars = lines.filter(|(name, _)| ["rchar", "wchar"].contains(name));
    chars.map(|(_, count)| count.parse::<u64>().unwrap()).sum()
}

fn passed(mounted: &Mounted) -> f64 {
    mounted.stat("hearth_passthrough_opens_total")
}

fn data_goes_past_the_daemon_and_is_right(transport: Transport) {
    for below in [Below::ext4(), Below::tmpfs()] {
        let mounted = Mounted::over(transport, below.path(), "passthrough=on");
        let bytes: Vec<u8> = (0..3_000_001u32).map(|at| (at % 251) as u8).collect();
        fs::write(mounted.at("large"), &bytes).unwrap();
        assert!(fs::read(below.at("large")).unwrap() == bytes);
        assert!(fs::read(mounted.at("large")).unwrap() == bytes);
        succeed(
            program("cmp")
                .arg(below.at("large"))
                .arg(mounted.at("large")),
        );
        // Appends, holes, a cut, and what others do behind.
        let mut end = OpenOptions::new()
            .append(true)
            .read(true)
            .open(mounted.at("large"))
            .unwrap();
        end.write_all(b"end").unwrap();
        assert_eq!(end.metadata().unwrap().len(), 3_000_004);
        fs::OpenOptions::new()
            .append(true)
            .open(below.at("large"))
            .unwrap()
            .write_all(b"behind")
            .unwrap();
        end.write_all(b"again").unwrap();
        let all = fs::read(below.at("large")).unwrap();
        assert_eq!(&all[3_000_001..], b"endbehindagain");
        end.set_len(10).unwrap();
        end.write_all_at(b"x", 100_000).unwrap();
        assert_eq!(
            end.seek(SeekFrom::End(0)).unwrap(),
            fs::metadata(below.at("large")).unwrap().len()
        );
        end.sync_all().unwrap();
        drop(end);
        assert_eq!(
            fs::read(mounted.at("large")).unwrap(),
            fs::read(below.at("large")).unwrap()
        );
        let through = carried(&mounted);
        assert!(through < 1 << 20, "of 15 MB: {through}");
        assert!(passed(&mounted) >= 5.0);
        let info = succeed(hearth().arg("info").arg(mounted.path()));
        assert!(info.contains("passthrough on"), "{info}");
        // A program is run from it, and direct I/O is the host's own.
        fs::copy("/bin/true", mounted.at("true")).unwrap();
        fs::set_permissions(mounted.at("true"), fs::Permissions::from_mode(0o755)).unwrap();
        succeed(&mut program(mounted.at("true").to_str().unwrap()));
        mounted.shell(DIRECT);
        mounted.unmount();
    }
}

fn stores_through_a_mapping_are_seen_at_once(transport: Transport) {
    let below = Below::ext4();
    File::create(below.at("f"))
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    // Attributes are believed for a long time, as they may not be here.
    let mounted = Mounted::over(transport, below.path(), "passthrough=on,attr_timeout=60");
    let old = fs::metadata(mounted.at("f")).unwrap();
    assert_eq!(old.blocks(), 0);
    sleep(Duration::from_millis(50));
    let mut map = program("python3");
    map.arg("-c").arg(
        "import mmap,os,sys\nf=open(sys.argv[1],'r+b')\nm=mmap.mmap(f.fileno(),0)\n\
         m[:]=b'x'*len(m)\nm.flush()\ns=os.stat(sys.argv[1])\nprint(s.st_blocks,s.st_mtime_ns)\n\
         m[0:1]=b'y'\nm.flush()",
    );
    let said = succeed(map.arg(mounted.at("f")));
    let inside: Vec<u64> = said
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    assert_eq!(inside[0], 2048, "while it is mapped");
    let told = u128::from(inside[1]);
    let before = old
        .modified()
        .unwrap()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    assert!(told > before.as_nanos(), "{told}");
    let (now, real) = (
        fs::metadata(mounted.at("f")).unwrap(),
        fs::metadata(below.at("f")).unwrap(),
    );
    assert_eq!(
        (now.blocks(), now.modified().unwrap()),
        (real.blocks(), real.modified().unwrap())
    );
    assert_eq!(&fs::read(below.at("f")).unwrap()[..2], b"yx");
    assert_eq!(
        fs::read(mounted.at("f")).unwrap(),
        fs::read(below.at("f")).unwrap()
    );
    assert!(carried(&mounted) < 1 << 19);
}

/// The kernel refuses with EIO what mixes both ways.
/// What makes trees of files, as git and tar do, opens each of them to write alone. Once, the
/// attributes of what was open for writing were never believed: the open asked for them, and
/// whoever looked behind the close.
fn attributes_of_a_file_that_no_mapping_writes_are_asked_for_once_for_each_write(
    transport: Transport,
) {
    const FILES: u32 = 50;
    let below = Below::ext4();
    let mounted = Mounted::over(transport, below.path(), "passthrough=on,attr_timeout=60");
    let asked = || mounted.stat("hearth_op_seconds_count{op=\"getattr\"}") as u32;
    let before = asked();
    for file in 0..FILES {
        let path = mounted.at(format!("{file}"));
        let mut made = File::create(&path).unwrap();
        // Not by `metadata`, which asks for the time of birth too.
        assert_eq!(fstat(&made).unwrap().st_size, 0);
        made.write_all(&[7; 5000]).unwrap();
        assert_eq!(fstat(&made).unwrap().st_size, 5000);
        drop(made);
        assert_eq!(stat(path).unwrap().st_size, 5000);
    }
    let asked = asked() - before;
    // One behind the write, and one of the directory, which has changed.
    assert!((2 * FILES..2 * FILES + 20).contains(&asked), "{asked}");
    assert_eq!(passed(&mounted), f64::from(FILES));
}

fn opens_of_one_file_agree_whatever_is_switched_meanwhile(transport: Transport) {
    let below = Below::ext4();
    fs::write(below.at("f"), "content").unwrap();
    let state = below.outside("state");
    let mounted = Mounted::over(
        transport,
        below.path(),
        &format!("state={}", state.display()),
    );
    let track = |on: &str| fs::write(mounted.at(".hearth/sys/fs/hot-track"), on).unwrap();
    let read = |file: &File| {
        let mut bytes = [0; 7];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"content");
    };
    let through = File::open(mounted.at("f")).unwrap();
    track("1");
    let also = OpenOptions::new()
        .read(true)
        .write(true)
        .open(mounted.at("f"))
        .unwrap();
    assert_eq!(passed(&mounted), 2.0);
    [&through, &also].into_iter().for_each(read);
    also.write_all_at(b"content", 0).unwrap();
    drop((through, also));
    // The close comes a moment later.
    sleep(Duration::from_millis(100));
    let cached = File::open(mounted.at("f")).unwrap();
    assert_eq!(passed(&mounted), 2.0);
    track("0");
    let also = File::open(mounted.at("f")).unwrap();
    [&cached, &also].into_iter().for_each(read);
    assert_eq!(passed(&mounted), 2.0);
    drop((cached, also));
    sleep(Duration::from_millis(100));
    read(&File::open(mounted.at("f")).unwrap());
    assert_eq!(passed(&mounted), 3.0);
    // From many threads at once.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (mounted, track) = (&mounted, &track);
            scope.spawn(move || {
                for round in 0..200 {
                    if thread == 0 {
                        track(if round % 2 == 0 { "1" } else { "0" });
                    }
                    read(&File::open(mounted.at("f")).unwrap());
                }
            });
        }
    });
}

fn heat_by_opens_is_counted_and_says_so(transport: Transport) {
    let below = Below::ext4();
    fs::write(below.at("often"), vec![1; 10_000]).unwrap();
    fs::write(below.at("once"), vec![1; 10_000]).unwrap();
    let options = format!(
        "heat=opens,passthrough=on,state={}",
        below.outside("state").display()
    );
    let mounted = Mounted::over(transport, below.path(), &options);
    for _ in 0..5 {
        fs::read(mounted.at("often")).unwrap();
    }
    fs::read(mounted.at("once")).unwrap();
    fs::write(mounted.at("new"), vec![1; 5_000]).unwrap();
    let json = |by: &str| -> Value {
        let mut command = hearth();
        command
            .args(["heat", "top", "--json", "--by", by])
            .arg(mounted.path());
        serde_json::from_str(&succeed(&mut command)).unwrap()
    };
    harness::until("the close of what was written", || {
        json("file").as_array().unwrap().len() == 3
    });
    let rows = json("file");
    let row = &rows[0];
    assert!(row["path"].as_str().unwrap().ends_with("/often"), "{row}");
    assert_eq!(
        (&row["reads"], &row["read_bytes"]),
        (&5.into(), &50_000.into())
    );
    assert_eq!(
        (&row["counts"], &row["ranges"]),
        (&"opens".into(), &0.into())
    );
    let new = rows
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["path"].as_str().unwrap().ends_with("/new"));
    let new = new.expect("what was written");
    assert_eq!(
        (&new["writes"], &new["written_bytes"]),
        (&1.into(), &5_000.into())
    );
    assert_eq!(json("range").as_array().unwrap().len(), 0);
    assert_eq!(json("user")[0]["counts"], "opens");
    let table = succeed(hearth().args(["heat", "top"]).arg(mounted.path()));
    assert!(table.contains("opens"), "{table}");
    let info = succeed(hearth().args(["heat", "info"]).arg(mounted.at("often")));
    assert!(info.contains("opens"), "{info}");
    assert!(passed(&mounted) >= 7.0);
    // It is kept, too.
    mounted.unmount();
    mounted.mount_again(transport, &options);
    assert_eq!(json("file")[0]["reads"], 5);
}

/// The kernel uses the file below with the rights that were there when it was told of it.
#[test]
fn the_reserve_of_the_host_binds_users_and_their_rights_are_checked() {
    let below = Below::ext4();
    succeed(program("tune2fs").args(["-m", "40"]).arg(loop_of(&below)));
    fs::create_dir(below.at("theirs")).unwrap();
    chown(below.at("theirs"), Some(1000), Some(1000)).unwrap();
    fs::set_permissions(below.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(below.at("secret"), "s").unwrap();
    fs::set_permissions(below.at("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let mounted = Mounted::over(Transport::Dev, below.path(), "passthrough=on,allow_other");
    let script = "dd if=/dev/zero of=theirs/f bs=1M count=800 2>&1 || true; cat secret 2>&1";
    let mut command = shell(mounted.path(), script);
    let said = said(command.uid(1000).gid(1000));
    assert!(said.out.contains("Permission denied"), "{said:?}");
    let size = fs::metadata(below.at("theirs/f")).unwrap().len();
    assert!(size < 700 << 20, "the reserve was used: {size}");
    assert!(carried(&mounted) < 1 << 20);
    fs::remove_file(mounted.at("theirs/f")).unwrap();
}

/// The loop device of a filesystem.
fn loop_of(below: &Below) -> String {
    let mut find = program("findmnt");
    let device = succeed(find.args(["-n", "-o", "SOURCE"]).arg(below.path()));
    device.trim_end().to_owned()
}

#[test]
fn where_it_cannot_be_it_is_refused_or_said() {
    let below = Below::tmpfs();
    let place = below.outside("other");
    for (source, options, words) in [
        (
            "memory:",
            "passthrough=on",
            &["passthrough", "host:DIR"][..],
        ),
        ("host", "passthrough=maybe", &["auto, on or off"]),
    ] {
        let mut mount = hearth();
        let source = match source {
            "host" => below.path().display().to_string(),
            source => source.to_owned(),
        };
        mount.args(["mount", "-o", options, &source]).arg(&place);
        refused(options, &said(&mut mount), 2, words);
    }
    // overlayfs lies on others itself: the kernel refuses each file, which goes the usual way.
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(below.at(name)).unwrap();
    }
    for file in ["f", "g"] {
        fs::write(below.at("lower").join(file), "content").unwrap();
    }
    let script = "mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work merged";
    succeed(&mut shell(below.path(), script));
    let mounted = Mounted::over(Transport::Dev, &below.at("merged"), "");
    assert_eq!(fs::read(mounted.at("f")).unwrap(), b"content");
    // Another one: the first may still be open, as a close is told later.
    fs::write(mounted.at("g"), "changed").unwrap();
    assert_eq!(fs::read(below.at("upper/g")).unwrap(), b"changed");
    assert_eq!(passed(&mounted), 0.0);
    assert!(mounted.stat("hearth_passthrough_refused_total") >= 2.0);
    drop(mounted);
    succeed(program("umount").arg(below.at("merged")));
    fs::write(below.at("f"), "content").unwrap();
    let off = Mounted::over(Transport::Dev, below.path(), "passthrough=off");
    fs::read(off.at("f")).unwrap();
    assert_eq!(passed(&off), 0.0);
    let info = succeed(hearth().arg("info").arg(off.path()));
    assert!(info.contains("passthrough off"), "{info}");
}
