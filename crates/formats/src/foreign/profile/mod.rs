//! Reads profiles, which are recordings of where a program spends its time, into [`StackProfile`]s.
//!
//! Detects the format from the content of a file: text of `perf script`, `.cpuprofile` of V8, or
//! folded stacks. B. Gregg's stackcollapse programs and their successors write folded stacks, with
//! one stack per line: `outermost;...;innermost WEIGHT`. This module knows nothing about how
//! recordings are made. Start at [`read_profile`]; [`FrameNames::shorten_function`] shortens the
//! names of frames.

use crate::foreign::json::JsonContent;
use crate::foreign::{file_beginning, require_utf8};
use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use serde::Deserialize;
use speedwell_model::{ProfileTool, StackProfile, WeightUnit};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io::BufRead;
use std::sync::LazyLock;

mod frame_names;

pub use frame_names::FrameNames;

/// Magic number of `perf record` files (tools/perf/util/header.c of Linux).
const PERF_MAGIC: &[u8] = b"PERFILE2";

/// Reads a recording. Returns `None` if its format is not supported.
///
/// # Errors
/// Fails if the recording is invalid, or is a perf file that has not been converted to text.
pub fn read_profile(bytes: &[u8], names: &FrameNames) -> Result<Option<StackProfile>> {
    if bytes.starts_with(PERF_MAGIC) {
        bail!(
            "it is a binary perf.data file, which only perf can read, on the machine that recorded it\n\
             hint: convert it to text first: perf script -i FILE > FILE.txt"
        );
    }
    if recognizes_cpu_profile(beginning_lines(bytes)) {
        return read_cpu_profile(require_utf8(bytes)?, names).map(Some);
    }
    let beginning = String::from_utf8_lossy(beginning_lines(bytes));
    if recognizes_perf_script(&beginning) {
        // The bytes need not be UTF-8: a function name may be arbitrary bytes, and one bad name
        // must not make the others unreadable.
        let script = read_perf_script(bytes, names)?;
        return Ok(Some(script.profile));
    }
    if are_folded_stacks(&beginning) {
        return read_folded(&String::from_utf8_lossy(bytes), names).map(Some);
    }
    Ok(None)
}

/// Returns the beginning of a file, cut at the end of a line if possible.
fn beginning_lines(bytes: &[u8]) -> &[u8] {
    let start = file_beginning(bytes);
    let end = start.iter().rposition(|&byte| byte == b'\n').filter(|_| start.len() < bytes.len());
    &start[..end.unwrap_or(start.len())]
}

/// Returns whether the beginning of a file consists of folded stacks: every line ends with a
/// weight, and at least one is a stack with several frames.
fn are_folded_stacks(beginning: &str) -> bool {
    let mut lines = content_lines(beginning).peekable();
    let some_are_stacks = beginning.contains(';');
    lines.peek().is_some()
        && some_are_stacks
        && lines.all(|(_, line)| split_stack_line(line).is_some())
}

/// Parses folded stacks.
///
/// # Errors
/// Fails if a line has no weight, or the weights add up to 0.
fn read_folded(text: &str, names: &FrameNames) -> Result<StackProfile> {
    let mut profile = StackProfile::new(ProfileTool::Folded, WeightUnit::Unknown);
    for (number, line) in content_lines(text) {
        let (stack, weight) = split_stack_line(line)
            .with_context(|| format!("line {number} is not a stack with a weight"))?;
        let frames: Vec<_> = stack.split(';').map(|frame| names.shorten_function(frame)).collect();
        profile.add(frames.iter().map(AsRef::as_ref), weight);
    }
    ensure!(profile.total() != 0, "the weights of its stacks add up to 0");
    Ok(profile)
}

/// Returns the lines that are neither blank nor comments, each with its number.
fn content_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
}

/// Splits a line into stack and weight. Fractional weights, which some programs write, are rounded.
fn split_stack_line(line: &str) -> Option<(&str, u64)> {
    let (stack, weight) = line.trim_end().rsplit_once(' ')?;
    let count = weight.parse().ok();
    let weight = count.or_else(|| {
        let fraction: f64 = weight.parse().ok()?;
        (fraction.is_finite() && fraction >= 0.0).then(|| fraction.round() as u64)
    })?;
    (!stack.trim().is_empty()).then_some((stack, weight))
}

/// Name of the frame for idle time. Samples in this frame are skipped, because idle time is not a
/// cost.
const IDLE_FRAME: &str = "(idle)";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CpuProfileFile {
    nodes: Vec<CpuProfileNode>,
    end_time: i64,
    start_time: i64,
    samples: Vec<u64>,
    time_deltas: Vec<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CpuProfileNode {
    id: u64,
    call_frame: CallFrame,
    #[serde(default)]
    children: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame {
    function_name: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    line_number: i64,
}

/// Returns whether a file with this beginning is a `.cpuprofile` file.
fn recognizes_cpu_profile(beginning: &[u8]) -> bool {
    if !beginning.trim_ascii_start().starts_with(b"{") {
        return false;
    }
    let beginning = JsonContent::new(beginning);
    beginning.has_key(1, "nodes") && beginning.has_key(3, "callFrame")
}

/// Parses a `.cpuprofile` file of V8's own profiler, as written by `node --cpu-prof` and browsers
/// (<https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile>).
///
/// Weights are microseconds, not counts of samples, because V8 takes samples at irregular intervals.
///
/// # Errors
/// Fails if the JSON is invalid, refers to a missing node, has a cycle of nodes, or contains no
/// samples.
fn read_cpu_profile(text: &str, names: &FrameNames) -> Result<StackProfile> {
    let file: CpuProfileFile = serde_json::from_str(text).context("it is not a V8 profile")?;
    let stacks = CallStacks::from_nodes(&file.nodes, &names.or_infer_home(own_files(&file.nodes)));
    let mut profile = StackProfile::new(ProfileTool::V8, WeightUnit::Microseconds);
    let mut samples = 0;
    for (&node, weight) in file.samples.iter().zip(sample_weights_us(&file)) {
        let frames = stacks.frames_of_node(node)?;
        if frames.first().is_some_and(|frame| *frame == IDLE_FRAME) {
            continue;
        }
        samples += 1;
        profile.add(frames, weight);
    }
    ensure!(samples != 0, "it contains no samples");
    profile.samples = Some(samples);
    Ok(profile)
}

/// Returns the paths of the program's own files, from which its home folder is inferred. Files of
/// installed packages are excluded, because they may be outside that folder.
fn own_files(nodes: &[CpuProfileNode]) -> impl Iterator<Item = &str> {
    let urls = nodes.iter().map(|node| node.call_frame.url.as_str());
    let paths = urls.map(|url| url.strip_prefix("file://").unwrap_or(url));
    paths.filter(|path| path.starts_with('/') && !path.contains("/node_modules/"))
}

/// Returns the weight of each sample: the time until the next sample or, for the last sample, until
/// the end of the recording. V8 stores the time since the previous sample instead. This time is
/// negative if the clock jumps back; the weight is then 0.
fn sample_weights_us(file: &CpuProfileFile) -> impl Iterator<Item = u64> {
    let total = file.end_time.saturating_sub(file.start_time);
    let sum = file.time_deltas.iter().fold(0_i64, |a, b| a.saturating_add(*b));
    let after_last = total.saturating_sub(sum);
    let following = file.time_deltas.iter().skip(1).copied();
    following.chain([after_last]).map(|delta_us| u64::try_from(delta_us).unwrap_or(0))
}

/// The call tree: the name and the parent of each node, by the id of the node.
struct CallStacks {
    names: HashMap<u64, String>,
    parents: HashMap<u64, u64>,
}

impl CallStacks {
    fn from_nodes(nodes: &[CpuProfileNode], names: &FrameNames) -> CallStacks {
        let name = |node: &CpuProfileNode| (node.id, node.call_frame.frame_name(names));
        let parents =
            nodes.iter().flat_map(|node| node.children.iter().map(move |id| (*id, node.id)));
        CallStacks { names: nodes.iter().map(name).collect(), parents: parents.collect() }
    }

    /// Returns the frames of a node, outermost first. The root is not a function, so it is a frame
    /// only if the node is the root itself.
    fn frames_of_node(&self, node: u64) -> Result<Vec<&str>> {
        let mut frames = Vec::new();
        let mut current = node;
        loop {
            let found = self.names.get(&current);
            let name = found.with_context(|| format!("node {current} does not exist"))?;
            let Some(parent) = self.parents.get(&current) else { break };
            frames.push(name.as_str());
            ensure!(frames.len() <= self.names.len(), "node {current} is its own ancestor");
            current = *parent;
        }
        if frames.is_empty() {
            frames.extend(self.names.get(&node).map(String::as_str));
        }
        frames.reverse();
        Ok(frames)
    }
}

impl CallFrame {
    /// Formats `name file:line`. Line numbers stored in a `.cpuprofile` file start at 0.
    fn frame_name(&self, names: &FrameNames) -> String {
        let function = match self.function_name.as_str() {
            "" => "(anonymous)",
            name => name,
        };
        match names.shorten_function(&self.url) {
            url if url.is_empty() => function.to_owned(),
            url => format!("{function} {url}:{}", self.line_number.saturating_add(1)),
        }
    }
}

/// Maximum number of frames per stack. A longer stack keeps only its innermost frames.
const MAX_FRAMES: usize = 1000;

/// The line above a stack: `node 23391 47089.602086: 1003009 cpu-clock: `. Depending on the options
/// of perf, a process precedes the thread, a processor follows it, the weight is missing, or the
/// event has modifiers.
static PERF_HEADER: LazyLock<Regex> = LazyLock::new(|| {
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
fn recognizes_perf_script(beginning: &str) -> bool {
    let mut lines =
        beginning.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let (header, below) = (lines.next(), lines.next());
    header.is_some_and(|line| PERF_HEADER.is_match(line))
        && below.is_some_and(|line| parse_frame(line).is_some())
}

/// Parses the output of `perf script`: one paragraph per sample, with a line for thread and event,
/// then the stack with the innermost function first (perf-script(1)). Reads it line by line, because
/// a recording of a few minutes takes up hundreds of megabytes.
///
/// The weight of a stack is the sum of the weights of its samples: nanoseconds for clock events,
/// otherwise numbers of events. A sample for which no weight is stated has the weight 1.
///
/// # Errors
/// Fails if reading fails, or there is no sample.
pub fn read_perf_script(mut text: impl BufRead, names: &FrameNames) -> Result<PerfScript> {
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
                let name = self.names.shorten_function(&symbol_name(symbol, module)).into_owned();
                sample.frames.push(name);
            }
        } else if let Some(header) = PERF_HEADER.captures(line) {
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

/// Returns the name of a frame of perf. A symbol without a name is named after its file.
fn symbol_name<'s>(symbol: &'s str, module: &'s str) -> Cow<'s, str> {
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

    #[test]
    fn text_that_is_read_and_written_again_is_the_same() {
        let text = "main;a b;(anonymous namespace)::c 12\nmain;d 3\n";
        let profile = read_folded(text, &FrameNames::default()).unwrap();
        assert_eq!(profile.to_string(), text);
    }

    #[test]
    fn other_texts_are_not_taken_for_stacks() {
        assert!(are_folded_stacks("a;b 1\na 2\n"));
        for other in [
            "",
            "hello 1\nworld 2\n",
            "a;b 1\nnot a stack\n",
            "BenchmarkX-8  100  123 ns/op\n",
            "x;y\n1;2\n",
        ] {
            assert!(!are_folded_stacks(other), "{other:?}");
        }
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = read_folded("a;b 1\na;b x\n", &FrameNames::default()).unwrap_err();
        assert_eq!(error.to_string(), "line 2 is not a stack with a weight");
    }

    /// Returns a profile with the nodes `(root)`, `f` and `(idle)`, whose ids are 1, 2 and 3.
    /// `children` lists the ids of the children of `(root)`.
    fn profile_text(samples: &str, deltas: &str, children: &str) -> String {
        let frame = |name: &str| format!(r#"{{"functionName":"{name}","url":"","lineNumber":-1}}"#);
        format!(
            r#"{{"nodes":[{{"id":1,"callFrame":{},"children":{children}}},{{"id":2,"callFrame":{}}},
                {{"id":3,"callFrame":{}}}],"startTime":100,"endTime":200,"samples":{samples},
                "timeDeltas":{deltas}}}"#,
            frame("(root)"),
            frame("f"),
            frame("(idle)"),
        )
    }

    fn fold_profile(text: &str) -> Result<String> {
        assert!(recognizes_cpu_profile(text.as_bytes()));
        Ok(read_cpu_profile(text, &FrameNames::default())?.to_string())
    }

    #[test]
    fn samples_are_weighted_by_duration_and_idle_time_is_omitted() {
        // The recording lasts 100 us. The samples at 10, 30, 60 and 65 us are f, idle, f and f.
        let text = profile_text("[2,3,2,2]", "[10,20,30,5]", "[2,3]");
        assert_eq!(fold_profile(&text).unwrap(), "f 60\n");
    }

    #[test]
    fn cycles_and_missing_nodes_in_the_tree_are_errors() {
        let broken = |text: String| fold_profile(&text).unwrap_err().to_string();
        assert_eq!(broken(profile_text("[9]", "[1]", "[2]")), "node 9 does not exist");
        assert!(broken(profile_text("[1]", "[1]", "[1,2]")).ends_with("is its own ancestor"));
        assert_eq!(broken(profile_text("[]", "[]", "[2]")), "it contains no samples");
    }

    const PERF_TEXT: &str = "\
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
        assert!(recognizes_perf_script(PERF_TEXT));
        let script = read_perf_script(PERF_TEXT.as_bytes(), &FrameNames::default()).unwrap();
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
            let found = PERF_HEADER.captures(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(&found[1], thread);
            assert_eq!(found.get(4).map_or("", |part| part.as_str()), weight);
        }
        assert!(!PERF_HEADER.is_match("[ perf record: Woken up 1 times to write data ]"));
    }
}
