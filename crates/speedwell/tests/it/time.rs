//! `speedwell time`, and what `time` and `load` answer to the options of other tools.

use super::project::TempProject;

fn read_lines(project: &TempProject, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(project.path(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn commands_are_compared_with_the_first_and_stored() {
    let project = TempProject::new();
    let words = ["time", "sleep 0.001", "sleep 0.002", "-r2", "-t1ms", "--json"];
    let json = project.run(&words).expect_status(0).json();
    let codes = json["codes"].as_array().unwrap();
    let names: Vec<&str> = codes.iter().filter_map(|code| code["code"].as_str()).collect();
    assert_eq!(names, ["sleep 0.001", "sleep 0.002"]);
    assert_eq!(json["changes"].as_array().unwrap().len(), 1);
    project.run(&["report", "@latest"]).expect_status(0).expect_stdout(&[
        "\ncommand ",
        "\nsleep 0.001 ",
        " baseline\n",
        "\nsleep 0.002 ",
        "\n2 runs a side in random blocks.\n",
    ]);
}

#[test]
fn words_after_two_hyphens_are_one_command() {
    let project = TempProject::new();
    let words = ["time", "-r1", "-t1ms", "--show-output", "--", "printf", "<%s>", "a|b $c", "-r"];
    let answer = project.run(&words).expect_status(0);
    answer.expect_stderr(&["<a|b $c><-r>"]);
}

#[test]
fn setup_and_cleanup_run_once_and_a_warm_up_in_every_run() {
    let project = TempProject::new();
    let command = "sh -c 'echo run >> log'";
    let hooks = ["--setup", "echo setup >> log", "--cleanup", "echo cleanup >> log"];
    let words = ["time", command, "-w2", "-r1", "--samples=1", "--iterations=1", "--no-save"];
    project.run(&[&words[..], &hooks].concat()).expect_status(0);
    let log = read_lines(&project, "log");
    let counts = ["setup", "cleanup"].map(|word| log.iter().filter(|line| *line == word).count());
    assert_eq!(
        (counts, log[0].as_str(), log[log.len() - 1].as_str()),
        ([1, 1], "setup", "cleanup")
    );
    assert!(log.len() >= 5, "{log:?}");
    let failing = ["time", "true", "--setup", "exit 3", "--cleanup", "touch cleaned"];
    project.run(&failing).expect_status(2).expect_stderr(&["--setup 'exit 3'", "3"]);
    assert!(!project.path("cleaned").exists(), "nothing was set up");
}

#[test]
fn parameters_preparation_and_shells_are_those_of_hyperfine() {
    let own_shell = "#!/bin/sh\necho shell >> log\nexec sh \"$@\"\n";
    let project = TempProject::new().with_program("own-shell", own_shell);
    for (command, options, expected) in [
        ("sh -c 'echo {n} >> log'", &["-P", "n", "1", "2"][..], &["1", "2"][..]),
        ("sh -c 'echo run >> log'", &["--prepare", "echo before >> log"], &["before", "run"]),
        ("echo run >> log", &["--shell", "./own-shell"], &["run", "shell"]),
        ("sh -c 'echo run >> log'", &["-N"], &["run"]),
    ] {
        let words = ["time", command, "-r1", "-t1ms", "--no-save"];
        project.run(&[&words[..], options].concat()).expect_status(0);
        let mut log = read_lines(&project, "log");
        std::fs::remove_file(project.path("log")).unwrap();
        let is_skipped = log[0] == "run" || log.windows(2).any(|pair| pair == ["run", "run"]);
        assert!(!is_skipped || options[0] != "--prepare", "{log:?}");
        log.sort();
        log.dedup();
        assert_eq!(log, expected, "{options:?}");
    }
}

#[test]
fn any_exit_status_is_accepted_on_request() {
    let project = TempProject::new();
    let words = ["time", "exit 3", "-r1", "-t1ms", "--no-save"];
    project.run(&words).expect_status(2);
    project.run(&[&words[..], &["-i"]].concat()).expect_status(0);
}

#[test]
fn wrong_guesses_are_answered_with_what_works() {
    let project = TempProject::new()
        .with("a.py", "open('ran', 'w')")
        .with("b.py", "")
        .with_program("my results.json", "#!/bin/sh\n");
    for (line, answer) in [
        ("time python3 a.py", "'a.py' is not a command\nhint: speedwell time 'python3 a.py'"),
        ("time sh a.py b.py", "hint: speedwell time 'sh a.py' 'sh b.py'"),
        ("time a.py b.py", "hint: speedwell time 'python3 a.py' 'python3 b.py'"),
        ("time grep needle", "hint: speedwell time 'grep needle'"),
        ("time 'my reslts.json'", "hint: did you mean the file 'my results.json'?"),
        ("time ls -l", "hint: speedwell time 'ls -l', or: speedwell time -- ls -l"),
        ("time 'sleep 1' -n a", "'-n' is --name here"),
        ("time sort -n x", "hint: speedwell time 'sort -n x', or:"),
        ("time true -p true", "'-p' is --prepare here"),
        ("time true -c true", "'-c' is --cleanup here"),
        ("time true -s true", "'-s' is --setup here"),
        ("time 'true a' --export-json=x", "hint: speedwell time 'true a' -o x.json"),
        ("time 'ls | cat' -N", "'ls | cat' needs a shell"),
        (
            "time 'sleep {n}' -L n 0,1 --setup 'echo {n}'",
            "--setup differs between commands: 'echo 0'",
        ),
        (
            "time true false --setup 'echo a' --setup 'echo b'",
            "between commands: 'echo a' and 'echo b'",
        ),
        ("run a.py -w 3", "such as 3s or 3ms"),
        ("load 500", "'500' is not an address\nhint: speedwell load URL --rate 500"),
        ("load -q 500 localhost:1", "hint: speedwell load --rate 500 localhost:1"),
        ("load localhost:1 -w 3", "such as 3s or 3ms"),
        ("load localhost:1 -z 1s", "'-z' is -t here\nhint: speedwell load localhost:1 -t 1s"),
        (
            "load localhost:1 -R100",
            "'-R' is --rate here\nhint: speedwell load localhost:1 --rate 100",
        ),
        ("load localhost:1 'p99>20ms'", "hint: speedwell load localhost:1 --fail-on 'p99>20ms'"),
        ("load localhost:1 'p(99)<200'", "write 'p99>200ms'"),
        ("load localhost:1 --fail-on 'p(99)<200'", "write 'p99>200ms'"),
        (
            "load localhost:1 --fail-on 'p99<20ms'",
            "'p99<20ms' fails if the load is fast\nhint: --fail-on 'p99>20ms'",
        ),
        ("load script.js", "hint: speedwell load URL\nhint: --requests FILE"),
        ("time sort -u words", "hint: speedwell time 'sort -u words', or:"),
        ("time 'true a' -S sh -u ms", "hint: speedwell time 'true a' --shell sh --unit ms"),
        (
            "time true --old rev:HEAD -r 2",
            "the long form of 'time', has it\nhint: speedwell eval sh true --old rev:HEAD -r 2",
        ),
    ] {
        let words = shell_words::split(line).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let stderr = project.run(&words).expect_status(2).stderr;
        assert!(stderr.contains(answer), "{line}: {stderr}");
    }
    assert!(!project.path("ran").exists(), "a command was executed");
}
