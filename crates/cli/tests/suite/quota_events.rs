//! Events of quotas: in `.hearth/quota/events`, by `hearth quota events`, and in the daemon's log.

use crate::{harness, quotas};

use harness::{Transport, hearth, until};
use quotas::{USER, command, done, json, user_shell, volume};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

harness::on_both_transports!(crossing_a_limit_is_told_in_the_file_by_the_verb_and_in_the_log);

fn crossing_a_limit_is_told_in_the_file_by_the_verb_and_in_the_log(transport: Transport) {
    let mounted = volume(transport, "");
    done(
        &mounted,
        &format!("set user:{USER} --inodes-soft 1 --inodes-hard 2 @"),
    );
    let mut follow = command(&mounted, hearth(), "events --follow --json @");
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    user_shell(
        USER,
        &mounted.at("d"),
        "touch a b; touch c 2>/dev/null; rm a b",
    );
    let next = |lines: &mut dyn Iterator<Item = std::io::Result<String>>| {
        json(&lines.next().unwrap().unwrap())
    };
    let events: Vec<Value> = (0..3).map(|_| next(&mut lines)).collect();
    follow.kill().unwrap();
    follow.wait().unwrap();
    let what: Vec<&str> = events.iter().map(|e| e["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["soft-crossed", "refused-hard", "soft-returned"]);
    let crossed = &events[0];
    assert_eq!(
        (&crossed["kind"], &crossed["id"]),
        (&"user".into(), &USER.into())
    );
    assert_eq!(
        (&crossed["used"], &crossed["limit"]),
        (&2.into(), &1.into())
    );
    let period = crossed["deadline"].as_i64().unwrap() - crossed["time"].as_i64().unwrap();
    assert_eq!(period, 604_800);
    let file = std::fs::read_to_string(mounted.at(".hearth/quota/events")).unwrap();
    // People see moments, programs seconds.
    let with_moment = |line: &str| {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for word in words.iter_mut().skip(1) {
            let (head, seconds) = match word.strip_prefix("until=") {
                Some(seconds) => ("until=", seconds),
                None => ("", &**word),
            };
            if seconds.parse::<i64>().is_ok() {
                let moment = format!("date -u -d @{seconds} +%FT%TZ");
                *word = format!("{head}{}", mounted.shell(&moment).trim_end());
            }
        }
        words.join(" ") + "\n"
    };
    let shown: String = file.lines().map(with_moment).collect();
    assert_eq!(done(&mounted, "events @"), shown);
    assert_eq!(done(&mounted, "events --after 2 @").lines().count(), 1);
    let logged = format!("hearth: quota: {}\n", file.lines().nth(1).unwrap());
    until("the event is in the log", || {
        mounted.log().contains(&logged)
    });
    // What happens last is told as well.
    user_shell(USER, &mounted.at("d"), "touch a b");
    mounted.unmount();
    assert!(mounted.log().contains(" 4 "), "{}", mounted.log());
}

#[test]
fn the_end_of_a_grace_period_is_told_although_nobody_asks_for_more() {
    let mounted = volume(Transport::Dev, "");
    let who = format!("user:{USER}");
    done(
        &mounted,
        &format!("set {who} --inodes-soft 1 --soft 4096 @"),
    );
    done(&mounted, &format!("grace {who} --inodes 1s --bytes 2s @"));
    let script = "touch a; head -c 8192 /dev/zero > b; sync b";
    assert!(user_shell(USER, &mounted.at("d"), script).success());
    until("both ends are told", || {
        done(&mounted, "events @").matches(" grace-ended ").count() == 2
    });
    let events = done(&mounted, "events --json @");
    let events: Vec<Value> = events.lines().map(json).collect();
    for (resource, seconds) in [("inodes", 1), ("bytes", 2)] {
        let of: Vec<&Value> = events
            .iter()
            .filter(|event| event["resource"] == resource)
            .collect();
        let what: Vec<&str> = of.iter().map(|e| e["what"].as_str().unwrap()).collect();
        assert_eq!(what, ["soft-crossed", "grace-ended"]);
        let time = |event: &Value| event["time"].as_i64().unwrap();
        let deadline = of[0]["deadline"].as_i64().unwrap();
        assert_eq!(deadline - time(of[0]), seconds);
        assert!(time(of[1]) >= deadline);
    }
    let line = format!(" {who} grace-ended bytes=8192 limit=4096\n");
    until("it is in the log", || mounted.log().contains(&line));
    let late = user_shell(USER, &mounted.at("d"), "touch c");
    assert!(late.err.contains("Disk quota exceeded"), "{late:?}");
    let told = done(&mounted, "events @");
    assert_eq!(told.matches(" refused-grace-ended ").count(), 1, "{told}");
    assert_eq!(told.matches(" grace-ended ").count(), 2, "{told}");
}
