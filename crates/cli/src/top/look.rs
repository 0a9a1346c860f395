//! Colours and signs that the terminal has.

use super::grid::Tone;
use crate::heat::palette::{Shades, colour, index};
use crate::output;
use ratatui::style::{Color, Modifier, Style};

/// How things look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Colours. Without any, all of them are the terminal's own.
    pub shades: Shades,
    /// Whether blocks and dots can be shown.
    pub has_blocks: bool,
}

impl Look {
    /// As the environment says.
    pub fn of_terminal() -> Look {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL")
            .or_else(|| set("LC_CTYPE"))
            .or_else(|| set("LANG"));
        let locale = locale.unwrap_or_default().to_lowercase();
        Look {
            shades: match output::has_colour() {
                true => Shades::for_stdout(),
                false => Shades::None,
            },
            has_blocks: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// What stands for text that was cut off.
    pub fn cut(self) -> char {
        if self.has_blocks { '…' } else { '~' }
    }

    /// The sign of a temperature along a file: a height, or a digit for tens of degrees.
    pub fn sign(self, cell: Option<f64>) -> String {
        match (self.has_blocks, cell) {
            (true, cell) => Shades::None.strip(&[cell]),
            (false, None) => ".".to_owned(),
            (false, Some(t)) => ((t / 10.0) as u32).min(9).to_string(),
        }
    }

    /// The style of a cell.
    pub fn style(self, tone: Tone) -> Style {
        let has_colour = self.shades != Shades::None;
        match tone {
            Tone::Plain => Style::new(),
            Tone::Hot(temperature) => self.heat(temperature),
            Tone::Warn if has_colour => Style::new().fg(Color::Yellow),
            Tone::Bad if has_colour => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Warn => Style::new().add_modifier(Modifier::BOLD),
            Tone::Bad => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// The colour of a temperature; the scale begins too dark for text on a dark screen, so that
    /// cold text has none.
    fn heat(self, temperature: f64) -> Style {
        match self.shades {
            Shades::None => Style::new(),
            _ if temperature < 25.0 => Style::new(),
            Shades::Few => Style::new().fg(Color::Indexed(index(temperature))),
            Shades::All => {
                let (red, green, blue) = colour(temperature);
                Style::new().fg(Color::Rgb(red, green, blue))
            }
        }
    }
}
