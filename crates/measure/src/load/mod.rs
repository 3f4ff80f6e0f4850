//! HTTP loads: one of each address in rounds, or as many as a search of levels or rates takes.
//!
//! Decides which loads follow each other in which order. It must not know how they are reported. Start at [`load`].

mod order;
mod search;
mod session;
mod tool;

pub use session::session;
pub use tool::load_with_tools;

use super::SearchRequest;
use speedwell_analysis::load::gate::Condition;
use speedwell_load::pace::Stop;
use speedwell_model::load_spec::LoadSpec;
use speedwell_process as process;
use speedwell_runner::load::{LoadRun, Notice, carry_out, stop_with_warmup};

/// HTTP loads to be carried out.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// The load of every address; a level or rate that is visited takes the place of its own.
    pub specs: Vec<LoadSpec>,
    /// What is looked for.
    pub wish: Wish,
    /// Loads of every address; of several levels, visits of each.
    pub runs: Option<u32>,
    /// What must not be so of a load. A rate that is searched for is held against it.
    pub conditions: Vec<Condition>,
    /// Seed of every random choice.
    pub seed: u64,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Nothing: addresses are loaded as they say.
    Loads,
    /// Nothing: the levels are given.
    Levels(Vec<u32>),
    /// Where throughput stops growing.
    Concurrency(SearchRequest),
    /// The highest rate that is kept.
    Rate,
}

/// What happens while loads are carried out.
#[derive(Debug)]
pub enum LoadEvent<'a> {
    /// A load begins, which ends so.
    Begins(Stop),
    /// News of it.
    Notice(Notice<'a>),
    /// The load is over.
    Ended,
    /// A level or rate was visited, and gave so many good answers a second.
    Visited(f64, Option<f64>),
}

/// What was carried out.
#[derive(Debug)]
pub struct Loaded {
    /// The loads, in order.
    pub runs: Vec<LoadRun>,
    /// Why there are no more, if they could not be begun.
    pub ended: anyhow::Result<()>,
}

/// Carries out loads, until everything is known or the user ends it.
pub fn load(request: &LoadRequest, tell: &mut dyn FnMut(LoadEvent<'_>)) -> Loaded {
    let mut runs = Vec::new();
    let ended = match &request.wish {
        Wish::Loads => rounds(request, &mut runs, tell),
        _ => search::visits(request, &mut runs, tell),
    };
    Loaded { runs, ended }
}

fn rounds(
    request: &LoadRequest,
    runs: &mut Vec<LoadRun>,
    tell: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<()> {
    for turn in order::turns(request.specs.len(), request.runs.unwrap_or(1), request.seed) {
        let spec = &request.specs[turn.url];
        let mut run = one(spec, stop_with_warmup(spec), request.seed, tell)?;
        (run.round, run.slot) = (turn.round, turn.slot);
        runs.push(run);
        if process::interrupted() {
            break;
        }
    }
    Ok(())
}

/// One load.
fn one(
    spec: &LoadSpec,
    stop: Stop,
    seed: u64,
    tell: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<LoadRun> {
    tell(LoadEvent::Begins(stop));
    let run = carry_out(spec, seed, &mut |notice| tell(LoadEvent::Notice(notice)));
    tell(LoadEvent::Ended);
    run
}
