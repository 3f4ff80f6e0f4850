//! Executes Rust test programs, retries the few tests that a busy machine may have disturbed, and
//! counts.

use crate::build::TestProgram;
use crate::command::command;
use crate::output;
use crate::sequence::Sequence;

/// If more tests of a program fail, the machine is not the cause.
const MAX_RETRIED: usize = 5;

/// What test programs printed, and the last exit status that was not 0.
struct Attempt {
    output: String,
    status: i32,
}

/// Executes the tests of these programs that `arguments` choose. The output of passing tests is
/// shown, because it says whether they were skipped.
fn attempt(sequence: &mut Sequence<'_>, programs: &[TestProgram], arguments: &[&str]) -> Attempt {
    let mut attempt = Attempt { output: String::new(), status: 0 };
    for program in programs {
        sequence.say(&format!("     Running {}", program.path));
        let mut test = command(&program.path);
        let test = test.current_dir(&program.folder).arg("--show-output").args(arguments);
        let done = sequence.run(test);
        attempt.output += &done.output;
        if done.status != 0 {
            attempt.status = done.status;
        }
    }
    attempt
}

/// Executes tests and counts them; returns the output.
pub(crate) fn count_tests(
    sequence: &mut Sequence<'_>,
    name: &str,
    programs: &[TestProgram],
    arguments: &[&str],
) -> String {
    let attempt = attempt(sequence, programs, arguments);
    count(sequence, name, &attempt.output, attempt.status, 0);
    attempt.output
}

/// Like [`count_tests`] with a second try, one at a time, of up to [`MAX_RETRIED`] failures, because
/// a shared machine may take the processor away at any moment. A test that passes it counts as
/// passed and is listed as disturbed.
pub(crate) fn count_tests_with_retry(
    sequence: &mut Sequence<'_>,
    name: &str,
    programs: &[TestProgram],
    arguments: &[&str],
) -> String {
    let first = attempt(sequence, programs, arguments);
    let failed = output::tests_that("FAILED", &first.output);
    let mut disturbed = 0;
    if (1..=MAX_RETRIED).contains(&failed.len()) {
        sequence.say(&format!("\n== retry: {}", failed.join(" ")));
        let one_by_one = [&["--test-threads", "1", "--exact"], &failed[..]].concat();
        let second = attempt(sequence, programs, &one_by_one);
        // What a test starts may write between its name and its "ok", so that the line is torn.
        let all_pass =
            second.status == 0 && output::rust_counts(&second.output).passed == failed.len();
        let held = if all_pass { failed.clone() } else { output::tests_that("ok", &second.output) };
        disturbed = held.len();
        sequence.summary.disturbed.extend(held.into_iter().map(str::to_owned));
    }
    count(sequence, name, &first.output, first.status, disturbed);
    first.output
}

/// Adds the counts of an output; `disturbed` failures do not count.
pub(crate) fn count(
    sequence: &mut Sequence<'_>,
    name: &str,
    output: &str,
    status: i32,
    disturbed: usize,
) {
    let mut counts = output::rust_counts(output);
    let summary = &mut sequence.summary;
    if status != 0 && counts.failed == 0 {
        summary.complain(format!(
            "{name}: ended with status {status} (not built, or a test program died)"
        ));
    }
    counts.passed += disturbed;
    counts.failed = counts.failed.saturating_sub(disturbed);
    summary.counts += counts;
    summary.words_of_failures += &output::words_of_failures(output);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Counts, Summary};
    use std::path::PathBuf;

    /// A test program that is a shell script, removed at the end of the test.
    struct FakeProgram(PathBuf);

    impl FakeProgram {
        fn new(name: &str, script: &str) -> FakeProgram {
            let folder = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let path = folder.join("it-0");
            // Written by another process: a child that another thread forks meanwhile would keep
            // the file open for writing, so that it could not be executed.
            let write = r#"printf '#!/bin/sh\n%s\n' "$1" >"$0" && chmod +x "$0""#;
            let mut shell = std::process::Command::new("sh");
            assert!(shell.args(["-c", write]).arg(&path).arg(script).status().unwrap().success());
            FakeProgram(folder)
        }

        /// Executes it as the tests of a phase; returns what was shown and the results.
        fn count(&self) -> (String, Summary) {
            let path = self.0.join("it-0").to_string_lossy().into_owned();
            let programs = [TestProgram { path, folder: self.0.clone() }];
            let (screen, summary) = Sequence::kept(|sequence| {
                count_tests_with_retry(sequence, "fake", &programs, &["--test-threads", "4"]);
            });
            (String::from_utf8(screen).unwrap(), summary)
        }
    }

    impl Drop for FakeProgram {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_retry_is_counted_even_if_what_a_test_started_writes_into_its_line() {
        let script = r#"case "$*" in
             *--exact*)
               printf 'test shaky ... warning: busy\nok\n'
               echo 'test result: ok. 1 passed; 0 failed; 0 ignored' ;;
             *)
               echo 'test shaky ... FAILED'
               echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'
               exit 101 ;;
             esac"#;
        let (_, summary) = FakeProgram::new("torn", script).count();
        assert_eq!(summary.counts, Counts { passed: 1, ..Counts::default() });
        assert_eq!(summary.disturbed, ["shaky"]);
    }

    #[test]
    fn a_failure_that_passes_a_retry_is_disturbed_and_the_other_one_is_final() {
        let program = FakeProgram::new(
            "retried",
            r#"if [ "$*" = "--show-output --test-threads 1 --exact shaky wrong" ]; then
                   printf 'test shaky ... ok\ntest wrong ... FAILED\n'
                   echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'
               else
                   printf 'test shaky ... FAILED\ntest wrong ... FAILED\ntest fine ... ok\n'
                   printf 'failures:\n---- shaky stdout ----\nlate\nfailures:\n    shaky\n'
                   echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored'
               fi
               exit 101"#,
        );
        let (screen, summary) = program.count();
        assert!(screen.contains("\n== retry: shaky wrong\n"), "{screen}");
        assert_eq!(summary.counts, Counts { passed: 2, failed: 1, skipped: 0 });
        assert_eq!(summary.disturbed, ["shaky"]);
        assert!(summary.words_of_failures.contains("late\n"));
    }

    #[test]
    fn more_failures_than_five_are_not_retried() {
        let program = FakeProgram::new(
            "broken",
            "for i in 1 2 3 4 5 6; do echo \"test t$i ... FAILED\"; done\n\
             echo 'test result: FAILED. 0 passed; 6 failed; 0 ignored'; exit 101",
        );
        let (screen, summary) = program.count();
        assert!(!screen.contains("retry"), "{screen}");
        assert_eq!(summary.counts, Counts { passed: 0, failed: 6, skipped: 0 });
    }

    #[test]
    fn a_program_that_died_counts_as_one_failure() {
        let (screen, summary) =
            FakeProgram::new("died", "echo 'test a ... ok'; kill -11 $$").count();
        assert!(screen.ends_with("test a ... ok\n"), "{screen}");
        assert_eq!(summary.counts, Counts { passed: 0, failed: 1, skipped: 0 });
        let sentence = "failed: fake: ended with status 139 (not built, or a test program died)\n";
        assert!(summary.to_string().contains(sentence), "{summary}");
    }

    #[test]
    fn tests_run_in_the_folder_of_their_package() {
        let program = FakeProgram::new("folder", "pwd; echo 'test result: ok. 1 passed; 0 failed'");
        let (screen, summary) = program.count();
        assert!(screen.contains(&format!("\n{}\n", program.0.display())), "{screen}");
        assert_eq!(summary.counts, Counts { passed: 1, failed: 0, skipped: 0 });
    }
}
