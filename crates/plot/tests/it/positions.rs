//! Marks are at the positions of their values.

use crate::charts::{bars, boxes, forest, grid_of_points, lines};
use crate::drawing::{marks, middle, number, tooltip};
use roxmltree::Document;
use speedwell_plot::{
    AnyChart, AxisScale, ChartAxis, ChartPoint, GridChart, GridMarks, ImageSize, LineChart,
    PointSeries,
};

/// Positions of the points of a line chart with these axes.
fn places(x: AxisScale, y: AxisScale, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let points = points.iter().map(|(x, y)| ChartPoint::new(*x, *y)).collect();
    let chart = LineChart {
        x: ChartAxis { scale: x, ..ChartAxis::linear("x") },
        y: ChartAxis { scale: y, ..ChartAxis::linear("y") },
        series: vec![PointSeries { name: "s".into(), points, colour: None }],
        ..LineChart::default()
    };
    let svg = AnyChart::Line(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    marks(&document, "path", "point").into_iter().map(middle).collect()
}

#[test]
fn larger_values_lie_further_right_and_further_up() {
    let values: Vec<(f64, f64)> = (0..20).map(|at| (1.5_f64.powi(at), 2.0_f64.powi(at))).collect();
    for x in [AxisScale::Linear, AxisScale::Log2, AxisScale::Log10] {
        for y in [AxisScale::Linear, AxisScale::Log2, AxisScale::Log10] {
            let places = places(x, y, &values);
            assert_eq!(places.len(), values.len());
            for pair in places.windows(2) {
                assert!(pair[0].0 <= pair[1].0 && pair[0].1 >= pair[1].1, "{x:?} {y:?} {pair:?}");
            }
        }
    }
}

#[test]
fn equal_differences_are_equal_distances_on_a_linear_axis() {
    let places =
        places(AxisScale::Linear, AxisScale::Linear, &[(0.0, 5.0), (1.0, 6.0), (2.0, 7.0)]);
    assert!((places[1].0 - places[0].0 - (places[2].0 - places[1].0)).abs() < 0.03);
    assert!((places[1].1 - places[0].1 - (places[2].1 - places[1].1)).abs() < 0.03);
}

#[test]
fn equal_ratios_are_equal_distances_on_a_logarithmic_axis() {
    for scale in [AxisScale::Log2, AxisScale::Log10] {
        let places = places(scale, scale, &[(1.0, 1.0), (8.0, 8.0), (64.0, 64.0)]);
        assert!((places[1].0 - places[0].0 - (places[2].0 - places[1].0)).abs() < 0.03);
        assert!((places[1].1 - places[0].1 - (places[2].1 - places[1].1)).abs() < 0.03);
    }
}

#[test]
fn a_line_joins_its_points_in_the_order_of_x() {
    let mut chart = lines(&["s"], 0);
    chart.series[0].points = [3.0, 1.0, 2.0].map(|x| ChartPoint::new(x, x)).to_vec();
    let svg = AnyChart::Line(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let line = marks(&document, "polyline", "line")[0];
    let corners = line.attribute("points").unwrap().split(' ');
    let xs: Vec<f64> =
        corners.map(|corner| corner.split(',').next().unwrap().parse().unwrap()).collect();
    assert!(xs[0] < xs[1] && xs[1] < xs[2]);
}

#[test]
fn a_missing_value_leaves_a_gap_in_the_line() {
    let mut chart = lines(&["s"], 7);
    chart.series[0].points[3].y = f64::NAN;
    let svg = AnyChart::Line(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    assert_eq!(marks(&document, "polyline", "line").len(), 2);
}

#[test]
fn bars_start_at_zero_and_their_lengths_are_proportional_to_values() {
    let mut chart = bars(&["a", "b"], &["x"]);
    let values = [3_000.0, -1_000.0];
    for (category, value) in chart.categories.iter_mut().zip(values) {
        category.bars[0].value = value;
        (category.bars[0].low, category.bars[0].high) = (None, None);
    }
    let svg = AnyChart::Bar(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let bars = marks(&document, "rect", "bar");
    let [up, down] = [bars[0], bars[1]];
    assert!((number(up, "height") / number(down, "height") - 3.0).abs() < 0.01);
    let base = number(up, "y") + number(up, "height");
    assert!((base - number(down, "y")).abs() < 0.02, "both stand on the same line");
}

#[test]
fn only_outliers_lie_beyond_the_whiskers_of_a_box() {
    let mut chart = boxes(&["a"], &["s"], 1);
    chart.categories[0].boxes[0].values = vec![10.0, 11.0, 12.0, 13.0, 14.0, 40.0];
    let svg = AnyChart::Box(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let whisker = marks(&document, "line", "whisker")[1];
    let end = number(whisker, "y2");
    for point in marks(&document, "path", "point") {
        let outlier = tooltip(point).ends_with("40");
        let above = middle(point).1 < end - 0.5;
        assert_eq!(outlier, above, "{}", tooltip(point));
    }
}

#[test]
fn estimates_lie_on_their_side_of_the_reference() {
    let chart = forest(&["better", "worse"]);
    let svg = AnyChart::Forest(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let reference = number(marks(&document, "line", "reference")[0], "x1");
    let intervals = marks(&document, "line", "interval");
    assert!(number(intervals[0], "x1") > reference, "2.9 to 5.3 lies right of zero");
    assert!(number(intervals[1], "x2") < reference, "-4.1 to -1.7 lies left of zero");
}

#[test]
fn an_open_interval_ends_in_an_arrow_at_the_edge() {
    let mut chart = forest(&["a", "b", "c"]);
    chart.rows[0].low = f64::NEG_INFINITY;
    let svg = AnyChart::Forest(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    assert_eq!(marks(&document, "polygon", "open").len(), 1);
    let intervals = marks(&document, "line", "interval");
    assert!(number(intervals[0], "x1") < number(intervals[1], "x1"));
}

#[test]
fn one_wide_interval_does_not_squeeze_the_others() {
    let narrow = forest(&["a", "b", "c", "d", "e"]);
    let mut wide = narrow.clone();
    (wide.rows[3].low, wide.rows[3].high) = (-1e6, 1e6);
    let length = |chart| {
        let svg = AnyChart::Forest(chart).svg(ImageSize::default());
        let document = Document::parse(&svg).unwrap();
        let interval = marks(&document, "line", "interval")[0];
        number(interval, "x2") - number(interval, "x1")
    };
    assert!(length(wide) > 0.4 * length(narrow));
}

#[test]
fn the_same_series_has_the_same_colour_where_another_is_missing() {
    let mut chart = boxes(&["a", "b"], &["old", "new"], 9);
    chart.categories[1].boxes.remove(0);
    let svg = AnyChart::Box(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let fills: Vec<_> = marks(&document, "rect", "box")
        .into_iter()
        .map(|mark| mark.attribute("fill").unwrap())
        .collect();
    assert_eq!(fills[1], fills[2]);
    assert_ne!(fills[0], fills[1]);
}

/// The y of the first point of each panel.
fn first_points(chart: GridChart) -> Vec<f64> {
    let svg = AnyChart::Grid(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let panels = marks(&document, "g", "panel");
    let first = |panel: &roxmltree::Node<'_, '_>| {
        let mut points =
            panel.descendants().filter(|node| node.attribute("class") == Some("point"));
        middle(points.next().unwrap()).1
    };
    panels.iter().map(first).collect()
}

#[test]
fn panels_share_an_axis_unless_their_levels_are_too_far_apart() {
    let raised = |by: f64| {
        let mut chart = grid_of_points(&["a", "b"], &["s"], 8);
        let GridMarks::Points(series) = &mut chart.panels[1].marks else {
            panic!("points");
        };
        for point in &mut series[0].points {
            point.y += by;
        }
        chart
    };
    // Eight points that rise by one each: a panel with values two higher is drawn higher on the
    // shared axis.
    let near = first_points(raised(2.0));
    assert!(near[1] < near[0] - 5.0, "{near:?}");
    let far = first_points(raised(1000.0));
    assert!((far[1] - far[0]).abs() < 0.5, "{far:?}");
    let words = AnyChart::Grid(raised(1000.0)).svg(ImageSize::default());
    assert!(words.contains("each panel has its own axis"));
    assert!(!AnyChart::Grid(raised(2.0)).svg(ImageSize::default()).contains("its own axis"));
}
