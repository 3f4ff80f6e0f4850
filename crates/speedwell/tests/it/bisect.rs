//! Bisection in a generated repository, with broken builds and killed searches.

use super::programs::PROGRAM;
use super::project::CommandResult;
use super::repository::{BENCH, COUNTED, TestRepository};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_fixtures::ImportedCommit;
use std::collections::BTreeSet;
use std::ops::Deref;

/// Builds the program `bench` with the time in `cost`; fails unless `broken` is empty.
const BUILD: &str = "test ! -s broken || { echo nothing to link >&2; exit 1; }
sed \"s/TIME/$(cat cost)/g\" bench.in > bench && chmod +x bench";

/// A repository with a sequence of commits, each with the time in microseconds that its program
/// takes.
struct LinearRepository {
    repository: TestRepository,
    ids: Vec<String>,
}

impl Deref for LinearRepository {
    type Target = TestRepository;

    fn deref(&self) -> &TestRepository {
        &self.repository
    }
}

impl LinearRepository {
    /// Creates commits with these costs; those whose number `is_broken` cannot be built. Their
    /// dates are in reverse, because the order of revisions is that of their parents. `None`, with
    /// a message, without git.
    fn new(costs: &[u32], is_broken: fn(usize) -> bool) -> Option<LinearRepository> {
        let program = PROGRAM
            .replace("NAMES", "BM_parse")
            .replace("BEFORE", COUNTED)
            .replace("BUILD", "release");
        let repository = TestRepository::new()?
            .with(".gitignore", "bench\nstarts\n")
            .with("bench.in", &program)
            .with("build.sh", BUILD);
        let commit = |(cost, number): (&u32, usize)| {
            let broken = if is_broken(number) { "yes" } else { "" };
            ImportedCommit {
                message: format!("number {number}"),
                unix_s: 1_800_000_000 - 1000 * number as i64,
                files: [("cost", cost.to_string()), ("broken", broken.to_owned())]
                    .map(|(path, text)| (path.to_owned(), text))
                    .into(),
            }
        };
        let mut commits = costs.iter().zip(1..).map(commit);
        let first = commits.next().unwrap();
        for (path, text) in &first.files {
            repository.write_file(path, text);
        }
        let mut ids = vec![repository.commit_at(first.unix_s, &first.message)];
        ids.extend(repository.import_changes(&commits.collect::<Vec<_>>()));
        Some(LinearRepository { repository, ids })
    }

    /// Forty revisions: slower by 5% from the 23rd on, and every fifth cannot be built.
    fn forty_revisions() -> Option<LinearRepository> {
        let cost = |number| if number >= 23 { 105 } else { 100 };
        let costs: Vec<u32> = (1..=40).map(cost).collect();
        LinearRepository::new(&costs, |number| number % 5 == 4)
    }

    /// The id of a commit, counted from 1.
    fn nth(&self, number: usize) -> &str {
        &self.ids[number - 1]
    }

    /// Its prefix, as shown in reports.
    fn short_id(&self, number: usize) -> &str {
        &self.nth(number)[..10]
    }

    /// The range from the first commit to the last.
    fn whole_range(&self) -> String {
        format!("{}..main", self.nth(1))
    }

    fn bisect(&self, range: &str, more: &[&str]) -> CommandResult {
        self.run(&[&["bisect", range], &BENCH[..], more].concat())
    }
}

#[test]
fn bisect_skips_failing_builds_and_leaves_the_checkout_unchanged() {
    let Some(repository) = LinearRepository::forty_revisions() else {
        return;
    };
    std::fs::write(repository.project.path("cost"), "mine").unwrap();
    let state = || {
        let ask = [["status", "--porcelain"], ["branch", "--list"], ["rev-parse", "HEAD"]];
        ask.map(|words| repository.run_git(&words))
    };
    let before = state();
    let answer = repository.bisect(&repository.whole_range(), &[]).expect_status(0);
    let sentence = format!("{} made it slower: +", repository.short_id(23));
    let parent = format!("confirming {0} against", repository.short_id(23));
    let passed = format!("cannot build {}; skipping it", repository.short_id(24));
    let answer = answer.expect_stdout(&[&sentence, "number 23", "confirmed", "nothing to link"]);
    answer.expect_stderr(&[&parent, &passed]);
    assert_eq!(state(), before);
    assert!(!repository.project.path("bench").exists());

    let json = repository.run(&["report", "@latest", "--format", "json"]).expect_status(0).json();
    assert_eq!((&json["found"], &json["range"]), (&true.into(), &repository.whole_range().into()));
    let change = &json["changes"][0];
    assert_eq!(change["revision"], repository.nth(23), "{json:#}");
    assert_eq!(change["before"], repository.nth(22));
    let share = change["change"].as_f64().unwrap();
    assert!((share - 0.05).abs() < 1e-3, "{share}");
    for format in ["md", "csv", "html"] {
        let page = repository.run(&["report", "@latest", "--format", format]).expect_status(0);
        page.expect_stdout(&[repository.short_id(23)]);
    }
}

/// Ten of the first seventy starts of a program or a build, in order; `SPEEDWELL_SEED` selects
/// others.
fn drawn_moments() -> String {
    let seed = std::env::var("SPEEDWELL_SEED");
    let seed = seed.map_or(1, |seed| seed.parse().unwrap());
    let mut drawn = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut moments = BTreeSet::new();
    while moments.len() < 10 {
        moments.insert(drawn.random_range(1..=70_u32));
    }
    let moments: Vec<String> = moments.iter().map(u32::to_string).collect();
    moments.join(" ")
}

#[test]
fn a_search_killed_ten_times_reaches_the_same_answer() {
    let Some(repository) = LinearRepository::forty_revisions() else {
        return;
    };
    let at = drawn_moments();
    let (whole, build) = (repository.whole_range(), format!("{COUNTED}\nsh build.sh"));
    let words = ["bisect", &whole, "--build", &build, "./bench"];
    let mut answer = repository.with_signal(&words, "KILL", &at);
    let mut kills = 0;
    while answer.status == -1 {
        kills += 1;
        assert!(kills <= 10, "{answer:?}");
        // Before the first build nothing is stored, and there is nothing to resume.
        let is_begun = repository.run(&["history", "--format", "csv"]);
        let again = match is_begun.stdout.lines().count() {
            0 | 1 => &words[..],
            _ => &["bisect", "--resume", "@latest"],
        };
        answer = repository.with_signal(again, "KILL", &at);
    }
    assert_eq!(kills, 10, "at {at}: {answer:?}");
    let sentence = format!("{} made it slower: +", repository.short_id(23));
    answer.expect_status(0).expect_stdout(&[&sentence]);
    let again = repository.run(&["bisect", "--resume", "@latest"]);
    again.expect_status(2).expect_stderr(&["is complete: nothing to resume"]);
}

#[test]
fn an_interrupted_or_over_budget_search_can_be_resumed() {
    let Some(repository) = LinearRepository::forty_revisions() else {
        return;
    };
    let whole = repository.whole_range();
    let words = [&["bisect", &*whole], &BENCH[..]].concat();
    let answer = repository.with_signal(&words, "INT", "45").expect_status(130);
    answer
        .expect_stdout(&["not found yet: with 95% confidence, the change is in one of"])
        .expect_stderr(&["resume with: speedwell bisect --resume @1"]);
    let refused = repository.run(&["run", "--resume", "@latest"]).expect_status(2);
    refused.expect_stderr(&["speedwell bisect --resume @1"]);
    let late = repository.run(&["bisect", "--resume", "@latest", "--budget", "1ms"]);
    late.expect_status(1).expect_stderr(&["the time budget is used up (--budget)", "--resume @1"]);
    let rest = ["bisect", "--resume", "@1", "--budget", "1h"];
    let sentence = format!("{} made it slower", repository.short_id(23));
    repository.run(&rest).expect_status(0).expect_stdout(&[&sentence]);
}

#[test]
fn a_gain_made_in_two_revisions_is_found_in_both() {
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
    let Some(repository) = LinearRepository::new(&costs, |_| false) else {
        return;
    };
    let answer = repository.bisect(&repository.whole_range(), &[]).expect_status(0);
    let parts = [4, 9].map(|number| format!("{} made it faster: -", repository.short_id(number)));
    answer.expect_stdout(&[&parts[0], &parts[1], "number 4", "number 9"]);
}

#[test]
fn a_merge_is_one_revision_unless_all_parents_are_followed() {
    let Some(repository) = LinearRepository::new(&[100; 3], |_| false) else {
        return;
    };
    repository.create_branch("topic").commit_all("harmless");
    repository.write_file("cost", "110");
    let slower = repository.commit_all("the slow part of the topic");
    repository.commit_all("harmless again");
    repository.check_out("main").commit_all("meanwhile");
    let merged = repository.merge_branch("topic", "the topic");
    let range = repository.whole_range();
    let along_all: &[&str] = &["--all-parents"];
    for (more, at) in [(&[][..], &merged), (along_all, &slower)] {
        let found = repository.bisect(&range, more).expect_status(0);
        found.expect_stdout(&[&format!("{} made it slower: +", &at[..10])]);
    }
}

#[test]
fn a_range_with_similar_ends_is_not_searched() {
    let costs = [100; 6];
    let Some(repository) = LinearRepository::new(&costs, |_| false) else {
        return;
    };
    let answer = repository.bisect(&repository.whole_range(), &[]).expect_status(1);
    answer.expect_stdout(&["the ends do not differ by 2% or more"]);
    let answer = repository.bisect(&repository.whole_range(), &["--threshold", "7%"]);
    answer.expect_status(1).expect_stdout(&["do not differ by 7% or more"]);
}

#[test]
fn an_invalid_range_is_refused_with_a_hint() {
    let Some(repository) = LinearRepository::new(&[100; 4], |number| number == 4) else {
        return;
    };
    for number in 1..=4 {
        repository.run_git(&["tag", &format!("c{number}"), repository.nth(number)]);
    }
    repository.check_out("c2").create_branch("side").commit_all("aside");
    repository.check_out("main");
    let refused = |range: &str, expected: &[&str]| {
        repository.bisect(range, &[]).expect_status(2).expect_stderr(expected);
    };
    refused("c1", &["cannot parse range 'c1': expected GOOD..BAD", "hint: for example v1.4..HEAD"]);
    refused("c1...c3", &["expected GOOD..BAD"]);
    refused("c2..c2", &["'c2' and 'c2' are the same revision"]);
    refused("c3..c1", &["'c1' is an ancestor of 'c3'", "swap the ends: c1..c3"]);
    refused("side..c4", &["'side' and 'c4' are on different branches", "use the range "]);
    refused("c1..mian", &["in the range 'c1..mian'", "did you mean 'main'?"]);
    refused("c1..--all", &["in the range", "unknown revision '--all'"]);
    refused("c1..c4", &["cannot build revision 'c4'", "nothing to link"]);
    let several = repository.bisect("c1..c3", &["--runs", "5"]);
    several.expect_status(2).expect_stderr(&["determines the number of runs itself"]);
    assert_eq!(repository.run(&["history", "--format", "csv"]).stdout.lines().count(), 1);
}
