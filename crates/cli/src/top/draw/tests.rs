use super::super::sample;
use super::*;
use crate::heat::palette::Shades;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::Color;
use std::path::Path;
use std::time::Duration;

const PLAIN: Look = Look {
    shades: Shades::None,
    has_blocks: false,
};

fn state(tab: Tab) -> State {
    let mut state = State::new(Path::new("/srv/data"), tab, Duration::from_secs(1));
    state.take(sample::frame(), Instant::now());
    state
}

fn buffer(state: &State, look: Look, (columns, lines): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal
        .draw(|screen| draw(screen, state, look, Instant::now()))
        .unwrap();
    terminal.backend().buffer().clone()
}

fn lines_of(state: &State, look: Look, size: (u16, u16)) -> Vec<String> {
    let buffer = buffer(state, look, size);
    let cells = buffer.content().chunks(usize::from(size.0));
    cells
        .map(|line| {
            let line: String = line.iter().map(|cell| cell.symbol()).collect();
            line.trim_end().to_owned()
        })
        .collect()
}

fn lines(state: &State) -> Vec<String> {
    lines_of(state, PLAIN, (80, 24))
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn eighty_by_twenty_four_shows_a_title_tabs_a_table_and_keys() {
    let lines = lines(&state(Tab::Operations));
    assert!(lines[0].starts_with("hearth top /srv/data"), "{lines:#?}");
    assert!(lines[0].ends_with("1.5k ops/s, 1.0s"), "{lines:#?}");
    let tabs = " 1 Operations  2 Tenants  3 Heat  4 Locks  5 Store";
    assert_eq!(lines[1], tabs);
    let heads = "OPERATION OPS/s* ERR/s LOAD MEAN P50 P99 ERRORS% TOTAL";
    assert_eq!(words(&lines[3]).join(" "), heads);
    let read = "read 1.4k - 0.01 10us <16us <65us - 1.0M";
    assert_eq!(words(&lines[4]).join(" "), read);
    assert_eq!(words(&lines[6])[..3], ["unlink", "-", "-"]);
    assert!(lines[23].ends_with("? help  q quit"), "{lines:#?}");
}

#[test]
fn every_tab_has_rows_and_keys_at_eighty_places() {
    for tab in Tab::ALL {
        let lines = lines(&state(tab));
        assert!(lines[23].ends_with("? help  q quit"), "{lines:#?}");
    }
    let first = |tab| lines(&state(tab))[4].clone();
    let tenant = first(Tab::Tenants);
    let wanted = "project:7 900 90% 0 30us 250ms 100 1.0M 1.0M 100% 0";
    assert!(words(&tenant).join(" ").starts_with(wanted), "{tenant}");
    let file = first(Tab::Heat);
    assert!(
        file.starts_with("/logs/hot.log") && file.ends_with(" 90."),
        "{file}"
    );
    let lock = words(&first(Tab::Locks)).join(" ");
    assert_eq!(
        lock,
        "directory.bucket 1.5% 20% 900ns 7.0us 250ns 9.0us 4.0k"
    );
    assert_eq!(words(&first(Tab::Store)), ["dirty", "2.0K"]);
}

#[test]
fn no_place_of_a_plain_screen_has_a_colour_of_its_own() {
    for tab in Tab::ALL {
        let buffer = buffer(&state(tab), PLAIN, (80, 24));
        let own =
            |cell: &&ratatui::buffer::Cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset);
        assert_eq!(buffer.content().iter().find(own), None, "{tab:?}");
    }
    let coloured = Look {
        shades: Shades::All,
        has_blocks: true,
    };
    let buffer = buffer(&state(Tab::Heat), coloured, (80, 24));
    let is_coloured = |cell: &ratatui::buffer::Cell| matches!(cell.fg, Color::Rgb(..));
    assert!(buffer.content().iter().any(is_coloured));
    assert!(lines_of(&state(Tab::Heat), coloured, (80, 24))[4].ends_with(" █▁·"));
}

#[test]
fn a_row_that_is_full_stands_out_also_without_colour() {
    let buffer = buffer(&state(Tab::Tenants), PLAIN, (80, 24));
    let row = &buffer.content()[4 * 80..5 * 80];
    let reversed = row
        .iter()
        .filter(|cell| cell.modifier.contains(Modifier::REVERSED));
    let text: String = reversed.map(|cell| cell.symbol()).collect();
    assert_eq!(text.trim(), "100%");
}

#[test]
fn states_of_the_screen_are_told() {
    let mut state = state(Tab::Operations);
    let press = |state: &mut State, char| state.key(KeyEvent::from(KeyCode::Char(char)));
    press(&mut state, ' ');
    assert!(lines(&state)[0].contains("FROZEN"));
    press(&mut state, ' ');
    press(&mut state, '/');
    press(&mut state, 'u');
    let typing = lines(&state);
    assert!(typing[23].starts_with("/u_"), "{typing:#?}");
    assert!(
        typing[4].starts_with("unlink") && typing[5].is_empty(),
        "{typing:#?}"
    );
    state.key(KeyEvent::from(KeyCode::Enter));
    assert!(lines(&state)[23].contains("'u' alone"));
    press(&mut state, '?');
    assert!(lines(&state)[3].starts_with("Tab, Left"));
    state.complaint = Some("not yours".to_owned());
    assert_eq!(lines(&state)[23], "not yours");
}

#[test]
fn a_mount_that_does_not_answer_is_told() {
    let state = state(Tab::Operations);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let later = Instant::now() + Duration::from_secs(9);
    terminal
        .draw(|screen| draw(screen, &state, PLAIN, later))
        .unwrap();
    let first = &terminal.backend().buffer().content()[..80];
    let first: String = first.iter().map(|cell| cell.symbol()).collect();
    assert!(
        first.contains("no answer for 9s") || first.contains("no answer for 8s"),
        "{first}"
    );
}

#[test]
fn any_size_is_drawn_in_and_small_ones_say_so() {
    for tab in Tab::ALL {
        let mut state = state(tab);
        for size in [(1, 1), (39, 24), (40, 8), (80, 7), (132, 50), (400, 3)] {
            state.resize(usize::from(size.1));
            let lines = lines_of(&state, PLAIN, size);
            let is_small = size.0 < 40 || size.1 < 8;
            assert_eq!(
                lines[0].contains("hearth"),
                !is_small,
                "{size:?} {lines:#?}"
            );
        }
    }
}

#[test]
fn clicks_find_tabs_and_columns() {
    assert_eq!(tab_at(0), Some(Tab::Operations));
    assert_eq!(tab_at(14), Some(Tab::Tenants));
    assert_eq!(tab_at(70), None);
    let state = state(Tab::Operations);
    let heads = lines(&state)[3].clone();
    let at = |head: &str| column_at(&state, 80, heads.find(head).unwrap() as u16);
    assert_eq!(
        [at("OPERATION"), at("LOAD"), at("TOTAL")],
        [Some(0), Some(3), Some(8)]
    );
}
