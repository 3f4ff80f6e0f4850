//! Terminal reports against golden files (`SPEEDWELL_UPDATE_GOLDEN=1` rewrites them).

use super::sample_loads::{MS, MadeLoad, S, US};
use crate::project::expect_golden;
use speedwell_analysis::load::{LoadFindings, analyze_load, gate};
use speedwell_model::load::latency::{IntendedStart, RequestOutcome};
use speedwell_model::load::outcomes::ErrorClass;
use speedwell_report::load::{add_gate, report_loads};
use speedwell_report::{
    Csv, Document, Html, Json, Markdown, OutputOptions, RenderDocument, TextFormat,
};

fn render_document(document: &Document, format: &dyn RenderDocument) -> String {
    let mut bytes = Vec::new();
    format.render(document, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The report on a terminal of 100 columns.
pub fn text(loads: &[LoadFindings<'_>]) -> String {
    render_document(&report_loads(loads, false, &OutputOptions::default()), &terminal())
}

fn terminal() -> TextFormat {
    TextFormat { width: Some(100), brief: true, ..TextFormat::default() }
}

fn golden(name: &str, text: &str) {
    expect_golden(&format!("load/{name}"), text);
}

/// A clean closed load with a warm-up and a time series.
pub fn clean_load() -> MadeLoad {
    let ok: Vec<u64> = (0..24).map(|at| 400 + (at * 13) % 9).collect();
    MadeLoad::closed(4)
        .with_successes(10_000, 200)
        .with_connections(&[80 * US, 90 * US, 85 * US, 95 * US])
        .with_ticks(2, &ok)
        .with_change(|run| {
            run.requested.warmup_ns = 200 * MS;
            // 10,000 responses of 200 ns to 2 ms sum up to 10.001 s, which keeps four clients busy
            // for 2.5 s.
            run.measured.elapsed_ns = 2_500_250_000;
            run.measured.max_connections = 4;
            let thread = &mut run.measured.threads[0];
            thread.elapsed_ns = 2_700_250_000;
            thread.longest_batch_ns = 71_300;
            thread.most_requests = 2_600;
            thread.fewest_requests = 2_450;
            for _ in 0..800 {
                run.measured.warmup.outcomes.count_attempt();
                run.measured.warmup.outcomes.count_ok(200);
            }
        })
}

/// An open load with many problems.
pub fn troubled_load() -> MadeLoad {
    let mut made = MadeLoad::open(1_000.0).with_connections(&[80 * US; 8]);
    for at in 0..1_000 {
        made.add_request(RequestOutcome::Ok, MS + at * US, 100 * US);
    }
    made.with_outcomes(RequestOutcome::Failed(ErrorClass::Status), 12, MS)
        .with_outcomes(RequestOutcome::Failed(ErrorClass::ResetBeforeFirstByte), 3, 200 * US)
        .with_outcomes(RequestOutcome::Failed(ErrorClass::TimeoutTotal), 2, S)
        .with_change(|run| {
            for _ in 0..5 {
                run.measured.totals.outcomes.count_attempt();
            }
            run.measured.totals.outcomes.in_flight = 5;
            for _ in 0..5 {
                let times = speedwell_model::load::latency::RequestTimes {
                    sent_ns: 0,
                    first_byte_ns: None,
                    end_ns: 300 * MS,
                };
                let latency = &mut run.measured.totals.latency;
                latency.record(RequestOutcome::InFlight, IntendedStart::default(), times);
                run.measured.totals.outcomes.connections.count_send(true);
            }
            run.measured.reached_max_connections = true;
            run.measured.max_connections = 64;
            run.warnings.push("A redirect was followed.".into());
        })
}

#[test]
fn a_clean_closed_load_in_every_format() {
    let made = clean_load();
    let loads = [analyze_load(&made.run)];
    let document = report_loads(&loads, false, &OutputOptions::default());
    golden("closed-100.txt", &render_document(&document, &terminal()));
    golden("closed.md", &render_document(&document, &Markdown::default()));
    golden("closed.csv", &render_document(&document, &Csv));
    let page = render_document(&document, &Html);
    assert_eq!(page.matches("<svg").count(), 8, "two for each chart, one for phones");
    let figures: Vec<&str> = page.split("<dt>").skip(1).collect();
    let names = ["p50 service", "p90 service", "p99 service", "max service"];
    let books = ["sent", "answered", "failed", "not sent"];
    assert_eq!(figures.len(), names.len() + books.len());
    for (figure, name) in figures.iter().zip(names.into_iter().chain(books)) {
        assert!(figure.starts_with(&format!("{name}</dt><dd>")), "{name}: {figure}");
    }
}

#[test]
fn a_troubled_open_load() {
    let made = troubled_load();
    golden("open-100.txt", &text(&[analyze_load(&made.run)]));
}

#[test]
fn a_load_whose_times_are_refused() {
    let mut made = MadeLoad::open(1_000.0).with_connections(&[80 * US; 8]);
    for _ in 0..1_000 {
        made.add_request(RequestOutcome::Ok, MS, 20 * MS);
    }
    golden("refused-100.txt", &text(&[analyze_load(&made.run)]));
}

#[test]
fn a_load_whose_times_are_ranges() {
    let mut made = MadeLoad::open(1_000.0).with_connections(&[80 * US; 8]);
    for at in 0..1_000 {
        // Every tenth request was sent 1.8 ms late, which adds to its response time.
        let late_ns = if at % 10 == 0 { 1_800 * US } else { 50 * US };
        made.add_request(RequestOutcome::Ok, 14_100 * US + late_ns, late_ns);
    }
    golden("range-100.txt", &text(&[analyze_load(&made.run)]));
}

#[test]
fn several_loads_side_by_side() {
    let (one, mut other) = (clean_load(), clean_load());
    other.run.label = "http://127.0.0.1:8081/hello".into();
    other.run.measured.ok_in_time = 9_000;
    let loads = [analyze_load(&one.run), analyze_load(&other.run)];
    golden("two-100.txt", &text(&loads));
    let page = render_document(&report_loads(&loads, false, &OutputOptions::default()), &Html);
    for load in [&one, &other] {
        let counts = [
            ("load", &*load.run.label),
            ("sent", "10,000"),
            ("answered", "10,000"),
            ("failed", "0"),
            ("not sent", "0"),
        ];
        let tile = |(name, value): (&str, &str)| format!("<dt>{name}</dt><dd>{value}</dd>");
        let row = counts.map(tile).join("</div>\n<div>");
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn runs_of_one_load_are_stated_with_their_median_and_range() {
    let one = clean_load();
    let other = clean_load().with_change(|run| {
        run.round = 1;
        run.measured.ok_in_time = 9_000;
    });
    let shown = text(&[analyze_load(&one.run), analyze_load(&other.run)]);
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let headline =
        "3,800/s (3,600/s to 4,000/s in 2 runs); p99 1.98 ms in 2 runs; no request failed.";
    assert!(words.contains(headline), "{shown}");
    assert!(!words.contains("requests served within"), "{shown}");
}

#[test]
fn a_gate_reports_its_results_and_the_conditions_it_cannot_judge() {
    let (clean, troubled) = (clean_load(), troubled_load());
    let loads = [analyze_load(&clean.run), analyze_load(&troubled.run)];
    let conditions: Vec<gate::LoadCondition> =
        ["p99>2ms", "errors>1%", "lag-p99>5ms"].map(|text| text.parse().unwrap()).to_vec();
    let judged = gate::judge_conditions(&conditions, &loads);
    let mut document = Document::new("gate");
    add_gate(&judged, &mut document);
    golden("gate-100.txt", &render_document(&document, &terminal()));
}

#[test]
fn json_contains_every_figure_by_name_and_the_whole_load() {
    let made = troubled_load();
    let json = render_document(
        &report_loads(&[analyze_load(&made.run)], false, &OutputOptions::default()),
        &Json,
    );
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["speedwell"]["report"], "load");
    let row = &value["load_summaries"][0];
    assert_eq!((&row["ok"], &row["errors"]), (&1000.into(), &17.into()));
    let at_99 = value["percentiles"].as_array().unwrap().iter();
    let at_99 = at_99.clone().find(|row| row["percent"] == 99).unwrap();
    assert_eq!(at_99["lower_bounds"], serde_json::json!([]));
    let remarks = &value["load_findings"][0]["notes"];
    assert!(remarks.as_array().unwrap().contains(&"connections-capped".into()));
    let back: speedwell_model::load::measurement::LoadRun =
        serde_json::from_value(value["loads"][0].clone()).unwrap();
    assert_eq!(back, made.run);
}

/// The chart of the throughput over time.
fn throughput_chart(made: &MadeLoad) -> String {
    let document = report_loads(&[analyze_load(&made.run)], false, &OutputOptions::default());
    let chart = document.charts().next().unwrap();
    chart.picture.svg(chart.picture.natural_size())
}

/// Nothing is answered before the first response time is over: 49 answers in the second half of an interval are as many per
/// second as 98 in a whole one.
#[test]
fn a_steady_load_is_drawn_as_a_level_line_from_its_first_interval_on() {
    let made = MadeLoad::closed(49)
        .with_successes(10_000, 200)
        .with_ticks(0, &[49, 98, 98, 98, 98, 98, 98, 98])
        .with_change(|run| {
            let timeline = &mut run.measured.timeline;
            for tick in &mut timeline.ticks {
                tick.p50_ns = Some(timeline.interval_ns / 2);
            }
        });
    let per_second = 98 * 1_000_000_000 / made.run.measured.timeline.interval_ns;
    let svg = throughput_chart(&made);
    let level = format!("requests per second: {per_second}</title>");
    assert_eq!(svg.matches(&level).count(), 8, "{svg}");
}

#[test]
fn the_time_axis_names_a_warm_up_only_where_there_was_one() {
    let ok = [98; 8];
    for (warmup, label) in [(0, "seconds after the start"), (2, "seconds after the warm-up")] {
        let made = MadeLoad::closed(4).with_successes(10_000, 200).with_ticks(warmup, &ok);
        let svg = throughput_chart(&made);
        assert!(svg.contains(label), "{label}: {svg}");
    }
}

#[test]
fn a_page_states_its_answer_only_in_the_heading() {
    let made = clean_load();
    let document = report_loads(&[analyze_load(&made.run)], false, &OutputOptions::default());
    let page = render_document(&document, &Html);
    let (_, body) = page.split_once("</head>").unwrap();
    let (visible, _) = body.split_once("<script").unwrap();
    let (_, rest) = visible.split_once("<h1>").unwrap();
    let (answer, _) = rest.split_once("</h1>").unwrap();
    assert!(answer.contains("/s"), "{answer}");
    assert_eq!(visible.matches(answer).count(), 1, "{visible}");
    assert!(!visible.contains("class=\"headline\""), "{visible}");
}

#[test]
fn charts_are_well_formed_pictures() {
    let (one, mut other) = (clean_load(), clean_load());
    other.run.label = "other".into();
    for loads in
        [vec![analyze_load(&one.run)], vec![analyze_load(&one.run), analyze_load(&other.run)]]
    {
        let document = report_loads(&loads, false, &OutputOptions::default());
        let charts: Vec<_> = document.charts().collect();
        assert_eq!(charts.len(), 4);
        for chart in charts {
            let svg = chart.picture.svg(chart.picture.natural_size());
            let opened = svg.matches("<g").count();
            assert_eq!(opened, svg.matches("</g>").count(), "{}", chart.title);
            assert!(!svg.contains("NaN"), "{}", chart.title);
            if chart.title == "Percentage served" {
                for tick in [">50<", ">99<", ">99.9<"] {
                    assert!(svg.contains(tick), "{tick} is not on the axis");
                }
            }
        }
    }
}
