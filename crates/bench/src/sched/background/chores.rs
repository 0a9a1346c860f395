//! The volume's own work, brought about from outside: by its control files, as anybody would.

use crate::failure::Context;
use crate::target::Client;
use crate::watchdog::beat;
use hearth_testing::threads::SetOnDrop;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A kind of work, or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chores {
    /// Heat ages: a pass over all records in eight seconds, as often as can be set.
    pub ageing: bool,
    /// Every file is compared with the quota ledger, again a second after the last time.
    pub check: bool,
    /// Half of the memory is to be given back.
    pub reclaim: bool,
}

/// What the chores took, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Passes {
    /// Each full check.
    pub checks: Vec<f64>,
    /// From when memory was to be given back until it was.
    pub reclaims: Vec<f64>,
}

/// Between two looks at the memory, and two checks.
const LOOKS: Duration = Duration::from_millis(50);
const CHECKS: Duration = Duration::from_secs(1);
/// What a pass may take, beside whatever else goes on.
const PATIENCE: Duration = Duration::from_secs(120);
/// Seconds between passes of ageing while there is to be none.
const NEVER: &str = "86400";

/// When a window is over, and when it may be.
#[derive(Debug, Default)]
pub struct Course {
    /// Every chore has been done once, to its end. Relaxed, as the other: nothing but the flag
    /// itself is passed on.
    pub passed: AtomicBool,
    /// The users have ended.
    pub ended: AtomicBool,
}

/// Brings the chores about until the users have ended, and waits for the end of those that have
/// begun.
pub fn run(client: &dyn Client, chores: Chores, course: &Course) -> Result<Passes, String> {
    // Whatever ends this, users wait for no pass that does not come.
    let _passed = SetOnDrop(&course.passed);
    let mut passes = Passes::default();
    set(
        client,
        "sys/fs/hot-update-interval",
        if chores.ageing { "1" } else { NEVER },
    )?;
    let begin = Instant::now();
    let mut wanted = None;
    if chores.reclaim {
        let half = resident(client)? / 2;
        set(client, "sys/fs/memory-budget", &half.to_string())?;
        wanted = Some(half);
    }
    let mut next_check = chores.check.then_some(begin);
    while !course.ended.load(Ordering::Relaxed) || wanted.is_some() {
        // Relaxed: see `Course`.
        let is_over = course.ended.load(Ordering::Relaxed) && !passes.checks.is_empty();
        if let Some(due) = next_check.filter(|&due| !is_over && Instant::now() >= due) {
            let asked = Instant::now();
            ask(client, "quota check")?;
            passes.checks.push(asked.elapsed().as_secs_f64());
            next_check = Some(due.max(Instant::now()) + CHECKS);
        }
        if let Some(half) = wanted {
            // What comes in meanwhile is let in: a twentieth of it.
            if resident(client)? <= half + half / 20 {
                passes.reclaims.push(begin.elapsed().as_secs_f64());
                wanted = None;
            } else if begin.elapsed() > PATIENCE {
                let limit = PATIENCE.as_secs();
                return Err(format!("half of the memory is not given back in {limit} s"));
            }
        }
        if wanted.is_none() && (!passes.checks.is_empty() || !chores.check) {
            course.passed.store(true, Ordering::Relaxed);
        }
        beat();
        std::thread::sleep(LOOKS);
    }
    set(client, "sys/fs/hot-update-interval", NEVER)?;
    if chores.reclaim {
        set(client, "sys/fs/memory-budget", "0")?;
    }
    Ok(passes)
}

/// Bytes of the volume in memory that a budget counts.
fn resident(client: &dyn Client) -> Result<u64, String> {
    let text = read(client, "stats")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("hearth_resident_bytes "));
    let bytes = line.and_then(|bytes| bytes.trim().parse().ok());
    bytes.ok_or_else(|| ".hearth/stats: no hearth_resident_bytes".to_owned())
}

fn control(name: &str) -> CString {
    CString::new(format!("/.hearth/{name}")).unwrap_or_default()
}

fn set(client: &dyn Client, name: &str, word: &str) -> Result<(), String> {
    let file = client.open(&control(name), libc::O_WRONLY)?;
    let written = client.write(file, word.as_bytes(), 0);
    client.close(file)?;
    written.map(drop)
}

fn ask(client: &dyn Client, question: &str) -> Result<String, String> {
    let file = client.open(&control("ask"), libc::O_RDWR)?;
    let asked = client.write(file, question.as_bytes(), 0);
    let said = asked.and_then(|len| rest(client, file, len as u64));
    client.close(file)?;
    said
}

fn read(client: &dyn Client, name: &str) -> Result<String, String> {
    let file = client.open(&control(name), libc::O_RDONLY)?;
    let text = rest(client, file, 0);
    client.close(file)?;
    text
}

fn rest(client: &dyn Client, file: i32, from: u64) -> Result<String, String> {
    let (mut text, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let got = client.read(file, &mut piece, from + text.len() as u64)?;
        if got == 0 {
            return String::from_utf8(text).text();
        }
        text.extend_from_slice(&piece[..got]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Library, Target};
    use hearth::Volume;
    use hearth::backend::TestBackend;

    fn ended() -> Course {
        let course = Course::default();
        course.ended.store(true, Ordering::Relaxed);
        course
    }

    #[test]
    fn a_pass_is_what_the_volume_did_and_not_only_asked() {
        let home = Volume::builder().backend(TestBackend::new());
        let volume = home.hot_track(true).background(true).build().unwrap();
        hearth_control::install(&volume).unwrap();
        let target = Library::from(volume.clone());
        let client = target.client();
        super::super::foreground::fill(&*client, 1, 400).unwrap();
        let before = resident(&*client).unwrap();
        let all = Chores {
            ageing: true,
            check: true,
            reclaim: true,
        };
        let passes = run(&*client, all, &ended()).unwrap();
        assert_eq!((passes.checks.len(), passes.reclaims.len()), (1, 1));
        assert!(resident(&*client).unwrap() < before * 6 / 10);
        // The check may have brought them back since.
        let stats = read(&*client, "stats").unwrap();
        let given = stats
            .lines()
            .find_map(|line| line.strip_prefix("hearth_reclaimed_objects_total "));
        assert!(given.is_some_and(|given| given != "0"), "{given:?}");
        assert_eq!(read(&*client, "sys/fs/memory-budget").unwrap(), "0\n");
        assert_eq!(volume.heat().interval(), 86_400);
        let answer = ask(&*client, "quota check").unwrap();
        assert!(answer.contains("\"inodes\""), "{answer}");
        assert!(ask(&*client, "quota chek").is_err());
    }
}
