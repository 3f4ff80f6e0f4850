//! Loads as a session of the store: what was typed, where and in which order it was measured.

use crate::cli::options::LoadArgs;
use crate::environment;
use crate::exchange::measured;
use crate::model::load_run::LoadRun;
use crate::model::{Design, Order, Session, Stopping};
use crate::runner::load::Url;

/// The session.
///
/// # Errors
/// There are no loads.
pub fn session(args: &LoadArgs, runs: &[LoadRun], seed: u64) -> anyhow::Result<Session> {
    // What is to be said of the figures is said by the report of the loads.
    let mut session = measured::session("load", runs, &mut Vec::new())?;
    // Rounds are shuffled, and the first address typed is the baseline.
    let place = |name: &str| args.urls.iter().position(|url| is_of(url, name));
    session.variants.sort_by_key(|variant| place(&variant.name));
    let baseline = session.variants.first().map(|variant| variant.name.clone());
    let rounds = runs.iter().map(|run| run.round + 1).max();
    Ok(Session {
        tags: args.store.tag.clone(),
        command: std::env::args().collect(),
        environment: environment::capture(&[]),
        design: Design {
            // Every round holds each address once, shuffled: blocks with one run of each variant.
            order: Order::Blocks,
            stopping: Stopping::Fixed {
                runs: rounds.unwrap_or(1),
            },
            seed,
            runs_per_block: 1,
            baseline: baseline.unwrap_or_default(),
            ..session.design
        },
        ..session
    })
}

/// Whether a load of this name went to the address typed.
fn is_of(url: &str, name: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.to_string() == name)
}

/// The metrics that are looked at where loads were repeated: throughput, and the time by which a load
/// is judged.
pub fn metrics(session: &Session) -> Vec<String> {
    let has = |name: &&str| session.metric(name).is_some();
    let wanted = [
        ["throughput", "requests_per_second"],
        ["response_p50", "latency_p50"],
        ["response_p99", "latency_p99"],
    ];
    let found = wanted
        .iter()
        .filter_map(|names| names.iter().copied().find(|name| has(name)));
    found.map(str::to_owned).collect()
}
