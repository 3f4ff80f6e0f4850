//! Profiles a run instead of timing it. A profiled run goes through the same stages, with a
//! profiler attached.
//!
//! Decides which tool may be used and when a server is recorded; `execution/profile` does the
//! recording.

use super::{RunReport, StageResult, stage_failure};
use crate::execution::profile::{
    ActiveRecording, FinishedRecording, ProfileRecorder, RecordingTool,
};
use speedwell_machine::process::{ChildConversation, ProcessOutcome, ProcessSpec, ServiceProcess};
use speedwell_model::assignment::{ProfilingOptions, ProfilingTool};
use speedwell_model::stage_report::RunStage;
use std::path::Path;
use std::time::Duration;

/// Profiles one run with the requested tool.
pub struct RunProfiler {
    recorder: ProfileRecorder,
    options: ProfilingOptions,
}

impl RunProfiler {
    /// Returns the requested profiler, if any.
    pub fn from_request(profiling: Option<&ProfilingOptions>) -> Option<RunProfiler> {
        profiling.map(|options| RunProfiler {
            recorder: match options.tool {
                ProfilingTool::Auto | ProfilingTool::Perf => ProfileRecorder::new(),
                ProfilingTool::V8 => ProfileRecorder::without_perf("the tool is 'v8'"),
            },
            options: *options,
        })
    }

    /// Records a command from start to end.
    ///
    /// # Errors
    /// Fails if no tool can record it, or it produced no samples.
    pub fn record(
        &self,
        spec: ProcessSpec,
        output: &mut dyn ChildConversation,
        report: &mut RunReport,
    ) -> StageResult<ProcessOutcome> {
        let profile_failure =
            |error: anyhow::Error| stage_failure(RunStage::Profile, format!("{error:#}"));
        let tool = self.recorder.select_tool(&spec.program).map_err(profile_failure)?;
        if tool == RecordingTool::V8 && self.options.tool == ProfilingTool::Perf {
            // The requested perf is unavailable, so V8's profiler was selected. Selecting a tool
            // for a program other than Node.js returns an error that says why perf is unavailable.
            self.recorder.select_tool(Path::new("perf")).map_err(profile_failure)?;
        }
        let profiled_run =
            self.recorder.record_while(spec, Duration::ZERO, output).map_err(profile_failure)?;
        report.profile = Some(profiled_run.profile);
        Ok(profiled_run.outcome)
    }

    /// Prepares a server for recording before it starts.
    pub fn prepare(&self, spec: &mut ProcessSpec) {
        self.recorder.prepare(spec);
    }

    /// Starts recording a server if recording is to begin now: at the end of the warm-up if
    /// `is_warm` is set, else at the start of the server.
    ///
    /// # Errors
    /// Fails if V8's profiler was requested or perf is unavailable: only perf can record a running
    /// program.
    pub fn attach(
        &self,
        service: &ServiceProcess,
        home: &Path,
        is_warm: bool,
    ) -> StageResult<Option<ActiveRecording>> {
        if is_warm != self.options.after_warmup {
            return Ok(None);
        }
        if self.options.tool == ProfilingTool::V8 {
            let reason = "only perf can record a server: V8's profiler records only programs that end by themselves";
            return Err(stage_failure(RunStage::Profile, reason));
        }
        let recording = self.recorder.attach(service.pid(), home);
        recording.map(Some).map_err(|error| stage_failure(RunStage::Profile, format!("{error:#}")))
    }
}

/// Reads the recording of a server that has ended.
///
/// # Errors
/// Fails if nothing was recorded.
pub fn save_profile(recording: FinishedRecording, report: &mut RunReport) -> StageResult<()> {
    let profile = recording.read_profile();
    report.profile =
        Some(profile.map_err(|error| stage_failure(RunStage::Profile, format!("{error:#}")))?);
    Ok(())
}
