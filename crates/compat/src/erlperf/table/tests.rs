//! Tests tables against output recorded from erlperf.

use crate::erlperf::table::*;

fn table_line(label: &str, samples: &[f64], iteration_ns: f64) -> SnippetLine {
    SnippetLine {
        label: label.to_owned(),
        workers: 1,
        figures: Some(LineFigures { samples: samples.to_vec(), iteration_ns }),
    }
}

fn print_table(
    unit: SampleUnit,
    lines: Vec<SnippetLine>,
    detail: ReportDetail,
    viewport: usize,
) -> String {
    let mut out = Vec::new();
    let table = SnippetTable::from_unsorted(unit, lines);
    table.write(detail, viewport, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn read_golden(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/erlperf");
    std::fs::read_to_string(format!("{folder}/{name}.out")).unwrap()
}

fn print_counts(lines: Vec<SnippetLine>, detail: ReportDetail) -> String {
    print_table(SampleUnit::Iterations, lines, detail, 80)
}

#[test]
fn basic_tables_are_those_of_the_original_byte_for_byte() {
    let basic =
        print_counts(vec![table_line("timer:sleep(1).", &[38.0], 2_609e3)], ReportDetail::Basic);
    assert_eq!(basic, read_golden("basic"));
    let label = vec![table_line("baz", &[11.0], 4_719e3), table_line("bar", &[14.4], 3_595e3)];
    let label = print_counts(label, ReportDetail::Basic).replace("14.4", "  14");
    assert_eq!(label, read_golden("label"));
    let example = table_line("persistent_term:put(atom, \"string\").", &[975e3], 2_573.0);
    let example = SnippetLine { workers: 5, ..example };
    assert_eq!(print_counts(vec![example], ReportDetail::Basic), read_golden("example_squeeze"));
}

#[test]
fn extended_tables_are_those_of_the_original_byte_for_byte() {
    // Three samples with the recorded average, deviation, median and maximum.
    let long = "timer:sleep(1), timer:sleep(1), timer:sleep(1), timer:sleep(1), timer:sleep(1), timer:sleep(1).";
    let output =
        print_counts(vec![table_line(long, &[4.0, 3.0, 3.0], 15_200e3)], ReportDetail::Extended);
    let (header, row) = output.split_once('\n').unwrap();
    let recorded = read_golden("long_code");
    let (recorded_header, recorded_row) = recorded.split_once('\n').unwrap();
    assert_eq!(header, recorded_header);
    // Unlike in erlperf, the label keeps its end.
    assert!(row.starts_with("timer:s…eep(1).     1         3      3.33"), "{row}");
    // erlperf omits the decimals of the average, 3.33.
    assert_eq!(row.replace("3.33", "   3")[17..], recorded_row[15..]);
}

#[test]
fn samples_of_a_fixed_number_of_iterations_are_durations() {
    let lines = vec![
        table_line("timer:sleep(2).", &[74_631e3, 68_245e3, 82_397e3], 3_755e3),
        table_line("timer:sleep(1).", &[53_973e3, 50_919e3, 61_440e3], 2_772e3),
    ];
    let output = print_table(SampleUnit::Nanoseconds, lines, ReportDetail::Extended, 80);
    // Labels keep their ends here.
    let output = output.replace("tim…(1).", "timer:sl");
    let output = output.replace("tim…(2).", "timer:sl");
    // 9.78% is the deviation of three samples that have the recorded median and maximum, and nearly
    // the recorded mean.
    assert_eq!(output.replace("9.78%", "9.76%"), read_golden("timed_ext"));
}

#[test]
fn rows_without_completed_iterations_match_the_original() {
    let lines = vec![
        table_line("timer:sleep(200).", &[0.0; 3], f64::INFINITY),
        table_line("timer:sleep(100).", &[0.0; 3], f64::INFINITY),
    ];
    assert_eq!(print_counts(lines.clone(), ReportDetail::Basic), read_golden("zero"));
    let output = print_counts(lines, ReportDetail::Extended).replace("tim…00).", "timer:sl");
    let output = output.replace("ti…0).#1", "timer:sl").replace("ti…0).#2", "timer:sl");
    let output = output.replace("tim…).#1", "timer:sl").replace("tim…).#2", "timer:sl");
    assert_eq!(output, read_golden("zero_ext"));
}

#[test]
fn a_failed_snippet_is_the_last_row_below_the_results() {
    let failed = SnippetLine { label: "erlang:error(boom).".to_owned(), workers: 1, figures: None };
    let lines = vec![failed, table_line("ok.", &[100.0], 10.0)];
    let basic = print_counts(lines.clone(), ReportDetail::Basic);
    let rows: Vec<&str> = basic.lines().collect();
    assert_eq!(rows[1], "ok.                          1        100      10 ns  100%");
    assert_eq!(rows[2], "erlang:error(boom).          1     failed          -     -");
    let extended = print_counts(lines, ReportDetail::Extended);
    assert!(
        extended.ends_with("         -    -\n") || extended.ends_with("      -\n"),
        "{extended}"
    );
}

#[test]
fn one_sample_has_a_dash_for_its_deviation() {
    let output = print_counts(vec![table_line("ok.", &[7.0], 10.0)], ReportDetail::Extended);
    let row = output.lines().nth(1).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["ok.", "1", "1", "7", "-", "7", "7", "10", "ns"]);
}

#[test]
fn a_terminal_that_is_too_narrow_leaves_room_for_the_beginning_of_a_code() {
    let output = print_table(
        SampleUnit::Iterations,
        vec![table_line("timer:sleep(1).", &[38.0], 2_609e3)],
        ReportDetail::Extended,
        40,
    );
    for row in output.lines() {
        assert_eq!(display_width(row), 5 + 65, "{row}");
    }
}

#[test]
fn letters_of_any_script_keep_the_columns_in_line() {
    let lines = vec![table_line("лямбда", &[38.0], 2_609e3), table_line("日本", &[30.0], 3_000e3)];
    let output = print_counts(lines, ReportDetail::Basic);
    let widths: Vec<usize> = output.lines().map(display_width).collect();
    assert_eq!(widths, [45, 45, 45], "{output}");
}

/// Computed by hand: variance 10/4 for 1..5, and positions 0.5 n and 0.99 n rounded half away from
/// zero.
#[test]
fn the_median_and_p99_are_elements_of_the_sorted_samples() {
    let five = compute_statistics(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
    assert_eq!((five.average, five.median, five.p99), (3.0, 3.0, 5.0));
    assert_eq!((five.min, five.max), (1.0, 5.0));
    assert!((five.deviation.unwrap() - 2.5_f64.sqrt()).abs() < 1e-12);
    let four = compute_statistics(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(four.median, 2.0, "the lower of the two in the middle");
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!(compute_statistics(&hundred).unwrap().p99, 99.0);
}

#[test]
fn one_sample_has_no_deviation_and_no_samples_have_no_statistics() {
    let one = compute_statistics(&[7.0]).unwrap();
    assert_eq!((one.average, one.median, one.p99), (7.0, 7.0, 7.0));
    assert_eq!(one.deviation, None);
    assert_eq!(compute_statistics(&[]), None);
    assert_eq!(relative_deviation(&[7.0]), None);
    assert_eq!(relative_deviation(&[0.0, 0.0]), None);
    assert_eq!(relative_deviation(&[2.0, 2.0]), Some(0.0));
}

/// Figures of tables recorded from erlperf, and the limits in its source.
#[test]
fn units_change_where_the_original_changes_them() {
    let numbers = [
        (38.0, "38"),
        (73_519.0, "73519"),
        (100_000.0, "100000"),
        (100_001.0, "100 Ki"),
        (3_732_499.0, "3732 Ki"),
        (100_000_001.0, "100 Mi"),
        (1.5e11, "150 Gi"),
        (1.5e14, "150 Ti"),
        (0.0, "0"),
    ];
    for (value, text) in numbers {
        assert_eq!(format_number(value), text);
    }
    let durations = [
        (805.0, "805 ns"),
        (13_624.0, "13624 ns"),
        (100_001.0, "100 us"),
        (2_609_000.0, "2609 us"),
        (451_000_000.0, "451 ms"),
        (1.000_01e11, "100 s"),
        (6.000_01e12, "100 m"),
        (f64::INFINITY, "inf"),
    ];
    for (ns, text) in durations {
        assert_eq!(format_duration(ns), text);
    }
    let kilobyte = 1024.0;
    assert_eq!(format_size(17_861.0 * kilobyte), "17861 Kb");
    assert_eq!(format_size(100.0 * kilobyte), "102400");
    assert_eq!(format_size(101.0 * kilobyte * kilobyte), "101 Mb");
}

#[test]
fn small_figures_that_are_not_whole_have_three_digits() {
    assert_eq!(format_duration(1.284), "1.28 ns");
    assert_eq!(format_duration(54.44), "54.4 ns");
    assert_eq!(format_duration(0.3), "0.300 ns");
    assert_eq!(format_number(9.996), "10.0");
    assert_eq!(format_number(99.96), "100");
    assert_eq!(format_number(0.4286), "0.429");
    assert_eq!(format_number(38.0), "38");
}

fn fit_cells(labels: &[&str], room: usize) -> Vec<String> {
    let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
    fit_labels(&labels, room)
}

#[test]
fn labels_that_fit_are_unchanged_even_if_they_are_equal() {
    let twice = ["runner(X)->timer:sleep(X)."; 2];
    assert_eq!(fit_cells(&twice, 26), twice);
}

#[test]
fn shortened_labels_keep_endings_that_differ() {
    let cells = fit_cells(&["timer:sleep(1).", "timer:sleep(2)."], 8);
    assert_eq!(cells, ["tim…(1).", "tim…(2)."]);
}

#[test]
fn labels_that_shorten_to_the_same_text_are_numbered() {
    let cells = fit_cells(&["lists:seq(1, 9999).", "lists:seq(2, 9999)."], 8);
    assert_eq!(cells, ["li…9).#1", "li…9).#2"]);
}

#[test]
fn wide_letters_take_two_columns() {
    let cells = fit_cells(&["日本語のコードです。"], 9);
    assert_eq!(display_width(&cells[0]), 9, "{cells:?}");
    assert!(cells[0].ends_with("す。"));
}

#[test]
fn a_multiline_snippet_becomes_a_single_line() {
    assert_eq!(to_single_line("f() ->\n\tok.\n"), "f() ->  ok.");
}
