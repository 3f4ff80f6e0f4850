//! Phases that are executed one after the other, with their output, results and times. What runs at
//! the same time is another sequence, whose output is kept until it can be shown in one piece.

use crate::command::{self, Finished};
use crate::summary::{PhaseTime, Summary};
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

/// The output, findings and costs of the phases.
pub(crate) struct Sequence<'a> {
    screen: &'a mut dyn Write,
    /// Processor time of the programs that ended.
    cpu: Duration,
    /// Results so far.
    pub(crate) summary: Summary,
}

impl Sequence<'_> {
    pub(crate) fn new(screen: &mut dyn Write) -> Sequence<'_> {
        Sequence { screen, cpu: Duration::ZERO, summary: Summary::default() }
    }

    /// Executes phases whose output is kept; returns it and the results.
    pub(crate) fn kept(phases: impl FnOnce(&mut Sequence<'_>)) -> (Vec<u8>, Summary) {
        let mut screen = Vec::new();
        let mut sequence = Sequence::new(&mut screen);
        phases(&mut sequence);
        let summary = sequence.summary;
        (screen, summary)
    }

    /// Shows the output of another sequence and adds its results.
    pub(crate) fn append(&mut self, (output, summary): (Vec<u8>, Summary)) {
        self.show(&output);
        self.summary.append(summary);
    }

    /// Prints a line.
    pub(crate) fn say(&mut self, line: &str) {
        self.show(format!("{line}\n").as_bytes());
    }

    fn show(&mut self, text: &[u8]) {
        // A closed screen must not end the tests.
        let _ = self.screen.write_all(text).and_then(|()| self.screen.flush());
    }

    /// Executes a program, whose output is shown.
    pub(crate) fn run(&mut self, command: &mut Command) -> Finished {
        let done = command::execute(command, self.screen);
        self.cpu += done.cpu;
        done
    }

    /// Executes a program whose standard output is for programs.
    pub(crate) fn run_for_data(&mut self, command: &mut Command) -> Finished {
        let done = command::execute_for_data(command, self.screen);
        self.cpu += done.cpu;
        done
    }

    /// Executes a phase and records its time.
    pub(crate) fn phase<T>(&mut self, name: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        self.say(&format!("\n== {name}"));
        let (begin, cpu_before) = (Instant::now(), self.cpu);
        let result = work(self);
        let (wall, cpu) = (begin.elapsed(), self.cpu - cpu_before);
        self.summary.times.push(PhaseTime { name: name.to_owned(), wall, cpu });
        result
    }

    /// A check that is not a test; counted only if it fails.
    pub(crate) fn must_hold(&mut self, name: &str, mut command: Command) {
        if self.phase(name, |sequence| sequence.run(&mut command)).status != 0 {
            let words: Vec<_> = std::iter::once(command.get_program())
                .chain(command.get_args())
                .map(|word| word.to_string_lossy())
                .collect();
            self.summary.complain(format!("{name}: '{}' failed", words.join(" ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::command;

    #[test]
    fn a_failed_check_is_named_and_the_output_of_a_sequence_is_kept() {
        let (screen, summary) = Sequence::kept(|sequence| {
            let mut check = command("sh");
            check.args(["-c", "echo bad; exit 1"]);
            sequence.must_hold("format", check);
            sequence.must_hold("nothing", command("true"));
        });
        assert_eq!(String::from_utf8(screen).unwrap(), "\n== format\nbad\n\n== nothing\n");
        assert!(summary.to_string().contains("failed: format: 'sh -c echo bad; exit 1' failed\n"));
        assert_eq!(summary.counts.failed, 1);
        let names: Vec<&str> = summary.times.iter().map(|phase| &*phase.name).collect();
        assert_eq!(names, ["format", "nothing"]);
    }
}
