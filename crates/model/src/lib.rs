//! This crate defines the data types that the other crates share.
//!
//! It does no input or output and no statistics, and depends on no other crate of the workspace.
//! Start with [`Case`], a benchmark with its parameters. Then read [`Run`], one measurement that is
//! statistically independent of the others, and [`Session`], everything that one invocation
//! measured. [`load`] describes HTTP loads and their results.

pub mod assignment;
mod case;
mod change;
pub mod clock;
mod disturbance;
mod environment;
mod error_text;
mod failure;
pub mod load;
mod machine;
mod metric;
mod origin;
pub mod parse;
mod placement;
mod point;
mod profile;
mod run;
mod session;
mod session_reference;
pub mod stage_report;
pub mod stored;
mod text;
mod unit_direction;
mod variant;

pub use case::{Case, CaseError, ParameterValue, TooManyCases, ValueKind};
pub use change::{ChangeState, ChangeTriage, RecordedChange, check_note};
pub use disturbance::{DisturbanceFigure, RejectRule, RejectRules};
pub use environment::{ActivitySnapshot, Environment, MeasuredProgram, NoiseCalibration};
pub use error_text::ErrorText;
pub use failure::{FailureCause, SessionEvent, SessionObserver, SessionStep, StepFailure};
pub use machine::{Machine, SessionMachine, SpeedProbe};
pub use metric::{IntervalEstimate, Metric, MetricDirection, Verdict};
pub use origin::{
    BisectionRange, CodeOrigin, LineRevision, OriginRequest, OriginSource, short_revision,
};
pub use placement::{MachineAllocation, MachinePlacement, PlacedMachine};
pub use point::{
    HistoryPoint, PointKind, Revision, RevisionMarker, SeriesKey, SessionPoint, SessionPoints,
};
pub use profile::{ProfileOutcome, ProfileRecording, ProfileTool, StackProfile, WeightUnit};
pub use run::{
    BatchQuantiles, KernelStats, REPETITION, ResourceUsage, Run, RunSeries, RunValue, Sample,
    SnippetTiming, TimingWindow, median,
};
pub use session::{
    ComparedClock, DefinitionFile, InstructionCounting, LayoutVariation, RequestedDivision,
    RunCount, RunOrder, SampleDivision, SampleLength, SamplingOptions, Session, SessionDesign,
    SessionPurpose, SessionState, SteadyRule, StoppingDesign, seed_of_step,
};
pub use session_reference::{ReferenceError, SessionReference, validate_tag};
pub use text::{as_milliseconds, format_fixed, nearest_name, parse_duration, quote};
pub use variant::{BuildCommand, ErlangNodes, Snippet, SnippetLanguage, Variant, VariantWorktree};

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    /// Serializes a default value, which omits every optional field, and reads it back.
    fn is_read_as_written<T: Default + Debug + PartialEq + Serialize + DeserializeOwned>() {
        let value = T::default();
        let text = serde_json::to_string(&value).unwrap();
        let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read, value, "{text}");
    }

    #[test]
    fn default_values_are_read_back() {
        is_read_as_written::<Revision>();
        is_read_as_written::<CodeOrigin>();
        is_read_as_written::<Environment>();
        is_read_as_written::<MeasuredProgram>();
        is_read_as_written::<NoiseCalibration>();
        is_read_as_written::<BisectionRange>();
        is_read_as_written::<LineRevision>();
        is_read_as_written::<SessionMachine>();
        is_read_as_written::<ResourceUsage>();
        is_read_as_written::<KernelStats>();
        is_read_as_written::<LayoutVariation>();
        is_read_as_written::<load::spec::LoadSpec>();
        is_read_as_written::<stage_report::StageReport>();
    }
}
