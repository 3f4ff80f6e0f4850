//! The vocabulary: every other module speaks in these types.
//!
//! This floor does no input or output and no statistics, and imports nothing from the floors above.
//! Start with [`Case`] (what is compared over time), then [`Run`] (the unit of independence) and
//! [`Session`] (everything one invocation measured). What is known of an HTTP load is in [`load_run`].

pub mod assignment;
mod calibration;
mod case;
mod code;
mod design;
mod duration;
mod environment;
mod estimate;
mod event;
mod failure;
pub mod load_run;
pub mod load_spec;
mod measured;
mod metric;
mod nearest;
pub mod performed;
mod profile;
mod quote;
mod recording;
mod run;
mod sample;
mod sampling;
mod seed;
mod series;
mod session;
mod snapshot;
mod value;
mod variant;
mod verdict;

pub use calibration::Calibration;
pub use case::{Case, CaseError, TooManyCases};
pub use code::{Code, Language, Nodes};
pub use design::{DefinitionFile, Design, Order, Stopping};
pub use duration::{milliseconds, parse_duration};
pub use environment::{Environment, Program};
pub use estimate::Estimate;
pub use event::{Event, Observer};
pub use failure::{Cause, Failure, Step};
pub use measured::{Batches, Measured, Window};
pub use metric::{Better, Metric};
pub use nearest::nearest;
pub use profile::{Profile, ProfileTool, WeightUnit};
pub use quote::quote;
pub use recording::{Recorded, Recording};
pub use run::{Run, Usage};
pub use sample::Sample;
pub use sampling::{Length, Runs, Samples, Sampling};
pub use seed::seed_of_step;
pub use series::{RunValue, Series, median};
pub use session::{Session, State};
pub use snapshot::Snapshot;
pub use value::{Value, ValueKind};
pub use variant::Variant;
pub use verdict::Verdict;
