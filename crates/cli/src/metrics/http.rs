//! The little of HTTP/1.1 that a scrape needs: one request a connection, without a body.

use std::fmt::Write as _;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::time::{Duration, Instant};

/// Largest head of a request; Prometheus sends some 300 bytes.
const HEAD: usize = 8 << 10;
const HEADERS: usize = 64;
/// How long a head may take to arrive, in however small pieces.
const PATIENCE: Duration = Duration::from_secs(10);

/// Text for Prometheus: 0.0.4, which every version takes.
pub const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
pub const TEXT: &str = "text/plain; charset=utf-8";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// GET of a path, without what follows a question mark.
    Get(String),
    /// HEAD of a path.
    Head(String),
    /// Another method.
    Other,
    /// No request of HTTP.
    Nonsense,
}

/// A status line and a body.
#[derive(Debug)]
pub struct Reply<'a> {
    pub status: &'a str,
    pub kind: &'a str,
    pub body: &'a str,
}

/// Reads a request; nothing if the other side went away before it was whole.
///
/// # Errors
/// The connection fails, or takes too long.
pub fn request(connection: &mut impl Read) -> Result<Option<Asked>> {
    let end = Instant::now() + PATIENCE;
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        let got = match connection.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            got => got?,
        };
        if got == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&piece[..got]);
        if let Some(asked) = parse(&head) {
            return Ok(Some(asked));
        }
        if head.len() > HEAD {
            return Ok(Some(Asked::Nonsense));
        }
        if Instant::now() >= end {
            return Err(Error::from(ErrorKind::TimedOut));
        }
    }
}

/// The request, if all of its head is there.
fn parse(head: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Asked::Nonsense),
    }
    let path = request.path.unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default().to_owned();
    Some(match request.method {
        Some("GET") => Asked::Get(path),
        Some("HEAD") => Asked::Head(path),
        _ => Asked::Other,
    })
}

/// Writes a reply, without its body if only the head was asked for.
///
/// # Errors
/// The other side is gone or does not take it.
pub fn reply(connection: &mut impl Write, reply: &Reply<'_>, head_only: bool) -> Result<()> {
    let Reply { status, kind, body } = reply;
    let mut text = String::with_capacity(256 + body.len());
    // `String` takes whatever is written to it.
    let _ = write!(
        text,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n",
        body.len()
    );
    if status.starts_with("405") {
        text.push_str("Allow: GET, HEAD\r\n");
    }
    text.push_str("\r\n");
    if !head_only {
        text.push_str(body);
    }
    connection.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out its bytes one at a time.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, into: &mut [u8]) -> Result<usize> {
            let some = self.0.len().min(1);
            into[..some].copy_from_slice(&self.0[..some]);
            self.0 = &self.0[some..];
            Ok(some)
        }
    }

    fn asked(text: &str) -> Option<Asked> {
        request(&mut Slowly(text.as_bytes())).unwrap()
    }

    #[test]
    fn requests_are_understood_in_whatever_pieces_they_come() {
        let get = asked("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\nrest");
        assert_eq!(get, Some(Asked::Get("/metrics".into())));
        let head = asked("HEAD / HTTP/1.0\r\n\r\n");
        assert_eq!(head, Some(Asked::Head("/".into())));
        assert_eq!(asked("POST / HTTP/1.1\r\n\r\n"), Some(Asked::Other));
        assert_eq!(asked("GET /metrics HTTP/1.1\r\nHost"), None);
        assert_eq!(asked("\u{1}\u{2}\u{3}\r\n\r\n"), Some(Asked::Nonsense));
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(2 * HEAD));
        assert_eq!(asked(&long), Some(Asked::Nonsense));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS + 1));
        assert_eq!(asked(&many), Some(Asked::Nonsense));
    }

    #[test]
    fn a_reply_has_its_length_and_a_head_alone_no_body() {
        let (mut whole, mut head) = (Vec::new(), Vec::new());
        let of = Reply {
            status: "405 Method Not Allowed",
            kind: TEXT,
            body: "é\n",
        };
        reply(&mut whole, &of, false).unwrap();
        reply(&mut head, &of, true).unwrap();
        let whole = String::from_utf8(whole).unwrap();
        assert!(whole.contains("\r\nContent-Length: 3\r\n"), "{whole}");
        assert!(whole.contains("\r\nAllow: GET, HEAD\r\n"), "{whole}");
        assert_eq!(whole.as_bytes(), [&head[..], "é\n".as_bytes()].concat());
    }
}
