//! Declares each group of options once. Commands flatten the groups into their own options, so that
//! an option means the same everywhere.

mod comparison;
mod dashboard;
mod eval;
mod execution;
mod fleet;
mod history;
mod layout;
mod load;
#[cfg(test)]
mod load_args_tests;
mod output;
pub mod parse;
mod run;
mod search;
mod selection;
mod store;
mod variants;

pub use comparison::ComparisonArgs;
pub use dashboard::DashboardArgs;
#[cfg(feature = "serve")]
pub use dashboard::LogFormat;
pub use eval::{EvalArgs, SnippetArgs, language};
pub use execution::{ExecutionArgs, instruction_counting};
pub use fleet::{FleetArgs, FleetGeneratorArgs, find_fleet_file as fleet_file};
pub use history::SeriesArgs;
#[cfg(feature = "serve")]
pub use history::default_threshold;
pub use layout::LayoutArgs;
pub use load::{LoadArgs, load_mode};
pub use output::OutputArgs;
pub use run::{MeasureTask, RunArgs};
pub use search::{Concurrency, RateChoice, SearchArgs};
pub use selection::{MetricArgs, SelectionArgs, StudyArgs};
pub use speedwell_analysis::gate::FailOn;
pub use store::{DatabaseArgs, MachineArgs, OriginArgs, PushTarget, StoreArgs, env_variable};
pub use variants::{BuildArgs, VariantArgs};
