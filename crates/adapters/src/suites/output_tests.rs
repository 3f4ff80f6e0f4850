//! Malformed framework output, for every reader: empty, truncated, duplicated, with invalid
//! numbers, in other encodings, and with endless lines. Each gives the right values, or a failure
//! with a position.

use super::extract_observation;
use crate::RunResult;
use speedwell_config::adapter::{AdapterKeys, ResultFormat, SuiteAdapter};
use speedwell_model::{Case, FailureCause};
use std::path::Path;

/// Recorded framework output, and what is measured in it.
struct RecordedOutput {
    file: &'static str,
    read: ResultFormat,
    /// Name that selects the case on the framework's command line.
    name: &'static str,
    /// The case under Speedwell's name.
    case: &'static str,
    /// One of its values, and the text before it.
    figure: (&'static str, &'static str),
}

const fn recorded_output(
    file: &'static str,
    read: ResultFormat,
    [name, case]: [&'static str; 2],
    figure: (&'static str, &'static str),
) -> RecordedOutput {
    RecordedOutput { file, read, name, case, figure }
}

const RECORDED: [RecordedOutput; 12] = [
    recorded_output("suites/mine.json", ResultFormat::Json, ["copy"; 2], ("[", "800.01")),
    recorded_output("suites/mine.txt", ResultFormat::Lines, ["copy"; 2], (": ", "1,500.25")),
    recorded_output(
        "google-benchmark/in_kitchen_a.json",
        ResultFormat::GoogleBenchmark,
        ["BM_cplx/256"; 2],
        ("\"real_time\": ", "4.5701494212694707e+00"),
    ),
    recorded_output(
        "suites/go.txt",
        ResultFormat::GoBench,
        ["BenchmarkSum/n=100", "example.com/tiny/Sum gomaxprocs=2 n=100"],
        ("1000\t        ", "57.13"),
    ),
    recorded_output(
        "suites/criterion.json",
        ResultFormat::Criterion,
        ["any"; 2],
        ("[", "643305.0"),
    ),
    recorded_output(
        "suites/divan.txt",
        ResultFormat::Divan,
        ["with_divan::fold::1"; 2],
        ("│ ", "7.365"),
    ),
    recorded_output(
        "suites/libtest.txt",
        ResultFormat::Libtest,
        ["fold"; 2],
        ("bench:      ", "16,563.87"),
    ),
    recorded_output(
        "suites/jmh.json",
        ResultFormat::Jmh,
        ["demo.Sums.twice", "demo.Sums.twice size=1000 text=\"c=d\""],
        ("                    ", "0.3837821532982953"),
    ),
    recorded_output(
        "suites/pytest-benchmark.json",
        ResultFormat::PytestBenchmark,
        ["test_total[1000]"; 2],
        ("     ", "1.2793000496458263e-05"),
    ),
    recorded_output(
        "pyperf/timeit.json",
        ResultFormat::Pyperf,
        ["timeit"; 2],
        ("\"values\":[", "1.7937839507167763e-08"),
    ),
    recorded_output(
        "suites/catch2.xml",
        ResultFormat::Catch2,
        ["sums", "sums/sum 1000"],
        ("<mean value=\"", "7933.22"),
    ),
    recorded_output(
        "suites/vitest.json",
        ResultFormat::Vitest,
        ["outside (x) [y]"; 2],
        ("\"mean\": ", "0.00006813786653846399"),
    ),
];

impl RecordedOutput {
    fn bytes(&self) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../speedwell/tests/golden");
        let file = folder.join(self.file);
        std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    /// Formats with an enclosing bracket or tag, so that truncation or duplication is detected.
    fn is_document(&self) -> bool {
        self.file.ends_with(".json") || self.file.ends_with(".xml")
    }

    fn with_value(&self, word: &str) -> Vec<u8> {
        let (before, figure) = self.figure;
        let text = self.text();
        let old = format!("{before}{figure}");
        assert!(text.contains(&old), "{}: no '{old}'", self.file);
        text.replacen(&old, &format!("{before}{word}"), 1).into_bytes()
    }

    fn read(&self, written: &[u8]) -> ParsedOutput {
        let keys = AdapterKeys {
            read: self.read,
            results: "results[*]".to_owned(),
            name: Some("name".to_owned()),
            samples: Some("times".to_owned()),
            line: Some(r"^(?P<name>\w+): (?P<value>\S+) (?P<unit>\S+)$".to_owned()),
            unit: Some("us".to_owned()),
            ..AdapterKeys::default()
        };
        let name = "mine".to_owned();
        let case = Case::parse(self.case).unwrap_or_else(|_| Case::new(self.case, Vec::new()));
        let (seen, cause) =
            extract_observation(&SuiteAdapter { name, keys }, self.name, &case, written);
        let answer = ParsedOutput { seen, cause };
        answer.check_invariants(self.file);
        answer
    }
}

/// Result of parsing an output.
struct ParsedOutput {
    seen: Option<RunResult>,
    cause: Option<FailureCause>,
}

impl ParsedOutput {
    /// Checks invariants for any input: values are finite, and messages fit on a screen.
    fn check_invariants(&self, file: &str) {
        for sample in self.seen.iter().flat_map(|seen| &seen.samples) {
            assert!(sample.value.is_finite(), "{file}: {sample:?}");
            assert!(&*sample.metric != "time" || sample.value >= 0.0, "{file}: {sample:?}");
            assert!(sample.iterations.is_none_or(f64::is_finite), "{file}: {sample:?}");
        }
        let told = self.cause_text();
        assert!(told.chars().count() < 600, "{file}: {} bytes", told.len());
        assert!(
            self.cause.is_some() || !self.values().is_empty(),
            "{file}: neither figures nor a reason"
        );
    }

    fn values(&self) -> Vec<f64> {
        let samples = self.seen.iter().flat_map(|seen| &seen.samples);
        samples.map(|sample| sample.value).collect()
    }

    fn cause_text(&self) -> String {
        self.cause.as_ref().map(FailureCause::to_string).unwrap_or_default()
    }

    #[track_caller]
    fn expect_message(&self, words: &[&str], what: &str) {
        let told = self.cause_text();
        assert!(words.iter().any(|words| told.contains(words)), "{what}: {told}");
    }
}

/// Encodes as UTF-16, like Windows shells.
fn encode_utf16(text: &str, bytes_of: fn(u16) -> [u8; 2]) -> Vec<u8> {
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(bytes_of).collect()
}

#[test]
fn whole_outputs_have_figures() {
    for recorded in &RECORDED {
        let answer = recorded.read(&recorded.bytes());
        assert!(answer.cause.is_none(), "{}: {}", recorded.file, answer.cause_text());
        let other = recorded.read(&recorded.with_value("123456789"));
        assert_ne!(answer.values(), other.values(), "{}: the figure is not read", recorded.file);
    }
}

#[test]
fn an_empty_output_is_reported_as_such() {
    for recorded in &RECORDED {
        for nothing in [&b""[..], b"\n\n", b" \t\r\n"] {
            recorded.read(nothing).expect_message(&["wrote no results"], recorded.file);
        }
    }
}

/// Invalid times: not finite, negative, or not numbers.
const INVALID_TIMES: [&str; 10] =
    ["NaN", "nan", "-NaN", "inf", "-inf", "Infinity", "1e999", "-1e999", "-5.5", "x"];

/// Positions; a failure must contain one of these.
const EXPECTED_POSITIONS: [&str; 13] = [
    "line ",
    "'results[0].times[0]'",
    "'times[0]'",
    "rawData[0][0]'",
    "'benchmarks[0].stats.data[0]'",
    "'benchmarks[0].runs[1].values[0]'",
    "'files[0].groups[0].benchmarks[0].mean'",
    "'benchmarks[0]'",
    "'sums/sum 1000'",
    "'time'",
    "'real_time'",
    "real_time is missing",
    "vitest wrote no figures",
];

#[test]
fn invalid_times_fail_with_their_position() {
    for recorded in &RECORDED {
        for word in INVALID_TIMES {
            let what = format!("{} with {word}", recorded.file);
            let answer = recorded.read(&recorded.with_value(word));
            match (recorded.read, word) {
                // A line in Go's output without values was printed by the benchmark itself.
                (ResultFormat::GoBench, "x") => assert!(answer.cause.is_none(), "{what}"),
                // A divan row is recognized by its values, so a row without them is a name.
                (ResultFormat::Divan, _) if answer.cause_text().contains("wrote no samples") => {}
                _ => answer.expect_message(&EXPECTED_POSITIONS, &what),
            }
        }
        // Finite in seconds, but too large for a number of nanoseconds.
        recorded.read(&recorded.with_value("1e308"));
    }
}

#[test]
fn truncated_outputs_fail_or_keep_their_first_figures() {
    for recorded in &RECORDED {
        let bytes = recorded.bytes();
        let whole = recorded.read(&bytes).values();
        let length = bytes.trim_ascii_end().len();
        for cut in (0..40).map(|part| part * length / 40) {
            let answer = recorded.read(&bytes[..cut]);
            if recorded.is_document() {
                assert!(answer.cause.is_some(), "{} cut at {cut}", recorded.file);
            } else if answer.cause.is_none() {
                // The last value may be cut within its digits.
                let values = answer.values();
                let sure = &values[..values.len() - 1];
                assert!(whole.starts_with(sure), "{} cut at {cut}: {values:?}", recorded.file);
            }
        }
    }
}

#[test]
fn two_documents_fail_and_two_texts_are_repetitions_or_name_clashes() {
    for recorded in &RECORDED {
        let bytes = recorded.bytes();
        let whole = recorded.read(&bytes).values();
        let twice = recorded.read(&[&bytes[..], &bytes].concat());
        if recorded.is_document() {
            twice.expect_message(&["trailing characters at line ", "well-formed"], recorded.file);
        } else if matches!(recorded.read, ResultFormat::Divan | ResultFormat::Libtest) {
            // These write one result per name, so a second one is from another benchmark.
            let told = format!("2 benchmarks that are all called '{}'", recorded.name);
            twice.expect_message(&[&told], recorded.file);
        } else {
            let mut values = twice.values();
            assert_eq!(values.len(), 2 * whole.len(), "{}: {}", recorded.file, twice.cause_text());
            values.dedup();
            assert!(values.iter().all(|value| whole.contains(value)), "{}", recorded.file);
        }
    }
}

#[test]
fn other_encodings_are_named_with_their_line() {
    for recorded in &RECORDED {
        let (file, text) = (recorded.file, recorded.text());
        for bytes_of in [u16::to_le_bytes, u16::to_be_bytes] {
            let answer = recorded.read(&encode_utf16(&text, bytes_of));
            answer.expect_message(&["it is UTF-16 text"], file);
            // Without a byte order mark the encoding is unknown, but the text must not be misread.
            let unmarked = recorded.read(&encode_utf16(&text, bytes_of)[2..]);
            assert!(unmarked.values().is_empty(), "{file}");
        }
        let marked = recorded.read(format!("\u{feff}{text}").as_bytes());
        assert_eq!(marked.values(), recorded.read(text.as_bytes()).values(), "{file}");
        let latin1 = [b"caf\xe9\n", text.as_bytes()].concat();
        let answer = recorded.read(&latin1);
        if recorded.read == ResultFormat::GoBench {
            // Output of the benchmark itself, in any encoding, may be between the results.
            assert!(answer.cause.is_none(), "{}", answer.cause_text());
        } else {
            answer.expect_message(&["line 1 is not UTF-8"], file);
        }
    }
}

#[test]
fn a_huge_unterminated_line_is_not_a_result() {
    let length = 256 << 10;
    for recorded in &RECORDED {
        for unit in ["x", "[", "{\"a\":", "7", "\"", "<a>", "Benchmark", "│", "a: "] {
            let line = unit.repeat(length / unit.len());
            let answer = recorded.read(line.as_bytes());
            assert!(answer.cause.is_some(), "{} of {unit}", recorded.file);
        }
        let behind = [&recorded.bytes()[..], &vec![b'x'; length]].concat();
        let answer = recorded.read(&behind);
        assert!(answer.cause.is_some() || !recorded.is_document(), "{}", recorded.file);
    }
}
