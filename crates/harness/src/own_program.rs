//! This program's own file, for processes that are to start it again.

use std::path::PathBuf;

/// `$SPEEDWELL_PROGRAM`, which whoever embeds the library sets, else the program that runs; its bare
/// name where the system does not tell.
pub fn own_program() -> PathBuf {
    let set = std::env::var_os("SPEEDWELL_PROGRAM").filter(|value| !value.is_empty());
    set.map(PathBuf::from)
        .or_else(|| std::env::current_exe().ok())
        .unwrap_or_else(|| PathBuf::from("speedwell"))
}
