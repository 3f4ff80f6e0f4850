//! A stand-in for an HTTP tool in the search path of one process: starts the real tool and keeps a
//! copy of what it prints, because Node core's `common.js` keeps the rate alone.

use super::http_output::HttpOutput;
use super::{cache_folder, http_tool};
use serde_json::Value as Json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// wrk prints percentiles only when asked to; the other tools need no further words.
const SCRIPT: &str = r#"#!/bin/sh
# Written by speedwell: starts the HTTP tool and keeps a copy of its output.
[ "$1" = -h ] && exec "$SPEEDWELL_HTTP_TOOL" "$@"
case "$0" in */wrk) set -- --latency "$@" ;; esac
output=$("$SPEEDWELL_HTTP_TOOL" "$@")
status=$?
printf '%s\n' "$output" | tee "$SPEEDWELL_HTTP_OUTPUT"
exit "$status"
"#;

/// A stand-in, ready for one process.
#[derive(Debug)]
pub(super) struct Shim {
    tool: String,
    real: PathBuf,
    folder: PathBuf,
    output: PathBuf,
}

impl Shim {
    /// The stand-in for `tool`; `None` for one that is no program, or where none can be written.
    pub fn new(tool: &str, serial: &str) -> Option<Shim> {
        if !super::shadow_path::TOOLS.contains(&tool) {
            return None;
        }
        let real = http_tool::find(tool)?;
        let folder = cache_folder().join("http-tools").join(tool);
        let script = folder.join(tool);
        if fs::read_to_string(&script).ok().as_deref() != Some(SCRIPT) {
            fs::create_dir_all(&folder).ok()?;
            let draft = folder.join(format!(".draft-{serial}"));
            fs::write(&draft, SCRIPT).ok()?;
            fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).ok()?;
            fs::rename(&draft, &script).ok()?;
        }
        let output = std::env::temp_dir().join(format!("speedwell-http-{serial}"));
        Some(Shim {
            tool: tool.to_owned(),
            real,
            folder,
            output,
        })
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
                self.output.to_string_lossy().into_owned(),
            ),
        ]
    }

    /// What the tool told, once it has ended.
    pub fn figures(&self) -> Option<Json> {
        let output = fs::read_to_string(&self.output).ok()?;
        HttpOutput::read(&self.tool, &output).map(|output| output.figures())
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // It was never written if the process made no load.
        let _ = fs::remove_file(&self.output);
    }
}
