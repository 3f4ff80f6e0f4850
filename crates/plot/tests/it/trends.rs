//! A trend shows its changes by words and shapes, to sighted, keyboard and screen-reader users, and
//! reports what it omits.

use crate::charts::{change, trend, trend_note};
use crate::drawing::{labels, marks, number, tooltip};
use roxmltree::{Document, Node};
use speedwell_plot::{
    AnyChart, ChartPoint, ImageSize, TrendChart, TrendDetail, TrendLevel, TrendNoteKind,
    TrendPoint, TrendState, VerdictMark,
};
use std::collections::HashSet;

/// Renders the chart at this width and its natural height.
fn draw(chart: &TrendChart, width_px: u32) -> String {
    as_file(&AnyChart::Trend(chart.clone()).svg_on_page(width_px, "c"))
}

/// A page knows the SVG namespace implicitly; a file needs it.
fn as_file(svg: &str) -> String {
    svg.replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1)
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    labels(&document).into_iter().map(|label| label.text).collect()
}

/// The parts of every change mark, without positions: its distinguishing features besides color.
fn shapes(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let look = |mark: Node<'_, '_>| {
        let parts = mark.children().filter(|part| part.is_element());
        let parts =
            parts.filter(|part| !["title", "rect", "text"].contains(&part.tag_name().name()));
        let look = |part: Node<'_, '_>| {
            let fill = part.attribute("fill").unwrap_or_default();
            let is_hollow = fill.contains("paper") || fill == "none";
            let dash = part.attribute("stroke-dasharray").unwrap_or_default();
            format!("{} {is_hollow} {dash}", part.tag_name().name())
        };
        parts.map(look).collect::<Vec<_>>().join(", ")
    };
    marks(&document, "g", "change").into_iter().map(look).collect()
}

const STATES: [(TrendState, &str); 5] = [
    (TrendState::Suspected, "suspected"),
    (TrendState::Found, "found"),
    (TrendState::Confirmed, "confirmed"),
    (TrendState::Refuted, "refuted"),
    (TrendState::Withdrawn, "withdrawn"),
];

/// A trend with a change in every state, and a drift.
fn every_state() -> TrendChart {
    let mut chart = trend(&["old"], 80);
    let place = |at: usize| 10.0 + 12.0 * at as f64;
    chart.changes = STATES
        .iter()
        .enumerate()
        .map(|(at, (state, _))| change(at, place(at), *state, VerdictMark::Worse))
        .collect();
    let mut drift = change(9, place(5), TrendState::Found, VerdictMark::Worse);
    drift.is_drift = true;
    chart.changes.push(drift);
    chart
}

#[test]
fn every_change_has_a_label_and_can_be_reached_by_keyboard() {
    let chart = every_state();
    for width in [360, 960, 1280] {
        let svg = draw(&chart, width);
        let document = Document::parse(&svg).unwrap();
        let reached = marks(&document, "g", "change");
        assert_eq!(reached.len(), chart.changes.len());
        let written = texts(&svg);
        for (mark, change) in reached.iter().zip(&chart.changes) {
            assert_eq!(mark.attribute("tabindex"), Some("0"));
            assert_eq!(mark.attribute("aria-label"), Some(&*change.description));
            assert_eq!(tooltip(*mark), change.description);
            let state = mark.attribute("data-state").unwrap();
            let own = format!("{}: ", change.name);
            let words = written.iter().find(|text| text.starts_with(&own)).unwrap();
            assert!(words.ends_with(state) && words.contains("+5.0%"), "{width}: {words}");
            assert_eq!(words.contains("drift"), change.is_drift, "{words}");
        }
    }
}

#[test]
fn states_differ_in_shape() {
    let shapes = shapes(&draw(&every_state(), 960));
    // Whether a change was refuted by runs or by later points is shown by words only.
    let different: HashSet<_> = shapes.iter().collect();
    assert_eq!((shapes.len(), different.len()), (6, 5), "{shapes:?}");
}

/// A point on its level is reachable by the pointer: the drawing above the points lets events
/// through.
#[test]
fn a_point_on_its_level_can_be_pointed_at() {
    let svg = draw(&every_state(), 800);
    let document = Document::parse(&svg).unwrap();
    let mut groups = document.descendants().filter(|node| node.has_tag_name("g")).map(|node| {
        let name = node.attribute("class").unwrap_or_default();
        (name, node.attribute("pointer-events"))
    });
    assert!(groups.any(|(name, _)| name == "levels"), "below, with its words");
    assert!(groups.any(|(name, _)| name.split(' ').any(|name| name == "points")));
    let above = groups.find(|(name, _)| name.starts_with("levels"));
    assert_eq!(above, Some(("levels-above", Some("none"))));
}

#[test]
fn a_drift_is_a_dashed_line_from_level_to_level() {
    let mut chart = trend(&["old"], 60);
    let count = |chart: &TrendChart| draw(chart, 960).matches("class=\"slope\"").count();
    assert_eq!(count(&chart), 0);
    chart.changes[0].is_drift = true;
    assert_eq!(count(&chart), 1);
    let levels = chart.levels.clone();
    let of = |machine: usize| {
        levels.iter().map(move |level| TrendLevel { machine: Some(machine), ..*level })
    };
    chart.levels = (0..3).flat_map(of).collect();
    assert_eq!(count(&chart), 3, "each machine has its own");
}

#[test]
fn a_point_has_its_tooltip_figures_as_data_attributes() {
    let mut chart = trend(&["lab-3", "gh-ubuntu"], 60);
    chart.points[8].at = ChartPoint::with_interval(8.0, 26_705.5, 26_475.0, 26_806.25);
    chart.points[9].at = ChartPoint::with_interval(9.0, 26_705.5, 26_475.0, 26_806.25);
    let svg = draw(&chart, 960);
    let document = Document::parse(&svg).unwrap();
    let points = marks(&document, "use", "point");
    let point = points.iter().find(|point| point.attribute("data-session") == Some("@9")).unwrap();
    for (name, value) in [
        ("revision", "00a1b3bb4c"),
        ("subject", "change 8 of the parser"),
        ("value", "26705.5"),
        ("low", "26475"),
        ("high", "26806.25"),
        ("runs", "14"),
        ("machine", "lab-3"),
    ] {
        let attribute = format!("data-{name}");
        assert_eq!(point.attribute(&*attribute), Some(value), "{name}");
    }
    assert_eq!(
        tooltip(*point),
        "00a1b3bb4c change 8 of the parser\n26,705.5 ns [26,475, 26,806.2]\n14 runs, lab-3, @9"
    );
}

#[test]
fn a_terse_trend_draws_the_same_without_details_of_points() {
    let mut chart = trend(&["old"], 60);
    let full = draw(&chart, 960);
    chart.detail = TrendDetail::Nothing;
    let terse = draw(&chart, 960);
    assert_same_places(&vertices(&terse), &places(&full));
    assert!(full.contains("data-revision") && !terse.contains("data-revision"));
    assert_eq!(texts(&terse), texts(&full));
    assert!(terse.len() < full.len() / 2, "{} of {}", terse.len(), full.len());
}

/// Positions of the marks of each kind.
fn places(svg: &str) -> Vec<Vec<(f64, f64)>> {
    let document = Document::parse(svg).unwrap();
    let groups = document.descendants().filter(|node| {
        let class = node.attribute("class").unwrap_or_default();
        node.tag_name().name() == "g" && class.starts_with("points")
    });
    let place = |point: Node<'_, '_>| (number(point, "x"), number(point, "y"));
    let points = groups.map(|group| group.children().filter(Node::is_element).map(place));
    points.map(Iterator::collect).collect()
}

/// The same for a drawing without point details: the vertices of the lines with markers, which must
/// be defined.
fn vertices(svg: &str) -> Vec<Vec<(f64, f64)>> {
    let document = Document::parse(svg).unwrap();
    let lines = document.descendants().filter(|node| node.has_attribute("marker-mid"));
    let vertices = |line: Node<'_, '_>| {
        for end in ["start", "mid", "end"] {
            let marker = line.attribute(&*format!("marker-{end}")).unwrap();
            let id = marker.trim_start_matches("url(#").trim_end_matches(')');
            let mut known = document.descendants();
            assert!(known.any(|node| node.attribute("id") == Some(id)), "{id}");
        }
        let path = line.attribute("d").unwrap().trim_start_matches('M');
        let numbers = path.trim_end_matches("h0").split(' ');
        let numbers: Vec<f64> = numbers.map(|text| text.parse().unwrap()).collect();
        numbers.chunks(2).map(|at| (at[0], at[1])).collect()
    };
    lines.map(vertices).collect()
}

/// Asserts that positions differ by no more than the rounding of paths.
#[track_caller]
fn assert_same_places(one: &[Vec<(f64, f64)>], other: &[Vec<(f64, f64)>]) {
    let counts = |places: &[Vec<(f64, f64)>]| places.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(counts(one), counts(other));
    for (one, other) in one.iter().flatten().zip(other.iter().flatten()) {
        let apart = (one.0 - other.0).abs().max((one.1 - other.1).abs());
        assert!(apart < 0.06, "{one:?} {other:?}");
    }
}

#[test]
fn tooltips_alone_show_the_same_with_half_of_the_markup() {
    let full = trend(&["old", "new"], 60);
    let brief = TrendChart { detail: TrendDetail::Tooltips, ..full.clone() };
    let (full_svg, brief_svg) = (draw(&full, 960), draw(&brief, 960));
    let tooltips = |svg: &str| -> Vec<String> {
        let document = Document::parse(svg).unwrap();
        let marks = document.descendants().filter(|node| node.tag_name().name() == "use");
        marks.map(tooltip).collect()
    };
    assert_eq!(tooltips(&brief_svg), tooltips(&full_svg));
    assert_same_places(&places(&brief_svg), &places(&full_svg));
    assert!(!brief_svg.contains("data-revision"));
    let points = |svg: &str| -> usize {
        let lines = svg.lines().filter(|line| line.starts_with("<use"));
        lines.map(str::len).sum()
    };
    assert!(2 * points(&brief_svg) < points(&full_svg));
    // If all points are of one machine, they need not name it.
    let one = |detail| TrendChart { detail, ..trend(&["only"], 60) };
    let said = |detail| tooltips(&draw(&one(detail), 960))[0].contains("only");
    assert!(said(TrendDetail::Full) && !said(TrendDetail::Tooltips));
}

#[test]
fn machines_differ_in_marker_and_avoid_verdict_colours() {
    let chart = trend(&["a", "b", "c", "d", "e"], 60);
    let svg = draw(&chart, 960);
    let document = Document::parse(&svg).unwrap();
    let shape = |id: usize| {
        let id = format!("c-point{id}");
        let shape = document.descendants().find(|node| node.attribute("id") == Some(&*id));
        shape.unwrap().attribute("d").unwrap().to_owned()
    };
    let shapes: HashSet<String> = (0..5).map(shape).collect();
    assert_eq!(shapes.len(), 5);
    for points in marks(&document, "g", "points") {
        let colour = points.attribute("fill").unwrap();
        assert!(!["var(--plot-series-1)", "var(--plot-series-2)"].contains(&colour), "{colour}");
    }
    let named = texts(&svg);
    assert!(["a", "b", "c", "d", "e"].iter().all(|name| named.contains(&(*name).to_owned())));
}

#[test]
fn points_with_uncommitted_changes_are_hollow() {
    let svg = draw(&trend(&["old"], 60), 960);
    let document = Document::parse(&svg).unwrap();
    let aside = marks(&document, "g", "points aside");
    assert_eq!(aside.len(), 1);
    assert_eq!(aside[0].attribute("fill"), Some("var(--plot-paper)"));
    let point = aside[0].children().find(Node::is_element).unwrap();
    assert!(tooltip(point).ends_with("uncommitted changes"), "{}", tooltip(point));
    assert!(texts(&svg).contains(&"uncommitted changes".to_owned()), "the legend says it");
}

/// Rising points, so that every bucket can be checked by its figures.
fn rising(count: usize) -> TrendChart {
    let point = |at: usize| TrendPoint {
        at: ChartPoint::new(at as f64, at as f64),
        machine: at % 2,
        revision: at.to_string(),
        ..TrendPoint::default()
    };
    TrendChart {
        machines: vec!["a".into(), "b".into()],
        points: (0..count).map(point).collect(),
        changes: vec![change(1, 501.0, TrendState::Found, VerdictMark::Worse)],
        notes: vec![trend_note(1700.5, TrendNoteKind::Work, "another benchmark")],
        ..TrendChart::default()
    }
}

#[test]
fn up_to_a_thousand_points_are_drawn_one_by_one() {
    let svg = draw(&rising(1000), 960);
    assert_eq!(svg.matches("class=\"point\"").count(), 1000);
    assert!(!svg.contains("median"));
}

#[test]
fn more_than_a_thousand_points_are_drawn_as_buckets_with_a_note() {
    let svg = draw(&rising(4000), 960);
    let said = texts(&svg).join(" ");
    let wanted = "4,000 points: each mark is the median of up to 10, and its bar shows their range";
    assert!(said.contains(wanted), "{said}");
    let document = Document::parse(&svg).unwrap();
    let mut seen = 0.0;
    for bucket in marks(&document, "use", "point") {
        let [from, to, count, value, low, high] = ["from", "to", "points", "value", "low", "high"]
            .map(|name| number(bucket, &format!("data-{name}")));
        for border in [500.5, 1700.5] {
            assert!(to < border || from > border, "{from} to {to} lies across {border}");
        }
        // Every second point is of the other machine.
        assert_eq!(to - from, 2.0 * (count - 1.0));
        assert_eq!((low, high, value), (from, to, f64::midpoint(from, to)));
        seen += count;
    }
    assert_eq!(seen, 4000.0, "every point is in a bucket");
}

#[test]
fn an_isolated_outlier_is_an_arrow_and_two_in_a_row_are_a_level() {
    let strays = |wild: &[usize]| {
        let mut chart = trend(&["old"], 60);
        for at in wild {
            chart.points[*at].at = ChartPoint::new(*at as f64, 9_000.0);
        }
        let svg = draw(&chart, 960);
        (svg.matches("class=\"stray\"").count(), texts(&svg).join(" ").contains("beyond the axis"))
    };
    assert_eq!(strays(&[]), (0, false));
    assert_eq!(strays(&[20]), (1, true));
    assert_eq!(strays(&[20, 40]), (2, true));
    assert_eq!(strays(&[20, 21]), (0, false));
    assert_eq!(strays(&[59]), (0, false), "the newest point may begin a level");
}

#[test]
fn a_wide_interval_does_not_flatten_the_trend() {
    let height = |half: f64| {
        let mut chart = trend(&["old"], 60);
        chart.points[7].at = ChartPoint::with_interval(7.0, 100.0, 100.0 - half, 100.0 + half);
        let svg = draw(&chart, 960);
        let document = Document::parse(&svg).unwrap();
        let y: Vec<f64> = marks(&document, "line", "level")
            .into_iter()
            .map(|level| number(level, "y1"))
            .collect();
        (y[0] - y[1]).abs()
    };
    assert!(height(1e6) > 0.5 * height(0.5));
}

#[test]
fn notes_are_lines_and_failures_are_crosses() {
    let svg = draw(&trend(&["old"], 60), 960);
    let document = Document::parse(&svg).unwrap();
    let said = |class: &str, tag: &str| -> Vec<String> {
        marks(&document, tag, class).into_iter().map(tooltip).collect()
    };
    assert_eq!(said("note", "line"), ["kernel 6.1 → 6.8", "another benchmark"]);
    assert_eq!(said("tag", "line"), ["v1.4.0"]);
    assert_eq!(said("failure", "path"), ["failed: exit 3"]);
    let written = texts(&svg);
    for words in ["kernel 6.1 → 6.8", "another benchmark", "v1.4.0", "failed"] {
        assert!(written.contains(&words.to_owned()), "{words} is written: {written:?}");
    }
}

#[test]
fn the_main_line_continues_dotted_after_the_branch() {
    let mut chart = trend(&["old"], 60);
    let dotted = |chart: &TrendChart| draw(chart, 960).matches("class=\"continuation\"").count();
    assert_eq!(dotted(&chart), 1);
    assert!(texts(&draw(&chart, 960)).contains(&"main, after the fork".to_owned()));
    chart.continuation = None;
    assert_eq!(dotted(&chart), 0);
}

#[test]
fn the_newest_and_the_oldest_revision_are_always_named() {
    for width in [300, 500, 900] {
        let written = texts(&draw(&trend(&["old"], 60), width));
        for revision in ["00a1b2c3d4", "00a1b9e4e9"] {
            assert!(written.contains(&revision.to_owned()), "{width}: {written:?}");
        }
    }
}

#[test]
fn the_accessible_label_describes_every_change() {
    let chart = every_state();
    let svg = draw(&chart, 960);
    let document = Document::parse(&svg).unwrap();
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("group"), "parts of a picture cannot be reached");
    let label = root.attribute("aria-label").unwrap();
    assert!(label.starts_with("Course. Trend of 80 points of old, with 6 changes: "), "{label}");
    assert!(chart.changes.iter().all(|change| label.contains(&change.description)));
}

#[test]
fn a_sheet_without_room_for_the_words_keeps_the_marks() {
    let mut chart = trend(&["old"], 400);
    chart.changes = (1..90)
        .map(|at| change(at, 4.0 * at as f64, TrendState::Found, VerdictMark::Worse))
        .collect();
    let svg = AnyChart::Trend(chart).svg(ImageSize { width_px: 400, height_px: 420 });
    assert_eq!(svg.matches("class=\"change\"").count(), 89);
}

#[test]
fn a_sparkline_has_the_levels_and_a_mark_for_every_change() {
    let chart = every_state();
    let svg = as_file(&chart.render_sparkline(190, 34).unwrap());
    let document = Document::parse(&svg).unwrap();
    for (state, word) in STATES {
        let found = marks(&document, "path", word).len();
        let wanted = if state == TrendState::Found { 2 } else { 1 };
        assert_eq!(found, wanted, "{word}");
    }
    assert_eq!(marks(&document, "path", "levels").len(), 1);
    assert_eq!(marks(&document, "path", "course").len(), 1);
    assert!(
        !svg.contains("id=") && !svg.contains("tabindex"),
        "it stands in a row that has the words"
    );
    assert!(svg.len() < 6_000, "{} bytes", svg.len());
    assert_eq!(TrendChart::default().render_sparkline(190, 34), None);
}
