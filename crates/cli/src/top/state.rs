//! What a person has chosen to see, and how keys change it. Nothing here reads or draws.

use super::args::INTERVALS;
use super::frame::Frame;
use super::grid::Sorting;
use super::page::{TabView, page, sorting};
use super::reading::Wanted;
use super::tab::{Ranked, Tab};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Lines of the screen that are not rows: title, tabs, note, heading, keys.
pub const AROUND: usize = 5;

/// What a key asks for beyond another screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Show,
    /// A look at the mount now: something else is shown.
    Look,
    /// The lock profile on, or off.
    Profile,
    /// The whole screen again.
    Repaint,
    /// The shell, until it continues the program.
    Suspend,
    /// The end.
    Quit,
}

/// The choices.
#[derive(Debug)]
pub struct State {
    /// Where the volume is mounted.
    pub mount: PathBuf,
    /// The tab.
    pub tab: Tab,
    /// What the heat tab ranks.
    pub ranked: Ranked,
    /// Only rows with this in their name.
    pub filter: String,
    /// Whether keys go to the filter.
    pub is_typing: bool,
    /// Whether later frames are not shown.
    pub is_frozen: bool,
    /// Whether the keys are explained.
    pub has_help: bool,
    /// Time between two looks.
    pub interval: Duration,
    /// What went wrong with the last wish, until the next key.
    pub complaint: Option<String>,
    sortings: [Sorting; Tab::ALL.len()],
    first: usize,
    height: usize,
    frame: Option<Frame>,
    heard: Instant,
}

impl State {
    /// At the beginning nothing is known of the mount.
    pub fn new(mount: &Path, tab: Tab, interval: Duration) -> State {
        State {
            mount: mount.to_owned(),
            tab,
            ranked: Ranked::default(),
            filter: String::new(),
            is_typing: false,
            is_frozen: false,
            has_help: false,
            interval,
            complaint: None,
            sortings: Tab::ALL.map(sorting),
            first: 0,
            height: 24,
            frame: None,
            heard: Instant::now(),
        }
    }

    /// What has to be read for it.
    pub fn wanted(&self) -> Wanted {
        Wanted::of(self.tab, self.ranked)
    }

    /// The mount has answered. A frozen screen stays as it is.
    pub fn take(&mut self, frame: Frame, now: Instant) {
        self.heard = now;
        if !self.is_frozen {
            self.frame = Some(frame);
            self.scroll(0);
        }
    }

    /// For how long the mount has not answered, if that is too long.
    pub fn silent(&self, now: Instant) -> Option<Duration> {
        let silent = now.saturating_duration_since(self.heard);
        (silent > self.interval * 2 + Duration::from_secs(2)).then_some(silent)
    }

    /// What is shown.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// The tab, filtered and sorted.
    pub fn page(&self) -> TabView {
        let Some(frame) = &self.frame else {
            return TabView {
                note: "reading ...".to_owned(),
                ..TabView::default()
            };
        };
        let mut page = page(&self.mount, frame, self.tab, self.ranked);
        page.grid.filter(&self.filter);
        page.grid.sort(self.sorting());
        page
    }

    /// How rows are sorted.
    pub fn sorting(&self) -> Sorting {
        self.sortings[self.tab as usize]
    }

    /// Number of the first row that is shown.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The terminal has so many lines.
    pub fn resize(&mut self, lines: usize) {
        self.height = lines;
        self.scroll(0);
    }

    /// Rows that fit.
    pub fn rows(&self) -> usize {
        self.height.saturating_sub(AROUND).max(1)
    }

    /// Shows rows further down, or up.
    pub fn scroll(&mut self, rows: isize) {
        let all = self.page().grid.rows.len();
        let last = all.saturating_sub(self.rows());
        self.first = self.first.saturating_add_signed(rows).min(last);
    }

    /// Sorts by a column; again by the same, the other way round.
    pub fn sort_by(&mut self, column: usize) {
        let sorting = &mut self.sortings[self.tab as usize];
        *sorting = Sorting {
            column,
            reversed: sorting.column == column && !sorting.reversed,
        };
    }

    /// Shows another tab.
    pub fn open(&mut self, tab: Tab) -> Act {
        if self.tab == tab {
            return Act::Show;
        }
        self.tab = tab;
        self.first = 0;
        self.thawed()
    }

    /// What another tab shows is not in a frozen frame.
    fn thawed(&mut self) -> Act {
        self.is_frozen = false;
        Act::Look
    }

    /// A key was pressed.
    pub fn key(&mut self, key: KeyEvent) -> Act {
        self.complaint = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Act::Quit,
                KeyCode::Char('z') => Act::Suspend,
                KeyCode::Char('l') => Act::Repaint,
                _ => Act::Show,
            };
        }
        if self.is_typing {
            return self.typed(key.code);
        }
        if std::mem::take(&mut self.has_help) && key.code != KeyCode::Char('q') {
            return Act::Show;
        }
        self.chosen(key.code)
    }

    /// A key of the filter.
    fn typed(&mut self, code: KeyCode) -> Act {
        match code {
            KeyCode::Char(char) => self.filter.push(char),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
        self.first = 0;
        Act::Show
    }

    fn chosen(&mut self, code: KeyCode) -> Act {
        let page = self.rows() as isize;
        match code {
            KeyCode::Char('q') => return Act::Quit,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char(digit @ '1'..='5') => {
                return self.open(Tab::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Tab | KeyCode::Right => return self.open(self.tab.further(1)),
            KeyCode::BackTab | KeyCode::Left => {
                return self.open(self.tab.further(Tab::ALL.len() - 1));
            }
            KeyCode::Char('s') => self.next_column(1),
            KeyCode::Char('S') => self.next_column(usize::MAX),
            KeyCode::Char('r') => self.sortings[self.tab as usize].reversed ^= true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ') => {
                self.is_frozen ^= true;
                return if self.is_frozen { Act::Show } else { Act::Look };
            }
            KeyCode::Char('v') if self.tab == Tab::Heat => {
                self.ranked = self.ranked.next();
                self.first = 0;
                return self.thawed();
            }
            KeyCode::Char('p') if self.tab == Tab::Locks => return Act::Profile,
            KeyCode::Char('+') => self.pace(2.0),
            KeyCode::Char('-') => self.pace(0.5),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::PageDown => self.scroll(page),
            KeyCode::PageUp => self.scroll(-page),
            KeyCode::Home => self.scroll(isize::MIN),
            KeyCode::End => self.scroll(isize::MAX),
            _ => {}
        }
        Act::Show
    }

    /// Sorts by the column so many places further.
    fn next_column(&mut self, places: usize) {
        let columns = self.page().grid.columns.len();
        if columns == 0 {
            return;
        }
        let column = match (self.sorting().column, places) {
            (usize::MAX, _) => 0,
            (column, usize::MAX) => (column + columns - 1) % columns,
            (column, places) => (column + places) % columns,
        };
        let reversed = false;
        self.sortings[self.tab as usize] = Sorting { column, reversed };
    }

    /// Looks more seldom, or more often.
    fn pace(&mut self, factor: f64) {
        let [least, most] = INTERVALS;
        self.interval = self.interval.mul_f64(factor).clamp(least, most);
    }
}

#[cfg(test)]
mod tests;
