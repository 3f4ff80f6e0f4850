//! Parses the JSON of `vitest bench --outputJson`, and the list of skipped benchmarks that
//! `vitest bench` prints.
//!
//! Version 4 of vitest writes only the mean of all iterations; its list of individual iterations is
//! empty. Start at [`read`].

use super::{ReportedResult, first_line};
use crate::foreign::json::{self, JsonNode};
use crate::foreign::require_utf8;
use crate::foreign::unit::MetricConversion;
use anyhow::{Result, bail};
use speedwell_model::{Case, FailureCause};

/// Parses the JSON that one process writes, or the list of skipped benchmarks.
///
/// # Errors
/// Fails if the bytes are neither JSON nor a list, or if a value is missing or of the wrong type;
/// the message names the location or the first line.
pub fn read(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return parse_list(require_utf8(bytes)?);
    }
    let parsed = json::parse(bytes)?;
    let mut reported = Vec::new();
    for file in JsonNode::from_root(&parsed).require("files")?.elements()? {
        for group in file.require("groups")?.elements()? {
            let group_name = group.require("fullName")?.text()?;
            for benchmark in group.require("benchmarks")?.elements()? {
                reported.push(read_result(group_name, &benchmark)?);
            }
        }
    }
    Ok(reported)
}

fn read_result(group_name: &str, benchmark: &JsonNode<'_>) -> Result<ReportedResult> {
    let mut reported = named_result(group_name, benchmark.require("name")?.text()?);
    let file = group_name.split(" > ").next().unwrap_or_default();
    reported.details = vec![("file".to_owned(), file.to_owned())];
    let milliseconds = MetricConversion::from_unit("ms");
    let samples = benchmark.elements_of("samples")?;
    for sample in &samples {
        reported.add_node(&milliseconds, sample, Some(1.0))?;
    }
    if samples.is_empty() {
        let Some(mean) = benchmark.get("mean").filter(|mean| !mean.is_null()) else {
            // If the benchmarked function throws, vitest exits with success, and the missing
            // figures are the only sign of the failure.
            let reason = "vitest wrote no figures, as it does when the function throws";
            reported.cause = Some(FailureCause::invalid(reason));
            return Ok(reported);
        };
        reported.add_node(&milliseconds, &mean, None)?;
        // The note omits the number of iterations, so that it is the same for every benchmark and
        // reports show it only once.
        if benchmark.number_of("sampleCount")?.is_some() {
            reported.notes.push("vitest only reports the mean of its iterations.".to_owned());
        }
    }
    Ok(reported)
}

/// Creates the result for a benchmark in the group `FILE > OUTER > INNER`. The command line of
/// vitest selects a benchmark by the names of its groups, without the file, and its own name, all
/// joined with blanks.
fn named_result(group_name: &str, name: &str) -> ReportedResult {
    let groups = group_name.split(" > ").skip(1);
    let path: Vec<&str> = groups.chain([name]).collect();
    ReportedResult::of_case(path.join(" "), Case::new(path.join("/"), Vec::new()))
}

/// Parses the list of skipped benchmarks. In this list, groups are indented by one blank and
/// benchmarks by three.
fn parse_list(text: &str) -> Result<Vec<ReportedResult>> {
    let mut reported: Vec<ReportedResult> = Vec::new();
    let mut group_name = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("   ↓ ") {
            let (Some(group_name), Some(name)) =
                (group_name, name.trim_end().strip_suffix(" [skipped]"))
            else {
                bail!("the line '{}' of the list is not a skipped benchmark", line.trim());
            };
            let listed = named_result(group_name, name);
            if reported.iter().all(|existing| existing.case != listed.case) {
                reported.push(listed);
            }
        } else if let Some(group) = line.strip_prefix(" ↓ ") {
            group_name = Some(group.trim_end());
        }
    }
    if reported.is_empty() {
        bail!("it lists no benchmarks; the first line is '{}'", first_line(text));
    }
    Ok(reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(more: &str) -> String {
        format!(
            r#"{{"files":[{{"filepath":"/x","groups":[{{"fullName":"a.bench.ts > outer > inner","benchmarks":[
            {{"name":"total","mean":0.002,"sampleCount":7{more}}}]}}]}}]}}"#
        )
    }

    #[test]
    fn a_benchmark_is_named_after_its_groups_and_has_its_mean_or_its_samples() {
        let mean = read(document("").as_bytes()).unwrap().remove(0);
        assert_eq!(mean.name.as_deref(), Some("outer inner total"));
        assert_eq!(mean.case.unwrap().id(), "outer/inner/total");
        assert_eq!((mean.samples.len(), mean.samples[0].value), (1, 2000.0));
        assert!(mean.notes[0].contains("mean of its iterations"));
        let result = read(document(r#","samples":[0.001,0.003]"#).as_bytes()).unwrap().remove(0);
        let values: Vec<f64> = result.samples.iter().map(|sample| sample.value).collect();
        assert_eq!((values, result.notes.len()), (vec![1000.0, 3000.0], 0));
    }

    #[test]
    fn a_function_that_throws_has_no_figures() {
        let threw = document("").replace(r#""mean":0.002,"#, "");
        let read = read(threw.as_bytes()).unwrap().remove(0);
        assert!(read.cause.is_some() && read.samples.is_empty());
    }

    #[test]
    fn the_list_of_skipped_benchmarks_is_read() {
        let text = " RUN  v4\n\n ↓ a.bench.ts > sums\n     name  hz\n   ↓ total 1 [skipped]\n   ↓ total 2 [skipped]\n\n \
                    ↓ a.bench.ts\n   ↓ alone [skipped]\n ↓ a.bench.ts\n   ↓ alone [skipped]\n";
        let names: Vec<String> =
            read(text.as_bytes()).unwrap().into_iter().filter_map(|result| result.name).collect();
        assert_eq!(names, ["sums total 1", "sums total 2", "alone"]);
    }

    #[test]
    fn unreadable_output_is_reported_with_the_reason() {
        let error_message = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(
            error_message("\nError: no such file\n")
                .ends_with("the first line is 'Error: no such file'")
        );
        assert!(error_message(" ↓ a.ts\n   ↓ total 1  1,234\n").contains("'↓ total 1  1,234'"));
        assert!(error_message(&document("")[..60]).contains("cut short"));
        assert!(error_message(&document("").replace("0.002", "\"?\"")).contains("mean"));
        assert!(error_message(&format!("{0} {0}", document(""))).contains("trailing"));
    }
}
