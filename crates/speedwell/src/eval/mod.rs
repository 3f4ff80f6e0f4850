//! `speedwell eval`: measures snippets.
//!
//! Picks one of three modes: runs that are planned and analyzed like those of benchmark files, a
//! search for the best concurrency (`measure/eval/search.rs`), or watching (`watch.rs`). Start at
//! [`run`].

pub mod snippets;
mod watch;

use super::options::{Concurrency, EvalArgs, SearchArgs};
use super::{Status, conclude, gate, push, run as measuring};
use anyhow::ensure;
use speedwell_measure::eval::{self, EvalRequest};
use speedwell_measure::{self as measure, warn_if_busy};
use speedwell_process as process;
use speedwell_report::Subject;
use speedwell_runner::Ended;

/// Measures snippets in the requested mode.
///
/// # Errors
/// Fails on invalid options, files that cannot be read, and a store that cannot be written.
pub fn run(args: EvalArgs) -> anyhow::Result<Status> {
    process::adopt_orphans();
    process::on_interrupt()?;
    if let Some(session) = &args.execution.resume {
        let mut store = args.store.open()?;
        let (task, budget) = (args.task(), args.execution.budget);
        let plans = measure::resumed(&store, session, budget, &mut task.progress())?;
        return measuring::execute(plans, &mut store, &task);
    }
    let parameters = args.parameters.parameters()?;
    let named = snippets::read(args.language(), &args.snippets, &args.snippet, &parameters)?;
    let request = args.request(named, parameters)?;
    if args.watch {
        return watch::run(&args, request);
    }
    if args.search.squeeze || args.concurrency == Some(Concurrency::Max) {
        return search(&args, request);
    }
    let task = args.task();
    let plans = eval::plans(request, &mut task.progress())?;
    let mut store = task.open_store()?;
    measuring::execute(plans, &mut store, &task)
}

/// Searches for the best concurrency and reports it.
fn search(args: &EvalArgs, request: EvalRequest) -> anyhow::Result<Status> {
    args.output.check(Subject::SnippetSearch)?;
    ensure!(
        args.execution.reject.is_none(),
        "--reject repeats runs at the end of their block, and a search has none"
    );
    let task = args.task();
    let mut progress = task.progress();
    let plans = eval::search_plans(request, &mut progress)?;
    gate::refuse_one_variant(plans.plan.variants.len(), task.fail_on)?;
    warn_if_busy(&mut progress)?;
    let mut store = task.open_store()?;
    let rules = args.search.request(args.sampling.runs);
    let rules = rules.rules(1, SearchArgs::MOST_WORKERS);
    let (session, ended) = eval::search(plans, rules, &task.session(), &mut store, &mut progress)?;
    let own = match ended {
        Ended::Failed => Status::COULD_NOT,
        ended => Status::of_end(ended),
    };
    let reported = conclude::conclude(&session, &task);
    let pushed = push::settle(&task.owing, &session, &mut store)?;
    Ok(own.of_gate(reported?).of_gate(pushed))
}
