//! Drop-in for google/benchmark's `compare.py`: byte by byte the output of the original. Where it
//! misleads or crashes is in `better.rs`; programs instead of files are in `programs.rs`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod better;
mod programs;

use crate::drop_in::{DropIn, DropInOutcome};
use crate::project::repository;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    let folder = repository().join("crates/speedwell/tests/golden/google-benchmark");
    folder.join(name)
}

fn recorded(name: &str) -> String {
    std::fs::read_to_string(golden(name)).unwrap()
}

/// A call of the original.
struct ComparePyCase {
    name: String,
    arguments: Vec<String>,
    /// File with its recorded standard output.
    output: String,
    dump: Option<String>,
}

fn cases() -> Vec<ComparePyCase> {
    let cases: Value = serde_json::from_str(&recorded("cases.json")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let case = |case: &Value| {
        let name = text(&case["name"]);
        let same = case["stdout_same_as"].as_str().unwrap_or(&name);
        ComparePyCase {
            arguments: case["argv"].as_array().unwrap().iter().map(text).collect(),
            output: format!("{same}.out"),
            dump: case["dump"].as_str().map(str::to_owned),
            name,
        }
    };
    cases.as_array().unwrap().iter().map(case).collect()
}

fn case(name: &str) -> ComparePyCase {
    cases().into_iter().find(|case| case.name == name).unwrap()
}

/// A folder with all inputs.
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden("")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("in_") || !(name.ends_with(".out") || name.contains("dump")) {
            std::os::unix::fs::symlink(entry.path(), folder.path().join(name)).unwrap();
        }
    }
    std::fs::create_dir(folder.path().join("DIR")).unwrap();
    folder
}

fn call(folder: &Path, arguments: &[impl AsRef<str>]) -> DropInOutcome {
    let drop_in = DropIn::new("compare.py", "").directory(folder);
    let words = arguments.iter().map(AsRef::as_ref);
    words.fold(drop_in, DropIn::argument).run()
}

fn call_case(case: &ComparePyCase, more: &[&str]) -> (DropInOutcome, tempfile::TempDir) {
    let folder = inputs();
    let more = more.iter().map(|word| (*word).to_owned());
    let words: Vec<String> = more.chain(case.arguments.clone()).collect();
    (call(folder.path(), &words), folder)
}

/// Compares two small files, each given as the elements of `benchmarks`, in the mode `benchmarks`
/// unless `options` name another.
fn compare(options: &str, old: &str, new: &str) -> DropInOutcome {
    compare_and_dump(options, old, new).0
}

/// Like [`compare`], and returns the contents of `dump.json`.
fn compare_and_dump(options: &str, old: &str, new: &str) -> (DropInOutcome, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, entries) in [("old.json", old), ("new.json", new)] {
        let text = format!(r#"{{"context": {{}}, "benchmarks": [{entries}]}}"#);
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let mut words: Vec<&str> = options.split_whitespace().collect();
    if !words.contains(&"benchmarks") && !words.contains(&"filters") {
        words.extend(["benchmarks", "old.json", "new.json"]);
    }
    let outcome = call(folder.path(), &words);
    let dump = std::fs::read_to_string(folder.path().join("dump.json"));
    (outcome, dump.unwrap_or_default())
}

/// A repetition.
fn repetition(name: &str, unit: &str, time: &str) -> String {
    format!(
        r#"{{"name": "{name}", "run_name": "{name}", "run_type": "iteration", "iterations": 1,
            "real_time": {time}, "cpu_time": {time}, "time_unit": "{unit}"}}"#
    )
}

#[track_caller]
fn assert_same_json(found: &str, expected: &str) {
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_near(&parse(found), &parse(expected), "");
}

#[track_caller]
fn assert_near(found: &Value, expected: &Value, place: &str) {
    match (found, expected) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            let is_near = one == other || (one / other - 1.0).abs() < 1e-9;
            assert!(is_near, "{place}: {one} is not {other}");
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len(), "{place}");
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                assert_near(one, other, &format!("{place}[{index}]"));
            }
        }
        (Value::Object(one), Value::Object(other)) => {
            let keys = |object: &serde_json::Map<String, Value>| -> Vec<String> {
                object.keys().cloned().collect()
            };
            assert_eq!(keys(one), keys(other), "{place}");
            for (key, one) in one {
                assert_near(one, &other[key], &format!("{place}.{key}"));
            }
        }
        _ => assert_eq!(found, expected, "{place}"),
    }
}

/// Cases where the original is correct, or is imitated although it is not.
const IDENTICAL: [&str; 21] = [
    "bench_color",
    "bench_nocolor",
    "bench_alpha",
    "bench_noutest",
    "bench_aggr",
    "bench_dump",
    "filters_color",
    "filters_nocolor",
    "filters_dump",
    "bf_color",
    "bf_nocolor",
    "reps1",
    "reps3v3_color",
    "reps9v3",
    "filt_wholefam",
    "filt_groups",
    "opt_filter",
    "opt_ignored",
    "opt_outfmt",
    "optafter",
    "aggr_json",
];

#[test]
fn the_table_matches_the_original() {
    for name in IDENTICAL {
        let case = case(name);
        let (outcome, folder) = call_case(&case, &[]);
        assert_eq!(outcome.stdout, recorded(&case.output), "{name}");
        let is_refused = ["opt_outfmt", "aggr_json"].contains(&name);
        assert_eq!(outcome.status, if is_refused { 2 } else { 0 }, "{name}");
        if let Some(dump) = case.dump {
            let found = std::fs::read_to_string(folder.path().join(&dump)).unwrap();
            assert_same_json(&found, &recorded(&dump));
        }
    }
}

#[test]
fn with_strict_compat_the_original_is_followed_wherever_it_does_not_crash() {
    let further =
        ["kitchen", "kitchen_filters2", "nobench", "nobench2", "filt_nomatch", "filt_empty"];
    for name in IDENTICAL.iter().chain(&further) {
        let case = case(name);
        let (outcome, folder) = call_case(&case, &["--strict-compat"]);
        assert_eq!(outcome.stdout, recorded(&case.output), "{name}");
        let expected = if *name == "opt_outfmt" { 2 } else { 0 };
        assert_eq!(outcome.status, expected, "{name}");
        if let Some(dump) = case.dump {
            let found = std::fs::read_to_string(folder.path().join(&dump)).unwrap();
            assert_same_json(&found, &recorded(&dump));
        }
    }
}

/// No p-value of these files depends on the last bit, so every byte must match.
#[test]
fn the_dump_is_spelled_as_python_spells_it() {
    let case = case("kitchen");
    let (_, folder) = call_case(&case, &["--strict-compat"]);
    let found = std::fs::read_to_string(folder.path().join("kitchen_dump.json")).unwrap();
    assert!(found == recorded("kitchen_dump.json"));
    let (_, dump) = compare_and_dump(
        "-d dump.json",
        &repetition("Bär 𝄞\\n", "ns", "1e-7"),
        &repetition("Bär 𝄞\\n", "ns", "1e22"),
    );
    for text in [
        r#" "name": "B\u00e4r \ud834\udd1e\n","#,
        r#""real_time": 1e-07,"#,
        r#""real_time_other": 1e+22,"#,
    ] {
        assert!(dump.contains(text), "{dump}");
    }
}

#[test]
fn unusable_inputs_are_rejected_with_status_2_and_one_line() {
    for (name, reason) in [
        ("badmode", "unknown mode 'foo'; expected benchmarks"),
        ("badalpha", "--alpha 'x' is not a number"),
        ("badinput", "'bad.txt' is neither a JSON result file nor"),
        ("emptyinput", "'empty.json' is empty"),
        ("dirin", "'DIR' is a folder"),
        ("nofile", "cannot open 'nonexist.json': No such file"),
        ("schema2", "unsupported json_schema_version 2: expected 1"),
        ("nokey", "cannot compare 'nokey.json': the key 'benchmarks' is missing"),
        ("listjson", "the key 'benchmarks' is missing"),
        ("optbefore", "unknown option '--benchmark_filter'\nhint: put options for the"),
        ("filt_badre", "cannot use the filter '(': unclosed group at position 0"),
        ("stdin", "'<stdin>' is empty"),
    ] {
        let (outcome, _) = call_case(&case(name), &[]);
        assert_eq!((outcome.status, outcome.stdout.as_str()), (2, ""), "{name}");
        assert!(outcome.stderr.starts_with("compare.py: "), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
    }
    let (outcome, _) = call_case(&case("baddump"), &[]);
    assert_eq!(outcome.stdout, recorded("baddump.out"));
    assert!(outcome.stderr.starts_with("compare.py: cannot write '/nonexistent/x.json': No such"));
    assert_eq!(outcome.status, 2);
}

/// The reference's own test of families, where the common word is a dot.
#[test]
fn families_are_compared_by_the_rest_of_their_names() {
    let lines = [
        ("BM_Zero", "10"),
        ("BM_Zero/4", "40"),
        ("Prefix/BM_Zero", "20"),
        ("Prefix/BM_Zero/3", "30"),
        ("BM_One", "5"),
        ("BM_One/4", "20"),
        ("Prefix/BM_One", "10"),
        ("Prefix/BM_One/3", "15"),
        ("BM_Bar", "10"),
        ("BM_Foo", "5"),
    ];
    let entries = lines.map(|(name, time)| repetition(name, "ns", time)).join(",");
    let outcome = compare("--no-color filters old.json BM_Z.ro BM_O.e", &entries, "");
    let common = "[BM_Z.ro vs. BM_O.e]";
    for (line, name) in outcome.stdout.lines().skip(3).zip([
        common.to_owned(),
        format!("{common}/4"),
        format!("Prefix/{common}"),
        format!("Prefix/{common}/3"),
        "OVERALL_GEOMEAN".to_owned(),
    ]) {
        let (found, figures) = line.split_at(name.len());
        assert_eq!(found, name);
        assert!(figures.contains("-0.5000         -0.5000"), "{line}");
    }
    assert_eq!(outcome.stdout.lines().count(), 8);
}

/// Generated pairs of files with every peculiarity. More of them:
/// `eval/check-compare-py --pairs 250`.
#[test]
fn results_match_the_original_program_on_generated_pairs() {
    let script = repository().join("eval/check-compare-py");
    let mut command = std::process::Command::new(script);
    command.args(["--pairs", "26"]);
    command.env("SPEEDWELL", env!("CARGO_BIN_EXE_speedwell"));
    let Ok(output) = command.output() else {
        eprintln!("skipped: there is no 'python3' in PATH");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    if text.starts_with("skipped: ") {
        eprint!("{text}");
        return;
    }
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.ends_with(" known deviations, 0 different\n"), "{text}");
}
