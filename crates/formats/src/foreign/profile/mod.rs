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
use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

mod perf_script;

pub use perf_script::{PerfScript, read as read_perf_script};

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
    if perf_script::recognizes(&beginning) {
        // The bytes need not be UTF-8: a function name may be arbitrary bytes, and one bad name
        // must not make the others unreadable.
        let script = perf_script::read(bytes, names)?;
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

/// Replacements in names, applied in this order.
const NAME_REPLACEMENTS: [(&str, &str); 9] = [
    // V8 marks each function with the compiler that produced its code: `~` stands for the
    // interpreter, `^` and `+` for the fast compilers, `*` for the optimizing compiler. The mark is
    // removed because it changes while the program runs. Code passed to `eval` runs once and keeps
    // its mark. Node 14 and older write LazyCompile where newer versions write JS.
    (r"^(?:JS|LazyCompile|Function|InterpretedFunction):[~^+*]*", "JS:"),
    (r"\bnode:internal/", "node:"),
    (r"\bfile://", ""),
    // An offset may follow the name of a function; an address replaces an unknown name.
    (r"\+0x[0-9a-f]+$", ""),
    (r"^0x[0-9a-f]+$", "[unknown]"),
    // The names of files with JIT-compiled code contain the id of the process.
    (r"^\[(?:perf-\d+\.map|jit-\d+\.dump|jitted-\d+-\d+\.so)\]$", "[jit]"),
    // GCC and LLVM append these suffixes to the names of the copies that they make of a function.
    (r"(?:\.(?:constprop|isra|part|cold|lto_priv|llvm)(?:\.\d+)*)+$| \[clone [^\]]*\]", ""),
    // The hash that rustc appends, and symbol versions of the C library.
    (r"::h[0-9a-f]{16}$|@@?[A-Z][A-Za-z]*_[\w.]+$", ""),
    // The `$` that Erlang's JIT puts before the names of functions (OTP 25: `$lists:map/2`).
    (r"^\$(.+:.+/\d+)$", "$1"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compiled = NAME_REPLACEMENTS.iter().map(|(pattern, instead)| {
        #[expect(
            clippy::expect_used,
            reason = "the patterns are constants, and every test compiles them"
        )]
        let pattern = Regex::new(pattern).expect("the pattern is well formed");
        (pattern, *instead)
    });
    compiled.collect()
});

/// Rules for shortening names.
#[derive(Debug, Clone, Default)]
pub struct FrameNames {
    /// Folder of the program, with a trailing slash. Paths are shown relative to this folder.
    home: Option<String>,
}

impl FrameNames {
    /// Creates rules that show paths relative to this folder.
    pub fn from_home(home: &Path) -> FrameNames {
        let path = home.to_string_lossy();
        let folder = path.trim_end_matches('/');
        FrameNames { home: (!folder.is_empty()).then(|| format!("{folder}/")) }
    }

    /// Returns these rules. If the folder of the program is unknown, the returned rules use the
    /// deepest folder that contains all `files`.
    pub fn or_infer_home<'a>(&self, files: impl Iterator<Item = &'a str>) -> FrameNames {
        if self.home.is_some() {
            return self.clone();
        }
        let folders = files.filter_map(|file| Some(Path::new(file).parent()?.to_path_buf()));
        let common = folders.reduce(|first, second| {
            let pairs = first.components().zip(second.components());
            pairs.take_while(|(first, second)| first == second).map(|(part, _)| part).collect()
        });
        match common {
            // If only the root is common to all files, show their full paths.
            Some(folder) if folder.components().count() > 1 => FrameNames::from_home(&folder),
            _ => FrameNames::default(),
        }
    }

    /// Shortens the name of a function. A name that is already short stays the same.
    pub fn shorten_function<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let mut shortened = Cow::Borrowed(name.trim());
        for (pattern, instead) in PATTERNS.iter() {
            if let Cow::Owned(changed) = pattern.replace_all(&shortened, *instead) {
                shortened = Cow::Owned(changed);
            }
        }
        match &self.home {
            Some(home) if shortened.contains(home.as_str()) => {
                Cow::Owned(shortened.replacen(home.as_str(), "", 1))
            }
            _ => shortened,
        }
    }

    /// Shortens the name of a thread by removing its number among similar threads: `worker-12`
    /// becomes `worker`. The result is the outermost frame of the thread's stacks.
    pub fn shorten_thread(&self, name: &str) -> String {
        let name = name.trim();
        let is_digit = |character: char| character.is_ascii_digit();
        let rest = name.trim_start_matches(is_digit).strip_prefix('_');
        let front = rest.filter(|_| name.starts_with(is_digit)).unwrap_or(name);
        let shortened = front.trim_end_matches(is_digit);
        let shortened = match shortened.strip_suffix(['-', '_', '#', '/', ':', ' ']) {
            Some(shortened) if shortened.len() < front.len() - 1 && front.ends_with(is_digit) => {
                shortened
            }
            _ => front,
        };
        if shortened.is_empty() { name.to_owned() } else { shortened.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_differ_between_recordings_are_removed() {
        let names = FrameNames::from_home(Path::new("/home/me/app/"));
        for (raw, short) in [
            ("JS:*fib /home/me/app/lib/w.js:1:13", "JS:fib lib/w.js:1:13"),
            ("JS:~fib /home/me/app/lib/w.js:1:13", "JS:fib lib/w.js:1:13"),
            ("JS:^ file:///home/me/app/m.mjs:1:1", "JS: m.mjs:1:1"),
            ("LazyCompile:*fib /other/w.js:1:13", "JS:fib /other/w.js:1:13"),
            ("JS:~require node:internal/modules/x:1:2", "JS:require node:modules/x:1:2"),
            ("Eval:~ node:internal/net:1:1", "Eval:~ node:net:1:1"),
            ("main+0x1f", "main"),
            ("0x7f0183d98ca4", "[unknown]"),
            ("[perf-4711.map]", "[jit]"),
            ("inner_fetch.constprop.0", "inner_fetch"),
            ("copy.isra.0.cold", "copy"),
            ("core::fmt::write::h0123456789abcdef", "core::fmt::write"),
            ("pthread_rwlock_rdlock@GLIBC_2.2.5", "pthread_rwlock_rdlock"),
            ("$lists:map/2", "lists:map/2"),
            ("v8::OldSpace::~OldSpace", "v8::OldSpace::~OldSpace"),
            ("operator+", "operator+"),
        ] {
            assert_eq!(names.shorten_function(raw), short);
            assert_eq!(names.shorten_function(short), short, "shortened twice");
        }
    }

    #[test]
    fn the_home_folder_defaults_to_the_common_folder_of_all_files() {
        let names = FrameNames::from_home(Path::new("/home/me"));
        let of =
            |names: &FrameNames, files: &[&str]| names.or_infer_home(files.iter().copied()).home;
        let none = FrameNames::default();
        assert_eq!(of(&none, &["/p/a/x.js"]).as_deref(), Some("/p/a/"));
        assert_eq!(of(&none, &["/p/a/x.js", "/p/ab/y.js"]).as_deref(), Some("/p/"));
        assert_eq!(of(&none, &["/p/x.js", "/q/y.js"]), None);
        assert_eq!(of(&none, &[]), None);
        assert_eq!(of(&names, &["/p/a/x.js"]).as_deref(), Some("/home/me/"));
    }

    #[test]
    fn threads_lose_their_numbers_and_programs_do_not() {
        let names = FrameNames::default();
        for (raw, short) in [
            ("2_scheduler", "scheduler"),
            ("10_dirty_io_sch", "dirty_io_sch"),
            ("worker-12", "worker"),
            ("tokio-runtime-w", "tokio-runtime-w"),
            ("node", "node"),
            ("python3", "python3"),
            ("7", "7"),
            ("", ""),
        ] {
            assert_eq!(names.shorten_thread(raw), short);
        }
    }

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
}
