//! The `speedwell` command: only here does the process exit.

fn main() {}
