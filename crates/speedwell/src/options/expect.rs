//! What counts as success.

use clap::Args;
use speedwell_model::load_spec::parse_statuses;
use std::ops::RangeInclusive;

/// Options for success.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Success")]
pub struct ExpectArgs {
    /// Statuses that count as success, e.g. 200,304 or 2xx [default: 2xx]
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = parse_statuses)]
    pub expect_status: Vec<RangeInclusive<u16>>,
    /// Text that every body must contain
    #[arg(long, value_name = "TEXT", conflicts_with = "expect_length")]
    pub expect_body: Option<String>,
    /// The length of every body in bytes
    #[arg(long, value_name = "BYTES")]
    pub expect_length: Option<u64>,
    /// Do not send a test request before the load
    #[arg(long, conflicts_with = "location")]
    pub no_verify: bool,
}
