//! The server: a thread for each connection, one scrape at a time.

use super::http::{self, Asked, Reply};
use super::listen::{Listen, Listener};
use super::worker::Worker;
use crate::failure::{Failure, reason};
use crate::{output, signals};
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use hearth_sync::primitive::{Arc, Mutex, thread};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::time::{Duration, Instant};

/// Connections that are served at once; more are turned away.
const CONNECTIONS: usize = 32;
/// How long to rest when no connection can be taken, for want of descriptors.
const REST: Duration = Duration::from_millis(100);

/// Serves until a signal asks to end.
///
/// # Errors
/// The place cannot be listened on.
pub fn run(place: &Listen, worker: Worker) -> Result<(), Failure> {
    let mut signals = Signals::new(signals::of_an_end())
        .map_err(|error| Failure::refused(format!("signals: {}", reason(&error))))?;
    let listener = Listener::bind(place)?;
    let file = match &listener {
        Listener::Unix(_, file) => Some(file.clone()),
        Listener::Tcp(_) => None,
    };
    let shown = listener.shown();
    let server = Arc::new(MetricsServer {
        scrapes: Mutex::new(Scrapes { worker, last: None }),
        connections: AtomicUsize::new(0),
    });
    let accepting = move || server.accept(&listener);
    let builder = thread::Builder::new().name("hearth-accept".into());
    builder
        .spawn(accepting)
        .map_err(|error| Failure::refused(format!("no thread: {}", reason(&error))))?;
    output::print_and_go_on(&format!("listening on {shown}\n"))?;
    signals.forever().next();
    if let Some(file) = file {
        file.remove();
    }
    Ok(())
}

struct MetricsServer {
    scrapes: Mutex<Scrapes>,
    /// A count alone: it orders nothing, so Relaxed is enough.
    connections: AtomicUsize,
}

struct Scrapes {
    worker: Worker,
    /// When the last page was begun, and the page.
    last: Option<(Instant, Arc<String>)>,
}

impl MetricsServer {
    fn accept(self: &Arc<MetricsServer>, listener: &Listener) {
        loop {
            let Ok(mut connection) = listener.accept() else {
                thread::sleep(REST);
                continue;
            };
            let turn = Turn::take(self);
            let server = Arc::clone(self);
            let serve = move || match turn {
                Some(_turn) => server.serve(connection),
                None => {
                    let busy = Reply {
                        status: "503 Service Unavailable",
                        kind: http::TEXT,
                        body: "too many connections\n",
                    };
                    // Whoever is turned away may have gone already.
                    let _ = http::reply(&mut connection, &busy, false);
                }
            };
            // Without a thread the connection is closed, which says as much.
            let _ = thread::Builder::new()
                .name("hearth-http".into())
                .spawn(serve);
        }
    }

    fn serve(&self, mut connection: File) {
        let Ok(Some(asked)) = http::request(&mut connection) else {
            return;
        };
        let text = |status, body| Reply {
            status,
            kind: http::TEXT,
            body,
        };
        let (path, head_only) = match &asked {
            Asked::Get(path) => (&**path, false),
            Asked::Head(path) => (&**path, true),
            Asked::Other => ("", false),
            Asked::Nonsense => ("", false),
        };
        let page;
        let failure;
        let reply = match (&asked, path) {
            (Asked::Other, _) => text("405 Method Not Allowed", "only GET and HEAD\n"),
            (Asked::Nonsense, _) => text("400 Bad Request", "this is no request of HTTP/1.1\n"),
            (_, "/metrics") => match self.page() {
                Ok(of_now) => {
                    page = of_now;
                    Reply {
                        status: "200 OK",
                        kind: http::METRICS,
                        body: &page,
                    }
                }
                Err(error) => {
                    failure = error.line + "\n";
                    text("500 Internal Server Error", &failure)
                }
            },
            (_, "/") => text("200 OK", "metrics of Hearth mounts are at /metrics\n"),
            _ => text("404 Not Found", "metrics are at /metrics\n"),
        };
        // Whoever asked may have gone.
        let _ = http::reply(&mut connection, &reply, head_only);
    }

    /// A page that was begun after this call. Those who ask during a scrape share the next one.
    fn page(&self) -> Result<Arc<String>, Failure> {
        let asked = Instant::now();
        let mut scrapes = self.scrapes.lock();
        if let Some((begun, page)) = &scrapes.last
            && *begun >= asked
        {
            return Ok(Arc::clone(page));
        }
        let begun = Instant::now();
        let page = Arc::new(scrapes.worker.collect()?);
        scrapes.last = Some((begun, Arc::clone(&page)));
        Ok(page)
    }
}

/// One of the connections that may be served at once.
struct Turn(Arc<MetricsServer>);

impl Turn {
    fn take(server: &Arc<MetricsServer>) -> Option<Turn> {
        let before = server.connections.fetch_add(1, Ordering::Relaxed);
        let turn = Turn(Arc::clone(server));
        (before < CONNECTIONS).then_some(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
