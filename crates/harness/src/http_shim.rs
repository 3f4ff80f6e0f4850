//! A stand-in for an HTTP tool in the search path of one process. For another tool it starts the real
//! one and keeps a copy of what it prints, because Node core's `common.js` keeps the rate alone. For our
//! own generator, which that library does not know, it takes the place of a tool that is known.

use super::http_tool::OWN;
use super::{cache_folder, http_tool, own_program};
use serde_json::Value as Json;
use speedwell_model::quote;
use speedwell_process::Scratch;
use speedwell_results::foreign::http_output::HttpOutput;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// wrk prints percentiles only when asked to; the other tools need no further words.
const COPIES: &str = r#"#!/bin/sh
# Written by speedwell: starts the HTTP tool and keeps a copy of its output.
[ "$1" = -h ] && exec "$SPEEDWELL_HTTP_TOOL" "$@"
case "$0" in */wrk) set -- --latency "$@" ;; esac
output=$("$SPEEDWELL_HTTP_TOOL" "$@")
status=$?
printf '%s\n' "$output" | tee "$SPEEDWELL_HTTP_OUTPUT"
exit "$status"
"#;

/// The words of wrk and autocannon become ours: `-d` is the length of the load, `-c` means the same,
/// `-t` is left out because threads are ours to choose. What is printed is the one figure that the
/// library reads of either tool.
const TRANSLATES: &str = r#"#!/bin/sh
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

/// The tool that Node core's library is told to use where ours is meant.
pub(super) const STANDS_IN_FOR: &str = "wrk";

/// A stand-in, ready for one process.
#[derive(Debug)]
pub(super) struct Shim {
    tool: String,
    real: PathBuf,
    folder: PathBuf,
    scratch: Scratch,
}

impl Shim {
    /// The stand-in for `tool`; `None` for one that is no program, or where none can be written.
    pub fn new(tool: &str, serial: &str) -> Option<Shim> {
        let is_own = tool == OWN;
        if !is_own && !super::shadow_path::TOOLS.contains(&tool) {
            return None;
        }
        let real = if is_own {
            own_program()
        } else {
            http_tool::find(tool)?
        };
        let tools = cache_folder().join("http-tools");
        let folder = if is_own {
            translator(&tools, &real, serial)?
        } else {
            let folder = tools.join(tool);
            write(&folder.join(tool), COPIES, serial)?;
            folder
        };
        let scratch = Scratch::new().ok()?;
        Some(Shim {
            tool: tool.to_owned(),
            real,
            folder,
            scratch,
        })
    }

    /// The tool that makes the load.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The folder to put in front of the search path.
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Variables that the stand-in reads.
    pub fn environment(&self) -> [(String, String); 2] {
        [
            (
                "SPEEDWELL_HTTP_TOOL".into(),
                self.real.to_string_lossy().into_owned(),
            ),
            (
                "SPEEDWELL_HTTP_OUTPUT".into(),
                self.output().to_string_lossy().into_owned(),
            ),
        ]
    }

    /// Where the stand-in keeps what the tool prints.
    fn output(&self) -> PathBuf {
        self.scratch.path("output")
    }

    /// What the tool told, once it has ended.
    pub fn figures(&self) -> Option<Json> {
        let output = fs::read_to_string(self.output()).ok()?;
        HttpOutput::read(&self.tool, &output).map(|output| output.figures())
    }
}

/// The folder with our generator under the names of other tools. The program stands in the script, so
/// that a line that repeats a failure needs this folder in its search path and nothing else.
fn translator(tools: &Path, program: &Path, serial: &str) -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    let folder = tools.join(format!("{OWN}-{:016x}", hasher.finish()));
    let script = TRANSLATES.replace(
        "SPEEDWELL load",
        &format!("{} load", quote(&program.to_string_lossy())),
    );
    for name in [STANDS_IN_FOR, "autocannon"] {
        write(&folder.join(name), &script, serial)?;
    }
    Some(folder)
}

/// Writes a script that can be executed, unless it is there already.
fn write(script: &Path, text: &str, serial: &str) -> Option<()> {
    if fs::read_to_string(script).ok().as_deref() == Some(text) {
        return Some(());
    }
    let folder = script.parent()?;
    fs::create_dir_all(folder).ok()?;
    let draft = folder.join(format!(".draft-{serial}"));
    fs::write(&draft, text).ok()?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).ok()?;
    fs::rename(&draft, script).ok()
}
