//! A trend in the gallery: three machines, changes of every kind, and other events.

use speedwell_plot::{
    AnyChart, ChartAxis, ChartPoint, PointSeries, TrendAxis, TrendChange, TrendChart, TrendDetail,
    TrendLevel, TrendNote, TrendNoteKind, TrendPoint, TrendState, VerdictMark,
};

use crate::noise::Noise;

const POINTS: u32 = 160;
/// Value on each machine, as a multiple of the first.
const MACHINES: [(&str, f64); 3] = [("lab-3", 1.0), ("lab-4", 1.04), ("gh-ubuntu-24", 1.1)];
/// Start of each level, and its value on the first machine.
const LEVELS: [(u32, f64); 5] = [(0, 100.0), (45, 104.8), (80, 102.2), (110, 98.0), (150, 101.0)];

pub fn trend() -> AnyChart {
    let mut noise = Noise(11);
    let points = (0..POINTS).map(|at| point(&mut noise, at)).collect();
    let ends = LEVELS.iter().skip(1).map(|(from, _)| *from).chain([POINTS]);
    let level = |(&(from, value), end): (&(u32, f64), u32)| {
        let machines = if from < 45 { 1 } else { MACHINES.len() };
        let of_machine = move |machine: usize| {
            let value = value * MACHINES[machine].1;
            TrendLevel {
                from: f64::from(from),
                to: f64::from(end - 1),
                machine: Some(machine),
                value,
                low: Some(value * 0.997),
                high: Some(value * 1.003),
            }
        };
        (0..machines).map(of_machine)
    };
    AnyChart::Trend(TrendChart {
        title: "parser/parse.js n=10000: time".into(),
        subtitle: Some("Every point is a session of 14 runs with its 95% interval".into()),
        x: TrendAxis::Revisions,
        x_label: "revision on faster-parser".into(),
        y: ChartAxis::linear("time, ns (lower is better)"),
        unit: "ns".into(),
        machines: MACHINES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        points,
        levels: LEVELS.iter().zip(ends).flat_map(level).collect(),
        changes: changes(),
        notes: notes(),
        continuation: Some(PointSeries {
            name: "main".into(),
            points: (120..POINTS).map(|at| ChartPoint::new(f64::from(at), 98.0)).collect(),
            colour: None,
        }),
        detail: TrendDetail::Full,
    })
}

fn point(noise: &mut Noise, at: u32) -> TrendPoint {
    let machine = if at < 45 { 0 } else { at as usize % MACHINES.len() };
    let level = LEVELS.iter().rfind(|(from, _)| *from <= at).map_or(100.0, |(_, level)| *level);
    let value = level * MACHINES[machine].1 * (1.0 + 0.007 * noise.normal());
    let half = value * (0.003 + 0.004 * noise.uniform());
    TrendPoint {
        at: ChartPoint::with_interval(f64::from(at), value, value - half, value + half),
        machine,
        aside: (if at % 37 == 36 { "uncommitted changes" } else { "" }).into(),
        revision: format!("{:07x}", 0x3a5_1c0f + u64::from(at) * 104_729),
        subject: format!("parser: change {at}"),
        runs: 14,
        session: format!("@{}", at + 1),
        ..TrendPoint::default()
    }
}

fn changes() -> Vec<TrendChange> {
    use TrendState::{Confirmed, Found, Refuted, Suspected};
    use VerdictMark::{Better, Worse};
    let change = |name: &str, places: [u32; 2], state, mark, size: &str| TrendChange {
        name: name.into(),
        before: f64::from(places[0]),
        after: f64::from(places[1]),
        state,
        is_drift: name == "9",
        mark,
        size: size.into(),
        description: format!("change {name}: {size} before position {}", places[1]),
    };
    vec![
        change("7", [44, 45], Confirmed, Worse, "+4.8%"),
        change("8", [61, 62], Refuted, Worse, "+0.9%"),
        change("9", [79, 80], Suspected, Better, "−2.5%"),
        change("11", [104, 110], Found, Better, "−4.1%"),
        change("12", [149, 150], Suspected, Worse, "+3.1%"),
    ]
}

fn notes() -> Vec<TrendNote> {
    use TrendNoteKind::{Environment, Failure, Tag};
    let note = |x: f64, kind, label: &str| TrendNote {
        x,
        kind,
        label: label.into(),
        description: String::new(),
    };
    vec![
        note(20.0, Tag, "v1.4.0"),
        note(70.0, Tag, "v1.5.0-rc.1"),
        note(74.0, Tag, "v1.5.0"),
        note(43.5, Environment, "kernel 6.1.0-13 → 6.8.0-31"),
        note(98.0, Failure, "failed: exit 3"),
    ]
}
