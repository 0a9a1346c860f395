//! One line of an export, read with suspicion: it may come from anywhere.

use hearth::heat::{ExportedHeat, HeatRates};
use serde_json::{Map, Value};

/// Bytes of a range.
const RANGE: u64 = 1 << 20;

/// A line that an import cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// The largest count and rate: beyond it a double no longer tells neighbours apart.
const MAX: f64 = (1u64 << 53) as f64;

/// The fields with totals, rates, and rates by the long half-life.
pub(super) const TOTALS: [&str; 5] = ["reads", "read_bytes", "writes", "written_bytes", "loads"];
/// How many of the counts samples stand for. Lines of before it was known lack it.
pub(super) const ESTIMATED: &str = "estimated";
pub(super) const RATES: [&str; 3] = ["reads_per_second", "writes_per_second", "bytes_per_second"];
pub(super) const LONG_RATES: [&str; 3] = [
    "long_reads_per_second",
    "long_writes_per_second",
    "long_bytes_per_second",
];

/// The lines that an import would refuse: for a caller without a volume, or one that sends the
/// lines in parts.
pub fn bad_lines(text: &str) -> Vec<BadLine> {
    each_line(text).filter_map(Result::err).collect()
}

/// The records of all lines that are not empty, or all lines that cannot be used.
pub(super) fn records(text: &str) -> Result<Vec<ExportedHeat>, Vec<BadLine>> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for line in each_line(text) {
        match line {
            Ok(line) => good.push(line),
            Err(line) => bad.push(line),
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(bad) }
}

fn each_line(text: &str) -> impl Iterator<Item = Result<ExportedHeat, BadLine>> {
    let full = (1..).zip(text.lines());
    let full = full.filter(|(_, text)| !text.trim().is_empty());
    full.map(|(number, text)| {
        line(text).map_err(|reason| BadLine {
            line: number,
            reason,
        })
    })
}

/// The record of one line, or what is wrong with it.
fn line(text: &str) -> Result<ExportedHeat, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        // Its line is that of this text, which has one.
        let why = error.to_string();
        let why = why.split(" at line ").next().unwrap_or_default();
        format!("not JSON ({why}, column {})", error.column())
    })?;
    let fields = value.as_object().ok_or("not a JSON object")?;
    let temperature = number(fields, "temperature")?;
    if temperature > 100.0 {
        return Err("'temperature' is not 0 to 100".to_owned());
    }
    let [reads, read_bytes, writes, written_bytes, loads] = each(fields, TOTALS, count)?;
    Ok(ExportedHeat {
        path: path(fields)?,
        // For people only; lines that programs made may lack it.
        ino: 0,
        start: start(fields)?,
        at_ms: number(fields, "at")? * 1000.0,
        temperature,
        reads,
        read_bytes,
        writes,
        written_bytes,
        estimated: match fields.contains_key(ESTIMATED) {
            true => count(fields, ESTIMATED)?,
            false => 0,
        },
        loads,
        rates: rates(each(fields, RATES, number)?),
        long_rates: rates(each(fields, LONG_RATES, number)?),
        last_read_ms: time(fields, "last_read")?,
        last_write_ms: time(fields, "last_write")?,
    })
}

fn rates([reads, writes, bytes]: [f64; 3]) -> HeatRates {
    HeatRates {
        reads,
        writes,
        bytes,
    }
}

fn path(fields: &Map<String, Value>) -> Result<Vec<u8>, String> {
    let path = match fields.get("path_hex") {
        Some(hex) => {
            let hex = hex.as_str().and_then(bytes_of_hex);
            hex.ok_or("'path_hex' is not a text of two hexadecimal digits a byte")?
        }
        None => {
            let path = get(fields, "path")?.as_str();
            path.ok_or("'path' is not a text")?.as_bytes().to_vec()
        }
    };
    let names = path
        .strip_prefix(b"/")
        .ok_or("'path' does not begin with '/'")?;
    let strange = |name: &[u8]| name.is_empty() || name == b"." || name == b"..";
    if path.contains(&0) || names.split(|&byte| byte == b'/').any(strange) {
        return Err("'path' has an empty name, a dot, or a NUL".to_owned());
    }
    Ok(path)
}

fn start(fields: &Map<String, Value>) -> Result<Option<u64>, String> {
    let start = match fields.get("start") {
        None | Some(Value::Null) => return Ok(None),
        Some(start) => start.as_u64().filter(|&start| start <= i64::MAX as u64),
    };
    match start {
        Some(start) if start % RANGE == 0 => Ok(Some(start)),
        _ => Err("'start' is not a multiple of 1048576 within a file".to_owned()),
    }
}

fn each<T: Copy + Default, const N: usize>(
    fields: &Map<String, Value>,
    names: [&str; N],
    take: impl Fn(&Map<String, Value>, &str) -> Result<T, String>,
) -> Result<[T; N], String> {
    let mut values = [T::default(); N];
    for (value, name) in values.iter_mut().zip(names) {
        *value = take(fields, name)?;
    }
    Ok(values)
}

fn count(fields: &Map<String, Value>, name: &str) -> Result<u64, String> {
    let count = get(fields, name)?.as_u64();
    count.ok_or_else(|| format!("'{name}' is not a count"))
}

fn number(fields: &Map<String, Value>, name: &str) -> Result<f64, String> {
    let number = get(fields, name)?.as_f64();
    let number = number.filter(|number| (0.0..=MAX).contains(number));
    number.ok_or_else(|| format!("'{name}' is not a number of 0 or more"))
}

/// Seconds since the epoch in milliseconds; `None` for null.
fn time(fields: &Map<String, Value>, name: &str) -> Result<Option<f64>, String> {
    match get(fields, name)? {
        Value::Null => Ok(None),
        _ => number(fields, name).map(|seconds| Some(seconds * 1000.0)),
    }
}

fn get<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a Value, String> {
    fields.get(name).ok_or_else(|| format!("no '{name}'"))
}

fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"path":"/a b","start":1048576,"at":1700000000.5,"temperature":50,
        "reads":1,"read_bytes":2,"writes":3,"written_bytes":4,"loads":5,"reads_per_second":1.5,
        "writes_per_second":0,"bytes_per_second":7,"long_reads_per_second":0.1,
        "long_writes_per_second":0,"long_bytes_per_second":0,"last_read":null,"last_write":9}"#;

    fn changed(from: &str, to: &str) -> Result<ExportedHeat, String> {
        assert!(GOOD.contains(from), "{from}");
        line(&GOOD.replace(from, to))
    }

    #[test]
    fn a_line_is_read_whole() {
        let read = line(GOOD).unwrap();
        assert_eq!((&*read.path, read.start), (&b"/a b"[..], Some(1 << 20)));
        assert_eq!((read.at_ms, read.temperature), (1_700_000_000_500.0, 50.0));
        let totals = [
            read.reads,
            read.read_bytes,
            read.writes,
            read.written_bytes,
            read.loads,
        ];
        assert_eq!(
            (totals, read.rates),
            ([1, 2, 3, 4, 5], rates([1.5, 0.0, 7.0]))
        );
        assert_eq!(
            (read.last_read_ms, read.last_write_ms),
            (None, Some(9000.0))
        );
        assert_eq!(changed("1048576", "null").unwrap().start, None);
        let named = changed(r#""path":"/a b""#, r#""path":"?","path_hex":"2fFF""#);
        assert_eq!(named.unwrap().path, b"/\xff");
    }

    #[test]
    fn each_mistake_is_named() {
        for (from, to, said) in [
            (r#""path":"/a b""#, r#""path":"a""#, "'path' does not begin"),
            (r#""path":"/a b""#, r#""path":"/a/../b""#, "a dot"),
            (r#""path":"/a b""#, r#""path":7"#, "'path' is not a text"),
            (r#""path":"/a b""#, r#""path_hex":"2fF""#, "'path_hex'"),
            ("1048576", "1048577", "'start'"),
            ("1048576", "-1", "'start'"),
            (r#":50,"#, r#":101,"#, "'temperature' is not 0 to 100"),
            (r#":50,"#, r#":-1,"#, "'temperature' is not a number"),
            (r#""reads":1,"#, r#""reads":-1,"#, "'reads' is not a count"),
            (r#""reads":1,"#, "", "no 'reads'"),
            (":1.5", ":1e99", "'reads_per_second' is not"),
            (
                r#""last_write":9"#,
                r#""last_write":"x""#,
                "'last_write' is not",
            ),
        ] {
            let why = changed(from, to).expect_err(to);
            assert!(why.contains(said), "{to}: {why}");
        }
        assert!(line("{").unwrap_err().starts_with("not JSON (EOF"));
        assert_eq!(line("[]").unwrap_err(), "not a JSON object");
    }

    #[test]
    fn bad_lines_have_their_numbers() {
        let good = GOOD.replace('\n', " ");
        let text = format!("{good}\n\nnonsense\n{good}\n{{}}\n");
        let numbers: Vec<usize> = bad_lines(&text).iter().map(|bad| bad.line).collect();
        assert_eq!(numbers, [3, 5]);
        assert_eq!(records(&good).unwrap().len(), 1);
    }
}
