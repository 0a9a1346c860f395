use super::*;

const COLUMNS: &[Column] = &[
    Column::text("NAME", 10, 60),
    Column::number("A", 5),
    Column::number("B", 7),
    Column::text("STRIP", 4, 40),
];

fn grid() -> Grid {
    let row = |name: &str, a: Option<f64>| {
        let number = |value| Cell::number(value, |v| v.to_string());
        let strip = Cell::strip(vec![a, None]);
        vec![Cell::text(name), number(a), number(Some(1.0)), strip]
    };
    Grid {
        columns: COLUMNS,
        rows: vec![
            row("read", Some(5.0)),
            row("Open", None),
            row("write", Some(70.0)),
        ],
    }
}

fn names(grid: &Grid) -> Vec<String> {
    let name = |row: &Vec<Cell>| match &row[0].content {
        Content::Text(name) => name.clone(),
        other => panic!("{other:?}"),
    };
    grid.rows.iter().map(name).collect()
}

#[test]
fn numbers_stand_largest_first_and_names_by_the_alphabet() {
    let sorted = |column, reversed| {
        let mut grid = grid();
        grid.sort(Sorting { column, reversed });
        names(&grid)
    };
    assert_eq!(sorted(1, false), ["write", "read", "Open"]);
    assert_eq!(sorted(1, true), ["Open", "read", "write"]);
    assert_eq!(sorted(0, false), ["Open", "read", "write"]);
    assert_eq!(sorted(3, false), ["write", "read", "Open"]);
    // Equal ones stay as they were.
    assert_eq!(sorted(2, false), ["read", "Open", "write"]);
}

#[test]
fn a_filter_knows_no_case_and_looks_at_names() {
    for (words, left) in [("", 3), ("E", 3), ("open", 1), ("70", 0), ("rea", 1)] {
        let mut grid = grid();
        grid.filter(words);
        assert_eq!(grid.rows.len(), left, "{words}");
    }
}

#[test]
fn columns_fill_the_width_and_go_from_the_right_where_it_is_too_small() {
    let grid = grid();
    assert_eq!(grid.fitted(39), [(0, 16), (1, 5), (2, 7), (3, 8)]);
    assert_eq!(grid.fitted(29), [(0, 10), (1, 5), (2, 7), (3, 4)]);
    assert_eq!(grid.fitted(17), [(0, 11), (1, 5)]);
    assert_eq!(grid.fitted(6), [(0, 6)]);
    for places in 11..200 {
        let fitted = grid.fitted(places);
        let used: usize = fitted.iter().map(|(_, places)| places + 1).sum();
        assert_eq!(used - 1, places);
    }
}

#[test]
fn paths_keep_their_end_and_names_their_beginning() {
    assert_eq!(path_end("/a/bc/file.rs", 20, '~'), "/a/bc/file.rs");
    assert_eq!(path_end("/a/bc/file.rs", 12, '~'), "~/bc/file.rs");
    assert_eq!(path_end("/a/bc/file.rs", 10, '~'), "~/file.rs");
    assert_eq!(path_end("/a/a-very-long-name.rs", 8, '~'), "~name.rs");
    assert_eq!(path_end("/日本語", 5, '~'), "~本語");
    assert_eq!(fitting("operation", 5, true, '~'), "oper~");
    assert_eq!(fitting("日本語", 4, true, '~'), "日~ ");
    assert_eq!(fitting("7", 3, false, '~'), "  7");
    assert_eq!(fitting("abc", 0, false, '~'), "");
}

#[test]
fn a_squeezed_strip_keeps_its_hottest() {
    let cells = [Some(1.0), None, None, Some(90.0), None, None];
    assert_eq!(squeezed(&cells, 6), cells);
    assert_eq!(squeezed(&cells, 3), [Some(1.0), Some(90.0), None]);
    for places in 1..6 {
        let small = squeezed(&cells, places);
        assert_eq!(small.len(), places);
        assert!(small.contains(&Some(90.0)), "{small:?}");
    }
}
