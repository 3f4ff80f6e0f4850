//! The command lines of `run.js`, `compare.js` and `scatter.js`: accepted and rejected arguments,
//! and the selected scripts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::drop_in::{DropIn, benchmark_folder, call, golden};

#[test]
fn without_arguments_the_usage_is_printed_and_the_status_is_1() {
    for tool in ["run.js", "compare.js", "scatter.js"] {
        let outcome = call(tool, "");
        assert_eq!(outcome.stderr, golden(&format!("usage-{tool}.txt")));
        assert_eq!((outcome.status, outcome.stdout.as_str()), (1, ""));
    }
    for arguments in ["--old a string_decoder", "--new b string_decoder", "--old a --new b"] {
        let outcome = call("compare.js", arguments);
        assert_eq!(outcome.stderr, golden("usage-compare.js.txt"), "{arguments}");
    }
    assert_eq!(call("scatter.js", "a.js b.js").stderr, golden("usage-scatter.js.txt"));
}

#[test]
fn help_includes_the_usage_of_the_original_and_the_help_option() {
    for tool in ["run.js", "compare.js", "scatter.js"] {
        let outcome = call(tool, "--help");
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
        assert!(outcome.stdout.starts_with(&golden(&format!("usage-{tool}.txt"))));
        assert!(outcome.stdout.contains("--help"));
    }
}

#[test]
fn an_option_after_the_first_group_is_taken_as_a_group() {
    let outcome = call("run.js", "zz --filter kill");
    assert_eq!(outcome.stderr, "The \"--filter\" category does not exist.\n");
    assert_eq!((outcome.status, outcome.stdout.as_str()), (1, ""));
    assert_eq!(call("run.js", "-filter kill -- zz").scripts(), ["zz/kill.js"]);
}

#[test]
fn wrong_groups_filters_and_formats_are_named() {
    for (arguments, message) in [
        ("nope", "The \"nope\" category does not exist.\n"),
        ("fixtures", "The \"fixtures\" category does not exist.\n"),
        ("--filter nothing zz", "No benchmarks found\n"),
        ("--format xml zz", "Invalid format detected\n"),
        ("--set n zz", "bad argument: n\n"),
    ] {
        let outcome = call("run.js", arguments);
        assert_eq!(outcome.stderr, message, "{arguments}");
        assert_eq!((outcome.status, outcome.stdout.as_str()), (1, ""));
        assert!(outcome.request.is_none());
    }
}

#[test]
fn unknown_options_are_errors_instead_of_swallowing_the_group() {
    for tool in ["run.js", "compare.js", "scatter.js"] {
        let outcome = call(tool, "--flter string_decoder");
        let usage = golden(&format!("usage-{tool}.txt"));
        assert_eq!(outcome.stderr, format!("{tool}: unknown option '--flter'\n{usage}"));
        assert_eq!(outcome.status, 1);
    }
}

#[test]
fn zero_runs_are_an_error_instead_of_a_crash() {
    for runs in ["0", "none"] {
        let outcome = call("compare.js", &format!("--old a --new b --runs {runs} zz"));
        assert_eq!(outcome.status, 1);
        let reason = "compare.js: the value of '--runs' must be a whole number above 0\n";
        assert!(outcome.stderr.starts_with(reason), "{}", outcome.stderr);
    }
}

#[test]
fn hidden_files_and_helpers_are_skipped_and_directories_count_as_scripts() {
    let scripts = "napi/string querystring/querystring-parse.js \
                   string_decoder/string-decoder-create.js string_decoder/string-decoder.js \
                   zz/kill.js";
    assert_eq!(call("run.js", "zz all").scripts().join(" "), scripts);
    assert_eq!(call("run.js", "zz napi zz").scripts(), ["zz/kill.js", "napi/string", "zz/kill.js"]);
}

#[test]
fn filters_look_at_file_names_only() {
    let scripts = |arguments: &str| call("run.js", arguments).scripts().join(" ");
    assert_eq!(
        scripts("--filter create --filter kill all"),
        "string_decoder/string-decoder-create.js zz/kill.js"
    );
    assert_eq!(
        scripts("--filter string --exclude create string_decoder"),
        "string_decoder/string-decoder.js"
    );
    assert_eq!(
        call("run.js", "--filter string_decoder string_decoder").stderr,
        "No benchmarks found\n"
    );
}

#[test]
fn the_folder_is_found_here_below_or_by_name() {
    let folder = benchmark_folder(&["benchmark/url/a.js", "url/outer.js"]);
    let inner = folder.path().join("benchmark");
    std::fs::write(inner.join("common.js"), "").unwrap();
    let scripts = |drop_in: DropIn| drop_in.run().scripts().join(" ");
    let run = |arguments: &str| DropIn::new("run.js", arguments).directory(folder.path());
    assert_eq!(scripts(run("url")), "url/outer.js", "the working directory has a common.js");
    assert_eq!(scripts(run("--dir benchmark url")), "url/a.js");
    let inner = inner.to_str().unwrap();
    assert_eq!(scripts(run("url").variable("SPEEDWELL_BENCHMARK_DIR", inner)), "url/a.js");
    std::fs::remove_file(folder.path().join("common.js")).unwrap();
    assert_eq!(scripts(run("url")), "url/a.js", "the folder below has one");
    std::fs::remove_dir_all(inner).unwrap();
    let outcome = run("url").run();
    assert_eq!(outcome.status, 1);
    assert!(outcome.stderr.contains("hint: name one with '--dir' or SPEEDWELL_BENCHMARK_DIR"));
}

#[test]
fn cpuset_selects_the_processors_and_is_still_passed_on() {
    let outcome = call("compare.js", "--old a --new b --set CPUSET=0,2-4 --set n=1 zz");
    let request = outcome.request.unwrap();
    assert_eq!(request.processors.as_deref(), Some("0,2-4"));
    assert_eq!(request.sets.len(), 2);
    let wrong = call("run.js", "--set CPUSET=all zz");
    assert_eq!(wrong.stderr, "CPUSET 'all' is not of the form '0', '0-2' or '0,2-4'\n");
}

#[test]
fn a_script_outside_the_folder_is_named_by_its_path() {
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::create_dir(elsewhere.path().join("mine")).unwrap();
    std::fs::write(elsewhere.path().join("mine/fast.js"), "").unwrap();
    let run = |path: &str| DropIn::new("scatter.js", path).directory(elsewhere.path()).run();
    let outcome = run("mine/fast.js");
    assert_eq!(outcome.scripts(), ["mine/fast.js"]);
    assert_eq!(outcome.request.unwrap().folder, None);
    assert!(run("mine/slow.js").stderr.starts_with("cannot read 'mine/slow.js': "));
}
