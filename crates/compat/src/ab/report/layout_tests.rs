//! Compares the report and its figures with recorded reports of ab.

use crate::ab::arguments::{AbCommand, AbRequest};
use crate::ab::figures::AbFigures;
use crate::ab::load::AbUrl;
use crate::ab::report::*;
use crate::ab::tests::LoadBuilder;
use speedwell_model::load::measurement::TlsFacts;
use speedwell_model::load::outcomes::ErrorClass;

pub fn read_golden(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/ab");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

pub fn parse_line(line: &str) -> (AbRequest, AbUrl) {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    match AbCommand::parse(&words) {
        Ok(AbCommand::Test(request)) => {
            let url = AbUrl::parse(&request.url).unwrap();
            (*request, url)
        }
        other => panic!("{other:?}"),
    }
}

fn print_report(line: &str, made: LoadBuilder) -> String {
    print_report_with(line, made, |_| ())
}

fn print_report_with(
    line: &str,
    made: LoadBuilder,
    change: impl FnOnce(&mut AbReportContent),
) -> String {
    let (request, url) = parse_line(line);
    let mut report = AbReportContent {
        request: &request,
        url: &url,
        server: Some("demo/1".to_owned()),
        tls: None,
        figures: AbFigures::from_measured(&request, &made.build_measured(), 185),
        cut_short: None,
    };
    change(&mut report);
    let mut out = Vec::new();
    write_text(&report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the lines of a report from its first fact on, with each number and each gap replaced by
/// one character.
fn line_shapes(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let words: Vec<String> = line.split_whitespace().map(mask_number).collect();
        words.join(" ")
    });
    let from_software = lines.skip_while(|line| !line.starts_with("Server Software"));
    let mut lines: Vec<String> = from_software.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Replaces numbers that vary, but not those in names such as 2xx.
fn mask_number(word: &str) -> String {
    let bare = word.trim_matches(['(', ')', ',', '%']);
    match bare.parse::<f64>() {
        Ok(_) if !word.contains('%') => word.replace(bare, "#"),
        _ => word.to_owned(),
    }
}

/// Lines added below ab's last one.
const ADDED: [&str; 5] =
    ["Account:", "Effective concurrency:", "Body lengths:", "Failed by ab's rule:", "WARNING:"];

/// Checks that our report has the lines of ab in the same order, followed by our own. `only_theirs`
/// are consecutive lines that only ab has.
#[track_caller]
fn assert_same_lines(name: &str, ours: &str, only_theirs: &[&str]) {
    let (ours, theirs) = (line_shapes(ours), line_shapes(&read_golden(name)));
    let end = ours.iter().position(|line| line.starts_with(ADDED[0]));
    let (ours, added) = ours.split_at(end.unwrap());
    let ours = &ours[..ours.len() - 1];
    assert!(
        added.iter().all(|line| ADDED.iter().any(|known| line.starts_with(known))),
        "{added:#?}"
    );
    let mut expected = theirs.clone();
    if !only_theirs.is_empty() {
        let mut runs = theirs.windows(only_theirs.len());
        let at = runs.position(|lines| lines == only_theirs);
        let at = at.unwrap_or_else(|| panic!("{name} has no lines {only_theirs:?}"));
        expected.drain(at..at + only_theirs.len());
    }
    assert_eq!(ours, expected, "{name}");
}

#[test]
fn the_report_has_the_lines_of_the_original_in_its_order() {
    let base = "http://127.0.0.1:18195";
    for (name, line, made) in [
        ("ab_plain.out", "-n 200 -c 10 U/ok", LoadBuilder::new().with_answers(200, 200)),
        ("ab_keepalive.out", "-k -n 200 -c 10 U/ok", LoadBuilder::new().with_answers(200, 200)),
        ("ab_404.out", "-k -n 40 -c 2 U/missing", LoadBuilder::new().with_answers(40, 404)),
        ("ab_slow.out", "-k -n 100 -c 10 U/slow", LoadBuilder::new().with_answers(100, 200)),
        ("ab_csv_tsv.out", "-q -k -n 60 -c 6 U/slow", LoadBuilder::new().with_answers(60, 200)),
        ("ab_length_ok.out", "-k -r -l -n 40 -c 2 U/var", LoadBuilder::new().with_answers(40, 200)),
        (
            "ab_non2xx.out",
            "-k -r -l -n 40 -c 2 U/err",
            LoadBuilder::new().with_answers(20, 200).with_answers(20, 500),
        ),
        (
            "ab_reset.out",
            "-k -r -l -n 40 -c 2 U/reset",
            LoadBuilder::new()
                .with_answers(20, 200)
                .with_failures(20, ErrorClass::ResetBeforeFirstByte),
        ),
        ("ab_post.out", "-k -p f -n 40 -c 2 U/ok", LoadBuilder::new().with_answers(40, 200)),
        (
            "ab_quiet_nostats.out",
            "-q -S -d -k -n 100 -c 10 U/slow",
            LoadBuilder::new().with_answers(100, 200),
        ),
    ] {
        assert_same_lines(name, &print_report(&line.replace('U', base), made), &[]);
    }
}

/// Covers the rows of the table in docs/reference/ab.md about lines of the report.
#[test]
fn only_documented_report_lines_differ_from_ab() {
    let base = "http://127.0.0.1:18195";
    let skew = [
        "WARNING: The median and mean for the total time are not within a normal deviation",
        "These results are probably not that reliable.",
    ];
    let line = format!("-i -k -n 40 -c 2 {base}/ok");
    assert_same_lines(
        "ab_head.out",
        &print_report(&line, LoadBuilder::new().with_answers(40, 200)),
        &skew,
    );

    let line = format!("-k -r -n 40 -c 2 {base}/var");
    let kinds = ["(Connect: #, Receive: #, Length: #, Exceptions: #)"];
    assert_same_lines(
        "ab_length_fail.out",
        &print_report(&line, LoadBuilder::new().with_answers(40, 200)),
        &kinds,
    );

    let facts = TlsFacts {
        version: "TLSv1.3".to_owned(),
        cipher: "TLS13_AES_256_GCM_SHA384".to_owned(),
        key_bits: Some(2048),
        group: Some("X25519".to_owned()),
        alpn: None,
    };
    let made = LoadBuilder::new().with_answers(20, 200);
    let ours = print_report_with("-n 20 -c 2 https://127.0.0.1:18196/ok", made, |report| {
        report.tls = Some(facts);
    });
    assert_same_lines("ab_tls.out", &ours, &[]);

    let theirs = line_shapes(&read_golden("ab_refused_r.out"));
    let tables = theirs.iter().position(|line| line.starts_with("Connection Times"));
    let tables: Vec<&str> = theirs[tables.unwrap() - 1..].iter().map(String::as_str).collect();
    let made = LoadBuilder::new().with_failures(10, ErrorClass::ConnectRefused);
    let ours = print_report_with("-r -n 10 -c 2 http://127.0.0.1:18199/", made, |report| {
        report.server = None;
    });
    assert_same_lines("ab_refused_r.out", &ours, &tables);
}

#[test]
fn columns_match_ab_for_slow_responses_and_widen_for_fast_ones() {
    let rows = |ms: [u64; 3]| {
        let rows = ms.map(|ms| crate::ab::tests::answered_row(ms * 1_000_000));
        LoadBuilder::of_rows(rows.to_vec(), 1_000_000_000)
    };
    let slow = print_report("-k -n 3 http://h/", rows([20, 35, 50]));
    let total = slow.lines().find(|line| line.starts_with("Total:"));
    assert_eq!(total, Some("Total:         20    35  15.0      35    50"));
    assert!(
        slow.contains("\n  50%     35\n") && slow.contains("\n 100%     50 (longest request)\n")
    );
    let fast = print_report("-k -n 3 http://h/", rows([1, 2, 4]));
    let total = fast.lines().find(|line| line.starts_with("Total:"));
    assert_eq!(total, Some("Total:      1.000 2.333 1.528   2.000 4.000"));
    assert!(fast.contains("\nConnect:        0     0   0.0       0     0\n"));
    assert!(fast.contains("\n  99%  4.000\n"));
}

#[test]
fn one_request_has_no_table_of_percentages() {
    let one = print_report("-n 1 http://h/", LoadBuilder::new().with_answers(1, 200));
    assert!(one.contains("\nTotal: ") && !one.contains("Percentage"));
}

#[test]
fn added_lines_follow_the_report_and_account_for_every_request() {
    let made = LoadBuilder::new().with_answers(20, 200).with_failures(20, ErrorClass::EofInBody);
    let report = print_report("-k -n 40 -c 2 --ab-lengths http://h/", made);
    let added = report.split_once("(longest request)\n\n").unwrap().1;
    let expected = "\
Account:                40 attempted = 20 ok + 20 eof.in-body
Effective concurrency:  0.02 on average, 2 requested
Failed by ab's rule:    20 of 40 (length differs from the first)
WARNING:                20 of 40 requests failed or had a status other than 2xx: the rate does not represent a working server.
";
    assert_eq!(added, expected);
    let made = LoadBuilder::new().with_answers(5, 200);
    let part = print_report_with("-n 40 http://h/", made, |report| {
        report.cut_short = Some(CutShort::Failed(ErrorClass::ConnectRefused));
    });
    let reason = "This report covers only part of the test: the server refused the connection.\n";
    assert!(part.contains(reason), "{part}");
}

/// Returns a figure of a recorded report.
fn find_figure(report: &str, name: &str, at: usize) -> f64 {
    let mut lines = report.lines().filter(|line| line.starts_with(name));
    let line = lines.nth(at).unwrap_or_else(|| panic!("no {name}"));
    let value = line.split_once(':').unwrap().1;
    value.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn the_formulas_reproduce_the_figures_printed_by_ab() {
    for name in [
        "404",
        "csv_tsv",
        "head",
        "keepalive",
        "length_fail",
        "length_ok",
        "non2xx",
        "plain",
        "post",
        "quiet_nostats",
        "refused_r",
        "reset",
        "slow",
        "tls",
    ] {
        let report = read_golden(&format!("ab_{name}.out"));
        let complete = find_figure(&report, "Complete requests", 0);
        let rate = find_figure(&report, "Requests per second", 0);
        let printed_time = find_figure(&report, "Time taken for tests", 0);
        // The time is printed with three decimals only; the rate has the remaining digits.
        let elapsed = complete / rate;
        assert!((elapsed - printed_time).abs() <= 0.000_5, "{name}: {elapsed} {printed_time}");
        let measured =
            LoadBuilder::of_rows(Vec::new(), (elapsed * 1e9).round() as u64).build_measured();
        let request = AbRequest {
            concurrency: find_figure(&report, "Concurrency Level", 0) as u32,
            ..AbRequest::with_defaults()
        };
        let figures = AbFigures {
            complete: complete as u64,
            ..AbFigures::from_measured(&request, &measured, 0)
        };
        let assert_within = |ours: f64, theirs: f64, unit: f64| {
            // Half a unit of the figure's last digit, plus the effect of half a unit of the rate.
            let slack = unit / 2.0 + theirs * 0.005 / rate;
            assert!((ours - theirs).abs() <= slack * 1.001, "{name}: {ours} {theirs}");
        };
        let (per_client, across_clients) = figures.time_per_request_ms().unwrap();
        assert_within(figures.requests_per_second().unwrap(), rate, 0.01);
        assert_within(per_client, find_figure(&report, "Time per request", 0), 0.001);
        assert_within(across_clients, find_figure(&report, "Time per request", 1), 0.001);
        let bytes = find_figure(&report, "Total transferred", 0) as u64;
        let transfer = figures.kib_per_second(bytes).unwrap();
        assert_within(transfer, find_figure(&report, "Transfer rate", 0), 0.01);
    }
}

fn print_html(line: &str, made: LoadBuilder) -> String {
    let (request, url) = parse_line(line);
    let report = AbReportContent {
        request: &request,
        url: &url,
        server: Some("a <b>".to_owned()),
        tls: None,
        figures: AbFigures::from_measured(&request, &made.build_measured(), 100),
        cut_short: None,
    };
    let mut out = Vec::new();
    write_html(&report, request.html.as_ref().unwrap(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the rows of the table, without the contents of their `td` cells.
fn html_row_shapes(text: &str) -> Vec<String> {
    let table = text.split("<table").nth(1).unwrap();
    let rows = table.split("</table>").next().unwrap().lines();
    rows.map(|row| {
        let mut shape = String::new();
        for (at, cell) in row.split("<td").enumerate() {
            let tag_end = cell.find('>').map_or(0, |end| end + 1);
            shape.push_str(if at == 0 { cell } else { &cell[..tag_end] });
        }
        shape
    })
    .collect()
}

#[test]
fn the_table_has_the_rows_of_the_original() {
    let line = "-w -k -n 60 -c 6 http://127.0.0.1:18195/slow";
    let ours = print_html(line, LoadBuilder::new().with_answers(60, 200));
    assert_eq!(html_row_shapes(&ours), html_row_shapes(&read_golden("ab_html.out")));
    assert!(ours.contains("</table>\n<p>\n Account: 60 attempted = 60 ok<br>\n"));
    assert!(ours.contains(">a &lt;b&gt;</td>"));
}

#[test]
fn attributes_are_written_as_typed() {
    let line = "-x border=1 -y a=b -z c=d -n 2 http://h/";
    let made = LoadBuilder::new().with_answers(1, 200).with_failures(1, ErrorClass::EofInHead);
    let html = print_html(line, made);
    // As recorded from ab with the same attributes.
    assert!(html.starts_with(
        "\n\n<table border=1>\n<tr a=b><th colspan=2 c=d>Server Software:</th><td colspan=2 c=d>"
    ));
    assert!(html.contains(
            "\n<tr a=b><td colspan=4 c=d >   (Connect: 0, Receive: 1, Length: 0, Exceptions: 0)</td></tr>\n"
        ));
}
