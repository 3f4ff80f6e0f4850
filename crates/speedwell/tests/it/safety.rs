//! Untrusted files, names and figures, and how they are handled.

use super::busy::{ensure_holds, retry_busy};
use super::node_bad_children::still_running;
use super::project::{CommandResult, TempProject, node};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;

/// A user that is neither root nor the one who runs the tests.
const NOBODY: u32 = 65_534;

/// Whether the tests run as root, whom no permission check stops.
fn is_root() -> bool {
    speedwell_machine::process::effective_user_id() == 0
}

/// Names with escape sequences that clear a terminal, ring its bell and set its title.
const NAMES: &str = r#"{"context":{"date":"2024-01-01T00:00:00+00:00"},"benchmarks":[
{"name":"BM_a\u001b[2J\u0007\u0000b","run_name":"BM_a\u001b[2J\u0007\u0000b","run_type":"iteration","iterations":10,
"real_time":5.0,"cpu_time":5.0,"time_unit":"ns"},
{"name":"=cmd|' /C calc'!A0","run_name":"=cmd|' /C calc'!A0","run_type":"iteration","iterations":10,
"real_time":7.0,"cpu_time":7.0,"time_unit":"ns"}]}"#;

#[test]
fn untrusted_names_cannot_control_a_terminal_or_spreadsheet() {
    let project = TempProject::new().with("x.json", NAMES);
    for format in ["text", "md", "html"] {
        let answer = project.run(&["report", "x.json", "--format", format]);
        let shown = answer.expect_status(0).stdout;
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\0']), "{format}: {shown:?}");
        if format != "html" {
            assert!(shown.contains("\\x1b[2J") && shown.contains("\\x00b"), "{shown:?}");
        }
    }
    let csv = project.run(&["report", "x.json", "--format", "csv"]).expect_status(0).stdout;
    assert!(csv.lines().skip(1).all(|line| !line.starts_with('=')), "{csv}");
    assert!(csv.contains("'=cmd|' /C calc'!A0"), "{csv}");
    let answer = project.run(&["report", "x.json", "--filter", "\u{1b}[2J("]);
    assert!(!answer.stderr.contains('\u{1b}'), "{:?}", answer.stderr);
}

#[test]
fn a_definition_with_far_too_many_cases_is_refused() {
    let values: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let parameters: String =
        ('a'..='h').map(|name| format!("{name} = [{}]\n", values.join(","))).collect();
    let load = format!(
        "[benchmark.x]\nkind = \"load\"\nurl = \"http://127.0.0.1:1/\"\n[benchmark.x.parameters]\n{parameters}"
    );
    let command = format!(
        "schema = 2\n[[group]]\nname = \"g\"\nkind = \"command\"\n[group.target]\ncommand = [\"true\"]\n\
         [group.parameters]\n{parameters}"
    );
    for text in [load, command] {
        let answer = TempProject::new().with("x.toml", &text).run(&["run", "x.toml", "--list"]);
        let told = answer.expect_status(2);
        let told = format!("{}{}", told.stdout, told.stderr);
        assert!(told.contains("100 x 100 x 100") && told.contains("= 1e16 cases"), "{told}");
    }
}

#[test]
fn a_results_file_that_cannot_be_written_can_be_read() {
    let project = TempProject::new().with("a.fake", "case n=1\n* 10 11 12\n");
    project.run(&["run", "a.fake", "--runs", "3"]).expect_status(0);
    let db = project.path(".speedwell/results.db");
    let before = fs::read(&db).unwrap();
    let folder = project.path(".speedwell");
    let rights = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    rights(&project.path(""), 0o755);
    rights(&db, 0o444);
    rights(&folder, 0o555);
    let run = |words: &[&str]| {
        let mut command = project.command(words);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        match command.output() {
            Ok(output) => Some(CommandResult::from(output)),
            Err(error) => {
                eprintln!("skipped: another user may not execute the program: {error}");
                None
            }
        }
    };
    let answers =
        [run(&["history"]), run(&["report", "@1"]), run(&["run", "a.fake", "--runs", "1"])];
    rights(&folder, 0o755);
    let [Some(history), Some(report), Some(measured)] = answers else {
        return;
    };
    history.expect_status(0).expect_stdout(&["@1", "run a.fake"]);
    report.expect_status(0).expect_stdout(&["n=1"]);
    measured.expect_status(2).expect_stderr(&["is not writable", "hint: "]);
    assert_eq!(fs::read(&db).unwrap(), before);
}

#[test]
fn a_planted_harness_is_not_executed() {
    if node().is_none() {
        return;
    }
    let script = "const { createBenchmark } = require('speedwell');\n\
                  const bench = createBenchmark(main, { n: [10] });\n\
                  function main({ n }) { bench.start(); bench.end(n); }\n";
    let project = TempProject::new().with("g/tiny.js", script);
    let shared = project.path("tmp");
    fs::create_dir(&shared).unwrap();
    let run = || {
        let words = ["run", "g/tiny.js", "--runs", "1"];
        let mut command = project.command(&words);
        command.env_remove("HOME").env_remove("XDG_CACHE_HOME").env("TMPDIR", &shared);
        CommandResult::from(command.output().unwrap())
    };
    // The first run reveals the name of the harness, which an attacker knows from a program of his
    // own.
    run().expect_status(0);
    let cache =
        shared.join(format!("speedwell-{}", speedwell_machine::process::effective_user_id()));
    let harness = fs::read_dir(&cache).unwrap().flatten();
    let harness = harness
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains("harness-node-"));
    let planted = harness.unwrap().join("harness.cjs");
    let marker = project.path("planted");
    let code = format!("require('fs').writeFileSync({:?}, '')", marker.display().to_string());
    fs::write(&planted, code).unwrap();
    let is_given_away = chown(&cache, Some(NOBODY), None).is_ok();
    if !is_given_away {
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    }
    run().expect_status(0).expect_stderr(&["could plant code in it"]);
    assert!(!marker.exists(), "code of somebody else was executed");
}

/// An ab that records the permissions of the body's folder, and the body.
const SEES_BODY: &str = "#!/bin/sh
for word; do [ \"$take\" ] && file=$word; take=; [ \"$word\" = -p ] && take=1; done
stat -c %a \"$(dirname \"$file\")\" > \"$SEEN\"
cat \"$file\" >> \"$SEEN\"
exit 1
";

/// The shell execs the program, so its process id is the one that the attacker must guess.
const TRAP: &str =
    "d=$TMPDIR/speedwell-$$; mkdir \"$d\" && ln -s \"$VICTIM\" \"$d/body\" && exec \"$0\" \"$@\"";

/// Address of a server that responds to everything with two bytes.
fn start_server() -> String {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
            let _ = stream.write_all(head.as_bytes());
        }
    });
    url
}

#[test]
fn a_planted_link_at_the_path_of_a_body_is_not_followed() {
    let project = TempProject::new().with_program("ab", SEES_BODY);
    let project = project.with("victim", "precious").with("tmp/x", "");
    let mut words = vec!["load".to_owned(), start_server()];
    words.extend("-d BODY --client ab -n 1 -c 1 --no-save".split(' ').map(str::to_owned));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", TRAP, env!("CARGO_BIN_EXE_speedwell")]).args(words);
    let path = format!("{}:{}", project.path("").display(), std::env::var("PATH").unwrap());
    command
        .current_dir(project.path(""))
        .env("PATH", path)
        .env("TMPDIR", project.path("tmp"))
        .env("VICTIM", project.path("victim"))
        .env("SEEN", project.path("seen"));
    // The tool's output is not a report, which is an error; what matters happened before.
    let answer = CommandResult::from(command.output().unwrap());
    let text = |name: &str| fs::read_to_string(project.path(name)).unwrap_or_default();
    assert_eq!(text("victim"), "precious", "{answer:?}");
    assert_eq!(text("seen"), "700\nBODY", "{answer:?}");
    let left = fs::read_dir(project.path("tmp")).unwrap().flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().contains("scratch"));
    assert_eq!(left.count(), 0, "nothing is left behind");
}

#[test]
fn a_full_disk_ends_the_session_and_stored_runs_are_reported() {
    let cases: String = (0..200).map(|n| format!("case n={n}\n* {}\n", n + 1)).collect();
    let project = TempProject::new().with("many.fake", &cases);
    // Files must not exceed 1,200 blocks of 512 or 1024 bytes, which looks like a full disk to a
    // writer.
    let limited = "trap '' XFSZ; ulimit -f 1200; exec \"$0\" \"$@\"";
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", limited, env!("CARGO_BIN_EXE_speedwell"), "run", "many.fake", "--runs", "9"])
        .args(["--db", "own.db"])
        .current_dir(project.path(""));
    let answer = CommandResult::from(command.output().unwrap());
    let answer = answer.expect_status(2);
    let told = "completed runs are stored; resume with: speedwell run --resume @1 --db own.db";
    let answer = answer.expect_stderr(&["cannot store slot", told]);
    answer.expect_stdout(&["n=0"]);
    let listed = project.run(&["history", "--db", "own.db"]).expect_status(0);
    assert!(!listed.stdout.contains("running"), "{listed:?}");
    let resumed = project.run(&["run", "--resume", "@1", "--db", "own.db"]);
    resumed.expect_status(0);
}

/// A project with an experiment of this command, whose metric is what it prints as `took N ms`.
fn with_command(command: &str) -> TempProject {
    let text = format!(
        "schema = 2\n[[group]]\nname = \"g\"\nkind = \"command\"\nmetrics = [\"took\"]\n\
         [group.target]\ncommand = [\"sh\", \"-c\", '{command}']\n\
         [group.metric.took]\nregex = 'took (\\S+) ms'\nunit = \"ms\"\n"
    );
    TempProject::new().with("x.toml", &text)
}

const ONE_RUN: [&str; 4] = ["run", "x.toml", "--runs", "1"];

#[test]
fn impossible_figures_are_failures_with_the_reason() {
    let run = |figure: &str| with_command(&format!("echo took {figure} ms")).run(&ONE_RUN);
    run("5").expect_status(0);
    for (figure, why) in [("-5", "reported a negative time"), ("1e308", "its value is not finite")]
    {
        run(figure).expect_status(2).expect_stdout(&[why]);
    }
}

#[test]
fn every_process_that_a_command_leaves_behind_is_ended_and_named() {
    let left = "for n in $(seq 50); do sleep 4321.125 >/dev/null 2>&1 & done; echo took 5 ms";
    let answer = with_command(left).run(&ONE_RUN).expect_status(0);
    answer.expect_stdout(&["It left processes running, which were stopped: '"]);
    assert!(!still_running("4321.125"));
}

#[test]
fn processes_of_eval_hooks_live_until_the_end_unlike_those_of_runs() {
    // Each execution needs the service.
    let command = "kill -0 $(cat pid) && { sleep 4321.25 & }";
    let hook = ["--init", "sleep 4321.375 & echo $! > pid"];
    let short = ["--runs", "2", "-n", "1", "--iterations=2", "-w", "0"];
    // On a busy machine, a process may be stopped before its name is read.
    retry_busy(3, || {
        let project = TempProject::new();
        let words = [&["eval", "sh", command], &hook[..], &short].concat();
        let answer = project.run(&words).expect_status(0);
        assert_eq!(project.stored_runs(), 2);
        assert!(!still_running("4321.25") && !still_running("4321.375"));
        let is_named = answer.stdout.contains("It left processes running, which were stopped: '");
        ensure_holds(is_named, || answer.stdout.clone())
    });
}
