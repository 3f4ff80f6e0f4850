//! JSON of google/benchmark programs, `json_schema_version` 1 of the library's JSON reporter.
//!
//! Decides what the members of a row and of the context mean. It must not know whether a file is
//! imported or a program is measured. Start at [`File`]; at [`ResultFile`] for a file as it stands.

pub mod context;
pub mod counter;
mod entry;
mod file;
mod members;
mod row;

pub use entry::{Entry, ResultFile, Results};
pub use file::File;
pub use members::ns_per;
pub use row::{Kind, Row};

/// A value for `--benchmark_filter` that means this benchmark alone. The library takes POSIX
/// extended or ECMAScript expressions, so nothing is escaped that is not special in both.
pub fn filter(name: &str) -> String {
    let mut pattern = String::from("^");
    for character in name.chars() {
        if "\\^$.|?*+()[]{}".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "$"
}
