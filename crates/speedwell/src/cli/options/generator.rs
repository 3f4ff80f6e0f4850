//! What sends the load.

use super::parse;
use crate::process::CpuSet;
use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use speedwell_load::load::Part;
use std::str::FromStr;

/// Generator options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Generator")]
pub struct GeneratorArgs {
    /// Threads of a generator process [default: 1]
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub threads: Option<u32>,
    /// Generator processes, started together and added up [default: 1]
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub clients: Option<u32>,
    /// Processors for the threads of the generator, one after the other, e.g. 1 or 0,2-3
    #[arg(long, value_name = "CPUS")]
    pub pin: Option<CpuSet>,
    /// Run the generator before all ordinary processes (SCHED_FIFO); needs a permission
    #[arg(long)]
    pub rt: bool,
    /// Never sleep while waiting: shorter waits for one whole processor per thread
    #[arg(long)]
    pub busy_poll: bool,
    /// Read every answer at once, even when a busy server sends several
    #[arg(long)]
    pub no_batching: bool,
    /// What sends the load: builtin, or another tool whose figures are read
    #[arg(long, value_name = "TOOL", default_value = "builtin")]
    pub client: Client,
    /// Be one of several generator processes
    #[arg(long, value_name = "INDEX/OF,URL", hide = true)]
    pub worker: Option<WorkerPart>,
}

/// Programs that can send a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Client {
    /// Our own generator.
    #[default]
    Builtin,
    /// ApacheBench.
    Ab,
    /// wrk.
    Wrk,
    /// autocannon.
    Autocannon,
    /// h2load.
    H2load,
}

/// Which part of which load a generator process sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerPart {
    /// The part.
    pub part: Part,
    /// The address, redirects followed.
    pub url: String,
}

impl FromStr for WorkerPart {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<WorkerPart> {
        let form = || format!("'{text}' is not of the form INDEX/OF,URL");
        let (part, url) = text.split_once(',').with_context(form)?;
        let (index, of) = part.split_once('/').with_context(form)?;
        let part = Part {
            index: index.parse().with_context(form)?,
            of: of.parse().with_context(form)?,
        };
        ensure!(part.index < part.of, form());
        Ok(WorkerPart {
            part,
            url: url.to_owned(),
        })
    }
}
