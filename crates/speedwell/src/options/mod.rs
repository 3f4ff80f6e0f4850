//! The option groups: each declared once and flattened into every command that uses it, so that a
//! letter means the same everywhere.

mod code;
mod comparison;
mod connection;
mod eval;
mod execution;
mod expect;
mod generator;
mod load;
mod output;
mod pace;
pub mod parse;
mod run;
mod sampling;
mod search;
mod selection;
mod serve;
mod store;
mod study;
mod tls;
mod traffic;
mod variants;

pub use code::CodeArgs;
pub use comparison::{ComparisonArgs, FailOn};
pub use connection::ConnectionArgs;
pub use eval::EvalArgs;
pub use execution::{ExecutionArgs, OrderName};
pub use expect::ExpectArgs;
pub use generator::GeneratorArgs;
pub use load::LoadArgs;
pub use output::OutputArgs;
pub use pace::PaceArgs;
pub use run::RunArgs;
pub use sampling::SamplingArgs;
pub use search::{Concurrency, RateChoice, SearchArgs};
pub use selection::{MetricArgs, SelectionArgs};
pub use serve::ServeArgs;
pub use store::StoreArgs;
pub use study::StudyArgs;
pub use tls::TlsArgs;
pub use traffic::TrafficArgs;
pub use variants::VariantArgs;
