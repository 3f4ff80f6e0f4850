//! The server that is started for a load.

use super::parse;
use clap::Args;
use std::time::Duration;

/// Server options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub struct ServeArgs {
    /// Start this server before each load and end it afterwards; it must stay in the foreground
    /// (once for all addresses, or once for each)
    #[arg(long, value_name = "COMMAND")]
    pub serve: Vec<String>,
    /// How long a server may take until it accepts connections [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = parse::duration, requires = "serve")]
    pub serve_timeout: Option<Duration>,
}
