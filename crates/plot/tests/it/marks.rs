//! Every value of the data has a mark in the drawing, and every mark shows its figures.

use crate::charts::{
    bars, boxes, forest, grid_of_points, grid_of_values, histogram, lines, one_of_each, runs,
    scatter,
};
use crate::drawing::{marks, middle, number, tooltip};
use roxmltree::Document;
use speedwell_plot::{AnyChart, ChartPoint, ImageSize};

fn count(chart: &AnyChart, tag: &str, class: &str) -> usize {
    let svg = chart.svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    marks(&document, tag, class).len()
}

#[test]
fn a_box_chart_has_a_box_per_series_and_a_point_per_value() {
    let chart = AnyChart::Box(boxes(&["a", "b", "c"], &["old", "new"], 17));
    assert_eq!(count(&chart, "rect", "box"), 6);
    assert_eq!(count(&chart, "line", "median"), 6);
    assert_eq!(count(&chart, "line", "whisker"), 12);
    assert_eq!(count(&chart, "path", "point"), 6 * 17);
}

#[test]
fn a_bar_chart_has_a_bar_and_an_interval_per_entry() {
    let chart = AnyChart::Bar(bars(&["a", "b"], &["x", "y", "z"]));
    assert_eq!(count(&chart, "rect", "bar"), 6);
    assert_eq!(count(&chart, "g", "interval"), 6);
}

#[test]
fn a_line_chart_has_lines_points_and_intervals_and_a_scatter_chart_points_only() {
    let chart = AnyChart::Line(lines(&["x", "y"], 9));
    assert_eq!(count(&chart, "polyline", "line"), 2);
    assert_eq!(count(&chart, "path", "point"), 18);
    assert_eq!(count(&chart, "line", "interval"), 18);
    let chart = AnyChart::Scatter(scatter(&["x", "y"], 9));
    assert_eq!(count(&chart, "path", "point"), 18);
    assert_eq!(count(&chart, "polyline", "line") + count(&chart, "line", "interval"), 0);
}

#[test]
fn a_line_chart_shows_observations_beside_its_points() {
    let mut chart = lines(&["x"], 3);
    let of_point = |x: f64| [5.0, 6.0, 90.0].map(|y| ChartPoint::new(x, y));
    chart.observations = vec![[1.0, 2.0].into_iter().flat_map(of_point).collect()];
    let svg = AnyChart::Line(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let dots = marks(&document, "circle", "observation");
    assert_eq!(dots.len(), 6);
    assert_eq!(tooltip(dots[2]), "x\none run: 90");
    // The axis extends to observations beyond the intervals.
    let top = number(dots[2], "cy");
    let points = marks(&document, "path", "point");
    assert!(top > 0.0 && points.iter().all(|point| middle(*point).1 > top));
    assert!(number(dots[0], "cx") > middle(points[0]).0 + 4.0);
}

#[test]
fn a_runs_chart_has_a_point_per_run_and_a_box_per_series() {
    let chart = AnyChart::Runs(runs(&["a", "b", "c"], 8));
    assert_eq!(count(&chart, "use", "point"), 24);
    assert_eq!(count(&chart, "rect", "box"), 3);
    assert_eq!(count(&chart, "line", "median"), 3);
}

#[test]
fn a_forest_chart_has_an_estimate_and_an_interval_per_row() {
    let chart = AnyChart::Forest(forest(&["a", "b", "c", "d", "e"]));
    assert_eq!(count(&chart, "path", "estimate"), 5);
    assert_eq!(count(&chart, "line", "interval"), 5);
    assert_eq!((count(&chart, "line", "reference"), count(&chart, "rect", "band")), (1, 1));
    assert_eq!(count(&chart, "path", "key"), 4, "one key per mark in use");
}

#[test]
fn the_bars_of_a_histogram_hold_all_values() {
    for names in [&["one"][..], &["one", "two"], &["one", "two", "three"]] {
        let chart = AnyChart::Histogram(histogram(names, 90));
        let svg = chart.svg(ImageSize::default());
        let document = Document::parse(&svg).unwrap();
        // A tooltip ends in "7 of 90".
        let counted = |text: String| -> usize {
            let words: Vec<&str> = text.split_whitespace().collect();
            words[words.len() - 3].parse().unwrap()
        };
        let bars = marks(&document, "rect", "bar");
        let sum: usize = bars.into_iter().map(|bar| counted(tooltip(bar))).sum();
        assert_eq!(sum, 90 * names.len());
    }
}

#[test]
fn few_values_are_drawn_one_by_one_instead_of_in_bins() {
    for (values, points, has_bars) in [(8, 16, false), (20, 40, false), (21, 0, true)] {
        let chart = AnyChart::Histogram(histogram(&["old", "new"], values));
        assert_eq!(count(&chart, "path", "point"), points, "{values} values");
        assert_eq!(count(&chart, "rect", "bar") > 0, has_bars, "{values} values");
    }
}

#[test]
fn a_grid_has_a_panel_for_each_case_with_all_of_its_values() {
    let labels = ["a", "b", "c", "d", "e"];
    let chart = AnyChart::Grid(grid_of_points(&labels, &["old", "new"], 8));
    assert_eq!(count(&chart, "g", "panel"), 5);
    assert_eq!(count(&chart, "path", "point"), 5 * 16);
    let chart = AnyChart::Grid(grid_of_values(&labels, &["old", "new"], 8));
    assert_eq!(count(&chart, "path", "point"), 5 * 16);
    assert_eq!(count(&chart, "line", "median"), 5 * 2);
}

#[test]
fn every_mark_has_a_tooltip_with_its_figures() {
    for (kind, chart) in one_of_each() {
        let svg = chart.svg(ImageSize::default());
        let document = Document::parse(&svg).unwrap();
        let classes = [
            ("rect", "box"),
            ("path", "point"),
            ("use", "point"),
            ("rect", "bar"),
            ("path", "estimate"),
            ("line", "level"),
            ("g", "frame"),
        ];
        let marks: Vec<_> =
            classes.iter().flat_map(|(tag, class)| marks(&document, tag, class)).collect();
        assert!(!marks.is_empty());
        for mark in marks {
            let text = tooltip(mark);
            assert!(text.contains(|letter: char| letter.is_ascii_digit()), "{kind}: '{text}'");
        }
    }
}

#[test]
fn the_tooltip_of_a_box_has_its_five_figures() {
    // The quartiles of 1 to 9 are 3, 5 and 7 (R, type 7), and the whiskers extend to the ends.
    let values: Vec<f64> = (1..=9).map(f64::from).collect();
    let mut chart = boxes(&["ascii"], &["old"], 1);
    chart.categories[0].boxes[0].values = values;
    let svg = AnyChart::Box(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let text = tooltip(marks(&document, "rect", "box")[0]);
    assert_eq!(text, "ascii, old: median 5\nquartiles 3 to 7\nwhiskers 1 to 9\nn = 9");
}

#[test]
fn series_can_be_told_apart_without_colour() {
    let chart = AnyChart::Line(lines(&["a", "b", "c", "d"], 5));
    let svg = chart.svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let lines = marks(&document, "polyline", "line");
    let dashes: std::collections::HashSet<_> =
        lines.iter().map(|line| line.attribute("stroke-dasharray")).collect();
    assert_eq!(dashes.len(), 4);

    let chart = AnyChart::Bar(bars(&["a"], &["a", "b", "c", "d"]));
    let svg = chart.svg(ImageSize::default());
    assert_eq!(svg.matches("<pattern").count(), 3, "all but the first bar are hatched");
}
