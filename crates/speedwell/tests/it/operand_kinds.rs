//! What the arguments of `compare` name: benchmarks and values of one file, revisions, programs and
//! commands. A wrong argument is answered with the command that works.

use super::project::{CommandResult, TempProject};
use super::repository::TestRepository;

const SLUG: &str = "case impl=regex size=1\n* 100 101 102\ncase impl=loop2 size=1\n* 1\n\
                    case impl=loop size=1\n* 200 201 202\ncase impl=loop size=2\n* 400\n";

fn project() -> TempProject {
    TempProject::new()
        .with("g/slug.fake", SLUG)
        .with("g/other.fake", "case impl=a\n* 1 2 3\n")
        .with("my results.json", "{}")
        .with("a.py", "print(1)\n")
        .with("b.py", "print(2)\n")
        .with("x_test.go", "package x\n")
        .with_program("node-18", "#!/bin/sh\ntouch started\n")
        .with_program("node-22", "#!/bin/sh\ntouch started\n")
}

/// The compared case, and the largest values of both sides.
fn compared(answer: CommandResult) -> (String, [f64; 2]) {
    let json = answer.expect_status(0).json();
    let change = &json["changes"][0];
    let largest = |side: &str| {
        let values = change[side].as_array().unwrap().iter().map(|value| value.as_f64().unwrap());
        values.fold(0.0, f64::max)
    };
    let case = change["case"].as_str().unwrap().to_owned();
    (case, ["baseline_values", "candidate_values"].map(largest))
}

#[test]
fn benchmarks_and_values_of_one_file_are_variants_of_one_session() {
    let project = project();
    for words in [
        &["compare", "g/slug.fake::impl=regex", "g/slug.fake::loop"][..],
        &["compare", "g/slug.fake::regex", "g/slug.fake::impl=loop"],
        &["compare", "g/slug.fake", "--by", "impl=regex,loop"],
        &["run", "g/slug.fake", "--by", "impl=loop,regex", "--baseline", "regex"],
    ] {
        let answer = project.run(&[words, &["-r", "3", "--json"]].concat());
        let (case, values) = compared(answer);
        assert_eq!((case.as_str(), values), ("g/slug.fake size=1", [102.0, 202.0]), "{words:?}");
    }
    // The same among results.
    project.run(&["run", "g/slug.fake::size=1", "-r", "3"]).expect_status(0);
    let stored = ["compare", "@latest::impl=regex", "@latest::impl=loop", "--json"];
    assert_eq!(compared(project.run(&stored)).1, [102.0, 202.0]);
    let listed = project.run(&["run", "g/slug.fake::regex", "--list"]).expect_status(0);
    assert!(!listed.stdout.contains("loop"), "{listed:#?}");
}

#[test]
fn values_are_lines_of_a_study() {
    let project = project();
    for command in ["run", "compare"] {
        let words = [command, "g/slug.fake", "--x-axis", "size", "--by", "impl", "-r", "1"];
        let csv = project.run(&[&words[..], &["--format", "csv"]].concat()).expect_status(0).stdout;
        for line in ["regex", "loop2", "loop"] {
            let points = csv.lines().filter(|row| row.split(',').any(|cell| cell == line)).count();
            assert_eq!(points, if line == "loop" { 2 } else { 1 }, "{command} {line}: {csv}");
        }
    }
}

#[test]
fn commands_and_executables_are_timed_and_compared() {
    let project = TempProject::new()
        .with_program("first", "#!/bin/sh\n:\n")
        .with_program("second", "#!/bin/sh\n:\n");
    for sides in [["sh -c :", "sh -c true"], ["./first", "./second"]] {
        let words = [&["compare"], &sides[..], &["-r2", "-t1ms", "--json"]].concat();
        let json = project.run(&words).expect_status(0).json();
        let codes = json["codes"].as_array().unwrap();
        let names: Vec<&str> = codes.iter().filter_map(|code| code["code"].as_str()).collect();
        assert_eq!((names, json["changes"].as_array().unwrap().len()), (sides.to_vec(), 1));
    }
}

#[test]
fn a_wrong_argument_is_answered_with_the_command_that_works() {
    let project = project();
    project.run(&["run", "g/slug.fake", "-r", "1", "-q"]).expect_status(0);
    for (line, expected) in [
        ("g/slug.fake impl=a impl=b", "speedwell compare g/slug.fake --by impl=a,b"),
        ("g/slug.fake -s impl=a,b", "speedwell compare g/slug.fake --by impl=a,b"),
        ("g/slug.fake --by impl -s impl=a,b", "--by and 'impl=a,b' both set 'impl'"),
        ("g/slug.fake --by impl --variant a=true --variant b=true", "use one"),
        ("g/slug.fake --by impl --variant a=", "--by and --variant both name variants; use one"),
        ("g/slug.fake --by impl --by size", "a second --by also names variants"),
        ("g/slug.fake --by imp", "did you mean 'impl'?"),
        ("@latest --by impl", "speedwell compare @latest::A @latest::B"),
        ("g/slug.fake::regex g/slug.fake::impl=x", "'::impl=x' matches nothing; cases: impl="),
        ("g/slug.fake::regex g/other.fake::a", "benchmarks of different files"),
        ("x_test.go::A x_test.go::B", "hint: speedwell compare .::A .::B"),
        ("a.py b.py", "speedwell compare 'python3 a.py' 'python3 b.py'"),
        ("--old a.py --new b.py g", "speedwell time 'python3 a.py' 'python3 b.py'"),
        ("./node-18 ./node-22 g/slug.fake", "--old ./node-18 --new ./node-22 g/slug.fake"),
        ("ls cat g/slug.fake", "speedwell compare --old ls --new cat g/slug.fake"),
        ("ls cat", "hint: speedwell time ls cat"),
        ("my~reslts.json true~1", "did you mean the file 'my results.json'?"),
        ("sleep~1 @latest", "cannot compare a command with a stored result"),
        ("sleep~1", "'sleep 1' alone cannot be compared"),
        ("http://a/ http://b/", "speedwell load http://a/ http://b/"),
        ("nothing-here other", "no file, program or revision"),
    ] {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('~', " ")).collect();
        let typed = words.iter().map(String::as_str);
        let arguments: Vec<&str> = std::iter::once("compare").chain(typed).collect();
        let answer = project.run(&arguments).expect_status(2);
        assert!(answer.stderr.contains(expected), "{line}: {answer:#?}");
    }
    assert!(!project.path("started").exists(), "a program was started to learn its kind");
}

#[test]
fn names_of_revisions_are_answered_with_revisions() {
    let Some(repository) = TestRepository::with_program("100") else {
        return;
    };
    repository.create_branch("sort");
    for (line, expected) in [
        ("main sort", "cannot find 'main': no file; it is a branch"),
        ("main sort", "hint: speedwell compare --old rev:main --new rev:sort ."),
        ("main..sort .", "it is a range of revisions"),
        ("main nosuch .", "cannot find 'nosuch': no file, program or revision"),
        ("HEAD main .", "speedwell compare --old rev:HEAD --new rev:main ."),
        ("rev:main rev:sort", "speedwell compare --old rev:main --new rev:sort ."),
        ("--old sort --new main .", "and a branch; write rev:sort or "),
    ] {
        let words: Vec<&str> = std::iter::once("compare").chain(line.split(' ')).collect();
        let answer = repository.run(&words).expect_status(2);
        assert!(answer.stderr.contains(expected), "{line}: {answer:#?}");
    }
}
