//! Profiles a run instead of timing it: the same lifecycle, with a profiler attached.
//!
//! Decides which tool may be used and when a server is recorded; `runner/profile` does the
//! recording.

use super::{Done, Fallible, stage_failure};
use crate::profile::{Attached, Recorder, Recording, Tool};
use speedwell_model::assignment::{Profiling, ProfilingTool};
use speedwell_model::performed::Stage;
use speedwell_process::{Conversation, Outcome, Service, Spec};
use std::path::Path;
use std::time::Duration;

/// Profiles one run with the requested tool.
pub struct Profiler {
    recorder: Recorder,
    wanted: Profiling,
}

impl Profiler {
    /// Returns the requested profiler, if any.
    pub fn wanted(profiling: Option<&Profiling>) -> Option<Profiler> {
        profiling.map(|wanted| Profiler {
            recorder: match wanted.tool {
                ProfilingTool::Auto | ProfilingTool::Perf => Recorder::new(),
                ProfilingTool::V8 => Recorder::without_perf("the tool is 'v8'"),
            },
            wanted: *wanted,
        })
    }

    /// Records a command from start to end.
    ///
    /// # Errors
    /// No tool can record it, or it produced no samples.
    pub fn record(
        &self,
        spec: Spec,
        output: &mut dyn Conversation,
        done: &mut Done,
    ) -> Fallible<Outcome> {
        let failed = |error: anyhow::Error| stage_failure(Stage::Profile, format!("{error:#}"));
        let tool = self.recorder.tool(&spec.program).map_err(failed)?;
        if tool == Tool::V8 && self.wanted.tool == ProfilingTool::Perf {
            // For any other program, the recorder says why perf is unavailable.
            self.recorder.tool(Path::new("perf")).map_err(failed)?;
        }
        let recorded = self
            .recorder
            .record_while(spec, Duration::ZERO, output)
            .map_err(failed)?;
        done.profile = Some(recorded.profile);
        Ok(recorded.outcome)
    }

    /// Prepares a server for recording before it starts.
    pub fn prepare(&self, spec: &mut Spec) {
        self.recorder.prepare(spec);
    }

    /// Starts recording a server, if this is the requested moment.
    ///
    /// # Errors
    /// Only perf can record a running program, and it is unavailable.
    pub fn attach(
        &self,
        service: &Service,
        home: &Path,
        is_warm: bool,
    ) -> Fallible<Option<Attached>> {
        if is_warm != self.wanted.after_warmup {
            return Ok(None);
        }
        if self.wanted.tool == ProfilingTool::V8 {
            let reason = "V8's profiler records programs that end by themselves; a server is recorded by perf only";
            return Err(stage_failure(Stage::Profile, reason));
        }
        let attached = self.recorder.attach(service.pid(), home);
        attached
            .map(Some)
            .map_err(|error| stage_failure(Stage::Profile, format!("{error:#}")))
    }
}

/// Reads the recording of a server that has ended.
///
/// # Errors
/// Nothing was recorded.
pub fn keep(recording: Recording, done: &mut Done) -> Fallible<()> {
    let profile = recording.profile();
    done.profile =
        Some(profile.map_err(|error| stage_failure(Stage::Profile, format!("{error:#}")))?);
    Ok(())
}
