//! A history for programs of others: the table of points over time that Otava reads.
//!
//! Decides on columns and on which points go in. What our own programs read is JSON of `trend`. Start at [`otava`].

use crate::changes::words::title;
use crate::format::quoted;
use jiff::Timestamp;
use speedwell_analysis::history::History;
use speedwell_analysis::trend::TrendPoint;
use speedwell_model::Machine;
use std::collections::BTreeMap;

/// A table for another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Its lines, the header first.
    pub text: String,
    /// Sessions that lack a series, of which it has no row: Otava has no word for a gap, and a series with one number that is
    /// none shows no change.
    pub left_out: usize,
}

/// Comma-separated values with a row for each session along the line that changes are looked for in: `time`, `commit` and
/// `machine`, and a column for each series. The time is that of the commit where it is known, else that of the measurement.
pub fn otava(history: &History) -> Exported {
    let mut rows: BTreeMap<(u32, i64, i64), Vec<Option<&TrendPoint>>> = BTreeMap::new();
    for (at, series) in history.series.iter().enumerate() {
        for point in series
            .trend
            .points
            .iter()
            .filter(|point| point.is_searched())
        {
            let key = (point.position, point.at_unix_ms, point.session);
            let row = rows
                .entry(key)
                .or_insert_with(|| vec![None; history.series.len()]);
            row[at] = Some(point);
        }
    }
    let names = history.series.iter().map(|series| quoted(&title(series)));
    let header: Vec<String> = ["time", "commit", "machine"]
        .map(str::to_owned)
        .into_iter()
        .chain(names)
        .collect();
    let mut text = header.join(",") + "\n";
    let mut left_out = 0;
    for row in rows.into_values() {
        match row.into_iter().collect::<Option<Vec<&TrendPoint>>>() {
            Some(points) => text += &line(&points, history),
            None => left_out += 1,
        }
    }
    Exported { text, left_out }
}

/// The points of one session as a line.
fn line(points: &[&TrendPoint], history: &History) -> String {
    let Some(first) = points.first() else {
        return String::new();
    };
    let unix_ms = first.revision.committed_unix_ms.unwrap_or(first.at_unix_ms);
    let time = Timestamp::from_millisecond(unix_ms).map(|time| time.to_string());
    let machine = history
        .machines
        .get(&first.machine)
        .map_or("", Machine::title);
    let values = points.iter().map(|point| point.point.value.to_string());
    let own = [
        time.unwrap_or_default(),
        quoted(&first.revision.id),
        quoted(machine),
    ];
    own.into_iter().chain(values).collect::<Vec<_>>().join(",") + "\n"
}
