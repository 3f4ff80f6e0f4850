//! The vocabulary: the data types that every other crate uses.
//!
//! This crate does no input or output and no statistics, and depends on no other crate of the workspace.
//! Start with [`Case`] (what is compared over time), then [`Run`] (the unit of independence) and
//! [`Session`] (everything one invocation measured). [`load_run`] describes the result of an HTTP load.

pub mod assignment;
mod case;
mod change;
mod disturbance;
mod environment;
mod failure;
pub mod load_run;
pub mod load_spec;
mod machine;
mod metric;
mod origin;
pub mod performed;
mod placement;
mod point;
mod profile;
mod run;
mod session;
mod text;
mod unit_direction;
mod variant;

pub use case::{Case, CaseError, TooManyCases, Value, ValueKind};
pub use change::{Change, ChangeState, Judgement, check_note};
pub use disturbance::{Figure, Rule, Rules};
pub use environment::{Calibration, Environment, Program, Snapshot};
pub use failure::{Cause, Event, Failure, Observer, Step};
pub use machine::{Machine, Pulse, SessionMachine};
pub use metric::{Better, Estimate, Metric, Verdict};
pub use origin::{Bisection, LineRevision, Origin, OriginRequest, OriginSource, short_revision};
pub use placement::{Allocation, PlacedMachine, Placement};
pub use point::{Landmark, Point, PointKind, Revision, SeriesKey, SessionPoint, SessionPoints};
pub use profile::{Profile, ProfileTool, Recorded, Recording, WeightUnit};
pub use run::{
    Batches, REPETITION, Run, RunValue, Sample, Series, SnippetTiming, Surroundings, Usage, Window,
    median,
};
pub use session::{
    Clock, Counting, DefinitionFile, Design, Division, Layout, Length, Order, Purpose, Runs,
    Samples, Sampling, Session, State, SteadyRule, Stopping, seed_of_step,
};
pub use text::{milliseconds, nearest, parse_duration, placed, quote};
pub use variant::{Build, Language, Nodes, Snippet, Variant, Worktree};

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
    fn what_is_written_with_nothing_in_it_is_read_again() {
        is_read_as_written::<Revision>();
        is_read_as_written::<Origin>();
        is_read_as_written::<Environment>();
        is_read_as_written::<Program>();
        is_read_as_written::<Calibration>();
        is_read_as_written::<Bisection>();
        is_read_as_written::<LineRevision>();
        is_read_as_written::<SessionMachine>();
        is_read_as_written::<Usage>();
        is_read_as_written::<Surroundings>();
        is_read_as_written::<Layout>();
        is_read_as_written::<load_spec::LoadSpec>();
        is_read_as_written::<performed::Performed>();
    }
}
