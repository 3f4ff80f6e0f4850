//! Drop-in for `run.js`: its two formats, its test mode, and failures that do not end it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::drop_in::{
    DropIn, DropInStep, SCRIPTS, benchmark_folder, case, failure, golden, play_session, recorded,
    result,
};
use speedwell_formats::node_csv::javascript;
use speedwell_model::{Case, FailureCause, Run};

/// The results in recorded output of the simple format.
fn recorded_simple(name: &str) -> Vec<DropInStep> {
    let text = golden(name);
    let lines = text.lines().filter(|line| line.contains(": "));
    let run = |line: &str| -> Run {
        let (benchmark, rest) = line.split_once(' ').unwrap();
        let (values, rate) = rest.rsplit_once(": ").unwrap();
        let case = Case::new(benchmark, javascript::parse_configuration(values).unwrap());
        let rate = rate.replace(',', "").parse().unwrap();
        result(&case, "default", 0, rate, 1)
    };
    lines.map(run).map(DropInStep::Result).collect()
}

#[test]
fn run_prints_what_the_original_prints() {
    let folder = benchmark_folder(SCRIPTS);
    let run =
        |arguments: &str, planned: &'static [(&'static str, usize)], steps: Vec<DropInStep>| {
            DropIn::new("run.js", arguments)
                .directory(folder.path())
                .engine(move |_, follower| play_session(follower, planned, &steps))
                .run()
        };
    let outcome = run(
        "--filter create --filter parse string_decoder querystring",
        &[("string_decoder/string-decoder-create.js", 8), ("querystring/querystring-parse.js", 10)],
        recorded_simple("run-simple.txt"),
    );
    assert_eq!(outcome.stdout, golden("run-simple.txt"));
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    let outcome = run("--format csv string_decoder", &[], recorded("run-csv.csv"));
    assert_eq!(outcome.stdout, golden("run-csv.csv"));
    for name in ["http-wrk", "http-autocannon", "http-test-double-http", "http2-h2load"] {
        let line = golden(&format!("{name}.txt"));
        let outcome = run("zz", &[], recorded_simple(&format!("{name}.txt")));
        assert!(outcome.stdout.contains(&line), "{name}: {}", outcome.stdout);
    }
}

#[test]
fn settings_work_in_test_mode() {
    let folder = benchmark_folder(SCRIPTS);
    let steps = recorded_simple("run-test-mode.txt");
    let outcome = DropIn::new("run.js", "--set n=5 test string_decoder")
        .directory(folder.path())
        .engine(move |_, follower| play_session(follower, &[], &steps))
        .run();
    let request = outcome.request.unwrap();
    assert!(request.test);
    assert_eq!(request.sets, [("n".to_owned(), "5".to_owned())], "the original drops it");
    assert_eq!(outcome.stdout, golden("run-test-mode.txt"));
}

#[test]
fn a_failing_child_does_not_end_the_run_and_decides_the_status() {
    let folder = benchmark_folder(&["zz/exit3.js", "zz/kill.js", "zz/noend.js", "zz/ok.js"]);
    let steps = vec![
        failure("zz/exit3.js", Some("zz/exit3.js n=1"), FailureCause::Exit { code: 3 }),
        DropInStep::Result(result(&case("zz/kill.js a=0"), "default", 1, 2000.0, 1)),
        failure("zz/kill.js", Some("zz/kill.js a=1"), FailureCause::Signal { signal: 9 }),
        failure("zz/noend.js", Some("zz/noend.js n=1"), FailureCause::Silent),
        DropInStep::Result(result(&case("zz/ok.js n=1"), "default", 4, 5.0, 1)),
    ];
    let outcome = DropIn::new("run.js", "zz")
        .directory(folder.path())
        .engine(move |_, follower| play_session(follower, &[], &steps))
        .run();
    assert_eq!(
        outcome.stdout,
        "\nzz/exit3.js\n\nzz/kill.js\nzz/kill.js a=0: 2,000\n\nzz/noend.js\n\nzz/ok.js\n\
         zz/ok.js n=1: 5\n"
    );
    assert_eq!(outcome.status, 3, "the status of the first that failed");
    assert_eq!(
        outcome.stderr,
        "run.js: 'zz/exit3.js n=1': exited with status 3\n\
         run.js: 'zz/kill.js a=1': was killed by signal 9 (SIGKILL)\n\
         run.js: 'zz/noend.js n=1': reported nothing\n"
    );
}

#[test]
fn a_script_without_cases_is_a_warning_instead_of_silence() {
    let folder = benchmark_folder(&["zz/filternone.js", "zz/throwtop.js"]);
    let outcome = DropIn::new("run.js", "zz")
        .directory(folder.path())
        .engine(|_, follower| {
            let failed = failure("zz/throwtop.js", None, FailureCause::Exit { code: 1 });
            play_session(follower, &[("zz/filternone.js", 0), ("zz/throwtop.js", 0)], &[failed])
        })
        .run();
    assert_eq!(outcome.stdout, "\nzz/filternone.js\n\nzz/throwtop.js\n");
    assert_eq!(
        outcome.stderr,
        "run.js: 'zz/throwtop.js': exited with status 1\n\
         run.js: warning: 'zz/filternone.js' has no cases\n"
    );
    assert_eq!(outcome.status, 1);
}
