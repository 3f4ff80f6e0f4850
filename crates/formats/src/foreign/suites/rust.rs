//! Parses the output of benchmark frameworks of Rust: criterion, the built-in benchmarks, and divan.

use super::{ReportedResult, shorten_line};
use crate::foreign::json::{self, JsonNode};
use crate::foreign::require_utf8;
use crate::foreign::unit::MetricConversion;
use anyhow::{Context, Result, ensure};
use speedwell_model::{Case, FailureCause, ParameterValue};

/// Parses `sample.json` of criterion: the number of iterations and the total time of each sample.
///
/// In criterion's "linear" mode, each sample has more iterations than the previous sample; in
/// "flat" mode, all samples have the same number. In both modes, the value of a sample is its time
/// divided by its iterations. The result has no name, because the name of the benchmark is only in
/// the path of the file.
///
/// # Errors
/// Fails if the file is not JSON, a required key is missing, a value is invalid, or the lists have
/// different lengths.
pub fn read_criterion(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let parsed = json::parse(bytes)?;
    let root = JsonNode::from_root(&parsed);
    let (iterations, times) =
        (root.require("iters")?.elements()?, root.require("times")?.elements()?);
    let (length, expected) = (iterations.len(), times.len());
    ensure!(length == expected, "'iters' has length {length}, but 'times' has length {expected}");
    let mut reported = ReportedResult::new(None);
    for (iterations, time) in iterations.iter().zip(&times) {
        let count = iterations.number()?;
        ensure!(count >= 1.0, "'{}' is {count}: expected at least 1", iterations.location());
        let per_iteration = time.number()? / count;
        (reported.add_value(&MetricConversion::from_unit("ns"), per_iteration, Some(count)))
            .with_context(|| format!("'{}'", time.location()))?;
    }
    Ok(vec![reported])
}

/// Parses output of Rust's built-in benchmarks: `test NAME ... bench:    1,234 ns/iter (+/- 56)`.
///
/// The figure is a median over samples that are not printed. Since Rust 1.79, the figure has two
/// decimals.
///
/// # Errors
/// Fails if the output is not UTF-8, or a figure is not a number.
pub fn read_libtest(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let mut results = Vec::new();
    for (line, line_number) in require_utf8(bytes)?.lines().zip(1..) {
        let Some((name, outcome)) =
            (line.strip_prefix("test ")).and_then(|result| result.split_once(" ... "))
        else {
            continue;
        };
        let mut reported = ReportedResult::new(Some(name.trim().to_owned()));
        let outcome = outcome.trim();
        if let Some(figures) = outcome.strip_prefix("bench:") {
            let word = figures.split_whitespace().next().unwrap_or_default();
            let value: f64 = (word.replace(',', "").parse()).ok().with_context(|| {
                format!("line {line_number}: '{}' is not a number", shorten_line(word))
            })?;
            ensure!(
                figures.contains(" ns/iter (") && figures.contains(')'),
                "line {line_number} does not end in 'ns/iter (+/- N)'\nhint: is the file cut short?"
            );
            (reported.add_value(&MetricConversion::from_unit("ns"), value, None))
                .with_context(|| format!("line {line_number}"))?;
        } else if outcome.starts_with("FAILED") || outcome.starts_with("failed") {
            reported.cause = Some(FailureCause::invalid("failed"));
        } else if outcome.starts_with("ignored") {
            let reason = outcome.trim_start_matches("ignored").trim_start_matches(", ");
            reported.cause = Some(FailureCause::Skipped { reason: reason.to_owned() });
        } else {
            continue;
        }
        results.push(reported);
    }
    Ok(results)
}

/// Returns whether output ends before the line `test result` of its last program.
pub fn is_libtest_cut_short(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    count("running ") > count("test result: ")
}

/// Note on every figure. The note omits the number of samples, so that it is the same for every row
/// and reports show it only once.
const MEDIAN_NOTE: &str =
    "divan prints no individual samples: the value is the median of one process's samples.";

/// Prefixes of a line, each of which stands for one level of the tree.
const BRANCHES: [&str; 4] = ["├─ ", "╰─ ", "│  ", "   "];

/// Parses the tree that divan prints. Its nodes are modules and benchmarks, and an executed
/// benchmark has a row of figures.
///
/// divan does not print individual samples. The figures of a row summarize all samples of the
/// benchmark, and the median is stored as the only sample. A leaf without figures is a case as
/// well, because lists and trial runs contain no figures.
///
/// # Errors
/// Fails if the output is not UTF-8, or a figure is not a number.
pub fn read_divan(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let mut rows: Vec<(usize, ReportedResult)> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut columns = None;
    for (line, line_number) in require_utf8(bytes)?.lines().zip(1..) {
        columns = TreeColumns::from_header(line).or(columns);
        let (depth, tail) = split_depth(line);
        let split = columns.as_ref().map(|columns| columns.split_line(line, tail));
        let (name, figures) = split.unwrap_or((tail.trim(), None));
        // Rows below a benchmark's row contain rates and allocations, and have no name.
        if name.is_empty() || depth > path.len() {
            continue;
        }
        let first_cell = tail.split('│').next().unwrap_or_default();
        let is_ignored = first_cell.trim_end().ends_with("(ignored)");
        path.truncate(depth);
        path.push(name.trim_end_matches("(ignored)").trim_end().to_owned());
        // A node with children is not a case, so remove the parent of this row.
        rows.retain(|(other, reported)| {
            *other + 1 != depth || reported.name.as_deref() != Some(&path[..depth].join("::"))
        });
        let mut reported = case_of_path(&path);
        if is_ignored {
            reported.cause = Some(FailureCause::Skipped { reason: "ignored".to_owned() });
        }
        if let Some(figures) = figures {
            add_median(&mut reported, &figures)
                .with_context(|| format!("in line {line_number}, '{}'", shorten_line(line)))?;
        }
        rows.push((depth, reported));
    }
    // The root is not a case, because it stands for the crate.
    rows.retain(|(_, reported)| reported.name.as_deref().is_some_and(|name| name.contains("::")));
    Ok(rows.into_iter().map(|(_, reported)| reported).collect())
}

/// Returns whether a text has the header of a tree with figures.
pub fn has_divan_header(text: &str) -> bool {
    text.lines().any(|line| TreeColumns::from_header(line).is_some())
}

/// Returns whether the last tree ends before its last branch.
pub fn is_divan_cut_short(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let is_row = |line: &&str| BRANCHES.iter().any(|branch| line.starts_with(branch));
    text.lines().rev().find(is_row).is_some_and(|line| {
        let (_, tail) = split_depth(line);
        line[..line.len() - tail.len()].contains(['├', '│'])
    })
}

/// Returns the case of a row. Below a benchmark, divan prints a row for each number of threads,
/// such as `t=4`. This number becomes a parameter and not part of the name, because a number of
/// threads is selected with `--threads`, not by name.
fn case_of_path(path: &[String]) -> ReportedResult {
    let name = |path: &[String]| ReportedResult::new(Some(path.join("::")));
    let Some((last, parents)) = path.split_last() else { return name(path) };
    let count = last.strip_prefix("t=").and_then(|count| count.parse::<u32>().ok());
    match count {
        Some(count) if parents.len() > 1 => {
            let threads = ("threads".to_owned(), ParameterValue::Number(count.into()));
            let benchmark = parents.join("::");
            ReportedResult::of_case(&benchmark, Case::new(&benchmark, vec![threads]))
        }
        _ => name(path),
    }
}

/// Returns the depth of a line in the tree, and the rest of the line.
fn split_depth(line: &str) -> (usize, &str) {
    let (mut depth, mut tail) = (0, line);
    while let Some(after) = BRANCHES.iter().find_map(|branch| tail.strip_prefix(branch)) {
        depth += 1;
        tail = after;
    }
    (depth, tail)
}

struct TreeColumns {
    /// Start of the first column after the names, in characters.
    first: usize,
    names: Vec<String>,
}

impl TreeColumns {
    fn from_header(line: &str) -> Option<TreeColumns> {
        let (name, _) = line.split_once("fastest ")?;
        let names: Vec<String> =
            line[name.len()..].split('│').map(|name| name.trim().to_owned()).collect();
        (names.len() > 3).then(|| TreeColumns { first: name.chars().count(), names })
    }

    /// Splits a line into its name and its figures, each with the name of its column. The figures
    /// are `None` if the line has none.
    fn split_line<'a>(
        &self,
        line: &'a str,
        tail: &'a str,
    ) -> (&'a str, Option<Vec<(String, &'a str)>>) {
        let end = line.char_indices().nth(self.first).map_or(line.len(), |(at, _)| at);
        let begin = line.len() - tail.len();
        let name = line.get(begin..end).unwrap_or_default().trim();
        let cells = line[end..].split('│').map(str::trim);
        let cells: Vec<(String, &str)> = self.names.iter().cloned().zip(cells).collect();
        let has_figures =
            cells.first().is_some_and(|(_, cell)| cell.starts_with(|c: char| c.is_ascii_digit()));
        (name, has_figures.then_some(cells))
    }
}

fn add_median(reported: &mut ReportedResult, figures: &[(String, &str)]) -> Result<()> {
    let cell = |name: &str| figures.iter().find(|(known, _)| known == name).map(|(_, cell)| *cell);
    let median = cell("median").context("the column 'median' is missing")?;
    let (number, unit) =
        median.split_once(' ').with_context(|| format!("'{median}' has no unit"))?;
    let number: f64 = number.parse().with_context(|| format!("'{number}' is not a number"))?;
    // Without the last column, the row may be cut short, and so may its median.
    let count = cell("iters").context("the column 'iters' is missing")?;
    let iterations = count.parse().ok().filter(|count: &f64| count.is_finite());
    reported.add_value(&MetricConversion::from_unit(unit), number, iterations)?;
    reported.notes.push(MEDIAN_NOTE.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_its_time_divided_by_its_iterations() {
        let read = |text: &str| read_criterion(text.as_bytes());
        let found =
            read(r#"{"sampling_mode":"Linear","iters":[10.0,20.0],"times":[50.0,90.0]}"#).unwrap();
        let samples = &found[0].samples;
        assert_eq!((samples[0].value, samples[1].value), (5.0, 4.5));
        assert_eq!((samples[1].iterations, samples[1].elapsed_ns), (Some(20.0), Some(90)));
        let error_message = |text: &str| read_criterion(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            error_message(r#"{"iters":[1],"times":[]}"#),
            "'iters' has length 1, but 'times' has length 0"
        );
        assert_eq!(
            error_message(r#"{"iters":[0],"times":[1]}"#),
            "'iters[0]' is 0: expected at least 1"
        );
        assert_eq!(error_message("{}"), "the key 'iters' is missing");
    }

    #[test]
    fn figures_are_medians_and_failures_are_named() {
        let text = "\nrunning 3 tests\ntest fold   ... bench:       1,383.17 ns/iter (+/- 361.32)\n\
                    test old ... bench:          12 ns/iter (+/- 0)\ntest panics ... FAILED\n\
                    test slow ... ignored, takes a day\n\ntest result: FAILED. 0 passed\n";
        let read = read_libtest(text.as_bytes()).unwrap();
        let names: Vec<&str> = read.iter().filter_map(|result| result.name.as_deref()).collect();
        assert_eq!(names, ["fold", "old", "panics", "slow"]);
        assert_eq!(read[0].samples[0].value, 1383.17);
        assert_eq!(read[1].samples[0].value, 12.0);
        assert!(matches!(read[2].cause, Some(FailureCause::Invalid { .. })));
        let skipped = FailureCause::Skipped { reason: "takes a day".to_owned() };
        assert_eq!(read[3].cause, Some(skipped));
        assert!(read_libtest(b"test fold ... bench: many ns/iter").is_err());
    }

    const TABLE: &str = "\
tiny                fastest       │ slowest       │ median        │ mean          │ samples │ iters
├─ fold                           │               │               │               │         │
│  ├─ 100           31.17 ns      │ 31.33 ns      │ 31.25 ns      │ 31.22 ns      │ 25      │ 1600
│  ╰─ two words     1.5 µs        │ 2 µs          │ 1.75 µs       │ 1.8 µs        │ 25      │ 1600
│                   3 Mitem/s     │ 3 Mitem/s     │ 3 Mitem/s     │ 3 Mitem/s     │         │
├─ old              (ignored)     │               │               │               │         │
╰─ inner                          │               │               │               │         │
   ╰─ deep          3.961 ns      │ 3.982 ns      │ 3.963 ns      │ 3.968 ns      │ 100     │ 51200
";

    fn read_names(text: &str) -> Vec<String> {
        let read = read_divan(text.as_bytes()).unwrap();
        read.into_iter().filter_map(|reported| reported.name).collect()
    }

    #[test]
    fn the_median_of_a_row_stands_for_its_samples() {
        let read = read_divan(TABLE.as_bytes()).unwrap();
        let values: Vec<(&str, Option<f64>)> = (read.iter())
            .map(|reported| {
                let value = reported.samples.first().map(|sample| sample.value);
                (reported.name.as_deref().unwrap(), value)
            })
            .collect();
        assert_eq!(
            values,
            [
                ("tiny::fold::100", Some(31.25)),
                ("tiny::fold::two words", Some(1750.0)),
                ("tiny::old", None),
                ("tiny::inner::deep", Some(3.963)),
            ]
        );
        assert!(matches!(read[2].cause, Some(FailureCause::Skipped { .. })));
        assert_eq!(read[0].samples[0].iterations, Some(1600.0));
    }

    #[test]
    fn lists_are_trees_without_figures() {
        let list = "tiny\n├─ fold\n├─ panics\n╰─ inner\n   ╰─ deep\n\n";
        assert_eq!(read_names(list), ["tiny::fold", "tiny::panics", "tiny::inner::deep"]);
        let trial = "tiny\n╰─ fold\n   ├─ 100\n   ╰─ 1000\n";
        assert_eq!(read_names(trial), ["tiny::fold::100", "tiny::fold::1000"]);
        assert_eq!(read_names("tiny\n"), [""; 0]);
    }

    #[test]
    fn each_number_of_threads_is_a_case_of_its_own() {
        let trial = "tiny\n├─ both\n│  ╰─ 4\n│     ├─ t=1\n│     ╰─ t=16\n╰─ spread\n   ├─ t=1\n   ╰─ t=2\n";
        let read = read_divan(trial.as_bytes()).unwrap();
        let cases: Vec<(&str, String)> = (read.iter())
            .map(|result| (result.name.as_deref().unwrap(), result.case.as_ref().unwrap().id()))
            .collect();
        let expected = [
            ("tiny::both::4", "tiny::both::4 threads=1"),
            ("tiny::both::4", "tiny::both::4 threads=16"),
            ("tiny::spread", "tiny::spread threads=1"),
            ("tiny::spread", "tiny::spread threads=2"),
        ];
        assert_eq!(cases, expected.map(|(name, id)| (name, id.to_owned())));
    }

    #[test]
    fn an_invalid_figure_is_reported_with_its_line() {
        let broken = TABLE.replace("31.25 ns", "x.25 ns");
        let message = format!("{:#}", read_divan(broken.as_bytes()).unwrap_err());
        assert!(
            message.contains("'x.25' is not a number") && message.contains("100 "),
            "{message}"
        );
    }
}
