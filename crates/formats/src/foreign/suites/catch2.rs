//! Parses the XML that Catch2, version 2 or 3, writes with `--reporter xml`. The XML contains the
//! mean of each benchmark, but not the samples.
//!
//! The command line of a Catch2 program can only select whole test cases. A test case may contain
//! several benchmarks, and each benchmark becomes a [`Case`]. Start at [`read`].

use super::{ReportedResult, first_line};
use crate::foreign::require_utf8;
use crate::foreign::unit::MetricConversion;
use anyhow::{Context as _, Result, anyhow};
use roxmltree::{Document, Node};
use speedwell_model::{Case, FailureCause};

/// Parses the XML that one process writes. Skips what the tests print before the XML.
///
/// # Errors
/// Fails if there is no XML, if the XML is not well-formed, or if a figure is not a number; the
/// message names line and column, or the benchmark.
pub fn read(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let text = require_utf8(bytes)?;
    let begin = text.find("<?xml").with_context(|| {
        let first = first_line(text);
        format!("it is not Catch2 XML; the first line is '{first}'")
    })?;
    let document = Document::parse(&text[begin..]).map_err(|error| {
        anyhow!("it is not well-formed XML: {error}\nhint: is the file cut short?")
    })?;
    let mut results = Vec::new();
    for test in document.descendants().filter(|node| node.has_tag_name("TestCase")) {
        let name = test.attribute("name").unwrap_or_default();
        let failure = find_failed_assertion(test);
        for node in test.descendants().filter(|node| node.has_tag_name("BenchmarkResults")) {
            let reported = read_benchmark(name, test, node)?;
            // The time of code that computes a wrong answer is not a result.
            results.push(match &failure {
                Some(cause) => ReportedResult {
                    case: reported.case,
                    cause: reported.cause.or_else(|| Some(cause.clone())),
                    ..ReportedResult::new(reported.name)
                },
                None => reported,
            });
        }
    }
    Ok(results)
}

fn read_benchmark(test: &str, parent: Node<'_, '_>, node: Node<'_, '_>) -> Result<ReportedResult> {
    let name_of = |node: &Node<'_, '_>| node.attribute("name").unwrap_or_default().to_owned();
    // The path of a benchmark contains its sections, because several sections may contain
    // benchmarks with the same name.
    let above = node.ancestors().skip(1).take_while(|above| *above != parent);
    let sections = above.filter(|above| above.has_tag_name("Section"));
    let mut names: Vec<String> = sections.map(|section| name_of(&section)).collect();
    names.insert(0, name_of(&node));
    names.push(test.to_owned());
    names.reverse();
    let path = names.join("/");
    let mut reported = ReportedResult::of_case(test, Case::new(&path, Vec::new()));
    let child = |tag: &str| node.children().find(|child| child.has_tag_name(tag));
    if let Some(failed) = child("failed") {
        let message = failed.attribute("message").unwrap_or_default();
        reported.cause = Some(FailureCause::invalid(format!("the benchmark failed: {message}")));
        return Ok(reported);
    }
    let figure = |node: Option<Node<'_, '_>>, key: &str| -> Result<f64> {
        let text = node.and_then(|node| node.attribute(key)).unwrap_or_default();
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.with_context(|| {
            format!("'{key}' of the benchmark '{path}' is '{text}', not a finite number")
        })
    };
    let mean = figure(child("mean"), "value")?;
    let samples = figure(Some(node), "samples")?;
    (reported.add_value(&MetricConversion::from_unit("ns"), mean, None))
        .with_context(|| format!("the mean of the benchmark '{path}'"))?;
    if samples > 1.0 {
        reported.notes.push(format!("Catch2 only reports the mean of its {samples} samples."));
    }
    Ok(reported)
}

/// Returns the first failed assertion of a test or, if there is none, the first exception, fatal
/// error or explicit failure.
fn find_failed_assertion(test: Node<'_, '_>) -> Option<FailureCause> {
    let is_false = |node: &Node<'_, '_>| node.attribute("success") == Some("false");
    let text = |node: Node<'_, '_>, tag: &str| {
        let inner = node.children().find(|child| child.has_tag_name(tag));
        inner.and_then(|inner| inner.text()).unwrap_or_default().trim().to_owned()
    };
    let failed = test.descendants().find(|node| node.has_tag_name("Expression") && is_false(node));
    if let Some(node) = failed {
        let (original, expanded) = (text(node, "Original"), text(node, "Expanded"));
        let line = node.attribute("line").unwrap_or_default();
        return Some(FailureCause::invalid(format!(
            "assertion {original} failed: {expanded} (line {line})"
        )));
    }
    let tags = ["Exception", "FatalErrorCondition", "Failure"];
    let exception =
        test.descendants().find(|node| tags.iter().any(|tag| node.has_tag_name(*tag)))?;
    Some(FailureCause::invalid(exception.text().unwrap_or_default().trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(inside: &str) -> String {
        format!(
            "hello\n<?xml version=\"1.0\"?>\n<Catch><TestCase name=\"t\">{inside}</TestCase></Catch>\n"
        )
    }

    const ONE: &str = "<BenchmarkResults name=\"a &lt;b&gt;\" samples=\"20\"><mean value=\"1571\"/></BenchmarkResults>";

    #[test]
    fn a_benchmark_has_its_mean_and_is_named_after_its_test_and_sections() {
        let text = document(&format!("{ONE}<Section name=\"s\">{ONE}</Section>"));
        let read = read(text.as_bytes()).unwrap();
        let ids: Vec<String> =
            read.iter().map(|result| result.case.as_ref().unwrap().id()).collect();
        assert_eq!(ids, ["t/a <b>", "t/s/a <b>"]);
        assert_eq!((read[0].name.as_deref(), read[0].samples[0].value), (Some("t"), 1571.0));
        assert!(read[0].notes[0].contains("20 samples"));
    }

    #[test]
    fn failures_become_causes_without_samples() {
        let cause = |inside: &str| {
            let read = read(document(inside).as_bytes()).unwrap().remove(0);
            read.cause.unwrap().to_string()
        };
        let threw =
            "<BenchmarkResults name=\"a\"><failed message=\"bad luck\"/></BenchmarkResults>";
        assert!(cause(threw).ends_with("the benchmark failed: bad luck"));
        let expression = "<Expression success=\"false\" line=\"17\"><Original> sum(3) == 4 </Original>\
                     <Expanded> 3 == 4 </Expanded></Expression>";
        let message = cause(&format!("{ONE}{expression}"));
        let read = read(document(&format!("{ONE}{expression}")).as_bytes()).unwrap();
        assert!(read[0].samples.is_empty(), "{read:?}");
        assert!(message.ends_with("assertion sum(3) == 4 failed: 3 == 4 (line 17)"), "{message}");
    }

    #[test]
    fn unreadable_documents_are_reported_with_the_reason() {
        let error_message = |text: &str| format!("{:#}", read(text.as_bytes()).unwrap_err());
        assert!(error_message("usage\n").ends_with("the first line is 'usage'"));
        let text = document(ONE);
        assert!(error_message(&text[..text.len() - 30]).contains("well-formed"));
        assert!(error_message(&format!("{text}{text}")).contains("well-formed"));
        let nan = error_message(&document(ONE.replace("1571", "nan").as_str()));
        assert!(nan.contains("'value' of the benchmark 't/a <b>' is 'nan'"), "{nan}");
        assert!(read(b"\xff\xfe<\0").is_err());
    }
}
