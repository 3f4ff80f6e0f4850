//! Edge cases of data: none, one, equal, invalid, huge and tiny values.

use crate::charts::{bars, box_of, boxes, forest, histogram, lines, one_of_each, scatter, trend};
use crate::drawing::{labels, marks, number};
use roxmltree::Document;
use speedwell_plot::{
    AnyChart, AxisScale, BarChart, BoxChart, ChartAxis, ChartPoint, ForestChart, HistogramChart,
    ImageSize, LineChart, ScatterChart, TrendAxis, TrendChart, TrendPoint,
};

fn texts(chart: &AnyChart) -> Vec<String> {
    let svg = chart.svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    labels(&document).into_iter().map(|label| label.text).collect()
}

#[test]
fn charts_without_data_show_no_data() {
    let empty = [
        AnyChart::Box(BoxChart::default()),
        AnyChart::Scatter(ScatterChart::default()),
        AnyChart::Line(LineChart::default()),
        AnyChart::Bar(BarChart::default()),
        AnyChart::Forest(ForestChart::default()),
        AnyChart::Histogram(HistogramChart::default()),
        AnyChart::Box(boxes(&["a", "b"], &["old", "new"], 0)),
        AnyChart::Histogram(histogram(&["a", "b", "c"], 0)),
        AnyChart::Line(lines(&["a"], 0)),
    ];
    for chart in empty {
        assert!(texts(&chart).contains(&"no data".to_owned()), "{chart:?}");
        assert!(chart.natural_size().height_px > 100);
    }
}

#[test]
fn a_category_without_data_is_labelled_no_data() {
    let mut chart = boxes(&["a", "b", "c"], &["s"], 5);
    chart.categories[1].boxes[0].values.clear();
    assert_eq!(texts(&AnyChart::Box(chart)).iter().filter(|text| *text == "no data").count(), 1);
    let mut chart = bars(&["a", "b", "c"], &["s"]);
    chart.categories[2].bars.clear();
    assert_eq!(texts(&AnyChart::Bar(chart)).iter().filter(|text| *text == "no data").count(), 1);
}

#[test]
fn values_that_are_not_finite_are_left_out_and_counted() {
    let mut chart = boxes(&["a"], &["s"], 4);
    chart.categories[0].boxes[0].values.extend([f64::NAN, f64::INFINITY]);
    let chart = AnyChart::Box(chart);
    assert!(texts(&chart).contains(&"2 values not shown (not finite)".to_owned()));
    let svg = chart.svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    assert_eq!(marks(&document, "path", "point").len(), 4);

    let mut chart = bars(&["a", "b"], &["s"]);
    chart.categories[0].bars[0].value = f64::NAN;
    assert!(texts(&AnyChart::Bar(chart)).contains(&"1 value not shown (not finite)".to_owned()));

    let mut chart = forest(&["a", "b"]);
    chart.rows[0].estimate = f64::NAN;
    let texts = texts(&AnyChart::Forest(chart));
    assert!(texts.contains(&"1 value not shown (not finite)".to_owned()));
    assert!(texts.contains(&"no estimate".to_owned()));
}

#[test]
fn values_without_a_logarithm_are_left_out_and_counted() {
    let mut chart = scatter(&["s"], 5);
    chart.series[0].points[0].x = 0.0;
    chart.series[0].points[1].y = -4.0;
    let wanted = "2 values not shown (not finite, or not positive on a logarithmic axis)";
    assert!(texts(&AnyChart::Scatter(chart)).contains(&wanted.to_owned()));
}

#[test]
fn an_interval_that_reaches_below_a_logarithmic_axis_ends_at_its_edge() {
    let mut chart = lines(&["s"], 5);
    chart.y = ChartAxis::log10("time, ms");
    chart.series[0].points[2].low = Some(-1.0);
    let svg = AnyChart::Line(chart).svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let lowest = marks(&document, "line", "base")[0];
    let interval = marks(&document, "line", "interval")[2];
    assert!((number(interval, "y1") - number(lowest, "y1")).abs() < 0.02);
}

#[test]
fn extreme_data_are_drawn_without_nan_or_infinity() {
    let sets: [&[f64]; 9] = [
        &[1.0],
        &[0.0],
        &[5.0; 40],
        &[f64::MAX, f64::MIN],
        &[5e-324, 1e-320],
        &[1e-300, 1e300],
        &[1e15, 1e15 + 1.0],
        &[-1e-12, 1e12],
        &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3.0],
    ];
    for values in sets {
        for scale in [AxisScale::Linear, AxisScale::Log2, AxisScale::Log10, AxisScale::Category(0)]
        {
            for chart in charts_of(values, scale) {
                let svg = chart.svg(ImageSize::default());
                assert!(Document::parse(&svg).is_ok());
                assert!(
                    !svg.contains("NaN") && !svg.contains("inf"),
                    "{values:?} {scale:?}\n{svg}"
                );
            }
        }
    }
}

/// Charts of all kinds that can contain these values on this scale.
fn charts_of(values: &[f64], scale: AxisScale) -> Vec<AnyChart> {
    let axis = ChartAxis { scale, ..ChartAxis::linear("value") };
    let mut boxes = boxes(&["a"], &[], 0);
    boxes.categories[0].boxes = vec![box_of("s", values)];
    boxes.value_axis = axis.clone();
    let mut bars = bars(&["a"], &["s"]);
    bars.value_axis = axis.clone();
    let mut lines = lines(&["s"], values.len());
    (lines.x, lines.y) = (axis.clone(), axis.clone());
    let mut histogram = histogram(&["s", "t"], 0);
    histogram.x = axis;
    histogram.series[0].values = values.to_vec();
    let mut forest = forest(&vec!["row"; values.len()]);
    let mut trend = trend(&["s"], 2);
    trend.y = lines.y.clone();
    trend.points = values
        .iter()
        .map(|value| TrendPoint {
            at: ChartPoint::with_interval(*value, *value, -value, 2.0 * value),
            ..TrendPoint::default()
        })
        .collect();
    trend.levels[0].value = values[0];
    for (at, value) in values.iter().enumerate() {
        bars.categories[0].bars[0].value = *value;
        bars.categories[0].bars[0].low = Some(-value);
        let point = &mut lines.series[0].points[at];
        (point.x, point.y, point.low, point.high) =
            (*value, *value, Some(-value), Some(2.0 * value));
        let row = &mut forest.rows[at];
        (row.estimate, row.low, row.high) = (*value, value / 2.0, *value);
    }
    vec![
        AnyChart::Box(boxes),
        AnyChart::Bar(bars),
        AnyChart::Line(lines),
        AnyChart::Histogram(histogram),
        AnyChart::Forest(forest),
        AnyChart::Trend(TrendChart { x: TrendAxis::Time, ..trend.clone() }),
        AnyChart::Trend(trend),
    ]
}

#[test]
fn charts_on_sheets_too_small_for_them_are_still_valid_svg() {
    for (width_px, height_px) in [(0, 0), (1, 1), (40, 400), (400, 40), (100, 100)] {
        for (kind, chart) in one_of_each() {
            let svg = chart.svg(ImageSize { width_px, height_px });
            assert!(Document::parse(&svg).is_ok(), "{kind} at {width_px} x {height_px}");
            assert!(!svg.contains("NaN") && !svg.contains("width=\"-"), "{kind}: {svg}");
        }
    }
}

#[test]
fn the_same_data_give_the_same_svg() {
    for (_, chart) in one_of_each() {
        assert_eq!(chart.svg(ImageSize::default()), chart.clone().svg(ImageSize::default()));
    }
}
