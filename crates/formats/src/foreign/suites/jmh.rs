//! Parses the results that JMH writes as JSON (`-rf json`), and the list of benchmarks and their
//! parameters that JMH prints (`-lp`).
//!
//! Each mode of JMH is a separate metric, because modes measure different quantities. For example,
//! the mean time in an iteration of 50 ms is not comparable to the time of a single call. Start at
//! [`read`]. JMH 1.37 writes both formats.

use super::{ReportedResult, shorten_line, typed_value};
use crate::foreign::json::{self, JsonNode};
use crate::foreign::require_utf8;
use crate::foreign::unit::MetricConversion;
use anyhow::{Context as _, Result, anyhow, bail};
use speedwell_model::{Case, Metric, MetricDirection, ParameterValue};

/// Parses the results of a process, or the list of benchmarks that `-lp` prints.
///
/// # Errors
/// Fails if the bytes are neither results nor a list, or if a value has the wrong type; the message
/// names the location or the first invalid line.
pub fn read(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    if bytes.trim_ascii_start().first() != Some(&b'[') {
        return parse_list(require_utf8(bytes)?);
    }
    Ok(read_forks(bytes)?.into_iter().filter_map(join_forks).collect())
}

/// Parses a file of results. Each benchmark has one result per fork, because a fork is a process.
///
/// # Errors
/// Fails if the bytes are not JSON, or if a value is missing or of the wrong type; the message
/// names the location.
pub fn read_forks(bytes: &[u8]) -> Result<Vec<Vec<ReportedResult>>> {
    let parsed = json::parse(bytes)?;
    JsonNode::from_root(&parsed).elements()?.iter().map(read_result).collect()
}

fn join_forks(forks: Vec<ReportedResult>) -> Option<ReportedResult> {
    forks.into_iter().reduce(|mut joined, fork| {
        for metric in fork.metrics {
            if joined.metrics.iter().all(|existing| existing.name != metric.name) {
                joined.metrics.push(metric);
            }
        }
        joined.samples.extend(fork.samples);
        joined
    })
}

fn read_result(result: &JsonNode<'_>) -> Result<Vec<ReportedResult>> {
    let name = result.require("benchmark")?.text()?;
    let mode = result.require("mode")?.text()?;
    let mut values = Vec::new();
    if let Some(params) = result.get("params") {
        for (key, _) in params.members() {
            values.push((key.to_owned(), typed_value(params.require(key)?.text()?)));
        }
    }
    let version =
        result.text_of("jdkVersion")?.map(|text| ("jdkVersion".to_owned(), text.to_owned()));
    let mut fork = ReportedResult::of_case(name, Case::new(name, values));
    fork.details.extend(version);
    let mut forks = vec![fork];
    let primary = result.require("primaryMetric")?;
    add_iterations(&mut forks, &primary, |unit| mode_measure(mode, unit))?;
    if let Some(secondary) = result.get("secondaryMetrics") {
        for (key, _) in secondary.members() {
            // In older versions, names of profiler figures begin with a middle dot.
            let name = key.trim_start_matches('·');
            add_iterations(&mut forks, &secondary.require(key)?, |unit| {
                let mut measure = MetricConversion::from_unit(unit);
                measure.metric.name = name.to_owned();
                measure
            })?;
        }
    }
    Ok(forks)
}

/// Adds a sample for each iteration of every fork. If JMH sampled the times of operations, the
/// sample is the mean of these times over the iteration.
fn add_iterations(
    forks: &mut Vec<ReportedResult>,
    metric: &JsonNode<'_>,
    measure_of_unit: impl Fn(&str) -> MetricConversion,
) -> Result<()> {
    let measure = measure_of_unit(metric.require("scoreUnit")?.text()?);
    let histogram = metric.get("rawDataHistogram");
    let raw = histogram.clone().map_or_else(|| metric.require("rawData"), Ok)?;
    for (index, iterations) in raw.elements()?.iter().enumerate() {
        if index == forks.len() {
            let first = &forks[0];
            forks.push(ReportedResult {
                case: first.case.clone(),
                details: first.details.clone(),
                ..ReportedResult::new(first.name.clone())
            });
        }
        for iteration in iterations.elements()? {
            if histogram.is_some() {
                add_mean(&mut forks[index], &measure, &iteration)?;
            } else {
                forks[index].add_node(&measure, &iteration, None)?;
            }
        }
    }
    Ok(())
}

/// Adds the mean of an iteration's times. The times are pairs of a value and its count.
fn add_mean(
    fork: &mut ReportedResult,
    measure: &MetricConversion,
    iteration: &JsonNode<'_>,
) -> Result<()> {
    let (mut sum, mut count) = (0.0, 0.0);
    for bin in iteration.elements()? {
        let [value, times] = &bin.elements()?[..] else {
            bail!("'{}' is not a pair of a value and its count", bin.location());
        };
        sum += value.number()? * times.number()?;
        count += times.number()?;
    }
    // An iteration that is shorter than an operation may contain no sampled time.
    if count > 0.0 {
        (fork.add_value(measure, sum / count, None))
            .with_context(|| format!("'{}'", iteration.location()))?;
    }
    Ok(())
}

/// Returns the metric and the conversion factor of a mode. Rates per minute or a longer unit are
/// not converted.
fn mode_measure(mode: &str, unit: &str) -> MetricConversion {
    let mut measure = MetricConversion::from_unit(unit);
    let unit = measure.metric.unit.clone();
    match mode {
        "sample" => measure.metric = Metric::new("sampled_time", unit, MetricDirection::Lower),
        "ss" => measure.metric = Metric::new("single_shot_time", unit, MetricDirection::Lower),
        "thrpt" => measure.metric.better = MetricDirection::Higher,
        _ => {}
    }
    measure
}

/// Name of a parameter and all its values.
type JmhParameter = (String, Vec<ParameterValue>);

/// Parses the output of `-lp`: names of benchmarks, each followed by its parameters with all their
/// values. Each combination of values is a case.
fn parse_list(text: &str) -> Result<Vec<ReportedResult>> {
    let mut lines = text.lines().skip_while(|line| line.trim() != "Benchmarks:");
    lines.next().with_context(|| {
        let first = super::first_line(text);
        format!("it is neither JMH JSON nor a JMH list of benchmarks; the first line is '{first}'")
    })?;
    let mut named_parameters: Vec<(&str, Vec<JmhParameter>)> = Vec::new();
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let parameter = line.strip_prefix("  param \"").and_then(|rest| rest.split_once("\" = {"));
        match (parameter, named_parameters.last_mut()) {
            (Some((key, values)), Some((_, parameters))) => {
                let list = values.strip_suffix('}').unwrap_or(values);
                parameters.push((key.to_owned(), list.split(", ").map(typed_value).collect()));
            }
            (None, _) if !line.contains(char::is_whitespace) => {
                named_parameters.push((line, Vec::new()))
            }
            _ => bail!(
                "the line '{}' of the list is neither a benchmark nor a parameter",
                shorten_line(line)
            ),
        }
    }
    let mut cases = Vec::new();
    for (name, parameters) in named_parameters {
        let count = parameters.iter().map(|(_, values)| values.len() as f64).product::<f64>();
        // A real list has far fewer combinations, but a corrupt list may imply any number.
        let combinations = Case::cartesian_product(&parameters).map_err(|_| {
            let most = Case::MOST;
            anyhow!("'{name}' has {count} combinations of parameters; at most {most} can be listed")
        })?;
        let case = |values| ReportedResult::of_case(name, Case::new(name, values));
        cases.extend(combinations.into_iter().map(case));
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(reported: &ReportedResult) -> Vec<(&str, f64)> {
        let value = |sample: &'_ speedwell_model::Sample| sample.value;
        let names = reported.samples.iter().map(|sample| &*sample.metric);
        names.zip(reported.samples.iter().map(value)).collect()
    }

    fn document(mode: &str, metric: &str) -> String {
        format!(
            r#"[{{"benchmark":"a.B.c","mode":"{mode}","params":{{"n":"10","rate":"1.0"}},"primaryMetric":{metric},
            "secondaryMetrics":{{"·gc.count":{{"scoreUnit":"counts","rawData":[[3.0]]}}}}}}]"#
        )
    }

    #[test]
    fn each_iteration_is_a_sample_and_the_mode_determines_its_metric() {
        let raw = |unit: &str| format!(r#"{{"scoreUnit":"{unit}","rawData":[[1.5,2.0],[4.0]]}}"#);
        let of =
            |mode: &str, unit: &str| read(document(mode, &raw(unit)).as_bytes()).unwrap().remove(0);
        let time = of("avgt", "us/op");
        assert_eq!(
            figures(&time),
            [("time", 1500.0), ("time", 2000.0), ("gc.count", 3.0), ("time", 4000.0)]
        );
        assert_eq!(time.case.unwrap().id(), "a.B.c n=10 rate=\"1.0\"");
        let rate = of("thrpt", "ops/ms");
        assert_eq!(figures(&rate)[0], ("throughput", 1500.0));
        assert_eq!(rate.metrics[0].better, MetricDirection::Higher);
        assert_eq!(figures(&of("ss", "ms/op"))[0], ("single_shot_time", 1.5e6));
        let rare = of("thrpt", "ops/min");
        assert_eq!((figures(&rare)[0].1, rare.metrics[0].better), (1.5, MetricDirection::Higher));
    }

    #[test]
    fn each_fork_has_a_result_of_its_own() {
        let metric = r#"{"scoreUnit":"us/op","rawData":[[1.5,2.0],[4.0]]}"#;
        let forks = read_forks(document("avgt", metric).as_bytes()).unwrap().remove(0);
        assert_eq!(figures(&forks[0]), [("time", 1500.0), ("time", 2000.0), ("gc.count", 3.0)]);
        assert_eq!(figures(&forks[1]), [("time", 4000.0)]);
        assert_eq!(forks[0].case, forks[1].case);
    }

    #[test]
    fn the_sample_of_an_iteration_is_the_mean_of_its_sampled_times() {
        let metric = r#"{"scoreUnit":"ns/op","rawDataHistogram":[[[[10.0,1],[20.0,3]],[]]]}"#;
        let read = read(document("sample", metric).as_bytes()).unwrap();
        assert_eq!(figures(&read[0])[0], ("sampled_time", 17.5));
        assert_eq!(read[0].samples.len(), 2, "one sample is from the profiler");
    }

    #[test]
    fn each_combination_of_parameters_is_listed() {
        let text = "Some warning of a JVM\nBenchmarks: \na.B.c\n  param \"n\" = {1, 2}\n  param \"t\" = {a b, c=d}\na.B.d\n";
        let ids: Vec<String> = (read(text.as_bytes()).unwrap().into_iter())
            .map(|reported| reported.case.unwrap().id())
            .collect();
        let expected = [
            "a.B.c n=1 t=\"a b\"",
            "a.B.c n=1 t=\"c=d\"",
            "a.B.c n=2 t=\"a b\"",
            "a.B.c n=2 t=\"c=d\"",
            "a.B.d",
        ];
        assert_eq!(ids, expected);
    }

    #[test]
    fn output_that_is_neither_results_nor_a_list_is_quoted() {
        let error_message = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(
            error_message("Exception in thread \"main\"\n")
                .ends_with("the first line is 'Exception in thread \"main\"'")
        );
        assert!(error_message("Benchmarks:\n  sum of all\n").contains("'sum of all'"));
        assert!(
            error_message("[{\"benchmark\":\"a\"}]").contains("'[0].mode' is missing")
                || error_message("[{}]").contains("missing")
        );
        assert!(read(b"Benchmarks:\n\xff\n").is_err());
        let combinations = format!("Benchmarks:\na.B\n{}", "  param \"n\" = {1, 2}\n".repeat(400));
        assert!(error_message(&combinations).contains("at most 100000 can be listed"));
    }
}
