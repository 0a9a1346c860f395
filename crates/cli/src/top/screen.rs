//! The terminal: it is taken, and given back as it was, at every end.

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::style::force_color_output;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::Rect;
use std::io::{Stdout, stdout};

/// The status of a program that has panicked.
const PANICKED: i32 = 101;

/// The screen of a terminal. Dropping it gives the terminal back.
pub struct Screen {
    /// Where it is drawn.
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
    has_mouse: bool,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The terminal's.
    pub fn take(has_mouse: bool) -> std::io::Result<Screen> {
        let screen = Screen {
            terminal: Terminal::new(CrosstermBackend::new(stdout()))?,
            has_mouse,
        };
        let before = std::panic::take_hook();
        // What a panic says is to be read on the terminal as it was. Whichever thread it ends, the
        // others are of no use without it.
        std::panic::set_hook(Box::new(move |info| {
            let _ = give_back();
            before(info);
            std::process::exit(PANICKED);
        }));
        // Who does not want colours gets the terminal's own from us; what else the variable does in
        // this library is to leave out bold and reverse.
        force_color_output(true);
        enter(has_mouse)?;
        Ok(screen)
    }

    /// Stops this program as Ctrl-Z does, and takes the terminal again when it goes on.
    ///
    /// # Errors
    /// The terminal's.
    pub fn suspend(&mut self) -> std::io::Result<()> {
        give_back()?;
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP)?;
        enter(self.has_mouse)?;
        self.repaint()
    }

    /// Draws everything anew next time. The library's own way asks the terminal for the cursor, and
    /// the thread that reads keys would get the answer.
    ///
    /// # Errors
    /// The terminal's.
    pub fn repaint(&mut self) -> std::io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from(size))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = give_back();
    }
}

fn enter(has_mouse: bool) -> std::io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
    if has_mouse {
        execute!(stdout(), EnableMouseCapture)?;
    }
    Ok(())
}

fn give_back() -> std::io::Result<()> {
    // First: it works also where the terminal takes no more bytes.
    disable_raw_mode()?;
    execute!(
        stdout(),
        DisableMouseCapture,
        LeaveAlternateScreen,
        cursor::Show
    )
}

/// What can be given back while another thread may hold standard output for ever.
pub fn give_back_modes() {
    let _ = disable_raw_mode();
}
