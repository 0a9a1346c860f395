//! Measures segments beside plain files on the same disk: `segments DIR [MiB [KIND]]`.
//!
//! Writes are durable when their time ends: segments through `Segments::write`, plain files with
//! `fsync` of file and directory. Cold reads follow `fsync` and `posix_fadvise(DONTNEED)`, so run
//! it on a disk and not on tmpfs. Lines: what, seconds, MiB a second or calls a second.

use hearth_store::codec::{Cipher, Compression, Purpose, VolumeKey};
use hearth_store::segment::{Page, Segments, Settings, Stored};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("usage: segments DIR [MiB]")?);
    let mib: usize = args.next().map_or(Ok(256), |text| text.parse())?;
    let only = args.next();
    let key = VolumeKey::generate();
    let noise = pages(mib, &|bytes, seed| fill(bytes, seed));
    let text = pages(mib, &|bytes, seed| {
        // Half noise, half zeros within each 64 bytes.
        fill(bytes, seed);
        bytes.chunks_mut(64).for_each(|part| part[32..].fill(0));
    });
    for round in 0..3 {
        println!("round {round}");
        plain(&dir, &noise, mib)?;
        for (name, compression, encrypted, data) in [
            ("none", Compression::None, false, &noise),
            ("none, encrypted", Compression::None, true, &noise),
            ("lz4 of noise", Compression::Lz4, false, &noise),
            ("lz4 of halves", Compression::Lz4, false, &text),
            ("zstd:3 of noise", Compression::Zstd(3), false, &noise),
            ("zstd:3 of halves", Compression::Zstd(3), false, &text),
            (
                "zstd:3 of halves, encrypted",
                Compression::Zstd(3),
                true,
                &text,
            ),
        ] {
            if only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let cipher = encrypted.then(|| Cipher::new(&key, Purpose::Blocks));
            segments(&dir, name, compression, cipher, data, mib)?;
        }
    }
    Ok(())
}

fn segments(
    dir: &Path,
    name: &str,
    compression: Compression,
    cipher: Option<Cipher>,
    data: &[Page],
    mib: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let dir = dir.join("segments-bench");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir(&dir)?;
    std::fs::create_dir_all(dir.join("segments"))?;
    let settings = Settings {
        volume: [1; 16],
        compression,
        cipher,
        next: 1,
        kept: 16 << 20,
    };
    let segments = Segments::open(&dir, settings)?;
    let begin = Instant::now();
    let written = segments.write(5, 1, &data)?;
    rate(&format!("segments, {name}: write"), begin, mib);
    let blocks: Vec<Stored> = written.iter().map(|written| written.stored).collect();

    drop_cache(&dir)?;
    let begin = Instant::now();
    let mut bytes = 0;
    let mut failed = None;
    segments.read_run(&blocks, 5, 1, &mut |_, result| match result {
        Ok(read) => bytes += read.len(),
        Err(error) => failed = Some(error),
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    assert_eq!(bytes, mib << 20);
    rate(&format!("segments, {name}: cold read in runs"), begin, mib);
    let begin = Instant::now();
    segments.read_run(&blocks, 5, 1, &mut |_, result| drop(result));
    rate(&format!("segments, {name}: warm read in runs"), begin, mib);
    let begin = Instant::now();
    for block in &blocks {
        segments.read(block, 5, 1)?;
    }
    calls(
        &format!("segments, {name}: warm read of a block"),
        begin,
        blocks.len(),
    );
    let begin = Instant::now();
    for index in 0..200u64 {
        segments.write(5, 1, &vec![(index * 2, data[index as usize].1.clone())])?;
    }
    calls(&format!("segments, {name}: write of 4 KiB"), begin, 200);
    let one = segments.write(5, 1, &&data[..1])?[0].stored;
    let begin = Instant::now();
    for _ in 0..20_000 {
        segments.read(&one, 5, 1)?;
    }
    calls(
        &format!("segments, {name}: read of 4 KiB that is kept"),
        begin,
        20_000,
    );
    // In a runtime `object_store` hands each call to a thread of it.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let entered = runtime.enter();
    let begin = Instant::now();
    for block in &blocks {
        segments.read(block, 5, 1)?;
    }
    calls(
        &format!("segments, {name}: warm read of a block, in a runtime"),
        begin,
        blocks.len(),
    );
    let begin = Instant::now();
    segments.write(5, 1, &data)?;
    rate(
        &format!("segments, {name}: write, in a runtime"),
        begin,
        mib,
    );
    drop(entered);
    drop(segments);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn plain(dir: &Path, data: &[Page], mib: usize) -> Result<(), Box<dyn std::error::Error>> {
    let path = dir.join("plain-bench");
    let _ = std::fs::remove_file(&path);
    let mut whole = Vec::with_capacity(mib << 20);
    data.iter()
        .for_each(|(_, page)| whole.extend_from_slice(page));
    let begin = Instant::now();
    let mut file = File::create(&path)?;
    for part in whole.chunks(1 << 20) {
        file.write_all(part)?;
    }
    file.sync_all()?;
    File::open(dir)?.sync_all()?;
    rate("plain: write", begin, mib);
    drop_cache(&path)?;
    let begin = Instant::now();
    let mut file = File::open(&path)?;
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer)? > 0 {}
    rate("plain: cold read", begin, mib);
    std::fs::remove_file(&path)?;
    let begin = Instant::now();
    for (index, page) in &data[..200] {
        let path = dir.join(format!("plain-bench-{index}"));
        let mut file = File::create(&path)?;
        file.write_all(page)?;
        file.sync_all()?;
        File::open(dir)?.sync_all()?;
    }
    calls(
        "plain: new file of 4 KiB, synced with its directory",
        begin,
        200,
    );
    for index in 0..200 {
        std::fs::remove_file(dir.join(format!("plain-bench-{index}")))?;
    }
    Ok(())
}

fn pages(mib: usize, make: &dyn Fn(&mut [u8], u64)) -> Vec<Page> {
    let page = |index| {
        let mut bytes = vec![0; 4096].into_boxed_slice();
        make(&mut bytes, index);
        (index, bytes)
    };
    (0..(mib as u64) << 8).map(page).collect()
}

/// Noise from a generator that is fast.
fn fill(bytes: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for word in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
}

/// Drops clean pages of a file, or of all below a folder, from the host's cache.
fn drop_cache(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            drop_cache(&entry?.path())?;
        }
        return Ok(());
    }
    let status = std::process::Command::new("dd")
        .arg(format!("of={}", path.display()))
        .args([
            "oflag=nocache",
            "conv=notrunc,fdatasync",
            "count=0",
            "status=none",
        ])
        .status()?;
    assert!(status.success());
    Ok(())
}

fn rate(what: &str, begin: Instant, mib: usize) {
    let seconds = begin.elapsed().as_secs_f64();
    println!("{what}: {seconds:.3} s, {:.0} MiB/s", mib as f64 / seconds);
}

fn calls(what: &str, begin: Instant, count: usize) {
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{what}: {seconds:.3} s, {:.0} calls/s",
        count as f64 / seconds
    );
}
