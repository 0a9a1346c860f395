//! The live view: threads that wait for keys, signals, the end of the terminal and the mount, and
//! one that draws.

use super::draw::{HEADS, TABS, column_at, draw, tab_at};
use super::frame::Frame;
use super::inbox::{Inbox, Input};
use super::look::Look;
use super::reading::{Reading, lost};
use super::sampler::{self, Orders};
use super::screen::{Screen, give_back_modes};
use super::state::{Act, State};
use super::waits;
use crate::failure::{Failure, reason};
use crate::{locks, signals};
use hearth_sync::primitive::{Arc, thread};
use ratatui::crossterm::event::{self, Event, KeyEventKind, MouseButton, MouseEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use std::time::{Duration, Instant};

/// How often the screen is drawn without a reason: it tells how long the mount has been silent.
const IDLE: Duration = Duration::from_secs(1);
/// After the first look: rates are shown soon.
const SOON: Duration = Duration::from_millis(250);
/// How long a thread that draws has to end by itself.
const GRACE: Duration = Duration::from_secs(1);
/// Rows of one turn of the wheel.
const WHEEL: isize = 3;
/// The status of a program that SIGHUP has ended.
const HUNG_UP: u8 = 129;

/// Why a view ends.
enum End {
    /// A person wished it.
    Quit,
    /// The mount has ended, or the terminal fails.
    Failed(Failure),
    /// Nobody is there to be told; a status.
    Silently(u8),
}

/// Shows `mount` until a person, a signal or the end of something ends it.
pub fn run(state: State, has_mouse: bool) -> Result<(), Failure> {
    let mount = state.mount.clone();
    let failed = |error: std::io::Error| Failure::refused(format!("terminal: {}", reason(&error)));
    let (inbox, orders) = (Arc::new(Inbox::default()), Arc::new(Orders::default()));
    // Before the terminal is taken: a signal must not leave it so.
    watch_signals(&inbox).map_err(failed)?;
    let mut screen = Screen::take(has_mouse).map_err(failed)?;
    watch_terminal(&inbox).map_err(failed)?;
    let mut view = View {
        state,
        look: Look::of_terminal(),
        last: None,
        orders,
        first_device: None,
        is_recording: false,
    };
    view.order(true);
    let sampler = (mount.clone(), Arc::clone(&view.orders), Arc::clone(&inbox));
    spawn("top-sampler", move || {
        sampler::run(&sampler.0, &sampler.1, &sampler.2);
    })
    .map_err(failed)?;
    let end = view.until_end(&mut screen, &inbox);
    drop(screen);
    if view.is_recording {
        // The mount may have ended; then so has the profile.
        let _ = locks::switch(&mount, "off");
    }
    match end {
        End::Quit => Ok(()),
        End::Failed(failure) => Err(failure),
        End::Silently(status) => Err(Failure {
            line: String::new(),
            status,
        }),
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn(run).map(drop)
}

/// Tells of signals. If the thread that draws does not end (it waits for a terminal that takes
/// nothing), the program ends here.
fn watch_signals(inbox: &Arc<Inbox>) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new(signals::of_an_end())?;
    let inbox = Arc::clone(inbox);
    spawn("top-signals", move || {
        if let Some(signal) = signals.forever().next() {
            inbox.put(Input::Signal(signal));
            end_anyway(128 + signal);
        }
    })
}

/// Tells of keys, and of the end of the terminal: `crossterm` sees no end, and would read for ever.
fn watch_terminal(inbox: &Arc<Inbox>) -> std::io::Result<()> {
    let keys = Arc::clone(inbox);
    spawn("top-keys", move || {
        while let Ok(event) = event::read() {
            keys.put(Input::Terminal(event));
        }
        keys.put(Input::HungUp);
    })?;
    let inbox = Arc::clone(inbox);
    spawn("top-terminal", move || {
        let out = std::io::stdout();
        loop {
            let mut fds = [PollFd::new(&out, PollFlags::empty())];
            let polled = poll(&mut fds, None);
            if polled.is_ok() && !fds[0].revents().is_empty() {
                break;
            }
        }
        inbox.put(Input::HungUp);
        end_anyway(i32::from(HUNG_UP));
    })
}

fn end_anyway(status: i32) {
    thread::sleep(GRACE);
    give_back_modes();
    std::process::exit(status);
}

struct View {
    state: State,
    look: Look,
    /// The last look at the mount.
    last: Option<Reading>,
    orders: Arc<Orders>,
    /// The device of the first look.
    first_device: Option<u64>,
    /// Whether this program has turned the lock profile on.
    is_recording: bool,
}

impl View {
    fn until_end(&mut self, screen: &mut Screen, inbox: &Inbox) -> End {
        loop {
            // Keys that wait are all taken before the screen is drawn.
            if inbox.is_empty()
                && let Err(end) = self.draw(screen)
            {
                return end;
            }
            let Some(input) = inbox.take(IDLE) else {
                continue;
            };
            if let Err(end) = self.input(screen, input) {
                return end;
            }
        }
    }

    fn draw(&mut self, screen: &mut Screen) -> Result<(), End> {
        let (state, look) = (&mut self.state, self.look);
        let drawn = screen.terminal.draw(|frame| {
            state.resize(usize::from(frame.area().height));
            draw(frame, state, look, Instant::now());
        });
        // A terminal that takes nothing has gone away.
        drawn.map(drop).map_err(|_| End::Silently(HUNG_UP))
    }

    fn input(&mut self, screen: &mut Screen, input: Input) -> Result<(), End> {
        let act = match input {
            Input::Terminal(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                self.state.key(key)
            }
            Input::Terminal(Event::Mouse(mouse)) => {
                let width = screen.terminal.size().map_or(80, |size| size.width);
                self.mouse(mouse, width)
            }
            Input::Terminal(_) => Act::Show,
            Input::Look(look) => return self.look(*look),
            Input::Complaint(failure) => {
                self.is_recording = false;
                self.state.complaint = Some(failure.line);
                Act::Show
            }
            Input::HungUp => return Err(End::Silently(HUNG_UP)),
            Input::Signal(signal) => {
                return Err(End::Silently(u8::try_from(128 + signal).unwrap_or(1)));
            }
        };
        self.act(screen, act)
    }

    fn act(&mut self, screen: &mut Screen, act: Act) -> Result<(), End> {
        let drawn = match act {
            Act::Show => {
                self.order(false);
                Ok(())
            }
            Act::Look => {
                self.order(true);
                Ok(())
            }
            Act::Profile => {
                self.profile();
                Ok(())
            }
            Act::Repaint => screen.repaint(),
            Act::Suspend => screen.suspend(),
            Act::Quit => return Err(End::Quit),
        };
        drawn.map_err(|_| End::Silently(HUNG_UP))
    }

    fn order(&self, is_urgent: bool) {
        let interval = match self.last {
            Some(_) => self.state.interval,
            None => self.state.interval.min(SOON),
        };
        self.orders.set(self.state.wanted(), interval, is_urgent);
    }

    fn mouse(&mut self, mouse: event::MouseEvent, width: u16) -> Act {
        match mouse.kind {
            MouseEventKind::ScrollDown => self.state.scroll(WHEEL),
            MouseEventKind::ScrollUp => self.state.scroll(-WHEEL),
            MouseEventKind::Down(MouseButton::Left) if mouse.row == TABS => {
                if let Some(tab) = tab_at(mouse.column) {
                    return self.state.open(tab);
                }
            }
            MouseEventKind::Down(MouseButton::Left) if mouse.row == HEADS => {
                if let Some(column) = column_at(&self.state, width, mouse.column) {
                    self.state.sort_by(column);
                }
            }
            _ => {}
        }
        Act::Show
    }

    /// Turns the lock profile on or off, by what was last seen of it.
    fn profile(&mut self) {
        let seen = self.last.as_ref().and_then(|last| last.locks.as_ref());
        let is_running = match seen {
            Some(Ok(profile)) => waits::is_running(profile),
            _ => return,
        };
        self.is_recording = !is_running;
        self.orders.switch(if is_running { "off" } else { "on" });
    }

    /// The difference to the look before is what is shown.
    fn look(&mut self, look: Result<Reading, Failure>) -> Result<(), End> {
        let reading = look.map_err(|failure| self.ended(&failure))?;
        if *self.first_device.get_or_insert(reading.device) != reading.device {
            let other = Failure::refused("another filesystem is there now");
            return Err(self.ended(&other));
        }
        if let Some(last) = &self.last {
            let frame = Frame::between(&self.state.mount, last, &reading);
            self.state.take(frame, Instant::now());
        }
        let is_second = self.last.is_some();
        self.last = Some(reading);
        if !is_second {
            // The second look comes soon; those after it at their pace.
            self.orders
                .set(self.state.wanted(), SOON.min(self.state.interval), false);
        } else {
            self.order(false);
        }
        Ok(())
    }

    /// The mount was there when the view began.
    fn ended(&self, failure: &Failure) -> End {
        End::Failed(lost(&self.state.mount, failure))
    }
}
