//! The files of `-e` (percentages) and `-g` (requests).
//!
//! Decides their rows. Start at [`percentages`] and [`requests`].

use super::arguments::Sort;
use super::milliseconds::milliseconds;
use super::times::{Times, Timing};
use crate::local_time::local_time;
use std::io::{self, Write};

/// Writes within which time which percentage of the requests was served.
///
/// # Errors
/// The file cannot be written.
pub fn percentages(times: Option<&Times>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Percentage served,Time in ms")?;
    if let Some(times) = times {
        for percent in 0..=100 {
            let ms = times.within_ns(percent) as f64 / 1e6;
            writeln!(out, "{percent},{ms:.3}")?;
        }
    }
    out.flush()
}

/// Writes one row for each request with a whole answer. The test began so many milliseconds after
/// 1970.
///
/// # Errors
/// The file cannot be written.
pub fn requests(
    times: Option<&Times>,
    began_epoch_ms: u64,
    sort: Sort,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "starttime\tseconds\tctime\tdtime\tttime\twait")?;
    let mut timings: Vec<Timing> = times.map_or(Vec::new(), |times| times.timings().to_vec());
    if sort == Sort::Total {
        timings.sort_by_key(|timing| timing.total_ns());
    }
    // Thousands of requests begin in the same second.
    let mut known = (u64::MAX, String::new());
    for timing in timings {
        let epoch_s = (began_epoch_ms + timing.begun_ns / 1_000_000) / 1000;
        if known.0 != epoch_s {
            known = (epoch_s, local_time(epoch_s));
        }
        writeln!(
            out,
            "{}\t{epoch_s}\t{}\t{}\t{}\t{}",
            known.1,
            milliseconds(timing.connect_ns),
            milliseconds(timing.processing_ns),
            milliseconds(timing.total_ns()),
            milliseconds(timing.waiting_ns)
        )?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::super::made::row;
    use super::*;
    use speedwell_load::measured::RequestRecord;

    fn rows() -> Vec<RequestRecord> {
        (0..60)
            .map(|at| RequestRecord {
                begun_ns: at * 1_000_000,
                sent_ns: Some(at * 1_000_000),
                first_byte_ns: Some((at + 79 - at % 10) * 1_000_000),
                end_ns: (at + 80 - at % 10) * 1_000_000,
                ..row(0)
            })
            .collect()
    }

    fn golden(name: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/ab");
        std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
    }

    /// Every run of digits, with decimals, as one sign.
    fn shape(line: &str) -> String {
        let mut shape = String::new();
        for letter in line.chars() {
            if !letter.is_ascii_digit() {
                shape.push(letter);
            } else if !shape.ends_with('#') {
                shape.push('#');
            }
        }
        shape
    }

    #[test]
    fn percentages_have_the_form_of_the_original() {
        let mut out = Vec::new();
        percentages(Times::of(&rows()).as_ref(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let (ours, theirs): (Vec<_>, Vec<_>) = (
            out.lines().map(shape).collect(),
            golden("ab_percent.csv").lines().map(shape).collect(),
        );
        assert_eq!(ours, theirs);
        assert!(out.contains("\n0,71.000\n") && out.ends_with("\n100,80.000\n"));
    }

    #[test]
    fn requests_have_the_form_of_the_original_and_its_order_if_wished() {
        let of = |sort| {
            let mut out = Vec::new();
            let times = Times::of(&rows());
            requests(times.as_ref(), 1_795_288_693_000, sort, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let by_start = of(Sort::Start);
        let theirs = golden("ab_requests.tsv");
        assert_eq!(by_start.lines().next(), theirs.lines().next());
        assert_eq!(by_start.lines().count(), theirs.lines().count());
        let cells = |line: &str| line.split('\t').count();
        assert!(by_start.lines().all(|line| cells(line) == 6));
        let of_first = shape(theirs.lines().nth(1).unwrap());
        let ours = shape(by_start.lines().nth(1).unwrap());
        // Behind the name of the day and of the month, which depend on the time zone.
        assert_eq!(ours[7..], of_first[7..]);
        assert!(ours.contains("\t#\t#\t#\t#\t#"));
        let totals = |text: &str| -> Vec<u64> {
            let rows = text.lines().skip(1);
            rows.map(|row| row.split('\t').nth(4).unwrap().parse().unwrap())
                .collect()
        };
        assert_eq!(totals(&by_start)[..3], [80, 79, 78]);
        let sorted = totals(&of(Sort::Total));
        assert!(sorted.is_sorted() && sorted[0] == 71);
    }
}
