//! First contact with the command: mistakes are reported before anything is measured, and an
//! obvious wrong name is answered with the right one.

use super::project::{CommandResult, TempProject, repository};
use super::web_server::WebServer;
use std::io::{BufReader, Read};
use std::process::{Command, Stdio};

const ONE_CASE: &str = "case n=1 k=a\n* 100 101 102 103 104 105 106 107\n";

fn project() -> TempProject {
    TempProject::new().with("g/one.fake", ONE_CASE)
}

#[test]
fn obvious_mistakes_are_answered_with_the_right_word() {
    let project = project()
        .with("b/copy.js", "require('speedwell').createBenchmark()")
        .with("b/other.js", "createBenchmark")
        .with("before.json", "{}")
        .with("b/notes.txt", "");
    std::os::unix::fs::symlink("/bin/true", project.path("tool")).unwrap();
    let say = |words: &[&str]| project.run(words).expect_status(2);
    say(&["rn", "x"]).expect_stderr(&["'run'"]);
    let answer = say(&["harness", "x"]);
    assert!(!answer.stderr.contains("harness-sh"), "{answer:#?}");
    let answer = say(&["worke", "x"]);
    assert!(!answer.stderr.contains("'worker'"), "{answer:#?}");
    let answer = say(&["load", "--worke", "1"]);
    assert!(!answer.stderr.contains("--worker"), "{answer:#?}");
    say(&["run", "b/cpoy.js"]).expect_stderr(&["hint: did you mean 'b/copy.js'?"]);
    say(&["run", "ls"]).expect_stderr(&["speedwell time ls"]);
    say(&["run", "ls -l /"]).expect_stderr(&["speedwell time 'ls -l /'"]);
    say(&["run", "./tool"]).expect_stderr(&["not a benchmark file", "speedwell time ./tool"]);
    say(&["compare", "b/copy.js", "b/other.js"]).expect_stderr(&[
        "'b/copy.js' is a benchmark, not a result",
        "compare --old PROGRAM --new PROGRAM b/copy.js",
        "speedwell run b/copy.js b/other.js",
    ]);
    say(&["compare", "ls", "cat"])
        .expect_stderr(&["'ls' is a program", "hint: speedwell time ls cat"]);
    say(&["compare", "./tool", "ls"]).expect_stderr(&["hint: speedwell time ./tool ls"]);
    say(&["compare", "b", "b"]).expect_stderr(&["'b' is a benchmark, not a result", "run b b"]);
    say(&["compare", "befor.json", "before.json"]).expect_stderr(&["did you mean 'before.json'?"]);
    say(&["as", "compare"]).expect_stderr(&["compare.js"]);
    say(&["history", "tred"]).expect_stderr(&["'trend'"]);
    // A hidden alias is not suggested, but the main name.
    say(&["load", "--rp", "1"]).expect_stderr(&["'--rate'"]);
    say(&["load", "--benchmarke"]).expect_stderr(&["unexpected argument"]);
    say(&["run", "x", "--filtr", "y"]).expect_stderr(&["--filter"]);
}

#[test]
fn an_argument_that_is_not_utf8_is_quoted_in_the_error() {
    use std::os::unix::ffi::OsStrExt;
    let project = project();
    let mut command = project.command(&["run"]);
    command.arg(std::ffi::OsStr::from_bytes(b"bad\xff.js"));
    CommandResult::from(command.output().unwrap())
        .expect_status(2)
        .expect_stderr(&[r#"argument "bad\xFF.js" is not valid UTF-8"#]);
}

#[test]
fn values_are_parsed_as_a_list_in_every_position() {
    let project =
        TempProject::new().with("g/n.fake", "case n=1\n* 1\ncase n=2\n* 1\ncase n=3\n* 1\n");
    for words in [&["n=1,3"][..], &["--set", "n=1,3"], &["-s", "n=1", "n=3"]] {
        let listed = project.run(&[&["run", "g", "--list"], words].concat()).expect_status(0);
        assert!(
            listed.stdout.contains("2 cases") && !listed.stdout.contains("n=2"),
            "{words:?}: {listed:#?}"
        );
    }
}

#[test]
fn the_last_occurrence_of_a_repeated_option_wins() {
    let project = project();
    project
        .run(&["run", "g", "--list", "--runs", "6", "--runs", "40", "-q", "-q"])
        .expect_status(0)
        .expect_stdout(&["40 runs"]);
}

#[test]
fn the_store_variable_can_be_combined_with_no_save() {
    let project = project();
    let run = |words: &[&str]| {
        let mut command = project.command(words);
        CommandResult::from(command.env("SPEEDWELL_DB", project.path("own.db")).output().unwrap())
    };
    run(&["run", "g", "--runs", "1", "--no-save"]).expect_status(0);
    assert!(!project.path("own.db").exists());
    run(&["run", "g", "--runs", "1"]).expect_status(0);
    assert!(project.path("own.db").exists());
    run(&["run", "g", "--db", "x.db", "--no-save"])
        .expect_status(2)
        .expect_stderr(&["cannot be used with"]);
}

#[test]
fn an_unwritable_home_is_reported_with_both_remedies() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.fake"), ONE_CASE).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_speedwell"));
    command.current_dir(&folder).args(["run", "one.fake"]).stdin(Stdio::null());
    command.env_remove("XDG_DATA_HOME").env_remove("SPEEDWELL_DB").env("HOME", "/proc/nowhere");
    CommandResult::from(command.output().unwrap())
        .expect_status(2)
        .expect_stderr(&["--db FILE", "--no-save"]);
}

#[test]
fn completions_load_in_bash() {
    let project = project();
    let script = project.run(&["completions", "bash"]).expect_status(0).stdout;
    std::fs::write(project.path("c.bash"), script).unwrap();
    let shell = "bash -n c.bash && . ./c.bash && complete -p speedwell && \
                 COMP_WORDS=(speedwell rep) COMP_CWORD=1 && _speedwell speedwell rep speedwell && echo ${COMPREPLY[@]}";
    let mut bash = Command::new("bash");
    let answer = bash.args(["--norc", "-c", shell]).current_dir(project.path("")).output();
    let Ok(answer) = answer else {
        eprintln!("skipped: there is no 'bash'");
        return;
    };
    CommandResult::from(answer)
        .expect_status(0)
        .expect_stdout(&["-F _speedwell", "speedwell\nreport\n"]);
    for shell in ["zsh", "fish"] {
        project.run(&["completions", shell]).expect_status(0).expect_stdout(&["calibrate"]);
    }
    let answer = project.run(&["completions", "bash"]);
    assert!(!answer.stdout.contains("harness-sh") && !answer.stdout.contains("--worker"));
}

#[test]
fn every_command_has_a_manual_page() {
    let project = project();
    project
        .run(&["man"])
        .expect_status(0)
        .expect_stdout(&[".TH speedwell 1", "speedwell\\-run(1)"]);
    project.run(&["man", "pages/man1"]).expect_status(0);
    for page in ["speedwell", "speedwell-run", "speedwell-history-trend"] {
        let page = project.path(&format!("pages/man1/{page}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{}", page.display());
        assert!(!text.contains("--benchmarker"), "{}", page.display());
    }
}

#[test]
fn the_terminal_shows_what_is_compiled() {
    // It exits by itself if nothing is shown.
    let slow =
        "#!/bin/sh\nfor i in $(seq 1500); do [ -e \"$DONE\" ] && break; sleep 0.02; done\nexit 1\n";
    let project =
        TempProject::new().with("x.cpp", "#include <speedwell.hpp>\n").with_program("slow", slow);
    let line = format!("'{}' run x.cpp --list", env!("CARGO_BIN_EXE_speedwell"));
    let mut terminal = Command::new("script");
    terminal
        .args(["--quiet", "--command", &line, "/dev/null"])
        .current_dir(project.path(""))
        .env("CXX", project.path("slow"))
        .env("DONE", project.path("done"))
        .env("XDG_CACHE_HOME", project.path("cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let Ok(mut child) = terminal.spawn() else {
        eprintln!("skipped: there is no 'script'");
        return;
    };
    let mut shown = Vec::new();
    for byte in BufReader::new(child.stdout.take().unwrap()).bytes() {
        shown.push(byte.unwrap_or_default());
        // The first one belongs to the harness.
        if shown.ends_with(b".cpp with slow") {
            std::fs::write(project.path("done"), "").unwrap();
        }
    }
    child.wait().unwrap();
    let shown = String::from_utf8_lossy(&shown);
    assert!(project.path("done").exists(), "{shown}");
    // Nothing of the line is left before the final message.
    let (_, end) = shown.rsplit_once("with slow").unwrap();
    assert!(end.contains("\u{1b}[K\r\u{1b}[K"), "{shown}");
}

#[test]
fn the_list_estimates_the_measuring_time_if_it_is_known() {
    let project = project();
    project
        .run(&["eval", "sh", "true", "--list", "--runs", "10"])
        .expect_status(0)
        .expect_stdout(&["1 case, 10 runs, about 3 s of measuring\n"]);
    project
        .run(&["eval", "sh", "true", "false", "--list"])
        .expect_stdout(&["1 case, up to 64 runs, up to 19 s of measuring\n"]);
    let toml = "[benchmark.hello]\nkind = \"load\"\nserve = \"true {port}\"\nurl = \"http://127.0.0.1:{port}/\"\n\
                duration = \"5s\"\nwarmup = \"500ms\"\n";
    let project = project.with("servers.toml", toml);
    project
        .run(&["run", "servers.toml", "--list", "--runs", "128"])
        .expect_status(0)
        .expect_stdout(&["1 case, 128 runs, about 12 min of measuring\n"]);
    project.run(&["run", "g", "--list"]).expect_stdout(&["1 case, 6 runs\n"]);
}

#[test]
fn written_pictures_are_listed_with_their_subject() {
    let words = ["run", "g", "--variant", "a=", "--variant", "b=", "-o", "x.svg", "-o", "x.csv"];
    project().run(&words).expect_status(0).expect_stderr(&["; --chart all draws 1 more)"]);
    let words = [&words[..], &["--chart", "all"]].concat();
    project().run(&words).expect_status(0).expect_stderr(&[
        "wrote 'x.svg' (",
        "wrote 'x-2.svg' (",
        "wrote 'x.csv'\n",
    ]);
}

#[test]
fn help_of_the_as_command_differs_from_help_of_its_tools() {
    let project = project();
    for help in ["-h", "--help"] {
        project.run(&["as", help]).expect_status(0).expect_stdout(&[
            "Usage: speedwell as <TOOL>",
            "compare.py",
            "hyperfine",
        ]);
        let own = project.run(&["as", "ab", help]).stdout;
        assert!(!own.contains("Usage: speedwell as <TOOL>"), "{own}");
    }
    project.run(&["as"]).expect_status(2);
}

#[test]
fn options_that_other_tools_have_are_understood() {
    let (project, server) = (project(), WebServer::start());
    let url = server.url("/");
    for words in [&["--connections", "2"][..], &["--rps", "200", "--vus", "2"]] {
        let load = ["load", &url, "--json", "--duration", "50ms", "--no-save"];
        let answer = project.run(&[&load, words].concat());
        assert!(answer.expect_status(0).json()["loads"].is_array());
    }
    project
        .run(&["run", "g", "--json", "--format", "csv"])
        .expect_status(2)
        .expect_stderr(&["cannot be used with"]);
    let sent = server.count();
    project.run(&["load", &url, "-d", "10s"]).expect_status(2).expect_stderr(&[
        "'-d 10s' would send '10s' as the body",
        &format!("hint: speedwell load {url} -t 10s"),
    ]);
    assert_eq!(server.count(), sent);
}

#[test]
fn a_load_is_not_resumed_and_the_reason_is_given() {
    let (project, server) = (project(), WebServer::start());
    let url = server.url("/");
    project.run(&["load", &url, "-n", "5"]).expect_status(0);
    project.run(&["run", "--resume", "@latest"]).expect_status(2).expect_stderr(&[
        "session @1 cannot be resumed: it was not measured in separate runs",
        &format!("load {url} -n 5"),
    ]);
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let project = project();
    let mut command = project.command(&["run", "g", "--runs", "1"]);
    for name in ["SPEEDWELL_DB", "SPEEDWELL_MACHINE", "SPEEDWELL_SERVER"] {
        command.env(name, "");
    }
    CommandResult::from(command.output().unwrap()).expect_status(0);
    assert_eq!(project.stored_runs(), 1);
}

#[test]
fn scripts_say_in_one_line_that_the_program_is_not_built() {
    let folder = tempfile::tempdir().unwrap();
    for script in ["bench-load", "bench-erlang", "check-squeeze", "check-paired", "noise-live"] {
        let mut command = Command::new(repository().join("eval").join(script));
        command.env("CARGO_TARGET_DIR", folder.path()).env_remove("SPEEDWELL");
        let Ok(answer) = command.output() else {
            eprintln!("skipped: '{script}' cannot be started here");
            continue;
        };
        let answer = CommandResult::from(answer).expect_status(2);
        let text = &answer.stderr;
        assert!(text.contains("build it with: cargo build"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
