//! Reads the text of `perf script`: one paragraph per sample, with a line for thread and event,
//! then the stack with the innermost function first (perf-script(1)).
//!
//! The text is parsed line by line, because a recording of a few minutes takes up hundreds of
//! megabytes. Start at [`read`].

use super::FrameNames;
use anyhow::{Context, Result, bail};
use regex::Regex;
use speedwell_model::{ProfileTool, StackProfile, WeightUnit};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::BufRead;
use std::sync::LazyLock;

/// Maximum number of frames per stack. A longer stack keeps only its innermost frames.
const MAX_FRAMES: usize = 1000;

/// The line above a stack: `node 23391 47089.602086: 1003009 cpu-clock: `. Depending on the options
/// of perf, a process precedes the thread, a processor follows it, the weight is missing, or the
/// event has modifiers.
static HEADER: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the pattern is a constant, and every test compiles it")]
    Regex::new(
        r"^(\S.*?)\s+(-?\d+)(?:/(-?\d+))?\s+(?:\[\d+\]\s+)?(?:\d+\.\d+:\s+)?(?:(\d+)\s+)?(\S*[a-zA-Z]\S*?):\s*$",
    )
    .expect("the pattern is well formed")
});

/// Content of `perf script` output.
#[derive(Debug)]
pub struct PerfScript {
    /// The stacks of the samples.
    pub profile: StackProfile,
    /// Observed processes, if the text names them.
    pub processes: BTreeSet<i32>,
}

/// Returns whether the beginning of a file is `perf script` output: the header of a sample, then a
/// frame.
pub fn recognizes(beginning: &str) -> bool {
    let mut lines =
        beginning.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let (header, below) = (lines.next(), lines.next());
    header.is_some_and(|line| HEADER.is_match(line))
        && below.is_some_and(|line| parse_frame(line).is_some())
}

/// Parses the output. The weight of a stack is the sum of the weights of its samples: nanoseconds
/// for clock events, otherwise numbers of events. A sample for which no weight is stated has the
/// weight 1.
///
/// # Errors
/// Fails if reading fails, or there is no sample.
pub fn read(mut text: impl BufRead, names: &FrameNames) -> Result<PerfScript> {
    let mut reader = PerfReader {
        names,
        profile: StackProfile::new(ProfileTool::Perf, WeightUnit::Events),
        processes: BTreeSet::new(),
        sample: None,
        event: None,
        samples: 0,
        of_other_events: 0,
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = text.read_until(b'\n', &mut line);
        if read.context("cannot read the output of perf")? == 0 {
            break;
        }
        reader.read_line(&String::from_utf8_lossy(&line));
    }
    reader.into_script()
}

/// A sample whose stack is being read.
struct PerfSample {
    thread: String,
    weight: u64,
    /// Innermost first.
    frames: Vec<String>,
}

struct PerfReader<'a> {
    names: &'a FrameNames,
    profile: StackProfile,
    processes: BTreeSet<i32>,
    sample: Option<PerfSample>,
    /// The event of the first sample. Samples of other events are skipped.
    event: Option<String>,
    samples: u64,
    of_other_events: u64,
}

impl PerfReader<'_> {
    fn read_line(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            self.end_sample();
        } else if line.starts_with(char::is_whitespace) {
            if let (Some(sample), Some((symbol, module))) = (&mut self.sample, parse_frame(line))
                && sample.frames.len() < MAX_FRAMES
            {
                let name = self.names.shorten_function(&frame_name(symbol, module)).into_owned();
                sample.frames.push(name);
            }
        } else if let Some(header) = HEADER.captures(line) {
            self.end_sample();
            let text = |group: usize| header.get(group).map_or("", |part| part.as_str());
            // The header names the process only in the form `PROCESS/THREAD`; a single number is
            // the thread.
            if header.get(3).is_some()
                && let Ok(process) = text(2).parse()
            {
                self.processes.insert(process);
            }
            if self.event.get_or_insert_with(|| text(5).to_owned()) != text(5) {
                self.of_other_events += 1;
                return;
            }
            self.sample = Some(PerfSample {
                thread: self.names.shorten_thread(text(1)),
                weight: text(4).parse().unwrap_or(1),
                frames: Vec::new(),
            });
        }
    }

    fn end_sample(&mut self) {
        let Some(sample) = self.sample.take() else { return };
        self.samples += 1;
        let callers = sample.frames.iter().rev().map(String::as_str);
        let frames = [sample.thread.as_str()].into_iter().chain(callers);
        self.profile.add(frames, sample.weight);
    }

    fn into_script(mut self) -> Result<PerfScript> {
        self.end_sample();
        if self.samples == 0 {
            bail!(
                "it contains no samples\nhint: did the program use CPU time while it was recorded?"
            );
        }
        let event = self.event.unwrap_or_default();
        let (kind, modifiers) = event.split_once(':').unwrap_or((&event, ""));
        if kind == "cpu-clock" || kind == "task-clock" {
            self.profile.unit = WeightUnit::Nanoseconds;
        }
        if modifiers.contains('u') {
            let remark =
                "Kernel time was not recorded (kernel.perf_event_paranoid does not allow it).";
            self.profile.notes.push(remark.into());
        }
        if self.of_other_events > 0 {
            self.profile.notes.push(format!(
                "Only the event '{event}' is shown; {} samples of other events were left out.",
                self.of_other_events
            ));
        }
        self.profile.samples = Some(self.samples);
        Ok(PerfScript { profile: self.profile, processes: self.processes })
    }
}

/// Parses the function and the file of a frame: `\t   8e2a do_lookup_x (/usr/lib/ld-linux.so.2)`.
/// Both the function and the file may contain blanks and brackets.
fn parse_frame(line: &str) -> Option<(&str, &str)> {
    let (address, location) = line.trim().split_once(' ')?;
    if address.is_empty() || !address.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let location = location.trim().strip_suffix(')')?;
    let present = location.strip_suffix(" (deleted)").unwrap_or(location);
    present.rsplit_once(" (").map(|(symbol, module)| (symbol.trim(), module))
}

/// Returns the name of a frame. A function without a name is named after its file.
fn frame_name<'s>(symbol: &'s str, module: &'s str) -> Cow<'s, str> {
    let file = module.rsplit('/').next().unwrap_or_default();
    match symbol {
        "[unknown]" if !file.is_empty() && !file.starts_with('[') && file != "unknown" => {
            Cow::Owned(format!("[{file}]"))
        }
        "[unknown]" if file.starts_with('[') => Cow::Borrowed(file),
        symbol => Cow::Borrowed(symbol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# captured on some day
Web Content 11/12 [001] 47023.406179:    1003009 cpu-clock:u: 
\t            11ec heavy(int) const+0x1c (/opt/a b/two (deleted))
\t           2724a (anonymous namespace)::run (/usr/lib/libc.so.6)

Web Content 11/12 47023.506179:    1003009 cpu-clock:u: 
\tffffffff8100 [unknown] ([kernel.kallsyms])
\t           2724b [unknown] (/usr/lib/libc.so.6)

other-3 13/13 47023.606179:    1003009 page-faults: 
\t            11ec heavy (/opt/two)

";

    #[test]
    fn a_sample_is_a_stack_below_its_thread() {
        assert!(recognizes(TEXT));
        let script = read(TEXT.as_bytes(), &FrameNames::default()).unwrap();
        assert_eq!(
            script.profile.to_string(),
            "Web Content;(anonymous namespace)::run;heavy(int) const 1003009\n\
             Web Content;[libc.so.6];[kernel.kallsyms] 1003009\n"
        );
        assert_eq!(script.processes, BTreeSet::from([11, 13]));
        assert_eq!(script.profile.samples, Some(2));
        assert_eq!(script.profile.unit, WeightUnit::Nanoseconds);
        let remarks = script.profile.notes.join(" ");
        assert!(
            remarks.contains("kernel") && remarks.contains("1 samples of other events"),
            "{remarks}"
        );
    }

    #[test]
    fn headers_are_read_in_every_form() {
        for (line, thread, weight) in [
            ("node 23391 47089.602086:    1003009 cpu-clock: ", "node", "1003009"),
            ("node  23391 [000] 47089.602086: cycles:P:", "node", ""),
            (":-1 -1/-1 47089.602086: 250000 cycles:ppp: ", ":-1", "250000"),
            ("a b c 5/6 1 cycles: ", "a b c", "1"),
        ] {
            let found = HEADER.captures(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(&found[1], thread);
            assert_eq!(found.get(4).map_or("", |part| part.as_str()), weight);
        }
        assert!(!HEADER.is_match("[ perf record: Woken up 1 times to write data ]"));
    }
}
