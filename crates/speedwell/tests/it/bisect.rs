//! The revision that changed a benchmark: found in a made repository, through broken builds and killed searches.

use super::harness_driver::tool;
use super::programs::PROGRAM;
use super::project::{Answer, Project};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Makes the program `bench` with the time that stands in `cost`; fails where there is a file `broken`.
const BUILD: &str = "test ! -e broken || { echo nothing to link >&2; exit 1; }
sed \"s/TIME/$(cat cost)/g\" bench.in > bench && chmod +x bench";

/// Counts the starts of the program in the file `$LOG`, and sends a signal to who has started it at some of them.
const COUNTED: &str = "echo start >> \"$LOG\"
case \" $AT \" in *\" $(wc -l < \"$LOG\") \"*) kill -$SIGNAL $PPID; sleep 100 ;; esac";

const BENCH: [&str; 3] = ["--build", "sh build.sh", "./bench"];

/// A repository of commits that are tagged `c1`, `c2` ..., each with the time in microseconds that its program takes.
struct Repository {
    project: Project,
    outside: tempfile::TempDir,
}

/// The time of revision `number` of forty: 5 % more from 23 on.
fn cost_of_forty(number: usize) -> u32 {
    if number >= 23 { 105 } else { 100 }
}

impl Repository {
    /// Commits with these costs; of those whose number `is_broken`, nothing can be built. `None`, said on stderr, without
    /// git.
    fn new(costs: &[u32], is_broken: fn(usize) -> bool) -> Option<Repository> {
        tool(&["git"])?;
        let program = PROGRAM
            .replace("NAMES", "BM_parse")
            .replace("BEFORE", COUNTED)
            .replace("BUILD", "release");
        let repository = Repository {
            project: Project::new(),
            outside: tempfile::tempdir().unwrap(),
        };
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        let mut stream = String::new();
        for (cost, number) in costs.iter().zip(1..) {
            stream += "commit refs/heads/main\n";
            // Dates in reverse: the order of revisions is that of their parents.
            let seconds = 1_800_000_000 - 1000 * number;
            stream += &format!("author Ann <a@b.example> {seconds} +0000\n");
            stream += &format!("committer Ann <a@b.example> {seconds} +0000\n");
            let subject = format!("number {number}");
            stream += &format!("data {}\n{subject}\n", subject.len());
            if number == 1 {
                for (name, text) in [
                    ("bench.in", program.as_str()),
                    ("build.sh", BUILD),
                    (".gitignore", ".speedwell\nbench\nstarts\n"),
                ] {
                    stream += &format!("M 644 inline {name}\ndata {}\n{text}\n", text.len());
                }
            }
            let cost = cost.to_string();
            stream += &format!("M 644 inline cost\ndata {}\n{cost}\n", cost.len());
            stream += match is_broken(number as usize) {
                true => "M 644 inline broken\ndata 0\n\n",
                false => "D broken\n",
            };
            stream += &format!("\nreset refs/tags/c{number}\nfrom refs/heads/main\n\n");
        }
        repository.import(&stream);
        repository.git(&["checkout", "--quiet", "main"]);
        Some(repository)
    }

    /// Forty revisions, of which the 23rd is slower, and every fifth cannot be built.
    fn forty() -> Option<Repository> {
        let costs: Vec<u32> = (1..=40).map(cost_of_forty).collect();
        Repository::new(&costs, |number| number % 5 == 4)
    }

    fn import(&self, stream: &str) {
        let mut git = Command::new("git");
        git.args(["fast-import", "--quiet", "--force"])
            .current_dir(self.project.path(""));
        let mut child = git.stdin(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(stream.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
    }

    fn git(&self, words: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b.example"])
            .args(words);
        let output = git.current_dir(self.project.path("")).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.outside.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.project.command(words);
        command
            .env("XDG_CACHE_HOME", self.outside("cache"))
            .env("LOG", self.outside("log"));
        command
    }

    fn run(&self, words: &[&str]) -> Answer {
        Answer::from(self.command(words).output().unwrap())
    }

    fn bisect(&self, range: &str, more: &[&str]) -> Answer {
        self.run(&[&["bisect", range], &BENCH[..], more].concat())
    }

    /// The same, with a signal to Speedwell from these starts of the program.
    fn interrupted(&self, words: &[&str], signal: &str, at: &str) -> Answer {
        let mut command = self.command(words);
        command.env("SIGNAL", signal).env("AT", at);
        Answer::from(command.output().unwrap())
    }

    fn id(&self, revision: &str) -> String {
        self.git(&["rev-parse", revision])
    }

    fn short(&self, revision: &str) -> String {
        self.id(revision)[..10].to_owned()
    }
}

#[test]
fn the_revision_is_found_though_every_fifth_build_fails_and_the_checkout_stays_as_it_was() {
    let Some(repository) = Repository::forty() else {
        return;
    };
    std::fs::write(repository.project.path("cost"), "mine").unwrap();
    let state = || {
        let ask = [
            ["status", "--porcelain"],
            ["branch", "--list"],
            ["rev-parse", "HEAD"],
        ];
        ask.map(|words| repository.git(&words))
    };
    let before = state();
    let answer = repository.bisect("c1..c40", &[]).expect_status(0);
    let sentence = format!("{} made it slower: +5.00", repository.short("c23"));
    let parent = format!("confirming {0} against", repository.short("c23"));
    let passed = format!("{} cannot be built: passed over", repository.short("c24"));
    let answer = answer.expect_stdout(&[
        &sentence,
        "Ann",
        "number 23",
        "confirmed",
        "nothing to link",
    ]);
    answer.expect_stderr(&[&parent, &passed]);
    assert_eq!(state(), before);
    assert!(!repository.project.path("bench").exists());

    let json = repository
        .run(&["report", "@latest", "--format", "json"])
        .expect_status(0)
        .json();
    assert_eq!(
        (&json["found"], &json["range"]),
        (&true.into(), &"c1..c40".into())
    );
    let change = &json["tables"]["changes"][0];
    assert_eq!(change["revision"], repository.id("c23"), "{json:#}");
    assert_eq!(change["before"], repository.id("c22"));
    let share = change["change"].as_f64().unwrap();
    assert!((share - 0.05).abs() < 1e-3, "{share}");
    for format in ["md", "csv", "html"] {
        let page = repository
            .run(&["report", "@latest", "--format", format])
            .expect_status(0);
        page.expect_stdout(&[&repository.short("c23")]);
    }
}

#[test]
fn a_search_that_is_killed_ten_times_comes_to_the_same_answer() {
    let Some(repository) = Repository::forty() else {
        return;
    };
    let at = "3 17 31 33 35 38 43 52 60 71";
    let words = [&["bisect", "c1..c40"], &BENCH[..]].concat();
    let mut answer = repository.interrupted(&words, "KILL", at);
    let mut kills = 0;
    while answer.status == -1 {
        kills += 1;
        answer = repository.interrupted(&["bisect", "--resume", "@latest"], "KILL", at);
    }
    assert_eq!(kills, 10, "{answer:?}");
    let sentence = format!("{} made it slower: +5.00", repository.short("c23"));
    answer.expect_status(0).expect_stdout(&[&sentence]);
    let again = repository.run(&["bisect", "--resume", "@latest"]);
    again
        .expect_status(2)
        .expect_stderr(&["is complete: nothing to resume"]);
}

#[test]
fn after_ctrl_c_and_at_the_end_of_the_budget_what_is_left_is_shown_and_can_be_resumed() {
    let Some(repository) = Repository::forty() else {
        return;
    };
    let words = [&["bisect", "c1..c40"], &BENCH[..]].concat();
    let answer = repository
        .interrupted(&words, "INT", "45")
        .expect_status(130);
    answer
        .expect_stdout(&["not found yet: with 95 % the change is in one of"])
        .expect_stderr(&["resume with: speedwell bisect --resume @1"]);
    let refused = repository
        .run(&["run", "--resume", "@latest"])
        .expect_status(2);
    refused.expect_stderr(&["speedwell bisect --resume @1"]);
    let late = repository.run(&["bisect", "--resume", "@latest", "--budget", "1ms"]);
    late.expect_status(1)
        .expect_stderr(&["the time of --budget is over", "--resume @1"]);
    let rest = ["bisect", "--resume", "@1", "--budget", "1h"];
    let sentence = format!("{} made it slower", repository.short("c23"));
    repository
        .run(&rest)
        .expect_status(0)
        .expect_stdout(&[&sentence]);
}

#[test]
fn a_gain_in_two_parts_is_found_in_both() {
    let costs: Vec<u32> = (1..=12)
        .map(|number| {
            if number >= 9 {
                80
            } else if number >= 4 {
                90
            } else {
                100
            }
        })
        .collect();
    let Some(repository) = Repository::new(&costs, |_| false) else {
        return;
    };
    let answer = repository.bisect("c1..c12", &[]).expect_status(0);
    let parts = ["c4", "c9"].map(|tag| format!("{} made it faster: -1", repository.short(tag)));
    answer.expect_stdout(&[&parts[0], &parts[1], "number 4", "number 9"]);
}

#[test]
fn ends_that_are_alike_are_not_searched() {
    let costs = [100; 6];
    let Some(repository) = Repository::new(&costs, |_| false) else {
        return;
    };
    let answer = repository.bisect("c1..c6", &[]).expect_status(1);
    answer.expect_stdout(&["the ends do not differ by 2 % or more"]);
    let answer = repository.bisect("c1..c6", &["--threshold", "7%"]);
    answer
        .expect_status(1)
        .expect_stdout(&["do not differ by 7 % or more"]);
}

#[test]
fn what_is_no_line_is_refused_with_both_ends_and_the_way_out() {
    let Some(repository) = Repository::new(&[100; 4], |number| number == 4) else {
        return;
    };
    repository.git(&["checkout", "--quiet", "-b", "side", "c2"]);
    repository.git(&["commit", "--quiet", "--allow-empty", "-m", "aside"]);
    repository.git(&["checkout", "--quiet", "main"]);
    let refused = |range: &str, expected: &[&str]| {
        repository
            .bisect(range, &[])
            .expect_status(2)
            .expect_stderr(expected);
    };
    refused(
        "c1",
        &["'c1' is not of the form GOOD..BAD", "hint: v1.4..HEAD"],
    );
    refused("c1...c3", &["not of the form GOOD..BAD"]);
    refused("c2..c2", &["'c2' and 'c2' are the same revision"]);
    refused(
        "c3..c1",
        &["'c1' comes before 'c3'", "the other way round: c1..c3"],
    );
    refused(
        "side..c4",
        &["'side' and 'c4' are on different lines", "..c4 is one line"],
    );
    refused(
        "c1..mian",
        &["in the range 'c1..mian'", "did you mean 'main'?"],
    );
    refused(
        "c1..--all",
        &["in the range", "git knows no revision '--all'"],
    );
    refused("c1..c4", &["cannot build revision 'c4'", "nothing to link"]);
    let several = repository.bisect("c1..c3", &["--runs", "5"]);
    several
        .expect_status(2)
        .expect_stderr(&["decides itself how many runs"]);
    assert_eq!(
        repository
            .run(&["history", "--format", "csv"])
            .stdout
            .lines()
            .count(),
        1
    );
}
