//! Colours and bars of temperatures.

use crate::output;

/// The scale from dark violet over red to pale yellow, as (temperature, red, green, blue). It grows
/// lighter all the way, so that it reads in grey as well.
const SCALE: [(f64, f64, f64, f64); 6] = [
    (0.0, 58.0, 48.0, 110.0),
    (25.0, 122.0, 40.0, 122.0),
    (45.0, 187.0, 55.0, 84.0),
    (60.0, 227.0, 89.0, 51.0),
    (80.0, 249.0, 150.0, 30.0),
    (100.0, 252.0, 236.0, 140.0),
];

/// Heights of a block.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Lengths of a block, in eighths.
const LENGTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// What stands for no record.
const NOTHING: char = '·';

/// The colour of a temperature.
pub fn colour(temperature: f64) -> (u8, u8, u8) {
    let t = temperature.clamp(0.0, 100.0);
    let above = SCALE
        .iter()
        .position(|step| t <= step.0)
        .unwrap_or(SCALE.len() - 1);
    let (low, high) = (SCALE[above.max(1) - 1], SCALE[above.max(1)]);
    let part = (t - low.0) / (high.0 - low.0);
    let mix = |a: f64, b: f64| (a + (b - a) * part).round() as u8;
    (mix(low.1, high.1), mix(low.2, high.2), mix(low.3, high.3))
}

/// The nearest of the 256 colours of a terminal.
pub fn index(temperature: f64) -> u8 {
    let (red, green, blue) = colour(temperature);
    let fifth = |part: u8| ((u32::from(part) * 5 + 127) / 255) as u8;
    16 + 36 * fifth(red) + 6 * fifth(green) + fifth(blue)
}

/// The colour of a temperature as CSS has it.
pub fn css(temperature: f64) -> String {
    let (red, green, blue) = colour(temperature);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// How many colours standard output has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shades {
    /// No terminal, or one that shall have none.
    None,
    /// The 256 of a terminal.
    Few,
    /// All.
    All,
}

impl Shades {
    /// None where standard output shall have no colour.
    pub fn for_stdout() -> Shades {
        if !output::has_colour() {
            return Shades::None;
        }
        match std::env::var("COLORTERM").as_deref() {
            Ok("truecolor" | "24bit") => Shades::All,
            _ => Shades::Few,
        }
    }

    /// `text` in the colour of a temperature.
    pub fn paint(self, temperature: f64, text: &str) -> String {
        match self {
            Shades::None => text.to_owned(),
            Shades::All => {
                let (red, green, blue) = colour(temperature);
                format!("\x1b[38;2;{red};{green};{blue}m{text}\x1b[0m")
            }
            Shades::Few => format!("\x1b[38;5;{}m{text}\x1b[0m", index(temperature)),
        }
    }

    /// `text` in bold.
    pub fn bold(self, text: &str) -> String {
        match self {
            Shades::None => text.to_owned(),
            _ => format!("\x1b[1m{text}\x1b[0m"),
        }
    }

    /// A bar of `width` places, filled to `share` (0 to 1), in the colour of a temperature.
    pub fn bar(self, share: f64, width: usize, temperature: f64) -> String {
        let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
        let mut bar: String = std::iter::repeat_n('█', eighths / 8).collect();
        match eighths % 8 {
            0 => {}
            part => bar.push(LENGTHS[part]),
        }
        let rest = width - bar.chars().count();
        format!("{}{}", self.paint(temperature, &bar), " ".repeat(rest))
    }

    /// A cell for each temperature along a file. Height tells it, and colour where there is some.
    pub fn strip(self, cells: &[Option<f64>]) -> String {
        let mut strip = String::new();
        for same in cells.chunk_by(|a, b| a == b) {
            let text = |c: char| same.iter().map(|_| c).collect::<String>();
            match same[0] {
                None => strip += &text(NOTHING),
                Some(t) => {
                    let height = (t / 100.0 * 8.0) as usize;
                    strip += &self.paint(t, &text(HEIGHTS[height.min(7)]));
                }
            }
        }
        strip
    }

    /// A row of a picture: solid where colour tells the temperature.
    pub fn band(self, cells: &[Option<f64>]) -> String {
        match self {
            Shades::None => self.strip(cells),
            _ => {
                let runs = cells.chunk_by(|a, b| a == b);
                runs.map(|same| match same[0] {
                    None => NOTHING.to_string().repeat(same.len()),
                    Some(t) => self.paint(t, &"█".repeat(same.len())),
                })
                .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_grows_lighter_all_the_way() {
        let light = |t: i32| {
            let (red, green, blue) = colour(f64::from(t));
            0.2126 * f64::from(red) + 0.7152 * f64::from(green) + 0.0722 * f64::from(blue)
        };
        // Whole numbers of red, green and blue are too coarse for single degrees.
        for t in 0..=95 {
            assert!(light(t + 5) > light(t), "{t}");
        }
        assert_eq!(
            (css(0.0), css(100.0)),
            ("#3a306e".to_owned(), "#fcec8c".to_owned())
        );
        assert_eq!(css(-5.0), css(0.0));
    }

    #[test]
    fn bars_and_strips_have_their_width() {
        let bars = [0.0, 0.5, 0.55, 1.0, 7.0].map(|share| Shades::None.bar(share, 4, 50.0));
        assert_eq!(bars, ["    ", "██  ", "██▎ ", "████", "████"]);
        let cells = [None, Some(0.0), Some(50.0), Some(100.0), Some(100.0), None];
        assert_eq!(Shades::None.strip(&cells), "·▁▅██·");
        assert_eq!(Shades::Few.paint(100.0, "x"), "\x1b[38;5;229mx\x1b[0m");
    }
}
