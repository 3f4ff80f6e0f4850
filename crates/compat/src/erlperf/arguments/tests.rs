//! Valid and invalid command lines.

use super::*;

fn parse(words: &[&str]) -> Result<Option<ErlperfRequest>, String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    ErlperfRequest::parse(&words)
}

fn parse_request(words: &[&str]) -> ErlperfRequest {
    match parse(words) {
        Ok(Some(request)) => request,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn refusal_of(words: &[&str]) -> String {
    parse(words).expect_err("the command line should be rejected")
}

#[test]
fn without_options_three_samples_of_a_second_are_taken() {
    let plain = parse_request(&["ok."]);
    assert_eq!(plain.sample, SampleDefinition::Window(Duration::from_secs(1)));
    assert_eq!((plain.samples, plain.warmup, plain.workers), (3, 0, 1));
    assert_eq!((plain.until, plain.squeeze), (None, None));
    assert_eq!((plain.order, plain.report_detail()), (SampleOrder::Blocks, ReportDetail::Basic));
    assert!(!plain.verbose && !plain.isolated && !plain.subtracts_empty);
}

#[test]
fn real_and_documented_names_mean_the_same() {
    let duration = SampleDefinition::Window(Duration::from_millis(50));
    for word in ["-d", "--duration", "--sample_duration", "--sample-duration"] {
        assert_eq!(parse_request(&["ok.", word, "50"]).sample, duration, "{word}");
    }
    for word in ["-i", "--isolated", "--isolation"] {
        assert!(parse_request(&[word, "ok."]).isolated, "{word}");
    }
    assert_eq!(parse_request(&["-c4", "ok."]).workers, 4);
    assert_eq!(parse_request(&["--concurrency=4", "ok."]).workers, 4);
    let cluster = parse_request(&["-vis9", "ok.", "-pa", "x", "-pa=y"]);
    assert!(cluster.verbose && cluster.isolated && cluster.samples == 9);
    assert_eq!(cluster.paths, ["x", "y"]);
    assert_eq!(parse(&["ok.", "--help"]), Ok(None));
}

#[test]
fn in_every_mode_ten_samples_show_statistics_and_nine_do_not() {
    for mode in [&["-d", "9"][..], &["-l", "9"][..]] {
        let detail = |count| parse_request(&[&["ok.", "-s", count], mode].concat()).report_detail();
        assert_eq!(detail("9"), ReportDetail::Basic);
        assert_eq!(detail("10"), ReportDetail::Extended);
    }
    let full = parse_request(&["ok.", "-s", "10", "-r", "full"]);
    assert_eq!(full.report_detail(), ReportDetail::Full);
}

#[test]
fn suffixes_of_iteration_counts_may_be_uppercase_or_lowercase() {
    let given =
        [("20", 20), ("10k", 10_000), ("10K", 10_000), ("2m", 2_000_000), ("1G", 1_000_000_000)];
    for (text, count) in given {
        assert_eq!(parse_request(&["ok.", "-l", text]).sample, SampleDefinition::Loop(count));
    }
    for text in ["0", "-5", "10X", "k", "", "99999999999G"] {
        let reason = refusal_of(&["ok.", "-l", text]);
        assert!(reason.contains("unsupported syntax for timed iteration count"), "{reason}");
    }
}

#[test]
fn the_first_hook_belongs_to_the_first_code_wherever_it_stands() {
    let words =
        ["--init_runner", "1.", "a.", "b.", "--init_runner", "2.", "--label", "only the first"];
    let snippets = parse_request(&words).snippets;
    let runners: Vec<_> =
        snippets.iter().map(|typed| typed.snippet.init_worker.as_deref()).collect();
    assert_eq!(runners, [Some("1."), Some("2.")]);
    let labels: Vec<_> = snippets.iter().map(|snippet| snippet.label.as_deref()).collect();
    assert_eq!(labels, [Some("only the first"), None]);
}

#[test]
fn hooks_for_all_apply_to_snippets_without_their_own() {
    let words = [
        "a.",
        "b.",
        "c.",
        "--init_all",
        "5.",
        "--init",
        "1.",
        "--done_all",
        "2.",
        "--init-runner",
        "i.",
    ];
    let snippets = parse_request(&words).snippets;
    let inits: Vec<_> = snippets.iter().map(|typed| typed.snippet.init.as_deref()).collect();
    assert_eq!(inits, [Some("1."), Some("5."), Some("5.")]);
    assert!(snippets.iter().all(|typed| typed.snippet.done.as_deref() == Some("2.")));
    assert_eq!(snippets[1].snippet.init_worker, None);
}

#[test]
fn a_surplus_hook_or_label_is_named_in_the_error() {
    let surplus = ["ok.", "--init", "1.", "--init", "2.", "--init", "3."];
    for more in [&[][..], &["--init_all", "5."][..]] {
        let reason = refusal_of(&[&surplus[..], more].concat());
        assert_eq!(
            reason,
            "--init '2.' would belong to snippet number 2, but there is only one snippet"
        );
    }
    let reason = refusal_of(&["a.", "b.", "--label", "x", "--label", "y", "--label", "z"]);
    assert!(reason.contains("--label 'z'") && reason.contains("2 snippets"), "{reason}");
}

#[test]
fn conflicting_options_are_named_in_the_error() {
    for (words, name) in [
        ("-c 2", "concurrency"),
        ("-d 2", "duration"),
        ("-w 2", "warmup"),
        ("--cv 0.1", "cv"),
        ("-q", "squeeze"),
    ] {
        let arguments: Vec<&str> =
            ["ok.", "-l", "10"].into_iter().chain(words.split(' ')).collect();
        let reason = format!("timed benchmarking is not compatible with --{name} option");
        assert!(refusal_of(&arguments).starts_with(&reason), "{words}");
    }
    let reason = "concurrency estimation is not compatible with --concurrency option";
    assert_eq!(refusal_of(&["ok.", "-q", "-c", "2"]), reason);
    let reason = refusal_of(&["a.", "b.", "-q"]);
    assert!(
        reason.starts_with("parallel concurrency estimation runs are not supported")
            && !reason.contains('~')
    );
    assert!(refusal_of(&["a.", "b.", "-i", "--order", "parallel"]).contains("-i"));
}

#[test]
fn errors_about_invalid_numbers_name_the_option() {
    for words in [
        ["-c", "0"],
        ["-c", "x"],
        ["-s", "0"],
        ["-d", "0"],
        ["-w", "-1"],
        ["--min", "0"],
        ["--step", "x"],
    ] {
        let reason = refusal_of(&["ok.", words[0], words[1]]);
        assert!(reason.starts_with(&format!("invalid argument {} for: --", words[1])), "{reason}");
    }
    assert!(refusal_of(&["ok.", "--cv", "-0.1"]).contains("--cv"));
    assert!(refusal_of(&["ok.", "-r", "short"]).contains("basic, extended, full"));
    assert_eq!(parse_request(&["ok.", "-s", "1"]).samples, 1);
}

#[test]
fn unknown_options_and_missing_arguments_are_reported() {
    assert_eq!(refusal_of(&[]), "required argument missing: code");
    assert_eq!(refusal_of(&["--un", "ok."]), "unrecognised argument: --un");
    assert!(refusal_of(&["--warmpu", "1", "ok."]).ends_with("hint: did you mean '--warmup'?"));
    assert_eq!(refusal_of(&["-x", "ok."]), "unrecognised argument: -x");
    assert_eq!(refusal_of(&["ok.", "-c"]), "required argument missing: the value of -c");
    assert_eq!(refusal_of(&["ok.", "-pa"]), "required argument missing: the folder of -pa");
}

#[test]
fn waiting_for_steady_samples_has_an_end() {
    let until = parse_request(&["ok.", "--cv", "0.05"]).until.unwrap();
    assert_eq!((until.variation, until.max_samples, until.max_time), (0.05, 100, None));
    let limited = ["ok.", "--cv", "0", "--max-samples", "20", "--max-time", "1.5s"];
    let until = parse_request(&limited).until.unwrap();
    assert_eq!((until.max_samples, until.max_time), (20, Some(Duration::from_millis(1500))));
    assert!(refusal_of(&["ok.", "--max-time", "3"]).contains("--cv"));
}

#[test]
fn squeeze_options_have_defaults_and_are_ignored_without_squeeze() {
    let defaults = parse_request(&["ok.", "-q"]).squeeze.unwrap();
    assert_eq!(
        (defaults.min_workers, defaults.step, defaults.max_workers, defaults.threshold),
        (1, 1, 261_144, 3)
    );
    let arguments = ["ok.", "--squeeze", "--min", "2", "--max", "4", "-t", "2", "--step", "5"];
    let squeeze = parse_request(&arguments).squeeze.unwrap();
    assert_eq!(
        (squeeze.min_workers, squeeze.step, squeeze.max_workers, squeeze.threshold),
        (2, 5, 4, 2)
    );
    assert_eq!(parse_request(&["ok.", "--min", "5"]).squeeze, None);
}
