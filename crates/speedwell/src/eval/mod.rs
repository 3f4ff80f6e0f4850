//! `speedwell eval`: measures snippets.
//!
//! The command has three modes. By default, it measures snippets in planned runs, the way benchmark
//! files are measured. It can also search for the best concurrency (`search.rs`) or watch snippets
//! (`watch.rs`). Start at [`run`].

mod search;
mod watch;

use crate::options::{Concurrency, EvalArgs, SearchArgs, read_snippets};
use crate::{CommandStatus, gate, push, run as measuring, stored_session};
use anyhow::ensure;
use speedwell_engine::eval::EvalRequest;
use speedwell_engine::execution::SessionEnd;
use speedwell_engine::{eval, warn_if_busy};
use speedwell_machine::process;
use speedwell_report::ReportSubject;

/// Measures snippets in the requested mode.
///
/// # Errors
/// Fails if an option is invalid, a file cannot be read, or the store cannot be written.
pub fn run(args: EvalArgs) -> anyhow::Result<CommandStatus> {
    process::adopt_orphans();
    process::install_handlers()?;
    if let Some(session) = &args.execution.resume {
        let mut store = args.results.store.open_store()?;
        let task = args.eval_task();
        let plans = stored_session::load_interrupted_plan(&store, session, &task)?;
        return measuring::execute_plans(plans, &mut store, &task);
    }
    let parameters = args.parameters.snippet_parameters()?;
    let snippets = read_snippets(args.language(), &args.snippets, &args.snippet, &parameters)?;
    let request = args.eval_request(snippets, parameters)?;
    if args.watch {
        return watch::run(&args, request);
    }
    if args.search.squeeze || args.concurrency == Some(Concurrency::Max) {
        return search_concurrency(&args, request);
    }
    let task = args.eval_task();
    let plans = eval::plan_snippets(request, &mut task.progress_display())?;
    let mut store = task.open_store()?;
    measuring::execute_plans(plans, &mut store, &task)
}

/// Searches for the best concurrency and reports it.
fn search_concurrency(args: &EvalArgs, request: EvalRequest) -> anyhow::Result<CommandStatus> {
    args.results.output.check_report(ReportSubject::SnippetSearch)?;
    ensure!(
        args.execution.reject.is_none(),
        "--reject repeats runs at the end of their block, but a search has no blocks"
    );
    let task = args.eval_task();
    let mut progress = task.progress_display();
    let plans = search::plan_search(request, &mut progress)?;
    gate::reject_single_variant(plans.plan.variants.len(), task.fail_on)?;
    warn_if_busy(&mut progress)?;
    let mut store = task.open_store()?;
    let rules =
        args.search.search_request(args.sampling.runs).search_rules(1, SearchArgs::MAX_WORKERS);
    let (session, end) =
        search::search_snippets(plans, rules, &task.session_request(), &mut store, &mut progress)?;
    let status = match end {
        SessionEnd::Failed => CommandStatus::FAILED,
        end => CommandStatus::from_session_end(end),
    };
    let report_status = measuring::report_session(&session, &task);
    let push_status = push::push_pending(&task.owing, &session, &mut store)?;
    Ok(status.combine_with_gate(report_status?).combine_with_gate(push_status))
}
