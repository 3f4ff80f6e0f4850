//! Files that are truncated, empty, of another kind, or randomly damaged: each is rejected with a
//! helpful message, or read correctly without silent loss.

use super::project::repository;
use super::{arbitrary, invariants};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_formats::{FORMATS, FileFormat, JsonContent, json_lines};
use speedwell_model::Session;
use std::collections::HashMap;

/// Recorded files of every format, small ones first.
const GOLDEN: [(&str, &[&str]); 28] = [
    ("Markdown tables of figures", &["published/module-overhead.md"]),
    ("speedwell load JSON", &["load/small.json", "load/recorded.json"]),
    ("HdrHistogram log", &["load/small.hlog", "load/recorded.hlog"]),
    ("pyperf JSON", &["pyperf/timeit.json"]),
    ("pytest-benchmark JSON", &["suites/pytest-benchmark.json"]),
    ("vitest JSON", &["suites/vitest.json"]),
    ("JMH JSON", &["suites/jmh.json"]),
    ("criterion JSON", &["suites/criterion.json"]),
    ("divan output", &["suites/divan.txt"]),
    ("#[bench] output", &["suites/libtest.txt"]),
    ("Bencher Metric Format JSON", &["history/bencher-metrics.json"]),
    ("Catch2 XML", &["suites/catch2.xml", "suites/catch2-failed.xml"]),
    ("Krun JSON", &["krun/times.json"]),
    ("hyperfine JSON", &["hyperfine/failing.json", "hyperfine/sleep-a.json"]),
    ("autocannon JSON", &["http-tools/autocannon.json", "http-tools/autocannon_err.json"]),
    ("oha JSON", &["http-tools/oha_json.out"]),
    (
        "asv JSON",
        &[
            "history/asv/cheetah/fcf8c079-py2.7-Cython-numpy1.8-foo.json",
            "history/asv/cheetah/22b920c6-py2.7-Cython-numpy1.8.json",
            "history/asv-2/lab/34763eb7-existing-py_opt_venv_bin_python3.json",
        ],
    ),
    ("github-action-benchmark data.js", &["history/data.js"]),
    ("bencher JSON", &["history/bencher-perf.json"]),
    ("CSV of points over time", &["history/otava-multi-branch.csv"]),
    (
        "Node.js CSV (run.js, compare.js or scatter.js)",
        &[
            "node-core/quoting-compare.csv",
            "node-core/quoting-scatter.csv",
            "node-core/run-csv.csv",
        ],
    ),
    (
        "ab output",
        &[
            "ab/ab_plain.out",
            "ab/ab_pasted_22.txt",
            "ab/ab_quiet_nostats.out",
            "ab/ab_reset.out",
            "ab/ab_post.out",
            "ab/ab_html.out",
        ],
    ),
    ("ab -e CSV", &["ab/ab_percent.csv"]),
    ("ab -g TSV", &["ab/ab_requests.tsv"]),
    (
        "wrk or h2load output",
        &[
            "http-tools/wrk_latency.out",
            "http-tools/wrk_errors.out",
            "http-tools/h2load_h1.out",
            "http-tools/wrk2_corrected.out",
        ],
    ),
    ("hey or oha output", &["http-tools/hey_text.out", "http-tools/oha_text.out"]),
    (
        "go test -bench output",
        &[
            "go/benchstat-o2.txt",
            "go/benchstat-few.txt",
            "go/trouble.txt",
            "go/join.txt",
            "go/events.jsonl",
        ],
    ),
    ("google/benchmark JSON", &["google-benchmark/in_kitchen_a.json"]),
];

/// Formats that end with a bracket, so that any truncation is noticed.
fn is_json(format: &FileFormat) -> bool {
    format.name.ends_with(" JSON") || format.name.ends_with("data.js")
}

/// Complete files of every format.
fn files() -> Vec<(&'static FileFormat, Vec<u8>)> {
    let folder = repository().join("crates/speedwell/tests/golden");
    let mut files = Vec::new();
    for format in FORMATS {
        if format.name == "Speedwell JSON lines" {
            let lines = (0..100).map(|seed| {
                let mut lines = Vec::new();
                json_lines::write(&arbitrary::arbitrary_session(seed), &mut lines).unwrap();
                lines
            });
            let small = lines.filter(|lines| (1_500..3_000).contains(&lines.len()));
            files.extend(small.take(3).map(|lines| (format, lines)));
            continue;
        }
        let (_, names) = GOLDEN
            .iter()
            .find(|(name, _)| *name == format.name)
            .unwrap_or_else(|| panic!("no recorded file of '{}'", format.name));
        for name in *names {
            let bytes = std::fs::read(folder.join(name)).unwrap();
            files.push((format, shorten(name, bytes)));
        }
    }
    files
}

/// The files of google/benchmark, bencher and JMH have many rows of a kind; one of each is enough.
fn shorten(name: &str, bytes: Vec<u8>) -> Vec<u8> {
    if name.starts_with("suites/jmh") {
        let mut json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        json.as_array_mut().unwrap().truncate(1);
        return serde_json::to_vec(&json).unwrap();
    }
    if name == "history/bencher-perf.json" {
        let mut json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let results = json["results"].as_array_mut().unwrap();
        results.truncate(2);
        for series in results {
            series["metrics"].as_array_mut().unwrap().truncate(2);
        }
        return serde_json::to_vec(&json).unwrap();
    }
    if !name.starts_with("google-benchmark") {
        return bytes;
    }
    let mut json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let rows = json["benchmarks"].as_array_mut().unwrap();
    let kinds = ["_BigO", "_RMS", "BM_err", "BM_skip", "BM_manual", "Fx/Foo"];
    let mut seen: HashMap<&str, u32> = HashMap::new();
    rows.retain(|row| {
        let name = row["name"].as_str().unwrap();
        kinds.iter().find(|kind| name.contains(**kind)).is_some_and(|kind| {
            let count = seen.entry(kind).or_default();
            *count += 1;
            *count <= 1
        })
    });
    assert_eq!(seen.len(), kinds.len());
    serde_json::to_vec(&json).unwrap()
}

/// Number of figures.
fn count_figures(sessions: &[Session]) -> usize {
    let runs = sessions.iter().flat_map(|session| &session.runs);
    let failures: usize = sessions.iter().map(|session| session.failures.len()).sum();
    runs.map(|run| run.samples.len()).sum::<usize>() + failures
}

/// Every figure with its case, sorted. Go's have no case: only all names of a package together show
/// whether a trailing number is the number of processors.
fn all_figures(format: &FileFormat, sessions: &[Session]) -> Vec<String> {
    let has_cases = format.name != "go test -bench output";
    let mut all = Vec::new();
    for run in sessions.iter().flat_map(|session| &session.runs) {
        let case = if has_cases { run.case.id() } else { String::new() };
        for sample in &run.samples {
            all.push(format!("{case} {} {}", sample.metric, sample.value));
        }
    }
    all.sort();
    all
}

fn is_part(part: &[String], whole: &[String]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|figure| whole.any(|known| known == figure))
}

#[test]
fn every_file_is_read_by_its_own_format() {
    for (format, bytes) in files() {
        let first = FORMATS.iter().find(|format| (format.recognizes)(&JsonContent::new(&bytes)));
        assert_eq!(first.unwrap().name, format.name);
        invariants::check(format, &bytes).unwrap();
    }
}

#[test]
fn a_truncated_file_is_refused_or_read_with_a_warning() {
    for (format, bytes) in files() {
        let (whole, told) = invariants::check(format, &bytes).unwrap();
        let all = all_figures(format, &whole);
        let length = bytes.trim_ascii_end().len();
        for cut in (0..length).step_by(length / 150 + 1) {
            let part = &bytes[..cut];
            let place = format!("{} cut at byte {cut} of {length}", format.name);
            let mut warnings = Vec::new();
            let read = match speedwell_formats::read_with_warnings("f", part, &mut warnings) {
                Ok(read) => read,
                Err(error) => {
                    let message = format!("{error:#}");
                    assert_helps(&message, &place);
                    continue;
                }
            };
            assert!(!is_json(format), "{place}: it was read");
            assert!(
                is_part(&all_figures(format, &read), &all),
                "{place}: a figure is wrong in {:?}",
                all_figures(format, &read)
            );
            let is_line_end = cut > 0 && bytes[cut - 1] == b'\n';
            let is_silent = warnings.iter().all(|warning| told.contains(warning));
            assert!(
                count_figures(&read) == count_figures(&whole) || is_line_end || !is_silent || {
                    let line = part.rsplit(|&byte| byte == b'\n').next().unwrap();
                    // A partial line that is not a result removes none.
                    let before = &part[..part.len() - line.len()];
                    let (before, _) = invariants::check(format, before).unwrap();
                    count_figures(&before) == count_figures(&read)
                },
                "{place}: results are missing in silence"
            );
        }
    }
}

/// Asserts that a message names the file and says where, or what to do.
fn assert_helps(message: &str, place: &str) {
    assert!(message.contains("'f'"), "{place}: {message}");
    let helpful = [
        "line ",
        "hint: ",
        "it contains no r",
        "has a header but no results",
        "is missing",
        "it contains no session",
    ];
    assert!(helpful.iter().any(|words| message.contains(words)), "{place}: {message}");
}

#[test]
fn a_file_without_results_is_described_by_its_kind() {
    let cases: [(&[u8], &str); 8] = [
        (b"", "'f' is empty\n"),
        (b" \n\t", "'f' is empty\n"),
        (b"{}", "'f' has an unknown format\n"),
        (b"[1, 2]", "'f' has an unknown format\n"),
        (b"{\"a\": {\"speedwell\": 1}}", "'f' has an unknown format\n"),
        (b"\x7fELF\x02\x01\x01\0\0", "'f' is a binary file\n"),
        (b"\xff\xfeg\0o\0", "'f' is UTF-16 text\n"),
        (
            b"{\"context\": {}}",
            "cannot read 'f' as google/benchmark JSON: the key 'benchmarks' is missing",
        ),
    ];
    for (bytes, beginning) in cases {
        let message = format!("{:#}", speedwell_formats::read("f", bytes).unwrap_err());
        assert!(message.starts_with(beginning), "{message}");
    }
}

#[test]
fn another_kind_of_file_is_refused_by_every_format() {
    for (format, _) in files() {
        for bytes in [&b""[..], b"\0\x01\x02\xff", b"{", b"\"", b"[[[[", b"a,b\n1,2\n"] {
            let message = invariants::check(format, bytes).expect_err(format.name);
            assert!(message.len() > 10, "{}: {message}", format.name);
        }
    }
}

/// Strings that have broken parsers before.
const WORDS: [&str; 16] = [
    "NaN",
    "-Infinity",
    "1e999",
    "-1",
    "0",
    "18446744073709551616",
    "null",
    "[",
    "{",
    "\"",
    "\0",
    "\n",
    "\t",
    "é",
    "%",
    ":",
];

/// Damages bytes a few times: replaces a byte, a piece or a number, removes or repeats a piece, or
/// inserts a word.
fn damage_bytes(bytes: &[u8], dice: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..dice.random_range(1..4) {
        let at = dice.random_range(0..bytes.len().max(1)).min(bytes.len());
        let end = (at + dice.random_range(0..12)).min(bytes.len());
        let word = WORDS[dice.random_range(0..WORDS.len())].as_bytes();
        match dice.random_range(0..6) {
            0 if at < bytes.len() => bytes[at] = dice.random(),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = bytes[at..end].to_vec();
                let to = dice.random_range(0..=bytes.len());
                bytes.splice(to..to, piece);
            }
            3 => drop(bytes.splice(at..at, word.iter().copied())),
            4 => drop(bytes.splice(at..end, word.iter().copied())),
            _ => replace_number(&mut bytes, at, word),
        }
    }
    bytes
}

/// Replaces the first number at or after `at` by `word`.
fn replace_number(bytes: &mut Vec<u8>, at: usize, word: &[u8]) {
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let Some(start) = bytes[at..].iter().position(is_number) else {
        return;
    };
    let start = at + start;
    let length = bytes[start..].iter().take_while(|byte| is_number(byte)).count();
    bytes.splice(start..start + length, word.iter().copied());
}

/// Enough to find what a parser overlooks, and fast enough for every test run; `scripts/fuzz` tries
/// more.
const TRIALS_PER_FORMAT: usize = 600;

#[test]
fn randomly_damaged_files_cause_no_panic() {
    let files = files();
    std::thread::scope(|scope| {
        for format in FORMATS {
            let own: Vec<&[u8]> = files
                .iter()
                .filter(|(of, bytes)| of.name == format.name && bytes.len() < 7_000)
                .map(|(_, bytes)| bytes.as_slice())
                .collect();
            scope.spawn(move || damage_files_of(format, &own));
        }
    });
}

fn damage_files_of(format: &FileFormat, files: &[&[u8]]) {
    assert!(!files.is_empty(), "no small file of {}", format.name);
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut read = 0;
    for trial in 0..TRIALS_PER_FORMAT {
        let bytes = damage_bytes(files[trial % files.len()], &mut dice);
        let outcome = std::panic::catch_unwind(|| invariants::check(format, &bytes).is_ok());
        let text = String::from_utf8_lossy(&bytes);
        read += usize::from(
            outcome
                .unwrap_or_else(|_| panic!("{}, trial {trial} failed with:\n{text}", format.name)),
        );
    }
    // If nothing is read, the damage is too great to reach the code after the parser.
    assert!(read > TRIALS_PER_FORMAT / 20, "{}: {read}", format.name);
}
