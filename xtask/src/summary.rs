//! Adds up results, and prints the end of the output: failures again, times, totals.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

/// Numbers of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// How long a phase took.
#[derive(Debug)]
pub(crate) struct PhaseTime {
    pub(crate) name: String,
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

/// Results of all phases.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) counts: Counts,
    /// Output of failed tests.
    pub(crate) words_of_failures: String,
    /// Names of tests that failed once and passed when retried.
    pub(crate) disturbed: Vec<String>,
    /// Failures that no test program counted, a sentence each.
    complaints: Vec<String>,
    /// In the order in which the phases of a sequence ended.
    pub(crate) times: Vec<PhaseTime>,
}

impl Summary {
    /// Records a failure that no test program counted.
    pub(crate) fn complain(&mut self, sentence: String) {
        self.complaints.push(sentence);
        self.counts.failed += 1;
    }

    /// Adds the results of phases that ran at the same time.
    pub(crate) fn append(&mut self, other: Summary) {
        self.counts += other.counts;
        self.words_of_failures += &other.words_of_failures;
        self.disturbed.extend(other.disturbed);
        self.complaints.extend(other.complaints);
        self.times.extend(other.times);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\n{}", self.words_of_failures)?;
        for name in &self.disturbed {
            writeln!(out, "disturbed: {name} failed once and passed when retried")?;
        }
        for sentence in &self.complaints {
            writeln!(out, "failed: {sentence}")?;
        }
        writeln!(out, "{:<38} {:>8} {:>8}", "phase", "wall s", "CPU s")?;
        for PhaseTime { name, wall, cpu } in &self.times {
            writeln!(out, "{name:<38} {:8.1} {:8.1}", wall.as_secs_f64(), cpu.as_secs_f64())?;
        }
        let Counts { passed, failed, skipped } = self.counts;
        writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_the_totals_of_all_sequences() {
        let mut all = Summary::default();
        all.counts += Counts { passed: 5, failed: 1, skipped: 2 };
        all.words_of_failures += "failures:\n\n---- a stdout ----\n";
        let mut beside = Summary::default();
        beside.complain("lints: 'cargo clippy' failed".to_owned());
        beside.disturbed.push("b".to_owned());
        let (wall, cpu) = (Duration::from_millis(1250), Duration::from_millis(40));
        beside.times.push(PhaseTime { name: "lints".to_owned(), wall, cpu });
        all.append(beside);
        let expected = "
failures:

---- a stdout ----
disturbed: b failed once and passed when retried
failed: lints: 'cargo clippy' failed
phase                                    wall s    CPU s
lints                                       1.2      0.0
5 passed, 2 failed, 2 skipped
";
        assert_eq!(all.to_string(), expected);
    }
}
