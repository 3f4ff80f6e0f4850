//! This crate defines the data types that the other crates share.
//!
//! It does no input or output and no statistics, and depends on no other crate of the workspace.
//! Start with [`Case`], a benchmark with its parameters. Then read [`Run`], one measurement that is
//! statistically independent of the others, and [`Session`], everything that one invocation
//! measured. [`load`] describes HTTP loads and their results.

/// Gives an enum names: each variant is listed once with its name.
#[macro_export]
macro_rules! name_variants {
    ($kind:ident: $($variant:ident = $name:literal),+) => {
        impl $kind {
            /// All values, in the order of their declaration.
            pub const ALL: [$kind; [$($name),+].len()] = [$($kind::$variant),+];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self {
                    $($kind::$variant => $name),+
                }
            }

            /// Returns the value with this name.
            pub fn from_name(name: &str) -> Option<$kind> {
                match name {
                    $($name => Some($kind::$variant),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(self.name())
            }
        }
    };
}

pub mod assignment;
mod case;
pub mod clock;
pub mod experiment;
pub mod expression;
mod failure;
mod history;
mod machine;
mod metric;
mod order;
pub mod parse;
mod run;
mod session;
pub mod stage_report;
pub mod stored;
mod variant;

/// Describes HTTP loads: the request ([`spec`](load::spec)), and the complete record of a load
/// ([`measurement`](load::measurement), with [`latency`](load::latency) and
/// [`outcomes`](load::outcomes)).
///
/// All types are plain data. The crate `speedwell-load` executes a load and fills in the
/// measurement.
pub mod load {
    pub mod latency;
    pub mod measurement;
    pub mod outcomes;
    pub mod spec;
}

pub use case::{Case, CaseError, ParameterValue, SnippetLanguage, TooManyCases, ValueKind};
pub use failure::{
    ErrorText, FailureCause, SessionEvent, SessionObserver, SessionStep, StepFailure,
};
pub use history::{
    ChangeState, ChangeTriage, HistoryPoint, PointKind, RecordedChange, Revision, RevisionMarker,
    SeriesKey, SessionPoint, SessionPoints, check_note,
};
pub use machine::{
    ActivitySnapshot, Environment, Machine, MachineAllocation, MachinePlacement, MeasuredProgram,
    NoiseCalibration, PlacedMachine, SessionMachine, SpeedProbe,
};
pub use metric::{IntervalEstimate, Metric, MetricDirection, Verdict};
pub use order::{ComparedClock, OrderChoice, OrderRequest, RunOrder, TrialShares};
pub use parse::{as_milliseconds, format_fixed, nearest_name, parse_duration, quote};
pub use run::{
    BatchQuantiles, DisturbanceFigure, KernelStats, REPETITION, RejectRule, RejectRules,
    ResourceUsage, Run, RunSeries, RunValue, Sample, SnippetTiming, TimingWindow, median,
};
pub use session::{
    DefinitionFile, InstructionCounting, LayoutVariation, ProfileOutcome, ProfileRecording,
    ProfileTool, RequestedDivision, RunCount, SampleDivision, SampleLength, SamplingOptions,
    Session, SessionDesign, SessionPurpose, SessionState, StackProfile, SteadyRule, StoppingDesign,
    WeightUnit, seed_of_step,
};
pub use stored::{ReferenceError, SessionReference, validate_tag};
pub use variant::{
    BisectionRange, BuildCommand, CodeOrigin, CommitsSince, ErlangNodes, LineRevision,
    OriginRequest, OriginSource, Snippet, UncommittedChanges, Variant, VariantWorktree,
    short_revision,
};

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
