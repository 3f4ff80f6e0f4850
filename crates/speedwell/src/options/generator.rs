//! What sends the load.

use super::parse;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use speedwell_model::load_spec::Client;
use speedwell_process::CpuSet;

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
    /// Run the generator with real-time priority (SCHED_FIFO); needs permission
    #[arg(long)]
    pub rt: bool,
    /// Busy-wait instead of sleeping: more exact times, for one whole processor per thread
    #[arg(long)]
    pub busy_poll: bool,
    /// Read every answer at once, even when a busy server sends several
    #[arg(long)]
    pub no_batching: bool,
    /// What sends the load: builtin, or another tool whose figures are read
    #[arg(long, value_name = "TOOL", default_value = "builtin", value_parser = clients())]
    pub client: Client,
}

fn clients() -> impl TypedValueParser<Value = Client> {
    let names = Client::NAMES.map(|(name, _)| name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Client>())
}
