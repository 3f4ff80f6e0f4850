//! What is sent. Letters and meanings are those of curl.

use clap::Args;
use std::path::PathBuf;

/// Traffic options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Traffic")]
pub struct TrafficArgs {
    /// The method [default: GET; POST with a body]
    #[arg(short = 'X', long = "request", value_name = "METHOD")]
    pub method: Option<String>,
    /// A header field; 'Name:' leaves one out that is usual, 'Name;' sends an empty one (repeatable)
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// The body, as a form; '@FILE' takes it from a file as it is
    #[arg(
        short = 'd',
        long,
        value_name = "TEXT|@FILE",
        conflicts_with = "body_file"
    )]
    pub data: Option<String>,
    /// The body from a file, without a Content-Type
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// Name and password (Basic authentication)
    #[arg(short = 'u', long, value_name = "NAME:PASSWORD")]
    pub user: Option<String>,
    /// A cookie (repeatable)
    #[arg(short = 'b', long, value_name = "NAME=VALUE")]
    pub cookie: Vec<String>,
    /// The value of User-Agent [default: speedwell/VERSION]
    #[arg(short = 'A', long, value_name = "TEXT")]
    pub user_agent: Option<String>,
    /// Requests of several kinds with weights, from a TOML file; paths refer to the URL
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["method", "data", "body_file", "location"]
    )]
    pub requests: Option<PathBuf>,
    /// A table whose rows fill '{{column}}' in paths, header fields and bodies: .csv or .jsonl
    #[arg(long, value_name = "FILE")]
    pub data_rows: Option<PathBuf>,
    /// Follow redirects before the load, and load the last address
    #[arg(short = 'L', long)]
    pub location: bool,
    /// Speak HTTP/1.0
    #[arg(long = "http1.0", conflicts_with = "multiplexed")]
    pub http10: bool,
    /// Speak HTTP/2: agreed in TLS, or without asking where there is none
    #[arg(long, group = "multiplexed")]
    pub http2: bool,
    /// Speak HTTP/3, if this program was built with it (cargo feature 'http3')
    #[arg(long, group = "multiplexed")]
    pub http3: bool,
    /// Bytes of the table for header compression that the server may use; browsers offer 65536
    /// [default: 0]
    #[arg(long, value_name = "BYTES", requires = "http2")]
    pub h2_table_size: Option<u32>,
}
