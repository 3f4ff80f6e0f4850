//! The report as one page: its contents for every subject, and its size. `report_page.rs` opens it
//! in a browser.

use super::sample_findings::{comparison, contest, load_compared, load_test, one_sided, verdicts};
use super::sample_study::study;
use super::{mixed, report_of};
use regex::Regex;
use speedwell_analysis::AnalysisFindings;
use speedwell_model::Verdict;
use speedwell_report::{
    Document, Html, Markdown, OutputOptions, RenderDocument, ReportBlock,
    report_findings as findings_of, report_study as study_of,
};
use std::collections::HashSet;
use std::time::{Duration, Instant};

fn page(document: &Document) -> String {
    let mut bytes = Vec::new();
    Html.render(document, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn of_findings(findings: &AnalysisFindings) -> Document {
    findings_of(findings, &OutputOptions::default()).unwrap()
}

fn pages() -> Vec<(&'static str, String)> {
    let summaries = |summaries| AnalysisFindings { summaries, ..AnalysisFindings::default() };
    vec![
        ("comparison", page(&report_of(&mixed()))),
        ("summary", page(&of_findings(&summaries(one_sided())))),
        ("load", page(&of_findings(&summaries(load_test())))),
        ("load compared", page(&of_findings(&load_compared()))),
        ("contest", page(&of_findings(&contest()))),
        ("study", page(&study_of(&study(), true, &OutputOptions::default()).unwrap())),
        ("nothing", page(&of_findings(&AnalysisFindings::default()))),
    ]
}

fn found<'p>(pattern: &str, page: &'p str) -> Vec<&'p str> {
    let pattern = Regex::new(pattern).unwrap();
    pattern.captures_iter(page).map(|found| found.get(1).unwrap().as_str()).collect()
}

#[test]
fn a_page_refers_to_nothing_outside_of_it() {
    for (kind, page) in pages() {
        // Property names in the raw data are not attributes.
        let markup = page.split("<script type=\"application/json\"").next().unwrap();
        for outside in ["http://", "https://", "src=", "@import", "url(\"", "url('"] {
            assert!(!markup.contains(outside), "{kind}: {outside}");
        }
        assert!(page.contains("default-src 'none'"), "{kind}");
    }
}

#[test]
fn the_title_of_a_study_appears_once() {
    let output = OutputOptions::default();
    let page = page(&study_of(&study(), true, &output).unwrap());
    let title = found("<h1>([^<]+)</h1>", &page)[0];
    let markup = page.split("<main").nth(1).unwrap();
    let markup = markup.split("<script").next().unwrap();
    assert!(!markup.contains(&format!(">{title}<")), "{title}");
    assert_eq!(found("(class=\"caption\")", markup), [] as [&str; 0]);
    // Screen readers get a label of the table and the chart.
    assert!(markup.contains(&format!("aria-label=\"{title}\"")));
    assert!(markup.contains("(logarithmic)</text>"));
}

#[test]
fn ids_are_unique_and_every_link_has_a_target() {
    for (kind, page) in pages() {
        let ids = found(r#" id="([^"]+)""#, &page);
        let once: HashSet<&str> = ids.iter().copied().collect();
        assert_eq!(once.len(), ids.len(), "{kind}: {ids:?}");
        for target in found(r##"href="#([^"]+)""##, &page) {
            assert!(once.contains(target), "{kind}: #{target}");
        }
        for target in found(r#"aria-labelledby="([^"]+)""#, &page) {
            assert!(once.contains(target), "{kind}: {target}");
        }
    }
}

#[test]
fn every_style_variable_used_on_a_page_is_defined() {
    for (kind, page) in pages() {
        for variable in found(r"var\((--[a-z0-9-]+)[,)]", &page) {
            assert!(page.contains(&format!("{variable}: ")), "{kind}: {variable} has no value");
        }
    }
}

#[test]
fn the_page_contains_all_texts_of_the_report() {
    let document = report_of(&mixed());
    let page = page(&document);
    let escaped = |text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', "&quot;").replace('\'', "&#39;")
    };
    for block in document.all_blocks() {
        let texts: Vec<&str> = match block {
            ReportBlock::Paragraph(text) | ReportBlock::Note(text) | ReportBlock::Warning(text) => {
                vec![text]
            }
            ReportBlock::Headline(text) => vec![text],
            ReportBlock::Command { line, .. } => vec![line],
            ReportBlock::List(items) => items.iter().map(String::as_str).collect(),
            ReportBlock::Facts(facts) => facts.iter().map(|(_, value)| value.as_str()).collect(),
            ReportBlock::Table(table) => {
                let shown = table.for_people();
                let texts = |cells: &'_ Vec<speedwell_report::ReportCell>| {
                    shown.iter().map(|&at| cells[at].text.clone()).collect::<Vec<_>>()
                };
                for text in table.cell_rows().flat_map(texts) {
                    assert!(page.contains(&escaped(&text)), "{text}");
                }
                table.footnotes.iter().map(String::as_str).collect()
            }
            _ => Vec::new(),
        };
        for text in texts {
            assert!(page.contains(&escaped(text)), "{text}");
        }
    }
}

/// Cases of all verdicts, with intervals far from and near zero.
fn many(cases: usize) -> Document {
    let verdict = |at: usize| match at % 10 {
        0 => (Verdict::Worse, -0.08),
        1 | 2 => (Verdict::Better, 0.05),
        3 => (Verdict::Unclear, 0.02),
        _ => (Verdict::Same, 0.001),
    };
    let verdicts_: Vec<_> = (0..cases).map(verdict).collect();
    of_findings(&verdicts(&verdicts_))
}

#[test]
fn a_page_of_a_thousand_cases_is_complete_and_small_enough() {
    let document = many(1_000);
    let begin = Instant::now();
    let page = page(&document);
    let took = begin.elapsed();
    assert_eq!(page.matches("<tr class=\"row\"").count(), 1_000);
    assert_eq!(page.matches("class=\"point\"").count(), 1_000 * 16, "8 runs a side");
    assert!(!page.contains("class=\"left-out\""), "everything has room");
    assert!(page.len() < 9 << 20, "{} bytes", page.len());
    // In a debug build and beside other tests; anything quadratic in the number of cases takes
    // longer.
    assert!(took < Duration::from_secs(60), "{took:?}");
    eprintln!("1,000 cases: {:.1} MB in {took:?}", page.len() as f64 / 1e6);
}

#[test]
fn a_page_of_ten_thousand_cases_states_its_omissions() {
    let page = page(&many(10_000));
    assert!(page.len() < 25 << 20, "{} bytes", page.len());
    eprintln!("10,000 cases: {:.1} MB", page.len() as f64 / 1e6);
    let left_out = found(r#"<p class="left-out">([^<]+)</p>"#, &page);
    assert!(left_out.iter().any(|text| text.starts_with("6,000 rows of 10000")), "{left_out:?}");
    assert!(left_out.iter().any(|text| text.contains("charts of 10000")), "{left_out:?}");
    for (verdict, number) in [("worse", 1_000), ("better", 2_000)] {
        assert_eq!(page.matches(&format!("data-v=\"{verdict}\">")).count(), number + 1);
    }
    assert!(page.contains("same 8000") || page.contains("same 6000"), "all are counted");
}

/// Relative luminance of a colour written as `#rrggbb` (WCAG 2.2, "relative luminance").
fn luminance(colour: &str) -> f64 {
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

#[test]
fn text_stands_out_from_its_ground_in_both_themes() {
    let page = page(&of_findings(&AnalysisFindings::default()));
    let colours = |name: &str| {
        let pattern = format!(r"--{name}: light-dark\((#[0-9a-f]{{6}}), (#[0-9a-f]{{6}})\)");
        let found = Regex::new(&pattern).unwrap().captures(&page).unwrap();
        [found[1].to_owned(), found[2].to_owned()]
    };
    // 4.5 for text, 3 for marks (WCAG 2.2, success criteria 1.4.3 and 1.4.11).
    let texts = ["ink", "muted", "accent", "good", "bad", "caution"].map(|name| (name, 4.5));
    let marks = ["plot-neutral", "plot-series-0", "plot-series-1", "plot-series-2"];
    for (name, least) in texts.into_iter().chain(marks.map(|name| (name, 3.0))) {
        for ground in ["paper", "raised"] {
            for theme in 0..2 {
                let mut both =
                    [&colours(name)[theme], &colours(ground)[theme]].map(|c| luminance(c));
                both.sort_by(f64::total_cmp);
                let contrast = (both[1] + 0.05) / (both[0] + 0.05);
                assert!(contrast >= least, "{name} on {ground}, theme {theme}: {contrast:.2}");
            }
        }
    }
}

#[test]
fn a_thousand_cases_fit_into_a_comment() {
    let mut bytes = Vec::new();
    Markdown::default().render(&many(1_000), &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.chars().count() < 65_536, "{} characters", text.len());
    assert_eq!(text.matches("▼ worse |").count(), 100, "all bad news are told");
}

#[test]
fn a_comparison_of_several_metrics_has_a_title_and_a_headline_for_each() {
    let page = page(&of_findings(&comparison()));
    assert!(page.contains("<h1>Comparison</h1>"));
    assert_eq!(page.matches("<p class=\"headline\">").count(), 2);
}
