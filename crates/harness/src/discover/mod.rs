//! From the words typed to benchmarks with cases: files, folders, groups, programs.
//!
//! [`read`] is the door. [`target`] finds benchmark files and who performs them, [`selection`]
//! holds what the user wants of them, [`suite`] asks each file for its cases. [`programs`] pairs
//! the benchmarks of programs that are compared, or of [`part`]s of them.

mod part;
mod programs;
mod selection;
mod suite;
mod target;

pub use part::{Part, common_word};
pub use programs::{Side, common as common_benchmarks};
pub use selection::Selection;
pub use suite::{Suite, describe, read};
pub use target::{all_sources, core_source, declared_variants, experiment, sources};
