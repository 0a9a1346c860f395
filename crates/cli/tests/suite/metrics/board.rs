//! The queries of the board of Grafana, and the fields that each of its panels has to have. A field
//! that is not named here, or has another type, is a mistake. Grafana's own decoders are asked what
//! they take (`crates/python/tests/test_board.py`).

// Fields are there to be decoded.
#![allow(dead_code)]

use serde::Deserialize;
use std::collections::HashSet;
use std::path::Path;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Board {
    uid: String,
    title: String,
    description: String,
    tags: Vec<String>,
    timezone: String,
    editable: bool,
    graph_tooltip: u8,
    schema_version: u16,
    version: u32,
    refresh: String,
    time: Time,
    templating: List<Variable>,
    annotations: List<Nothing>,
    links: Vec<Nothing>,
    panels: Vec<Panel>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List<T> {
    list: Vec<T>,
}

/// No value is one of these.
#[derive(Debug, Deserialize)]
enum Nothing {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Time {
    from: String,
    to: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "type", rename_all = "camelCase")]
enum Variable {
    Datasource(SourceVariable),
    Query(QueryVariable),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceVariable {
    name: String,
    label: String,
    query: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct QueryVariable {
    name: String,
    label: String,
    datasource: Source,
    query: String,
    refresh: u8,
    sort: u8,
    multi: bool,
    include_all: bool,
    all_value: String,
    current: Current,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Current {
    selected: bool,
    text: String,
    value: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    r#type: String,
    uid: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Panel {
    Row(Row),
    Stat(Graph<StatOptions>),
    Timeseries(Graph<SeriesOptions>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Row {
    id: u32,
    title: String,
    collapsed: bool,
    grid_pos: Place,
    panels: Vec<Nothing>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Graph<Options> {
    id: u32,
    title: String,
    description: String,
    datasource: Source,
    grid_pos: Place,
    targets: Vec<Target>,
    field_config: FieldConfig,
    options: Options,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    x: u32,
    y: u32,
    w: u32,
    h: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Target {
    ref_id: String,
    datasource: Source,
    expr: String,
    legend_format: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldConfig {
    defaults: Field,
    overrides: Vec<Nothing>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Field {
    unit: String,
    min: Option<f64>,
    max: Option<f64>,
    thresholds: Option<Thresholds>,
    color: Color,
    custom: Option<Custom>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Thresholds {
    mode: String,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    value: Option<f64>,
    color: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Color {
    mode: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Custom {
    draw_style: String,
    line_width: f64,
    fill_opacity: f64,
    show_points: String,
    span_nulls: bool,
    stacking: Stacking,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stacking {
    mode: String,
    group: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StatOptions {
    graph_mode: String,
    color_mode: String,
    justify_mode: String,
    text_mode: String,
    orientation: String,
    reduce_options: Reduce,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reduce {
    values: bool,
    calcs: Vec<String>,
    fields: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesOptions {
    legend: Legend,
    tooltip: Tooltip,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Legend {
    display_mode: String,
    placement: String,
    show_legend: bool,
    calcs: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tooltip {
    mode: String,
    sort: String,
}

impl Board {
    /// The board that users import.
    pub fn read() -> Board {
        serde_json::from_str(&text()).unwrap_or_else(|error| panic!("hearth.json: {error}"))
    }

    /// Every query, as Grafana puts it to Prometheus: all mounts, and rates over `interval`.
    pub fn queries(&self, interval: &str) -> Vec<String> {
        let of_panels = self.panels.iter().flat_map(|panel| match panel {
            Panel::Row(_) => &[][..],
            Panel::Stat(graph) => &graph.targets,
            Panel::Timeseries(graph) => &graph.targets,
        });
        let of_panels = of_panels.map(|target| {
            let query = target.expr.replace("$mount", ".*");
            query.replace("$__rate_interval", interval)
        });
        let of_variables = self
            .templating
            .list
            .iter()
            .filter_map(|variable| match variable {
                Variable::Query(variable) => {
                    let inside = variable
                        .query
                        .strip_prefix("label_values(")?
                        .strip_suffix(')')?;
                    let (metric, label) = inside.split_once(", ")?;
                    Some(format!("count by ({label}) ({metric})"))
                }
                Variable::Datasource(_) => None,
            });
        let queries: Vec<_> = of_panels.chain(of_variables).collect();
        assert!(
            queries.iter().all(|query| !query.contains('$')),
            "{queries:?}"
        );
        queries
    }
}

fn text() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/grafana/hearth.json");
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn the_board_is_decoded_strictly() {
    let board = Board::read();
    assert!(board.queries("1m").len() > 25);
    for typo in [
        "legendFormat",
        "showLegend",
        "drawStyle",
        "calcs",
        "allValue",
        "gridPos",
    ] {
        let wrong = text().replace(&format!("\"{typo}\""), &format!("\"{typo}s\""));
        assert!(serde_json::from_str::<Board>(&wrong).is_err(), "{typo}");
    }
}

#[test]
fn panels_have_a_place_of_their_own() {
    let panels = Board::read().panels;
    let places: Vec<(u32, Place)> = panels
        .iter()
        .map(|panel| match panel {
            Panel::Row(row) => (row.id, row.grid_pos),
            Panel::Stat(graph) => (graph.id, graph.grid_pos),
            Panel::Timeseries(graph) => (graph.id, graph.grid_pos),
        })
        .collect();
    let ids: HashSet<u32> = places.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), places.len());
    for (number, (id, a)) in places.iter().enumerate() {
        assert!(a.x + a.w <= 24, "panel {id}");
        for (other, b) in &places[number + 1..] {
            let beside = a.x + a.w <= b.x || b.x + b.w <= a.x;
            let above = a.y + a.h <= b.y || b.y + b.h <= a.y;
            assert!(beside || above, "panels {id} and {other}");
        }
    }
}
