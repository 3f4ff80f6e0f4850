//! Every command line with recorded output of the original, except for its defects: the same tables
//! with other figures, the same layout, and the same error messages.

use super::super::busy::{ensure_holds, retry_busy};
use super::super::harness_driver::is_missing;
use super::{ErlperfCall, command, golden};
use regex::Regex;
use serde_json::Value;
use std::fs;
use std::process::Command;

struct RecordedCall {
    name: String,
    words: Vec<String>,
    output: String,
}

fn cases(is_wanted: impl Fn(&str) -> bool) -> Vec<RecordedCall> {
    let text = fs::read_to_string(golden().join("cases.json")).unwrap();
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    let case = |case: &Value| {
        let name = case["name"].as_str().unwrap().to_owned();
        let words = case["argv"].as_array().unwrap().iter();
        RecordedCall {
            words: words.map(|word| word.as_str().unwrap().to_owned()).collect(),
            output: fs::read_to_string(golden().join(format!("{name}.out"))).unwrap(),
            name,
        }
    };
    let wanted = |case: &RecordedCall| is_wanted(&case.name);
    all.iter().map(case).filter(wanted).collect()
}

/// Defects of the original, which `better.rs` tests.
const DEFECTS: &[&str] = &[
    "code_unicode",
    "cv0",
    "init_all_too_many",
    "init_mfa",
    "init_too_many",
    "isolated_no_epmd",
    "isolated_pa_undef",
    "isolated_verbose",
    "label_unicode",
    "s1",
    "s1_cv",
    "s1_ext",
    "s1_timed",
    "s9_extended",
    "squeeze_max_reports_last",
    "timer_warning",
    "zero_q",
];

fn call(case: &RecordedCall) -> ErlperfCall {
    let mut words: Vec<&str> = case.words.iter().map(String::as_str).collect();
    // Recorded with samples of a second, which show no more than those of twenty milliseconds.
    let is_timed = words.contains(&"-l") || words.contains(&"-v");
    if case.name.starts_with("example") && !is_timed {
        words.extend(["-d", "20"]);
    }
    if case.name == "timed_compare" {
        words.extend(["-l", "100K"]);
    }
    if case.name == "mfa_vs_text_timed" {
        words.extend(["-l", "200K"]);
    }
    if case.name == "example_squeeze_verbose" {
        words.extend(["--max", "1"]);
    }
    ErlperfCall::from(command(&words).current_dir(golden()).output().unwrap())
}

/// Runs all cases, a few at a time.
fn compare(is_wanted: impl Fn(&str) -> bool) {
    if is_missing("erl") {
        return;
    }
    let cases = cases(|name| !DEFECTS.contains(&name) && is_wanted(name));
    assert!(!cases.is_empty());
    std::thread::scope(|scope| {
        for quarter in cases.chunks(cases.len().div_ceil(4)) {
            scope.spawn(move || quarter.iter().for_each(has_same_layout));
        }
    });
}

/// On a busy machine a sample may overrun the time limit, which leaves columns that need several
/// empty.
fn has_same_layout(case: &RecordedCall) {
    retry_busy(1, || same_layout(case));
}

fn same_layout(case: &RecordedCall) -> Result<(), String> {
    let called = call(case);
    let name = &case.name;
    assert_eq!(called.status, 0, "{name}: {}", called.stderr);
    let has_monitor = case.output.contains("\nYYYY-");
    let own = if has_monitor { called.stdout.clone() } else { without_monitor(&called.stdout) };
    let (own, recorded) = (mask_figures(&own), mask_figures(&case.output));
    ensure_holds(own == recorded, || format!("{name}:\n{}\n{own:#?}\n{recorded:#?}", called.stdout))
}

/// On a busy machine even short samples may last until the first line of the monitor.
fn without_monitor(output: &str) -> String {
    let lines = Regex::new(r"(?m)^\nYYYY-.*\n|^20\d\d-\d\d-\d\dT.*\n").unwrap();
    lines.replace_all(output, "").into_owned()
}

/// Masks what differs between measurements: figures with their units (columns stay), the generated
/// source, times and process numbers, the processor.
fn mask_figures(output: &str) -> Vec<String> {
    let figure = Regex::new(r" +(\d+(\.\d+)?|inf)( ([KMGT]i|ns|us|ms|s|m|[KMGT]b)\b|%)?").unwrap();
    let process = Regex::new(r" {5}<0\.\d+\.0>| {11}#\d").unwrap();
    let mut lines: Vec<String> = Vec::new();
    let mut is_source = false;
    let mut code_width = None;
    for line in output.lines() {
        is_source &= !line.starts_with('<');
        // On a busy machine samples are late.
        let is_late = line.starts_with("Timer accuracy problem");
        if is_source || is_late || line.starts_with("CPU: ") {
            continue;
        }
        is_source |= line.starts_with('>');
        let is_gauges = line.starts_with("20") && line.as_bytes().get(10) == Some(&b'T');
        let text = if line.starts_with("Code ") {
            let workers = line.find("||").unwrap() + 2;
            let is_basic = line.contains(" QPS ");
            code_width = Some(workers - if is_basic { 10 } else { 6 });
            line.to_owned()
        } else if let Some(width) = code_width {
            row(line, width, &figure)
        } else if line.starts_with("VM : Erlang/OTP ") {
            "VM : Erlang/OTP".to_owned()
        } else if is_gauges {
            // How many lines there are depends on the machine.
            let same = figures_as_nines(&line[25..], &figure);
            if lines.iter().any(|known| known.ends_with(&same)) {
                continue;
            }
            same
        } else {
            process.replace_all(line, "      process").into_owned()
        };
        lines.push(text);
    }
    // Snippets that take about equally long may swap places.
    let table = lines.iter().position(|line| line.starts_with("Code "));
    lines[table.map_or(0, |at| at + 1)..].sort();
    lines
}

/// Masks a row of a table; a truncated snippet is reduced to the fact.
fn row(line: &str, width: usize, figure: &Regex) -> String {
    let letters: Vec<char> = line.chars().collect();
    let (code, figures) = letters.split_at(width);
    let code: String = code.iter().collect();
    let figures: String = figures.iter().collect();
    let code = if code.ends_with(' ') { code.trim_end() } else { "cut" };
    let code = if code.contains('…') { "cut" } else { code };
    format!("{code}|{}", figures_as_nines(&figures, figure))
}

fn figures_as_nines(text: &str, figure: &Regex) -> String {
    let nines = |found: &regex::Captures<'_>| "9".repeat(found[0].len());
    figure.replace_all(text, nines).into_owned()
}

#[test]
fn plain_tables_have_the_recorded_layout() {
    let others = [
        "example",
        "err_",
        "squeeze",
        "step",
        "verbose",
        "recorded",
        "isolated",
        "timed",
        "pa",
        "two_forms",
        "init_order_bad",
    ];
    compare(|name| !others.iter().any(|other| name.starts_with(other)));
}

#[test]
fn the_documented_examples_have_the_recorded_layout() {
    compare(|name| name.starts_with("example"));
}

#[test]
fn searches_and_fixed_numbers_of_iterations_have_the_recorded_layout() {
    let own = ["squeeze", "step", "timed"];
    compare(|name| own.iter().any(|own| name.starts_with(own)));
}

#[test]
fn sources_and_lines_of_the_monitor_have_the_recorded_layout() {
    compare(|name| name.starts_with("verbose") || name == "recorded");
}

#[test]
fn codes_in_machines_of_their_own_have_the_recorded_layout() {
    compare(|name| name == "isolated_two" || name == "isolated_full");
}

#[test]
fn modules_are_found_by_pa_in_every_machine_and_by_erl_libs() {
    if is_missing("erl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ebin = folder.path().join("libs/own/ebin");
    fs::create_dir_all(&ebin).unwrap();
    let source = folder.path().join("mymod.erl");
    fs::write(&source, "-module(mymod).\n-export([do/1]).\ndo(N) -> timer:sleep(N).\n").unwrap();
    let compiled = Command::new("erlc").arg("-o").arg(&ebin).arg(&source).status();
    assert!(compiled.unwrap().success());
    let words = ["mymod:do(1).", "-d", "20", "-s", "1"];
    let ebin = ebin.to_str().unwrap();
    for more in [&["-pa", ebin][..], &["-pa", ebin, "-i"][..]] {
        let called = ErlperfCall::from(command(&[&words[..], more].concat()).output().unwrap());
        assert_eq!(called.status, 0, "{more:?}: {}", called.stderr);
        called.row("mymod:do(1).");
    }
    let libs = folder.path().join("libs");
    let called = command(&words).env("ERL_LIBS", libs).output().unwrap();
    assert_eq!(ErlperfCall::from(called).status, 0);
    let without = ErlperfCall::from(command(&words).output().unwrap());
    assert_eq!(without.status, 2);
    assert!(without.stderr.contains("mymod:do/1"), "{}", without.stderr);
}

/// Error messages of the original, or the part that ours shares.
const MESSAGES: &[(&str, &str)] = &[
    ("err_badopt", "unrecognised argument: --un"),
    ("err_c0", "invalid argument 0 for: --concurrency"),
    ("err_compile", "compile error: variable 'X' is unbound (line 1)"),
    ("err_crash", "the runner failed: boom (line 1)"),
    ("err_crash_timed", "the runner failed: boom (line 1)"),
    ("err_cx", "invalid argument x for: --concurrency"),
    ("err_done1_no_init", "done/1 requires init function defined"),
    ("err_exit_normal", "the runner failed: exit:normal"),
    ("err_exit_shutdown", "the runner failed: exit:shutdown"),
    ("err_init1", "init takes 1 argument"),
    ("err_init_crash", "exception while executing 'init': error:initboom"),
    ("err_initrunner_crash", "exception while executing 'init_runner': error:irboom"),
    ("err_ir1_no_init", "init_runner/1 requires init function defined"),
    ("err_ir2", "init_runner takes 2 arguments"),
    ("err_loop_c", "timed benchmarking is not compatible with --concurrency option"),
    ("err_loop_cv", "timed benchmarking is not compatible with --cv option"),
    ("err_loop_d", "timed benchmarking is not compatible with --duration option"),
    ("err_loop_neg", "unsupported syntax for timed iteration count: -5"),
    ("err_loop_q", "timed benchmarking is not compatible with --squeeze option"),
    ("err_loop_w", "timed benchmarking is not compatible with --warmup option"),
    ("err_loop_zero", "unsupported syntax for timed iteration count: 0"),
    ("err_nameclash", "compile error: function foo/0 already defined"),
    ("err_noargs", "required argument missing: code"),
    ("err_pa", "cannot add '/nonexistent' of -pa to the code path"),
    ("err_q_c", "concurrency estimation is not compatible with --concurrency option"),
    ("err_q_two", "parallel concurrency estimation runs are not supported: "),
    ("err_runner1_no_ir", "runner/1 requires init_runner function defined"),
    ("err_runner3", "runner/3 cannot be called"),
    ("err_scan", "parse error for runner: unterminated string"),
    ("err_syntax", "parse error for runner: syntax error before: '.'"),
    ("err_throw", "the runner failed: {nocatch,ball}"),
    ("err_undef", "undef (line 1)\n    in nomod:nofun/0"),
    ("err_undef_mfa", "undef (line 1)\n    in nomod:nofun/0"),
    ("init_order_bad", "'run(1) -> timer:sleep(1).': the runner failed: function_clause"),
    ("isolated_crash", "the runner failed: boom"),
    ("two_forms", "parse error for runner: syntax error before: "),
];

#[test]
fn errors_are_on_standard_error_once_and_end_with_2() {
    if is_missing("erl") {
        return;
    }
    let cases = cases(|name| MESSAGES.iter().any(|(known, _)| *known == name));
    assert_eq!(cases.len(), MESSAGES.len());
    std::thread::scope(|scope| {
        for quarter in cases.chunks(cases.len().div_ceil(4)) {
            scope.spawn(move || {
                for case in quarter {
                    let called = call(case);
                    let (_, told) = MESSAGES.iter().find(|(name, _)| *name == case.name).unwrap();
                    let context = format!("{}: {}", case.name, called.stderr);
                    assert_eq!(called.status, 2, "{context}");
                    assert_eq!(called.stderr.matches(told).count(), 1, "{context}");
                    assert!(!called.stderr.contains('\u{1b}'), "{context}");
                }
            });
        }
    });
}

#[test]
fn every_recorded_case_is_compared_or_listed() {
    let elsewhere = [
        "err_crash_later",
        "err_done_crash",
        "err_done_crash_v",
        "err_loop_lower",
        "err_noperiod",
        "pa",
        "isolated_erl_libs",
    ];
    let is_known = |name: &str| {
        DEFECTS.contains(&name)
            || elsewhere.contains(&name)
            || MESSAGES.iter().any(|(known, _)| *known == name)
    };
    let left = cases(|name| !is_known(name));
    assert!(left.iter().all(|case| !case.name.starts_with("err_")));
    assert!(left.len() > 30, "{} cases are compared", left.len());
}
