//! Test data: small charts of every kind, and large ones with awkward labels.

use speedwell_plot::{
    AnyChart, BarCategory, BarChart, BoxCategory, BoxChart, BoxSeries, ChartAxis, ChartBar,
    ChartPoint, FlameChart, FlameFrame, ForestChart, ForestRow, FrameColoring, GridChart,
    GridMarks, GridPanel, HistogramChart, HistogramSeries, LineChart, PointSeries, RunsChart,
    ScatterChart, TrendAxis, TrendChange, TrendChart, TrendDetail, TrendLevel, TrendNote,
    TrendNoteKind, TrendPoint, TrendState, ValueSequence, VerdictMark,
};

pub const LONG_LABEL: &str =
    "string_decoder/string-decoder.js\nn=25000 len=1024 encoding=base64-utf8 inLen=32";

/// Numbers that fill the unit interval evenly: multiples of the golden ratio.
pub fn even(count: usize) -> Vec<f64> {
    (1..=count).map(|at| (at as f64 * 0.618_033_988_749_895).fract()).collect()
}

pub fn box_of(name: &str, values: &[f64]) -> BoxSeries {
    BoxSeries { name: name.into(), values: values.to_vec(), center: None }
}

pub fn boxes(labels: &[&str], names: &[&str], count: usize) -> BoxChart {
    let values: Vec<f64> = even(count).iter().map(|share| 100.0 + 20.0 * share).collect();
    let category = |label: &&str| BoxCategory {
        label: (*label).into(),
        boxes: names.iter().map(|name| box_of(name, &values)).collect(),
    };
    BoxChart {
        title: "Boxes".into(),
        subtitle: Some("of even values".into()),
        value_axis: ChartAxis::linear("operations per second (higher is better)"),
        categories: labels.iter().map(category).collect(),
    }
}

pub fn bars(labels: &[&str], names: &[&str]) -> BarChart {
    let bar = |(at, name): (usize, &&str)| {
        let value = 1_000.0 * (at + 2) as f64;
        ChartBar { name: (*name).into(), value, low: Some(value * 0.9), high: Some(value * 1.2) }
    };
    let category = |label: &&str| BarCategory {
        label: (*label).into(),
        bars: names.iter().enumerate().map(bar).collect(),
    };
    BarChart {
        title: "Bars".into(),
        subtitle: None,
        value_axis: ChartAxis::linear("requests per second"),
        categories: labels.iter().map(category).collect(),
    }
}

pub fn series(names: &[&str], count: usize) -> Vec<PointSeries> {
    let of = |(at, name): (usize, &&str)| {
        let point = |x: usize| {
            let y = 10.0 + (x * (at + 1)) as f64;
            ChartPoint::with_interval((x + 1) as f64, y, y - 1.0, y + 2.0)
        };
        PointSeries { name: (*name).into(), points: (0..count).map(point).collect(), colour: None }
    };
    names.iter().enumerate().map(of).collect()
}

pub fn lines(names: &[&str], count: usize) -> LineChart {
    LineChart {
        title: "Lines".into(),
        subtitle: None,
        x: ChartAxis::linear("concurrency"),
        y: ChartAxis::linear("requests per second"),
        series: series(names, count),
        observations: Vec::new(),
        curves: 0,
    }
}

pub fn scatter(names: &[&str], count: usize) -> ScatterChart {
    ScatterChart {
        title: "Points".into(),
        subtitle: None,
        x: ChartAxis::log2("size, bytes"),
        y: ChartAxis::log10("time, µs"),
        series: series(names, count),
    }
}

pub fn forest(labels: &[&str]) -> ForestChart {
    let marks = [VerdictMark::Better, VerdictMark::Worse, VerdictMark::Same, VerdictMark::Unclear];
    let row = |(at, label): (usize, &&str)| {
        let estimate = [4.0, -3.0, 0.2, 1.5][at % 4];
        ForestRow {
            label: (*label).into(),
            estimate,
            low: estimate - 1.1,
            high: estimate + 1.3,
            mark: marks[at % 4],
        }
    };
    ForestChart {
        title: "Changes".into(),
        subtitle: None,
        x_label: "change, % (right is better)".into(),
        percent: true,
        reference: 0.0,
        band: Some((-1.0, 1.0)),
        rows: labels.iter().enumerate().map(row).collect(),
    }
}

pub fn histogram(names: &[&str], count: usize) -> HistogramChart {
    let of = |(at, name): (usize, &&str)| HistogramSeries {
        name: (*name).into(),
        values: even(count).iter().map(|share| 1.0 + (at + 1) as f64 * share * share).collect(),
        counts: Vec::new(),
    };
    HistogramChart {
        title: "Values".into(),
        subtitle: None,
        x: ChartAxis::linear("latency, ms"),
        series: names.iter().enumerate().map(of).collect(),
    }
}

/// Runs of the given names in turn, in blocks of four.
pub fn runs(names: &[&str], count: usize) -> RunsChart {
    let of = |(at, name): (usize, &&str)| {
        let point = |run: usize| {
            let place = run * names.len() + at + 1;
            ChartPoint::new(place as f64, 40.0 + 3.0 * at as f64 + even(place)[place - 1])
        };
        PointSeries { name: (*name).into(), points: (0..count).map(point).collect(), colour: None }
    };
    RunsChart {
        title: "Runs".into(),
        subtitle: None,
        x: ChartAxis::linear("run, in order of execution"),
        y: ChartAxis::linear("throughput in M/s"),
        series: names.iter().enumerate().map(of).collect(),
        breaks: (1..names.len() * count / 4).map(|block| 4.0 * block as f64 + 0.5).collect(),
        centers: Vec::new(),
    }
}

/// Each name calls the next one, which has most of its cost, and another one.
pub fn flame(names: &[&str]) -> FlameChart {
    let mut frames: Vec<FlameFrame> = Vec::new();
    for (at, name) in names.iter().enumerate().rev() {
        let weight = 100.0 * 0.9_f64.powi(at as i32);
        let frame = |name: &str, weight: f64, change, children| FlameFrame {
            name: name.to_owned(),
            weight,
            part: FrameColoring::Change(change),
            tooltip: format!("{name}\n{weight:.1} ms"),
            children,
        };
        frames = vec![
            frame(name, weight, at as f64 / names.len() as f64, frames),
            frame("rest", weight / 9.0, -1.0, Vec::new()),
        ];
    }
    FlameChart {
        title: "Where the time goes".into(),
        subtitle: Some("120 ms".into()),
        full: 120.0,
        frames,
        ..FlameChart::default()
    }
}

/// A panel of points for each label, all at about the same level.
pub fn grid_of_points(labels: &[&str], names: &[&str], count: usize) -> GridChart {
    let panel = |label: &&str| GridPanel {
        title: (*label).into(),
        marks: GridMarks::Points(series(names, count)),
    };
    GridChart {
        title: "Panels".into(),
        subtitle: Some("of points".into()),
        x: ChartAxis::linear("position"),
        y: ChartAxis::linear("throughput, M/s"),
        panels: labels.iter().map(panel).collect(),
    }
}

/// A panel of values for each label.
pub fn grid_of_values(labels: &[&str], names: &[&str], count: usize) -> GridChart {
    let panel = |label: &&str| GridPanel {
        title: (*label).into(),
        marks: GridMarks::Values(histogram(names, count).series),
    };
    GridChart {
        x: ChartAxis::linear("latency, ms"),
        panels: labels.iter().map(panel).collect(),
        ..grid_of_points(&[], &[], 0)
    }
}

/// A panel of values that drop to a lower level for each label.
pub fn grid_of_sequences(labels: &[&str]) -> GridChart {
    let value = |at: usize| if at < 12 { 3.0 } else { 2.0 } + (at % 5) as f64 / 50.0;
    let panel = |label: &&str| GridPanel {
        title: (*label).into(),
        marks: GridMarks::Sequence(ValueSequence {
            values: (0..40).map(|at| if at == 30 { 9.0 } else { value(at) }).collect(),
            step: 10.0,
            spikes: vec![30],
            levels: vec![(0..12, 3.04), (12..40, 2.04)],
            shaded_from: Some(12),
        }),
    };
    GridChart {
        x: ChartAxis::linear("iteration"),
        y: ChartAxis::linear("time, ms"),
        panels: labels.iter().map(panel).collect(),
        ..grid_of_points(&[], &[], 0)
    }
}

/// A small chart of every kind, with the name of its kind.
pub fn one_of_each() -> Vec<(&'static str, AnyChart)> {
    vec![
        ("box", AnyChart::Box(boxes(&["ascii", "utf8"], &["old", "new"], 12))),
        ("scatter", AnyChart::Scatter(scatter(&["old", "new"], 8))),
        ("line", AnyChart::Line(lines(&["old", "new"], 6))),
        ("bar", AnyChart::Bar(bars(&["ascii", "utf8"], &["old", "new"]))),
        ("forest", AnyChart::Forest(forest(&["ascii", "utf8", "base64", LONG_LABEL]))),
        ("histogram", AnyChart::Histogram(histogram(&["old", "new"], 60))),
        ("runs", AnyChart::Runs(runs(&["old", "new"], 8))),
        ("flame", AnyChart::Flame(flame(&["old", "ns::parse<a::b>", "read"]))),
        ("strips", AnyChart::Histogram(histogram(&["old", "new"], 8))),
        (
            "grid",
            AnyChart::Grid(grid_of_points(&["ascii", "utf8", LONG_LABEL], &["old", "new"], 8)),
        ),
        ("grid-of-values", AnyChart::Grid(grid_of_values(&["ascii", "utf8"], &["old", "new"], 40))),
        ("grid-of-sequences", AnyChart::Grid(grid_of_sequences(&["ascii", "utf8"]))),
        ("trend", AnyChart::Trend(trend(&["old", "new"], 60))),
    ]
}

/// A change between two adjacent positions, by its number.
pub fn change(number: usize, after: f64, state: TrendState, mark: VerdictMark) -> TrendChange {
    TrendChange {
        name: number.to_string(),
        before: after - 1.0,
        after,
        state,
        is_drift: false,
        mark,
        size: "+5.0%".into(),
        description: format!("{} by 5.0% before place {after}, {state:?}", number),
    }
}

pub fn trend_note(x: f64, kind: TrendNoteKind, label: &str) -> TrendNote {
    TrendNote { x, kind, label: label.into(), description: String::new() }
}

/// A trend of `count` points with a change in the middle, one of everything else, and alternating
/// machines.
pub fn trend(machines: &[&str], count: usize) -> TrendChart {
    let half = count / 2;
    let level = |at: usize| if at < half { 100.0 } else { 105.0 };
    let point = |(at, noise): (usize, f64)| {
        let value = level(at) + noise;
        TrendPoint {
            at: ChartPoint::with_interval(at as f64, value, value - 0.5, value + 0.7),
            machine: at % machines.len().max(1),
            aside: (if at == 3 { "uncommitted changes" } else { "" }).into(),
            revision: format!("{:010x}", 0xa1b2c3d4 + 7919 * at),
            subject: format!("change {at} of the parser"),
            runs: 14,
            session: format!("@{}", at + 1),
            ..TrendPoint::default()
        }
    };
    let place = |at: usize| at as f64;
    let stretch = |from: usize, to: usize| TrendLevel {
        from: place(from),
        to: place(to),
        machine: None,
        value: level(from) + 0.5,
        low: Some(level(from) + 0.3),
        high: Some(level(from) + 0.7),
    };
    TrendChart {
        title: "Course".into(),
        subtitle: Some("of even values".into()),
        x: TrendAxis::Revisions,
        x_label: "revision on main".into(),
        y: ChartAxis::linear("time, ns (lower is better)"),
        unit: "ns".into(),
        machines: machines.iter().map(|name| (*name).to_owned()).collect(),
        points: even(count).into_iter().enumerate().map(point).collect(),
        levels: vec![stretch(0, half - 1), stretch(half, count - 1)],
        changes: vec![change(7, place(half), TrendState::Found, VerdictMark::Worse)],
        notes: vec![
            trend_note(5.0, TrendNoteKind::Tag, "v1.4.0"),
            trend_note(9.5, TrendNoteKind::Environment, "kernel 6.1 → 6.8"),
            trend_note(place(count) - 3.5, TrendNoteKind::Work, "another benchmark"),
            trend_note(place(count) - 8.0, TrendNoteKind::Failure, "failed: exit 3"),
        ],
        continuation: Some(PointSeries {
            name: "main".into(),
            points: (half..count).map(|at| ChartPoint::new(place(at), 101.0)).collect(),
            colour: None,
        }),
        detail: TrendDetail::Full,
    }
}

/// Three trends that are hard to lay out: changes close together, many changes, and dates.
fn hard_trends(machines: &[&str], label: &str) -> [(&'static str, AnyChart); 3] {
    let states = [
        TrendState::Suspected,
        TrendState::Found,
        TrendState::Confirmed,
        TrendState::Refuted,
        TrendState::Withdrawn,
    ];
    let mut close = trend(machines, 60);
    close.changes = (0..9)
        .map(|at| {
            let mark =
                [VerdictMark::Worse, VerdictMark::Better, VerdictMark::Same, VerdictMark::Unclear]
                    [at % 4];
            change(at, place_of(at), states[at % 5], mark)
        })
        .collect();
    close
        .notes
        .extend((20..26).map(|at| trend_note(f64::from(at), TrendNoteKind::Environment, label)));
    close.notes.extend((10..40).map(|at| trend_note(f64::from(at), TrendNoteKind::Tag, label)));
    let mut many = trend(machines, 1500);
    many.changes = (1..40)
        .map(|at| change(at, 36.0 * at as f64, states[at % 5], VerdictMark::Worse))
        .collect();
    let mut dates = close.clone();
    dates.x = TrendAxis::Time;
    let date = |at: f64| 1.7e12 + at * 86.4e6;
    dates.points.iter_mut().for_each(|point| point.at.x = date(point.at.x));
    dates.levels.clear();
    dates.continuation = None;
    for change in &mut dates.changes {
        (change.before, change.after) = (date(change.before), date(change.after));
    }
    dates.notes.iter_mut().for_each(|note| note.x = date(note.x));
    [("trend", close), ("trend of many", many), ("trend of dates", dates)]
        .map(|(kind, chart)| (kind, AnyChart::Trend(chart)))
}

/// Positions that are crowded at both ends.
fn place_of(at: usize) -> f64 {
    [1.0, 2.0, 3.0, 5.0, 30.0, 31.0, 56.0, 57.0, 58.0][at]
}

/// Grids of points, of bars and of single values.
fn small_multiples(labels: &[&str], names: &[&str]) -> [(&'static str, AnyChart); 3] {
    [
        ("grid", grid_of_points(labels, names, 9)),
        ("grid of bars", grid_of_values(labels, names, 50)),
        ("grid of strips", grid_of_values(labels, names, 9)),
    ]
    .map(|(kind, chart)| (kind, AnyChart::Grid(chart)))
}

/// Charts of every kind with many, long and non-Latin labels.
pub fn awkward() -> Vec<(String, AnyChart)> {
    let numbered: Vec<String> = (0..200)
        .map(|at| format!("group/benchmark-{at}.js size={} type=buffer", 1 << (at % 20)))
        .collect();
    let many: Vec<&str> = numbered.iter().map(String::as_str).collect();
    let few = [
        LONG_LABEL,
        "x",
        "Größe ≥ 5 µs",
        "語語語語語語語語語語語語語語語語語語語語語語語語語語語語語語語語語語",
    ];
    let names =
        ["v18.20.4", "v20.11.1", "a variant with rather a long name", "d", "e", "f", "g", "h", "i"];
    let mut charts = Vec::new();
    for labels in [&many[..1], &few[..], &many[..7], &many[..40], &many[..]] {
        for names in [&names[..1], &names[..if labels.len() > 7 { 2 } else { 9 }]] {
            let mut add = |kind: &str, chart| {
                charts.push((
                    format!("{kind}, {} labels, {} series", labels.len(), names.len()),
                    chart,
                ));
            };
            add("box", AnyChart::Box(boxes(labels, names, 2)));
            add("bar", AnyChart::Bar(bars(labels, names)));
            add("forest", AnyChart::Forest(forest(labels)));
            add("histogram", AnyChart::Histogram(histogram(names, 50)));
            let places = labels.iter().map(|label| (*label).to_owned()).collect();
            let x = ChartAxis::category("place", places);
            add("line", AnyChart::Line(LineChart { x, ..lines(names, labels.len()) }));
            add("scatter", AnyChart::Scatter(scatter(names, labels.len())));
            add("runs", AnyChart::Runs(runs(names, 8)));
            add("flame", AnyChart::Flame(flame(labels)));
            add("strips", AnyChart::Histogram(histogram(names, 9)));
            let multiples = small_multiples(&labels[..labels.len().min(24)], names);
            for (kind, chart) in multiples.into_iter().chain(hard_trends(names, labels[0])) {
                add(kind, chart);
            }
        }
    }
    charts
}
