//! Reads the output of test programs: of Rust's test harness, of Node.js (TAP), of the Erlang
//! application.

use crate::summary::Counts;

/// Lines of failures that are shown again at the end, at most, per test program.
const SHOWN_LINES: usize = 400;

/// Adds up the result lines of Rust tests. A test that cargo counts as passed but that printed
/// `skipped: REASON` counts as skipped; this needs `--show-output`.
pub(crate) fn rust_counts(output: &str) -> Counts {
    let results = || output.lines().filter(|line| line.starts_with("test result: "));
    let sum = |word: &str| results().filter_map(|line| number_before(line, word)).sum::<usize>();
    let unable = count_unable(output);
    Counts {
        passed: sum("passed").saturating_sub(unable),
        failed: sum("failed"),
        skipped: sum("ignored") + unable,
    }
}

/// The last number before a word that starts with `word`.
fn number_before(line: &str, word: &str) -> Option<usize> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut pairs = words.windows(2).rev().filter(|pair| pair[1].starts_with(word));
    pairs.find_map(|pair| pair[0].parse().ok())
}

/// Number of tests that passed but printed `skipped: REASON`.
fn count_unable(output: &str) -> usize {
    let (mut is_passing, mut is_counted, mut total) = (false, false, 0);
    for line in output.lines() {
        if line == "successes:" {
            is_passing = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            is_passing = false;
        } else if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            is_counted = false;
        } else if is_passing && !is_counted && line.starts_with("skipped: ") {
            total += 1;
            is_counted = true;
        }
    }
    total
}

/// Names of the Rust tests that ended with this word, `ok` or `FAILED`.
pub(crate) fn tests_that<'a>(ended: &str, output: &'a str) -> Vec<&'a str> {
    let named = output.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    named.filter(|(_, end)| *end == ended).filter_map(|(name, _)| name.split(' ').next()).collect()
}

/// What the failed Rust tests printed: the text between the two lists of failures.
pub(crate) fn words_of_failures(output: &str) -> String {
    let (mut is_shown, mut lists, mut words, mut count) = (false, 0, String::new(), 0);
    for line in output.lines() {
        if line == "failures:" {
            lists += 1;
            is_shown = lists == 1;
        } else if line.starts_with("test result: ") {
            (is_shown, lists) = (false, 0);
        }
        if is_shown && count < SHOWN_LINES {
            words = words + line + "\n";
            count += 1;
        }
    }
    words
}

/// Cargo's sentences about warnings, one for each crate that has any.
pub(crate) fn warnings(output: &str) -> Vec<String> {
    let is_sum = |line: &&str| {
        line.starts_with("warning: ")
            && line.split_once(" generated ").is_some_and(|(_, rest)| {
                rest.split_once(" warning").is_some_and(|(count, _)| count.parse::<usize>().is_ok())
            })
    };
    output.lines().filter(is_sum).map(str::to_owned).collect()
}

/// The totals at the end of the TAP that Node.js writes.
pub(crate) fn node_counts(tap: &str) -> Counts {
    let last = |word: &str| {
        let numbers = tap.lines().rev().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["#", name, number] if name == word => number.parse::<usize>().ok(),
                _ => None,
            }
        });
        numbers.take(1).sum::<usize>()
    };
    Counts {
        passed: last("pass"),
        failed: last("fail") + last("cancelled"),
        skipped: last("skipped") + last("todo"),
    }
}

/// Number of tests in the last sentence `... N tests passed` of the Erlang application.
pub(crate) fn erlang_passes(output: &str) -> usize {
    let sentences =
        output.lines().filter(|line| line.contains("test passed") || line.contains("tests passed"));
    let mut numbers =
        sentences.flat_map(str::split_whitespace).filter_map(|word| word.parse().ok());
    numbers.next_back().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 6 tests
test load::works ... ok
test load::is_unable ... ok
test slow ... ignored, takes minutes
test broken - should panic ... FAILED
test wrong ... FAILED
test fine ... ok

successes:

---- load::is_unable stdout ----
skipped: 'wrk' is not installed
skipped: said twice

---- fine stdout ----
it was skipped: not at the start

successes:
    load::works
    load::is_unable
    fine

failures:

---- wrong stdout ----
assertion failed
skipped: does not count

failures:
    broken
    wrong

test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.01s
";

    const PASSED: &str =
        "test result: ok. 7 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out";

    #[test]
    fn passed_failed_ignored_and_skipped_tests_are_counted() {
        let counts = rust_counts(&format!("{OUTPUT}\n{PASSED}\n"));
        assert_eq!(counts, Counts { passed: 9, failed: 2, skipped: 4 });
    }

    #[test]
    fn a_program_that_died_has_no_counts() {
        assert_eq!(rust_counts("running 3 tests\ntest a ... ok\nfatal"), Counts::default());
    }

    #[test]
    fn tests_are_named_by_their_end() {
        assert_eq!(tests_that("FAILED", OUTPUT), ["broken", "wrong"]);
        assert_eq!(tests_that("ok", OUTPUT), ["load::works", "load::is_unable", "fine"]);
    }

    #[test]
    fn failures_are_shown_without_passes_and_lists() {
        let words = words_of_failures(&OUTPUT.repeat(2));
        let once =
            "failures:\n\n---- wrong stdout ----\nassertion failed\nskipped: does not count\n\n";
        assert_eq!(words, once.repeat(2));
        let long = format!("failures:\n{}test result: FAILED.\n", "line\n".repeat(1000));
        assert_eq!(words_of_failures(&long).lines().count(), SHOWN_LINES);
    }

    #[test]
    fn only_sums_of_warnings_count() {
        let output = "warning: unused variable: `x`\nwarning: the text generated some warnings\n\
                      warning: `xtask` (bin \"xtask\" test) generated 1 warning\n    Finished\n";
        assert_eq!(warnings(output), ["warning: `xtask` (bin \"xtask\" test) generated 1 warning"]);
    }

    #[test]
    fn the_totals_of_node_are_the_last_ones() {
        let tap = "# Subtest: pass 3\n# pass 99\nok 1\n# tests 9\n# pass 5\n# fail 1\n# cancelled 1\n\
                   # skipped 2\n# todo 1\n# duration_ms 12.3\n";
        assert_eq!(node_counts(tap), Counts { passed: 5, failed: 2, skipped: 3 });
        assert_eq!(node_counts(""), Counts::default());
    }

    #[test]
    fn the_tests_of_erlang_are_counted() {
        assert_eq!(erlang_passes("compiling\n  All 23 tests passed.\nok\n"), 23);
        assert_eq!(erlang_passes("crashed\n"), 0);
    }
}
