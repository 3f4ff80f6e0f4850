//! Loads as a session of the store: where and in which order they were measured.

use super::LoadRequest;
use crate::SessionRequest;
use speedwell_environment as environment;
use speedwell_model::load_run::LoadRun;
use speedwell_model::{Design, Order, Session, Stopping};
use speedwell_results::formats::measured;
use speedwell_runner::load::Url;

/// The session.
///
/// # Errors
/// There are no loads.
pub fn session(
    request: &LoadRequest,
    runs: &[LoadRun],
    kept: &SessionRequest,
) -> anyhow::Result<Session> {
    // What is to be said of the figures is said by the report of the loads.
    let mut session = measured::session("load", runs, &mut Vec::new())?;
    // Rounds are shuffled, and the first address given is the baseline.
    let place = |name: &str| request.specs.iter().position(|spec| is_of(&spec.url, name));
    session.variants.sort_by_key(|variant| place(&variant.name));
    let baseline = session.variants.first().map(|variant| variant.name.clone());
    let rounds = runs.iter().map(|run| run.round + 1).max();
    Ok(Session {
        tags: kept.tags.clone(),
        command: kept.command.clone(),
        environment: environment::capture(&[]),
        design: Design {
            // Every round holds each address once, shuffled: blocks with one run of each variant.
            order: Order::Blocks,
            stopping: Stopping::Fixed {
                runs: rounds.unwrap_or(1),
            },
            seed: request.seed,
            conditions: request.conditions.iter().map(|c| c.text.clone()).collect(),
            runs_per_block: 1,
            baseline: baseline.unwrap_or_default(),
            ..session.design
        },
        ..session
    })
}

/// Whether a load of this name went to that address.
fn is_of(url: &str, name: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.to_string() == name)
}
