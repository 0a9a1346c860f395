use super::super::grid::Content;
use super::super::sample;
use super::*;

fn state(tab: Tab) -> State {
    let mut state = State::new(Path::new("/mnt"), tab, Duration::from_secs(1));
    state.take(sample::frame(), Instant::now());
    state
}

fn press(state: &mut State, keys: &str) -> Act {
    let mut act = Act::Show;
    for char in keys.chars() {
        let code = match char {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            char => KeyCode::Char(char),
        };
        act = state.key(KeyEvent::from(code));
    }
    act
}

fn names(state: &State) -> Vec<String> {
    let name = |row: &Vec<super::super::grid::Cell>| match &row[0].content {
        Content::Text(name) | Content::Path(name) => name.clone(),
        other => panic!("{other:?}"),
    };
    state.page().grid.rows.iter().map(name).collect()
}

#[test]
fn tabs_are_opened_by_number_and_in_a_circle() {
    let mut state = state(Tab::Operations);
    assert_eq!(press(&mut state, "3"), Act::Look);
    assert_eq!(state.wanted(), Wanted::of(Tab::Heat, Ranked::Files));
    assert_eq!(press(&mut state, "\t\t\t"), Act::Look);
    assert_eq!(state.tab, Tab::Operations);
    let left = state.key(KeyEvent::from(KeyCode::BackTab));
    assert_eq!((left, state.tab), (Act::Look, Tab::Store));
    assert_eq!(press(&mut state, "5"), Act::Show);
}

#[test]
fn rows_are_sorted_by_the_chosen_column_of_each_tab() {
    let mut state = state(Tab::Operations);
    assert_eq!(names(&state), ["read", "getattr", "unlink"]);
    press(&mut state, "r");
    assert_eq!(names(&state), ["unlink", "getattr", "read"]);
    press(&mut state, "S");
    assert_eq!(state.sorting().column, 0);
    assert_eq!(names(&state), ["getattr", "read", "unlink"]);
    press(&mut state, "S");
    assert_eq!(state.sorting().column, 8);
    press(&mut state, "2");
    assert_eq!(names(&state), ["project:7", "user:root"]);
    press(&mut state, "1");
    assert_eq!(state.sorting().column, 8);
    state.sort_by(8);
    assert!(state.sorting().reversed);
}

#[test]
fn facts_keep_their_order_until_they_are_sorted() {
    let mut state = state(Tab::Store);
    assert_eq!(names(&state)[0], "dirty");
    press(&mut state, "s");
    assert_eq!(names(&state)[0], "changes");
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut state = state(Tab::Operations);
    press(&mut state, "/q");
    assert!(state.is_typing && names(&state).is_empty());
    press(&mut state, "\x08REA");
    assert_eq!(names(&state), ["read"]);
    assert_eq!(press(&mut state, "\n"), Act::Show);
    assert!(!state.is_typing && state.filter == "REA");
    assert_eq!(press(&mut state, "q"), Act::Quit);
    press(&mut state, "\x1b");
    assert_eq!(names(&state).len(), 3);
}

#[test]
fn a_frozen_screen_stays_and_another_tab_thaws_it() {
    let mut state = state(Tab::Operations);
    assert_eq!(press(&mut state, " "), Act::Show);
    let later = || {
        let mut later = sample::frame();
        later.operations.truncate(1);
        later
    };
    state.take(later(), Instant::now());
    assert_eq!(names(&state).len(), 3);
    assert_eq!(press(&mut state, " "), Act::Look);
    state.take(later(), Instant::now());
    assert_eq!(names(&state).len(), 1);
    press(&mut state, " ");
    assert_eq!(press(&mut state, "3"), Act::Look);
    assert!(!state.is_frozen);
}

#[test]
fn heat_ranks_files_ranges_and_directories_in_turn() {
    let mut state = state(Tab::Heat);
    assert_eq!(names(&state)[0], "/logs/hot.log");
    assert_eq!(press(&mut state, "v"), Act::Look);
    assert_eq!(state.wanted().heat, [Ranked::Ranges]);
    // Not read yet.
    assert!(names(&state).is_empty());
    press(&mut state, "vv");
    assert_eq!(state.wanted().heat, [Ranked::Files]);
    press(&mut state, "1");
    assert_eq!(press(&mut state, "v"), Act::Show);
}

#[test]
fn scrolling_ends_with_the_rows_also_after_a_resize() {
    let mut state = state(Tab::Operations);
    state.resize(AROUND + 2);
    press(&mut state, "jjjj");
    assert_eq!(state.first(), 1);
    state.key(KeyEvent::from(KeyCode::Home));
    assert_eq!(state.first(), 0);
    state.key(KeyEvent::from(KeyCode::End));
    assert_eq!(state.first(), 1);
    state.resize(AROUND + 20);
    assert_eq!(state.first(), 0);
    state.resize(0);
    assert_eq!(state.rows(), 1);
}

#[test]
fn help_goes_with_any_key_and_control_keys_always_work() {
    let mut state = state(Tab::Operations);
    press(&mut state, "?");
    assert!(state.has_help);
    assert_eq!(press(&mut state, "3"), Act::Show);
    assert!(!state.has_help && state.tab == Tab::Operations);
    press(&mut state, "/");
    let control = |char| KeyEvent::new(KeyCode::Char(char), KeyModifiers::CONTROL);
    assert_eq!(state.key(control('z')), Act::Suspend);
    assert_eq!(state.key(control('l')), Act::Repaint);
    assert_eq!(state.key(control('c')), Act::Quit);
    assert!(state.filter.is_empty());
}

#[test]
fn the_pace_has_bounds_and_a_late_answer_is_told() {
    let mut state = state(Tab::Locks);
    assert_eq!(press(&mut state, "p"), Act::Profile);
    press(&mut state, "--------");
    assert_eq!(state.interval, Duration::from_millis(100));
    press(&mut state, &"+".repeat(40));
    assert_eq!(state.interval, Duration::from_secs(3600));
    let mut state = State::new(Path::new("/mnt"), Tab::Heat, Duration::from_secs(1));
    let begun = Instant::now();
    assert_eq!(state.silent(begun + Duration::from_secs(3)), None);
    assert!(state.silent(begun + Duration::from_secs(5)).is_some());
    state.take(sample::frame(), begun + Duration::from_secs(5));
    assert_eq!(state.silent(begun + Duration::from_secs(6)), None);
}
