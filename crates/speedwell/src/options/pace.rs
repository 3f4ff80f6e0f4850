//! When requests are sent, and when a load ends.

use super::parse;
use super::{Concurrency, RateChoice};
use clap::Args;
use speedwell_model::load_spec::{Pause, Ramp};
use std::time::Duration;

/// Pace options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Pace")]
pub struct PaceArgs {
    /// Concurrent requests; several numbers are measured in turn, 'max' finds the one beyond which
    /// throughput stops growing. With --rate, connections at the beginning [default: 10]
    #[arg(short = 'c', long, value_name = "N[,N...]|max")]
    pub concurrency: Option<Concurrency>,
    /// Stop after N requests, not counting those of the warm-up
    #[arg(short = 'n', long, value_name = "N", value_parser = parse::count)]
    pub count: Option<u32>,
    /// Stop after this time, which begins after the warm-up [default: 10s without --count]
    #[arg(short = 't', long, value_name = "DUR", value_parser = parse::duration)]
    pub time: Option<Duration>,
    /// Requests per second, sent on schedule whatever the server does: 500, 10k, 90/m; 'max' finds
    /// the highest rate that the server sustains
    #[arg(long, value_name = "N[/s]|max")]
    pub rate: Option<RateChoice>,
    /// Ramp the rate, e.g. 0-1000:30s, or hold it, e.g. 1000:1m (repeatable: one after the other,
    /// then --rate if given)
    #[arg(long, alias = "stage", value_name = "[FROM-]TO:DUR")]
    pub ramp: Vec<Ramp>,
    /// Send at random moments instead of evenly, as independent users do
    #[arg(long)]
    pub poisson: bool,
    /// Pause of a client between an answer and its next request; random ones with 'DUR exp'
    #[arg(long, value_name = "DUR[ exp]")]
    pub think: Option<Pause>,
    /// Stop early, once the throughput and median of a second are within PCT of those of the second
    /// before [default: 5]
    #[arg(
        long,
        value_name = "PCT",
        value_parser = parse::percentage,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5",
        conflicts_with = "clients"
    )]
    pub until_steady: Option<f64>,
    /// Warm-up time; its requests are excluded from the results [default: none]
    #[arg(short = 'w', long, value_name = "DUR", value_parser = parse::duration_or_none)]
    pub warmup: Option<Duration>,
    /// How long to wait for outstanding answers at the end [default: as --timeout]
    #[arg(long, value_name = "DUR", value_parser = parse::duration_or_none)]
    pub drain: Option<Duration>,
    /// Seed of all random choices [default: random; stored and shown]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl PaceArgs {
    /// The one concurrency that was typed; `None` for the usual one, and for several or a search, of which
    /// each load is given its own.
    pub fn clients(&self) -> Option<u32> {
        match &self.concurrency {
            Some(Concurrency::Levels(levels)) => levels.first().copied(),
            Some(Concurrency::Max) | None => None,
        }
    }

    /// The rate that was typed, likewise.
    pub fn fixed_rate(&self) -> Option<f64> {
        match self.rate {
            Some(RateChoice::PerSecond(rate)) => Some(rate),
            Some(RateChoice::Max) | None => None,
        }
    }
}
