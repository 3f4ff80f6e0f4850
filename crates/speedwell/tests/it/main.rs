//! The one integration binary; each module tells one story about the whole program.

// A test that cannot go on says so by panicking; helpers of tests are no exception.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arbitrary;
mod broken_files;
mod browser;
mod by_hand;
mod calibrate;
mod compat_compare_js;
mod compat_compare_py;
mod compat_grammar;
mod compat_r;
mod compat_run_js;
mod compat_scatter_js;
mod conformance;
mod cpp;
mod docs_commands;
mod drop_in;
mod environment;
mod grammar;
mod harness_driver;
mod http_tools;
mod imports;
mod imports_text;
mod invariants;
mod json_lines;
mod killed;
mod layers;
mod load_exchange;
mod load_report;
mod node_bad_children;
mod node_csv;
mod node_fixtures;
mod process;
mod programs;
mod project;
mod python;
mod recorder;
mod report;
mod report_page;
mod resume;
mod run;
mod size;
mod sources;
mod store;
