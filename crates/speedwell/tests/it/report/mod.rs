//! Whole reports against golden files: on terminals of 80 and 120 columns, and as Markdown, CSV and
//! JSON.
//!
//! `SPEEDWELL_UPDATE_GOLDEN=1 cargo test -p speedwell --test it report` rewrites the files; review
//! the difference before committing it.

// Tests and their helpers report failures by panicking.
#![allow(clippy::unwrap_used)]

mod page;
mod sample_findings;
mod sample_sessions;
mod sample_study;

use crate::project::expect_golden;
use sample_findings::{comparison, load_test, one_sided};
use sample_sessions::{failures, session};
use sample_study::study;
use speedwell_analysis::{AnalysisFindings, NoVerdict};
use speedwell_model::{IntervalEstimate, Verdict};
use speedwell_report::{
    ChartKind, Csv, Document, Json, Markdown, OutputOptions, RenderDocument, ReportBlock,
    TextFormat, Verbosity, print_document, report_findings as findings_of,
    report_measurement_details as details_of, report_study as study_of,
};

fn golden(name: &str, document: &Document, format: &dyn RenderDocument) {
    let mut bytes = Vec::new();
    format.render(document, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    expect_golden(&format!("report/{name}"), &text);
}

fn text(width: usize) -> TextFormat {
    TextFormat { width: Some(width), ..TextFormat::default() }
}

fn mixed() -> AnalysisFindings {
    AnalysisFindings { failures: failures(), ..comparison() }
}

fn report_of(findings: &AnalysisFindings) -> Document {
    let mut document = findings_of(findings, &OutputOptions::default()).unwrap();
    document.append_document(details_of(&[(None, &session())], findings));
    document
}

#[test]
fn a_comparison_in_every_format() {
    let document = report_of(&mixed());
    golden("comparison-80.txt", &document, &text(80));
    golden("comparison-120.txt", &document, &text(120));
    golden("comparison.md", &document, &Markdown { pictures: vec!["changes.svg".into()] });
    golden("comparison-brief-80.txt", &document, &TextFormat { brief: true, ..text(80) });
    golden("comparison.csv", &document, &Csv);
    golden("comparison.json", &document, &Json);
}

#[test]
fn verbose_and_quiet_comparisons() {
    let verbose = OutputOptions { verbosity: Verbosity::Verbose, ..OutputOptions::default() };
    golden("comparison-verbose-160.txt", &findings_of(&mixed(), &verbose).unwrap(), &text(160));
    let quiet = OutputOptions { verbosity: Verbosity::Quiet, ..OutputOptions::default() };
    golden("comparison-quiet-80.txt", &findings_of(&comparison(), &quiet).unwrap(), &text(80));
}

#[test]
fn a_summary_in_every_format() {
    let document =
        report_of(&AnalysisFindings { summaries: one_sided(), ..AnalysisFindings::default() });
    golden("summary-80.txt", &document, &text(80));
    golden("summary-120.txt", &document, &text(120));
    golden("summary.md", &document, &Markdown::default());
    golden("summary.csv", &document, &Csv);
    golden("summary.json", &document, &Json);
}

#[test]
fn metrics_or_candidates_of_a_single_case_are_rows_of_one_table() {
    let one = AnalysisFindings { summaries: load_test(), ..AnalysisFindings::default() };
    golden("load-80.txt", &findings_of(&one, &OutputOptions::default()).unwrap(), &text(80));
    golden(
        "contest-80.txt",
        &findings_of(&sample_findings::contest(), &OutputOptions::default()).unwrap(),
        &text(80),
    );
    golden(
        "load-compared-80.txt",
        &findings_of(&sample_findings::load_compared(), &OutputOptions::default()).unwrap(),
        &text(80),
    );
}

#[test]
fn a_parameter_study() {
    let document = study_of(&study(), true, &OutputOptions::default()).unwrap();
    golden("study-80.txt", &document, &text(80));
    golden("study.md", &document, &Markdown::default());
    golden("study.csv", &document, &Csv);
    golden("study.json", &document, &Json);
}

#[test]
fn no_line_of_a_report_is_wider_than_the_screen() {
    let document = report_of(&mixed());
    for width in [60, 80, 100, 160] {
        let mut bytes = Vec::new();
        text(width).render(&document, &mut bytes).unwrap();
        let all = String::from_utf8(bytes).unwrap();
        // Commands to copy, and output of other programs, are never wrapped.
        let ours =
            all.lines().filter(|line| !line.contains("repeat it") && !line.contains("/opt/node"));
        for line in ours {
            let columns = unicode_width::UnicodeWidthStr::width(line);
            assert!(columns <= width, "{columns} columns of {width}: {line}");
        }
    }
}

#[test]
fn files_are_written_beside_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let output = OutputOptions {
        files: ["r.md", "r.csv", "r.json", "r.svg", "r.png"].map(file).to_vec(),
        chart: Some(ChartKind::Forest),
        ..OutputOptions::default()
    };
    let mut stdout = Vec::new();
    let document = findings_of(&mixed(), &output).unwrap();
    let written = print_document(&document, &output, &mut stdout).unwrap();
    let names: Vec<_> =
        written.iter().map(|file| file.path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["r.md", "r.csv", "r.json", "r.svg", "r-2.svg", "r.png", "r-2.png"]);
    assert!(String::from_utf8(stdout).unwrap().contains("! the load of the machine"));
    let markdown = std::fs::read_to_string(file("r.md")).unwrap();
    assert!(markdown.contains("](<r.svg>)") && markdown.contains("](<r-2.svg>)"), "{markdown}");
    let svg = std::fs::read_to_string(file("r.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("buffer-compare.js"));
    let png = std::fs::read(file("r-2.png")).unwrap();
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(file("r.json")).unwrap()).unwrap();
    assert_eq!(json["changes"].as_array().unwrap().len(), 10);
}

#[test]
fn a_file_of_unknown_kind_stops_before_anything_is_written() {
    let output = OutputOptions { files: vec!["r.pdf".into()], ..OutputOptions::default() };
    let mut stdout = Vec::new();
    let document = findings_of(&comparison(), &output).unwrap();
    assert!(print_document(&document, &output, &mut stdout).is_err());
    assert!(stdout.is_empty());
}

#[test]
fn a_unit_that_no_metric_has_is_refused() {
    let output = |unit: &str| OutputOptions {
        unit: Some(unit.parse().unwrap()),
        ..OutputOptions::default()
    };
    let one = AnalysisFindings { summaries: one_sided(), ..AnalysisFindings::default() };
    let message = findings_of(&one, &output("MiB")).unwrap_err().to_string();
    assert_eq!(message, "no metric can be shown in 'MiB' (the metrics are measured in 1/s)");
    let mut bytes = Vec::new();
    text(100).render(&findings_of(&one, &output("us")).unwrap(), &mut bytes).unwrap();
    assert!(String::from_utf8(bytes).unwrap().contains("0.870 µs"));
}

#[test]
fn every_kind_of_chart_can_be_drawn() {
    for kind in ["box", "scatter", "bar", "forest", "histogram"] {
        let output =
            OutputOptions { chart: Some(kind.parse().unwrap()), ..OutputOptions::default() };
        let document = findings_of(&comparison(), &output).unwrap();
        for chart in document.charts() {
            let svg = chart.picture.svg(chart.picture.natural_size());
            assert!(svg.contains("<title"), "{kind}: {}", chart.title);
        }
        assert!(document.charts().count() > 0, "{kind}");
    }
    let line = OutputOptions { chart: Some(ChartKind::Line), ..OutputOptions::default() };
    assert!(findings_of(&comparison(), &line).is_err());
    assert_eq!(study_of(&study(), false, &line).unwrap().charts().count(), 1);
}

/// The first headline of a comparison with these verdicts.
fn headline(verdicts: &[(Verdict, f64)]) -> String {
    headline_of(&sample_findings::verdicts(verdicts))
}

fn headline_of(findings: &AnalysisFindings) -> String {
    let document = findings_of(findings, &OutputOptions::default()).unwrap();
    let first = document.blocks.iter().find_map(|block| match block {
        ReportBlock::Headline(text) => Some(text.clone()),
        _ => None,
    });
    first.unwrap()
}

#[test]
fn the_headline_states_the_answer_in_words() {
    use Verdict::{Better, Same, Unclear, Worse};
    for (verdicts, sentence) in [
        (vec![(Better, 0.08)], "new has 8.0% more throughput than old [7.0, 9.0]."),
        (vec![(Same, 0.001)], "No difference: new and old are the same within 2% [-0.9%, +1.1%]."),
        (
            vec![(Unclear, 0.0)],
            "No difference found [-1.0%, +1.0%]; one of 0.90% or more would probably have been. \
             About 12 more runs a side would decide.",
        ),
        (
            vec![(Unclear, 0.02)],
            "Unclear: new has 2.0% more throughput than old [+1.0%, +3.0%]. \
             About 12 more runs a side would decide.",
        ),
        (
            vec![(Worse, -0.1); 3],
            "new against old: all 3 cases slower. Largest: n=2 has 10.0% less throughput [9.0, 11.0].",
        ),
        (vec![(Same, 0.0); 2], "new against old: both cases the same within 2%."),
        (
            vec![(Same, 0.0), (Unclear, 0.0), (Unclear, 0.0)],
            "new against old: 1 of 3 cases the same within 2%, 2 unclear.",
        ),
        (vec![(Unclear, 0.04), (Unclear, -0.992)], "new against old: both cases unclear."),
        (vec![], "old and new have no case in common."),
    ] {
        assert_eq!(headline(&verdicts), sentence);
    }
    let output = OutputOptions { has_resume_hint: true, ..OutputOptions::default() };
    let document = findings_of(&sample_findings::verdicts(&[(Unclear, 0.0)]), &output).unwrap();
    let mut texts = document.blocks.iter().filter_map(ReportBlock::sentence);
    assert!(texts.any(|text| text.ends_with("would probably have been.")), "{document:?}");
}

#[test]
fn an_unclear_headline_says_what_remains_possible() {
    let headline_with = |change: IntervalEstimate, no_verdict, notes: &[&str]| {
        let mut findings = sample_findings::verdicts(&[(Verdict::Unclear, 0.0)]);
        let row = &mut findings.comparisons[0].rows[0];
        (row.change, row.detectable, row.no_verdict) = (Some(change), Some(0.13), no_verdict);
        row.notes = notes.iter().map(ToString::to_string).collect();
        headline_of(&findings)
    };
    let too_few = Some(NoVerdict::TooFewRuns);
    for ([value, low, high], no_verdict, notes, sentence) in [
        (
            [0.0, -1.0, f64::INFINITY],
            too_few,
            &["Too few runs: 1 a side can decide nothing; 6 are enough."][..],
            "Too few runs to compare new with old: 1 a side can decide nothing; 6 are enough.",
        ),
        (
            [0.05, -0.08, 0.11],
            None,
            &[],
            "No difference found [-8%, +11%]; one of 13% or more would probably have been. \
             About 12 more runs a side would decide.",
        ),
        (
            [-0.64, -0.85, 0.02],
            None,
            &[],
            "Unclear: new has 64% less throughput than old, or up to 2% more [-85%, +2%]. \
             About 12 more runs a side would decide.",
        ),
        (
            [0.0, -1.0, f64::INFINITY],
            too_few,
            &[],
            "Too few runs to compare new with old: 8 a side.",
        ),
    ] {
        let change = IntervalEstimate { value, low, high };
        assert_eq!(headline_with(change, no_verdict, notes), sentence);
    }
}

#[test]
fn a_long_table_names_its_largest_changes_first() {
    let mut all = vec![(Verdict::Same, 0.0); 18];
    all.extend((1..=7).map(|at| (Verdict::Better, f64::from(at) / 10.0)));
    all.push((Verdict::Worse, -0.3));
    let document =
        findings_of(&sample_findings::verdicts(&all), &OutputOptions::default()).unwrap();
    let Some(ReportBlock::List(items)) =
        document.blocks.iter().find(|block| matches!(block, ReportBlock::List(_)))
    else {
        panic!("no list of changes")
    };
    let starts: Vec<_> = items.iter().map(|item| item.split(" [").next().unwrap()).collect();
    assert_eq!(
        starts,
        [
            "▼ worse -30.0%",
            "▲ better +70.0%",
            "▲ better +60.0%",
            "▲ better +50.0%",
            "▲ better +40.0%",
            "▲ better +30.0%",
        ]
    );
}

#[test]
fn tables_can_be_sorted_by_any_figure() {
    let all = [(Verdict::Better, 0.1), (Verdict::Worse, -0.2), (Verdict::Better, 0.3)];
    let output = OutputOptions {
        sort: Some("-change".into()),
        format: Some(speedwell_report::ReportFormat::Csv),
        ..OutputOptions::default()
    };
    let mut bytes = Vec::new();
    let document = findings_of(&sample_findings::verdicts(&all), &output).unwrap();
    print_document(&document, &output, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let cases: Vec<_> = text.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(cases, ["math/add n=1", "math/add n=0", "math/add n=2"]);
}

#[test]
fn a_report_without_measurements_begins_with_that_statement() {
    let failed = AnalysisFindings { failures: failures(), ..AnalysisFindings::default() };
    let mut bytes = Vec::new();
    text(80).render(&findings_of(&failed, &OutputOptions::default()).unwrap(), &mut bytes).unwrap();
    let all = String::from_utf8(bytes).unwrap();
    assert!(all.starts_with("nothing was measured\n\n3 steps failed\n"), "{all}");
}
