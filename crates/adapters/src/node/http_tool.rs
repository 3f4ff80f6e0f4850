//! Chooses the HTTP tool for a script, and hides the other tools from measured processes.
//!
//! Node.js core's `common.js` runs `wrk -h`, `autocannon -h` and `h2load -h` whenever it is loaded.
//! This happens in every measured process, and costs up to 3.5 times as much as the process itself.
//! We do not change that file. Instead, we look for the tools once and hide them: each `PATH`
//! folder that contains a tool is replaced by a folder of links to the other files in that folder
//! ([`without_tools`]).
//!
//! A [`ToolShim`] replaces the tool that is used. It starts the real tool and saves the tool's
//! whole output, because `common.js` keeps only the rate. `common.js` does not support our own load
//! generator, but a shim with the name of another tool can start the generator.

use crate::cache::{cache_folder, fill_folder, find_in_path, hash_name, write_file};
use crate::job::{BenchmarkJob, DefaultLoadTool, DescribeRequest, SourceKind, TrialMode};
use crate::own_program;
use serde_json::Value as Json;
use speedwell_formats::foreign::http_output::HttpOutput;
use speedwell_machine::process::{ProcessSpec, ScratchFolder};
use speedwell_model::quote;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Tool name of our own generator.
pub(super) const OWN_TOOL: &str = "speedwell";

/// Tool name of our own generator for an HTTP/2 server. The generator then takes the place of
/// `h2load`, the only tool with which Node.js core's library sends HTTP/2. Users never see this
/// name.
const OWN_HTTP2_TOOL: &str = "speedwell-http2";

/// Tools for throughput, in Node.js core's order of preference.
const PREFERRED_TOOLS: [&str; 2] = ["wrk", "autocannon"];

/// HTTP tool of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolChoice {
    /// The script sends no HTTP load.
    NotNeeded,
    /// The script uses the tool `name`. If `argument` is true, this name must be passed to the
    /// script.
    Tool { name: String, argument: bool },
    /// The script needs a tool, but the tool that it would use is not installed.
    Missing { reason: String },
}

impl ToolChoice {
    /// Sets the HTTP tool of a job. If the script does not name the tool itself, the tool also
    /// becomes an argument.
    pub(super) fn assign_to(&self, mut job: BenchmarkJob) -> BenchmarkJob {
        match self {
            ToolChoice::NotNeeded => {}
            ToolChoice::Missing { reason } => job.unavailable = Some(reason.clone()),
            ToolChoice::Tool { name, argument } => {
                job.http_tool = Some(name.clone());
                let choice = format!("benchmarker={}", shown_name(name));
                if *argument && !job.arguments.contains(&choice) {
                    job.arguments.push(choice);
                }
            }
        }
        job
    }
}

/// Chooses the tool for a script with this `text`. Our own package supports our generator. In a
/// folder with its own `common.js`, the generator must pose as a tool that this file supports.
pub(super) fn choose_tool(text: &str, request: &DescribeRequest) -> ToolChoice {
    let generator = own_tool(text, request);
    if !text.contains("bench.http(") {
        return ToolChoice::NotNeeded;
    }
    // The library prefers the tool that the script names over the tool on the command line.
    if let Some(name) = script_choice(text) {
        return named_by_script(&name, generator, request);
    }
    let setting = request.sets.iter().rfind(|(name, _)| name == "benchmarker");
    if let Some((_, name)) = setting {
        return check_available(if name == OWN_TOOL { generator } else { name }, true);
    }
    if request.selection.usual_tool == DefaultLoadTool::Speedwell {
        return check_available(generator, true);
    }
    if let Some(name) = PREFERRED_TOOLS.into_iter().find(|name| find_in_path(name).is_some()) {
        return check_available(name, true);
    }
    if request.selection.trial != TrialMode::No {
        return check_available("test-double-http", true);
    }
    ToolChoice::Missing {
        reason: "no HTTP load tool is installed: install 'wrk' or 'autocannon', or use the \
                 built-in one with --set benchmarker=speedwell"
            .into(),
    }
}

/// Uses the tool that the script names. If that tool is missing, our own generator can replace it;
/// the results then show the generator's name.
fn named_by_script(name: &str, own_tool: &str, request: &DescribeRequest) -> ToolChoice {
    let choice = check_available(name, false);
    let is_missing = matches!(choice, ToolChoice::Missing { .. });
    let may_replace = request.source.kind == SourceKind::NodeCore
        && request.selection.usual_tool == DefaultLoadTool::Speedwell;
    if is_missing && may_replace && TOOLS.contains(&name) {
        check_available(if name == HTTP2_ALIAS { OWN_HTTP2_TOOL } else { own_tool }, false)
    } else {
        choice
    }
}

/// Returns our generator's tool name, which depends on the protocol of the script's server. Our own
/// package detects the protocol itself.
fn own_tool(text: &str, request: &DescribeRequest) -> &'static str {
    let is_core = request.source.kind == SourceKind::NodeCore;
    if is_core && speaks_http2(text) { OWN_HTTP2_TOOL } else { OWN_TOOL }
}

/// Whether `http2` is the only HTTP module that a script requires. The URL does not show which
/// protocol the server speaks.
fn speaks_http2(text: &str) -> bool {
    let requires = |module: &str| {
        ["'", "\""].iter().any(|quote| {
            text.contains(&format!("{quote}{module}{quote}"))
                || text.contains(&format!("{quote}node:{module}{quote}"))
        })
    };
    requires("http2") && !requires("http") && !requires("https")
}

/// The tool that the script itself names.
fn script_choice(text: &str) -> Option<String> {
    let (_, after_key) = text.split_once("benchmarker:")?;
    let quoted = after_key.trim_start().strip_prefix(['\'', '"'])?;
    let end = quoted.find(['\'', '"'])?;
    Some(quoted[..end].to_owned())
}

fn check_available(name: &str, argument: bool) -> ToolChoice {
    let is_external = TOOLS.contains(&name);
    if is_external && find_in_path(name).is_none() {
        let reason = format!("the HTTP load tool '{name}' is not installed");
        return ToolChoice::Missing { reason };
    }
    ToolChoice::Tool { name: name.to_owned(), argument }
}

/// Shim that saves the output of the tool. wrk prints percentiles only on request; the other tools
/// need no further options.
const COPYING_SHIM: &str = r#"#!/bin/sh
# Written by speedwell: starts the HTTP tool and keeps a copy of its output.
[ "$1" = -h ] && exec "$SPEEDWELL_HTTP_TOOL" "$@"
case "$0" in */wrk) set -- --latency "$@" ;; esac
output=$("$SPEEDWELL_HTTP_TOOL" "$@")
status=$?
printf '%s\n' "$output" | tee "$SPEEDWELL_HTTP_OUTPUT"
exit "$status"
"#;

/// Shim that translates options of wrk and autocannon to ours. `-d` is the duration. `-c` and `-H`
/// have the same meaning, but autocannon writes a header field as `name=value`. `-t` is dropped,
/// because we choose the number of threads. Prints the only number that the library reads from
/// either tool.
const TRANSLATING_SHIM: &str = r#"#!/bin/sh
# Written by speedwell: its own load generator in the place of wrk or autocannon.
[ "$1" = -h ] && exit 0
tool=${0##*/} option= begun=
for word do
  [ -n "$begun" ] || { set --; begun=yes; }
  case $option in
    -d) set -- "$@" -t "${word%s}s" ;;
    -c) set -- "$@" -c "$word" ;;
    -H) [ "$tool" = autocannon ] && word="${word%%=*}: ${word#*=}"; set -- "$@" -H "$word" ;;
  esac
  [ -z "$option" ] || { option=; continue; }
  case $word in
    -d|-c|-t|-H) option=$word ;;
    -*) ;;
    https:*) set -- "$@" --insecure "$word" ;;
    *) set -- "$@" "$word" ;;
  esac
done
output=$(SPEEDWELL load --benchmarker "$@") || exit
[ -z "$SPEEDWELL_HTTP_OUTPUT" ] || printf '%s\n' "$output" > "$SPEEDWELL_HTTP_OUTPUT"
rate=${output#*\"rate\":} rate=${rate%%[,\}]*}
case $tool in
  autocannon) printf '{"requests":{"average":%s}}\n' "$rate" ;;
  *) printf 'Requests/sec: %s\n' "$rate" ;;
esac
"#;

/// Shim that translates options of h2load to ours: `-n` has the same meaning, and `-T` is the
/// duration. Our `-c` is the product of h2load's `-c` (connections) and `-m` (streams per
/// connection).
const TRANSLATING_HTTP2_SHIM: &str = r#"#!/bin/sh
# Written by speedwell: its own load generator in the place of h2load.
[ "$1" = -h ] && exit 0
option= begun= clients=1 streams=1
for word do
  [ -n "$begun" ] || { set -- --http2; begun=yes; }
  case $option in
    -n) set -- "$@" -n "$word" ;;
    -T) set -- "$@" -t "${word}s" ;;
    -c) clients=$word ;;
    -m) streams=$word ;;
  esac
  [ -z "$option" ] || { option=; continue; }
  case $word in
    -[ncmTtrwWN]) option=$word ;;
    -*) ;;
    https:*) set -- "$@" --insecure "$word" ;;
    *) set -- "$@" "$word" ;;
  esac
done
[ "$streams" -eq 1 ] || set -- "$@" --streams "$streams"
output=$(SPEEDWELL load --benchmarker -c $((clients * streams)) "$@") || exit
[ -z "$SPEEDWELL_HTTP_OUTPUT" ] || printf '%s\n' "$output" > "$SPEEDWELL_HTTP_OUTPUT"
rate=${output#*\"rate\":} rate=${rate%%[,\}]*}
printf 'finished, %.2f req/s\n' "$rate"
"#;

/// Name under which our generator is passed to Node.js core's library.
const HTTP1_ALIAS: &str = "wrk";
/// Name under which our generator is passed to the library for an HTTP/2 server.
const HTTP2_ALIAS: &str = "h2load";

/// User-visible name of a tool.
fn shown_name(tool: &str) -> &str {
    if tool == OWN_HTTP2_TOOL { OWN_TOOL } else { tool }
}

/// Name under which Node.js core's library starts a tool.
pub(super) fn tool_alias(tool: &str) -> &str {
    match tool {
        OWN_TOOL => HTTP1_ALIAS,
        OWN_HTTP2_TOOL => HTTP2_ALIAS,
        other => other,
    }
}

/// A script that stands in for an HTTP tool in one process.
#[derive(Debug)]
pub struct ToolShim {
    /// Name of the tool that sends the load.
    pub tool: String,
    real: PathBuf,
    /// Folder to prepend to the search path.
    pub folder: PathBuf,
    scratch: ScratchFolder,
}

impl ToolShim {
    /// Creates the shim for `tool`. Returns `None` if `tool` is unknown (neither our generator nor
    /// one of [`TOOLS`]) or not installed, or if the shim cannot be written.
    pub fn new(tool: &str) -> Option<ToolShim> {
        let is_own = shown_name(tool) == OWN_TOOL;
        if !is_own && !TOOLS.contains(&tool) {
            return None;
        }
        let real = if is_own { own_program() } else { find_in_path(tool)? };
        let tools = cache_folder().join("http-tools");
        let folder = if is_own {
            write_translators(&tools, &real)?
        } else {
            let folder = tools.join(tool);
            write_script(&folder.join(tool), COPYING_SHIM)?;
            folder
        };
        let scratch = ScratchFolder::new().ok()?;
        Some(ToolShim { tool: shown_name(tool).to_owned(), real, folder, scratch })
    }

    /// Variables that the shim reads.
    pub fn environment(&self) -> [(String, String); 2] {
        [
            ("SPEEDWELL_HTTP_TOOL".into(), self.real.to_string_lossy().into_owned()),
            ("SPEEDWELL_HTTP_OUTPUT".into(), self.output_path().to_string_lossy().into_owned()),
        ]
    }

    /// File to which the shim saves the tool's output.
    fn output_path(&self) -> PathBuf {
        self.scratch.path("output")
    }

    /// Parses the saved output of the tool. The tool must already have ended.
    pub fn read_figures(&self) -> Option<Json> {
        let output = fs::read_to_string(self.output_path()).ok()?;
        HttpOutput::read(&self.tool, &output).map(|output| output.to_report())
    }
}

/// Creates a folder of scripts that have the names of other tools and start our generator. Each
/// script contains the path of the generator, so that a replay command needs only this folder in
/// its search path.
fn write_translators(tools: &Path, program: &Path) -> Option<PathBuf> {
    let folder = tools.join(format!("{OWN_TOOL}-{}", hash_name(&program)));
    let command = format!("{} load", quote(&program.to_string_lossy()));
    for (name, template) in [
        (HTTP1_ALIAS, TRANSLATING_SHIM),
        ("autocannon", TRANSLATING_SHIM),
        (HTTP2_ALIAS, TRANSLATING_HTTP2_SHIM),
    ] {
        let script = template.replace("SPEEDWELL load", &command);
        write_script(&folder.join(name), &script)?;
    }
    Some(folder)
}

/// Writes an executable script, unless the file already has this text.
fn write_script(script: &Path, text: &str) -> Option<()> {
    let is_written = fs::read_to_string(script).is_ok_and(|current| current == text);
    if is_written { Some(()) } else { write_file(script, text, true).ok() }
}

/// Tools that Node.js core's library looks for when a script is loaded.
pub const TOOLS: [&str; 3] = ["wrk", "autocannon", "h2load"];

/// Returns the search path `path` without the [`TOOLS`], except for `visible`. A folder that cannot
/// be replaced stays: a slower start is better than a missing program.
pub fn without_tools(path: &OsStr, visible: Option<&str>) -> OsString {
    let hidden: Vec<&str> = TOOLS.into_iter().filter(|tool| visible != Some(tool)).collect();
    let folders = std::env::split_paths(path).map(|folder| {
        let has_hidden_tool = hidden.iter().any(|tool| folder.join(tool).exists());
        let shadow =
            if has_hidden_tool { shadow_folder(&folder, &hidden, &cache_folder()) } else { None };
        shadow.unwrap_or(folder)
    });
    let folders: Vec<PathBuf> = folders.collect();
    std::env::join_paths(folders).unwrap_or_else(|_| path.to_owned())
}

/// Returns the folder of links that replaces `folder`. It is created on first use, and again
/// whenever `folder` has changed.
fn shadow_folder(folder: &Path, hidden: &[&str], cache: &Path) -> Option<PathBuf> {
    let metadata = fs::metadata(folder).ok()?;
    let version = (metadata.mtime(), metadata.mtime_nsec(), metadata.ino());
    let target = cache.join(format!("path-{}", hash_name(&(folder, hidden, version))));
    if target.is_dir() {
        return Some(target);
    }
    let add_links = |draft: &Path| -> io::Result<()> {
        fs::create_dir_all(draft)?;
        let is_hidden = |name: &OsStr| hidden.iter().any(|tool| name == OsStr::new(tool));
        let mut entries =
            fs::read_dir(folder)?.flatten().filter(|entry| !is_hidden(&entry.file_name()));
        entries.try_for_each(|entry| symlink(entry.path(), draft.join(entry.file_name())))
    };
    fill_folder(&target, add_links).ok()?;
    target.is_dir().then_some(target)
}

/// Gives the process its own port and temporary folder, so that two processes can run at the same
/// time. Also removes unused tools from its search path, because `common.js` would spend time on
/// them.
pub fn with_isolated_environment(mut spec: ProcessSpec, http_tool: Option<&str>) -> ProcessSpec {
    if let Some(port) = free_port() {
        spec = spec.env("PORT", port.to_string());
    }
    spec = spec.env("TEST_SERIAL_ID", next_serial());
    if http_tool == Some(OWN_TOOL) {
        spec = spec.env("SPEEDWELL_PROGRAM", own_program().to_string_lossy());
    }
    if let Some(path) = std::env::var_os("PATH") {
        let path = without_tools(&path, http_tool);
        spec = spec.env("PATH", path.to_string_lossy());
    }
    spec
}

/// Returns a number unique among concurrent processes of all sessions.
fn next_serial() -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    format!("{}{:05}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed))
}

fn free_port() -> Option<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).ok()?;
    listener.local_addr().ok().map(|address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{BenchmarkSelection, BenchmarkSource};
    use speedwell_fixtures::write_program;
    use speedwell_model::Variant;
    use std::time::Duration;

    fn request(
        kind: SourceKind,
        sets: &[(&str, &str)],
        usual_tool: DefaultLoadTool,
    ) -> DescribeRequest {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let root = Path::new("/");
        DescribeRequest {
            source: BenchmarkSource::new(kind, Path::new("/b.js"), root, root),
            program: "node".into(),
            variant: Variant::plain("default"),
            sets: sets.iter().map(owned).collect(),
            selection: BenchmarkSelection {
                trial: TrialMode::Own,
                usual_tool,
                ..BenchmarkSelection::default()
            },
            limit: Duration::from_secs(1),
        }
    }

    fn tool(name: &str, argument: bool) -> ToolChoice {
        ToolChoice::Tool { name: name.into(), argument }
    }

    const LOAD: &str = "bench.http({}, f)";

    #[test]
    fn a_script_without_load_needs_no_tool() {
        let request = request(SourceKind::Node, &[], DefaultLoadTool::Speedwell);
        assert_eq!(choose_tool("bench.start()", &request), ToolChoice::NotNeeded);
    }

    #[test]
    fn our_own_generator_is_the_default_except_for_drop_ins() {
        let own = request(SourceKind::NodeCore, &[], DefaultLoadTool::Speedwell);
        assert_eq!(choose_tool(LOAD, &own), tool("speedwell", true));
        let drop_in = request(SourceKind::NodeCore, &[], DefaultLoadTool::AsNodeCore);
        let drop_in = choose_tool(LOAD, &drop_in);
        assert_ne!(drop_in, tool("speedwell", true));
    }

    #[test]
    fn a_script_keeps_its_own_choice() {
        let text = "bench.http({ benchmarker: 'test-double-http2' }, done)";
        let expected = tool("test-double-http2", false);
        for sets in [&[][..], &[("benchmarker", "test-double-http")]] {
            let request = request(SourceKind::NodeCore, sets, DefaultLoadTool::Speedwell);
            assert_eq!(choose_tool(text, &request), expected);
        }
    }

    #[test]
    fn an_http2_server_is_loaded_over_http2() {
        let in_core = request(SourceKind::NodeCore, &[], DefaultLoadTool::Speedwell);
        let ours = request(SourceKind::Node, &[], DefaultLoadTool::Speedwell);
        for (modules, expected) in [
            ("require('http2')", OWN_HTTP2_TOOL),
            ("import http2 from \"node:http2\"", OWN_HTTP2_TOOL),
            ("require('http2'); require('http')", OWN_TOOL),
            ("require('http'); bench({ benchmarker: ['test-double-http2'] })", OWN_TOOL),
        ] {
            let text = format!("{modules}; {LOAD}");
            assert_eq!(choose_tool(&text, &in_core), tool(expected, true), "{modules}");
            // Our own package detects the protocol itself.
            assert_eq!(choose_tool(&text, &ours), tool(OWN_TOOL, true));
        }
        assert_eq!((shown_name(OWN_HTTP2_TOOL), tool_alias(OWN_HTTP2_TOOL)), (OWN_TOOL, "h2load"));
    }

    #[test]
    fn the_options_of_h2load_become_those_of_our_generator() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let answer =
            "#!/bin/sh\necho \"$*\" > \"$0.words\"\necho '{\"rate\":1234.5,\"errors\":0}'\n";
        write_program(&program, answer);
        let tools = write_translators(folder.path(), &program).unwrap();
        let words = "-n 1000 -c 2 -t 2 -m 20 -T 5 http://127.0.0.1:80/p";
        // Starting a script that this process has just written can fail with ETXTBSY, so the shell
        // reads it instead.
        let mut shell = std::process::Command::new("sh");
        let answer = shell.arg(tools.join("h2load")).args(words.split(' ')).output().unwrap();
        // This is the line that Node.js core's library looks for.
        assert_eq!(answer.stdout, b"finished, 1234.50 req/s\n");
        let words = fs::read_to_string(folder.path().join("program.words")).unwrap();
        let expected =
            "load --benchmarker -c 40 --http2 -n 1000 -t 5s http://127.0.0.1:80/p --streams 20\n";
        assert_eq!(words, expected);
    }

    #[test]
    fn a_tool_that_a_script_names_is_replaced_if_it_is_not_installed() {
        let request = request(SourceKind::NodeCore, &[], DefaultLoadTool::Speedwell);
        let text = "bench.http({ benchmarker: 'autocannon' }, done)";
        let expected = match find_in_path("autocannon") {
            Some(_) => "autocannon",
            None => "speedwell",
        };
        assert_eq!(choose_tool(text, &request), tool(expected, false));
    }

    #[test]
    fn the_users_choice_is_passed_on() {
        let sets = [("benchmarker", "test-double-http")];
        let request = request(SourceKind::Node, &sets, DefaultLoadTool::Speedwell);
        assert_eq!(choose_tool(LOAD, &request), tool("test-double-http", true));
    }

    #[test]
    fn the_shadow_folder_omits_only_the_hidden_tools() {
        let (bin, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["wrk", "h2load", "node", "sh"] {
            fs::write(bin.path().join(name), name).unwrap();
        }
        let shadow = shadow_folder(bin.path(), &["wrk", "autocannon"], cache.path()).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&shadow).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["h2load", "node", "sh"]);
        assert_eq!(fs::read_to_string(shadow.join("sh")).unwrap(), "sh");
    }
}
