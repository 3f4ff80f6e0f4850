//! Valid and invalid command lines.

use super::*;

fn parse(words: &[&str]) -> Result<Command, String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Command::parse(&words)
}

fn request(words: &[&str]) -> Request {
    match parse(words) {
        Ok(Command::Measure(request)) => *request,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn refused(words: &[&str]) -> String {
    parse(words).expect_err("these words make no sense")
}

#[test]
fn without_options_three_samples_of_a_second_are_taken() {
    let plain = request(&["ok."]);
    assert_eq!(plain.sample, Sample::Window(Duration::from_secs(1)));
    assert_eq!((plain.samples, plain.warmup, plain.workers), (3, 0, 1));
    assert_eq!((plain.until, plain.squeeze), (None, None));
    assert_eq!(
        (plain.order, plain.detail()),
        (Order::Blocks, Detail::Basic)
    );
    assert!(!plain.verbose && !plain.isolated && !plain.subtracts_empty);
}

#[test]
fn real_and_documented_names_mean_the_same() {
    let duration = Sample::Window(Duration::from_millis(50));
    for word in ["-d", "--duration", "--sample_duration", "--sample-duration"] {
        assert_eq!(request(&["ok.", word, "50"]).sample, duration, "{word}");
    }
    for word in ["-i", "--isolated", "--isolation"] {
        assert!(request(&[word, "ok."]).isolated, "{word}");
    }
    assert_eq!(request(&["-c4", "ok."]).workers, 4);
    assert_eq!(request(&["--concurrency=4", "ok."]).workers, 4);
    let cluster = request(&["-vis9", "ok.", "-pa", "x", "-pa=y"]);
    assert!(cluster.verbose && cluster.isolated && cluster.samples == 9);
    assert_eq!(cluster.paths, ["x", "y"]);
    assert_eq!(parse(&["ok.", "--help"]), Ok(Command::Help));
}

#[test]
fn ten_samples_show_their_statistics_and_nine_do_not_in_every_mode() {
    for mode in [&["-d", "9"][..], &["-l", "9"][..]] {
        let detail = |count| request(&[&["ok.", "-s", count], mode].concat()).detail();
        assert_eq!(detail("9"), Detail::Basic);
        assert_eq!(detail("10"), Detail::Extended);
    }
    let full = request(&["ok.", "-s", "10", "-r", "full"]);
    assert_eq!(full.detail(), Detail::Full);
}

#[test]
fn iterations_are_counted_in_thousands_of_either_case() {
    let given = [
        ("20", 20),
        ("10k", 10_000),
        ("10K", 10_000),
        ("2m", 2_000_000),
        ("1G", 1_000_000_000),
    ];
    for (text, count) in given {
        assert_eq!(request(&["ok.", "-l", text]).sample, Sample::Loop(count));
    }
    for text in ["0", "-5", "10X", "k", "", "99999999999G"] {
        let reason = refused(&["ok.", "-l", text]);
        assert!(
            reason.contains("unsupported syntax for timed iteration count"),
            "{reason}"
        );
    }
}

#[test]
fn the_first_hook_belongs_to_the_first_code_wherever_it_stands() {
    let words = [
        "--init_runner",
        "1.",
        "a.",
        "b.",
        "--init_runner",
        "2.",
        "--label",
        "only the first",
    ];
    let snippets = request(&words).snippets;
    let runners: Vec<_> = snippets
        .iter()
        .map(|snippet| snippet.init_runner.as_deref())
        .collect();
    assert_eq!(runners, [Some("1."), Some("2.")]);
    let labels: Vec<_> = snippets
        .iter()
        .map(|snippet| snippet.label.as_deref())
        .collect();
    assert_eq!(labels, [Some("only the first"), None]);
}

#[test]
fn what_is_for_all_is_for_those_without_their_own() {
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
    let snippets = request(&words).snippets;
    let inits: Vec<_> = snippets
        .iter()
        .map(|snippet| snippet.init.as_deref())
        .collect();
    assert_eq!(inits, [Some("1."), Some("5."), Some("5.")]);
    assert!(
        snippets
            .iter()
            .all(|snippet| snippet.done.as_deref() == Some("2."))
    );
    assert_eq!(snippets[1].init_runner, None);
}

#[test]
fn a_hook_too_many_is_named_with_and_without_one_for_all() {
    let surplus = ["ok.", "--init", "1.", "--init", "2.", "--init", "3."];
    for more in [&[][..], &["--init_all", "5."][..]] {
        let reason = refused(&[&surplus[..], more].concat());
        assert_eq!(
            reason,
            "--init '2.' belongs to no snippet: it is number 2 and there is one snippet"
        );
    }
    let reason = refused(&["a.", "b.", "--label", "x", "--label", "y", "--label", "z"]);
    assert!(
        reason.contains("--label 'z'") && reason.contains("2 snippets"),
        "{reason}"
    );
}

#[test]
fn what_contradicts_each_other_is_told_with_the_names_of_options() {
    for (words, name) in [
        ("-c 2", "concurrency"),
        ("-d 2", "duration"),
        ("-w 2", "warmup"),
        ("--cv 0.1", "cv"),
        ("-q", "squeeze"),
    ] {
        let own: Vec<&str> = ["ok.", "-l", "10"]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        let reason = format!("timed benchmarking is not compatible with --{name} option");
        assert!(refused(&own).starts_with(&reason), "{words}");
    }
    let reason = "concurrency estimation is not compatible with --concurrency option";
    assert_eq!(refused(&["ok.", "-q", "-c", "2"]), reason);
    let reason = refused(&["a.", "b.", "-q"]);
    assert!(
        reason.starts_with("parallel concurrency estimation runs are not supported")
            && !reason.contains('~')
    );
    assert!(refused(&["a.", "b.", "-i", "--order", "parallel"]).contains("-i"));
}

#[test]
fn numbers_out_of_range_are_refused_with_the_option() {
    for words in [
        ["-c", "0"],
        ["-c", "x"],
        ["-s", "0"],
        ["-d", "0"],
        ["-w", "-1"],
        ["--min", "0"],
        ["--step", "x"],
    ] {
        let reason = refused(&["ok.", words[0], words[1]]);
        assert!(
            reason.starts_with(&format!("invalid argument {} for: --", words[1])),
            "{reason}"
        );
    }
    assert!(refused(&["ok.", "--cv", "-0.1"]).contains("--cv"));
    assert!(refused(&["ok.", "-r", "short"]).contains("basic, extended, full"));
    assert_eq!(request(&["ok.", "-s", "1"]).samples, 1);
}

#[test]
fn words_that_are_unknown_or_missing_are_told() {
    assert_eq!(refused(&[]), "required argument missing: code");
    assert_eq!(refused(&["--un", "ok."]), "unrecognised argument: --un");
    assert!(refused(&["--warmpu", "1", "ok."]).ends_with("hint: did you mean '--warmup'?"));
    assert_eq!(refused(&["-x", "ok."]), "unrecognised argument: -x");
    assert_eq!(
        refused(&["ok.", "-c"]),
        "required argument missing: the value of -c"
    );
    assert_eq!(
        refused(&["ok.", "-pa"]),
        "required argument missing: the folder of -pa"
    );
}

#[test]
fn waiting_for_steady_samples_has_an_end() {
    let until = request(&["ok.", "--cv", "0.05"]).until.unwrap();
    assert_eq!(
        (until.variation, until.most_samples, until.most_time),
        (0.05, 100, None)
    );
    let limited = [
        "ok.",
        "--cv",
        "0",
        "--max-samples",
        "20",
        "--max-time",
        "1.5s",
    ];
    let until = request(&limited).until.unwrap();
    assert_eq!(
        (until.most_samples, until.most_time),
        (20, Some(Duration::from_millis(1500)))
    );
    assert!(refused(&["ok.", "--max-time", "3"]).contains("--cv"));
}

#[test]
fn squeezing_has_its_options_which_mean_nothing_without_it() {
    let usual = request(&["ok.", "-q"]).squeeze.unwrap();
    assert_eq!(
        (usual.least, usual.step, usual.most, usual.threshold),
        (1, 1, 261_144, 3)
    );
    let own = [
        "ok.",
        "--squeeze",
        "--min",
        "2",
        "--max",
        "4",
        "-t",
        "2",
        "--step",
        "5",
    ];
    let own = request(&own).squeeze.unwrap();
    assert_eq!((own.least, own.step, own.most, own.threshold), (2, 5, 4, 2));
    assert_eq!(request(&["ok.", "--min", "5"]).squeeze, None);
}
