//! The option groups: each declared once and flattened into every command that uses it, so that a
//! letter means the same everywhere.

mod comparison;
mod execution;
mod output;
pub mod parse;
mod run;
mod sampling;
mod selection;
mod store;
mod study;
mod variants;

pub use comparison::{ComparisonArgs, FailOn};
pub use execution::{ExecutionArgs, OrderName};
pub use output::OutputArgs;
pub use run::RunArgs;
pub use sampling::SamplingArgs;
pub use selection::SelectionArgs;
pub use store::StoreArgs;
pub use study::StudyArgs;
pub use variants::{VariantArgs, resolve};
