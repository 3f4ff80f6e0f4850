//! Everything that `load` can be asked for.

use super::{
    ConnectionArgs, ExpectArgs, GeneratorArgs, OutputArgs, PaceArgs, SearchArgs, ServeArgs,
    StoreArgs, TlsArgs, TrafficArgs, parse,
};
use crate::analysis::load::gate::Condition;
use clap::Args;
use std::path::PathBuf;

/// Send HTTP traffic to a server and measure throughput, latency and what became of every request
///
/// Without --rate, every client waits for its answer before it sends the next request. With --rate,
/// requests are sent when they are due, whatever the server does. One request is sent before the
/// load; it is refused when that is not answered well.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell load http://localhost:8080/ -c 50 -t 10s
  speedwell load http://localhost:8080/ --rate 2000 -t 30s
  speedwell load http://localhost:8080/ -c max
  speedwell load http://localhost:8080/ --rate max --fail-on 'p99>200ms'
  speedwell load http://localhost:8080/ --ramp 0-5k:30s --ramp 5k:1m --poisson
  speedwell load http://localhost:3000/users -X POST -d @user.json -H 'Content-Type: application/json'
  speedwell load http://localhost:3000/ --serve 'node server.js' -n 100k")]
pub struct LoadArgs {
    /// Addresses; several are loaded one after the other
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<String>,
    #[command(flatten)]
    pub pace: PaceArgs,
    #[command(flatten)]
    pub search: SearchArgs,
    #[command(flatten)]
    pub traffic: TrafficArgs,
    #[command(flatten)]
    pub expect: ExpectArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub serving: ServeArgs,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Load every address N times, in rounds of shuffled order [default: 1; of several levels of
    /// concurrency 3 times each]
    #[arg(short = 'r', long, value_name = "N", value_parser = parse::count, help_heading = "Sampling")]
    pub runs: Option<u32>,
    /// Exit with status 1 if this is so, e.g. 'p99>20ms' or 'errors>0.1%' (repeatable)
    #[arg(long, value_name = "CONDITION", help_heading = "Comparison")]
    pub fail_on: Vec<Condition>,
    /// Write a row for every request to this file (CSV); it takes memory for each
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub log_requests: Option<PathBuf>,
    /// Write the histograms to this file (log of HdrHistogram)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub hdr: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub store: StoreArgs,
    /// Be the tool of an HTTP benchmark: send the load at once, keep nothing, print a line of JSON
    #[arg(long, hide = true)]
    pub benchmarker: bool,
    /// Perform one case of a definition file over the harness protocol
    #[arg(long, hide = true, conflicts_with = "benchmarker")]
    pub harness: bool,
    /// The long names of the options that were typed.
    #[arg(skip)]
    pub typed: Vec<String>,
}
