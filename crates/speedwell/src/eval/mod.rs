//! `speedwell eval`: measures snippets.
//!
//! The command has three modes. By default, it measures snippets in planned runs, the way benchmark
//! files are measured. It can also search for the best concurrency (`search.rs`) or watch snippets
//! (`watch.rs`). Start at [`run`].

mod search;
mod watch;

use crate::options::{Concurrency, EvalArgs, SearchArgs, read_snippets};
use crate::rehearsal::ANNOUNCED_TIME;
use crate::{CommandStatus, gate, push, run as measuring, status, stored_session, suggest};
use anyhow::{bail, ensure};
use speedwell_engine::eval::EvalRequest;
use speedwell_engine::execution::SessionEnd;
use speedwell_engine::experiment::measuring_time;
use speedwell_engine::{PreparedPlan, eval, warn_if_busy};
use speedwell_machine::process::{self, ProcessEnd};
use speedwell_model::{Case, ParameterValue, SnippetLanguage};
use speedwell_report::ReportSubject;
use std::path::Path;
use std::time::Duration;

/// Measures snippets in the requested mode.
///
/// # Errors
/// Fails if an option is invalid, a file cannot be read, or the store cannot be written.
pub fn run(args: EvalArgs) -> anyhow::Result<CommandStatus> {
    process::adopt_orphans();
    process::install_handlers()?;
    let parameters = args.parameters.snippet_parameters()?;
    let [setup, cleanup] = args.commands.fill_hooks(&Case::cartesian_product(&parameters)?)?;
    if args.execution.list || (setup.is_none() && cleanup.is_none()) {
        return measure_snippets(&args, parameters);
    }
    ensure!(
        args.results.fleet.machines.is_none(),
        "--setup and --cleanup run on this machine only\nhint: --prepare runs where the command does"
    );
    if let Some(line) = &setup {
        execute_line("--setup", line)?;
    }
    let measured = measure_snippets(&args, parameters);
    if let Some(line) = &cleanup {
        // An interrupt of the measurement is not meant for the line.
        let is_interrupted = process::is_interrupt_requested();
        process::clear_interrupt();
        let cleaned = execute_line("--cleanup", line);
        if is_interrupted {
            process::request_interrupt();
        }
        if measured.is_ok() {
            cleaned?;
        }
    }
    measured
}

/// Maximum time between a request to end a line and its end.
const GRACE: Duration = Duration::from_secs(10);

/// Executes the line of an option in a shell. Its output goes to stderr, because stdout is for
/// results.
fn execute_line(option: &str, line: &str) -> anyhow::Result<()> {
    let arguments = ["-c".to_owned(), format!("exec >&2\n{line}")];
    let folder = std::env::current_dir()?;
    match process::run_attached(Path::new("sh"), &arguments, &folder, GRACE)? {
        ProcessEnd::Exit(0) => Ok(()),
        ProcessEnd::Interrupted => Err(process::InterruptedEarly.into()),
        ended => bail!("{option} '{line}' {ended}"),
    }
}

fn measure_snippets(
    args: &EvalArgs,
    parameters: Vec<(String, Vec<ParameterValue>)>,
) -> anyhow::Result<CommandStatus> {
    if let Some(session) = &args.execution.resume {
        let mut store = args.results.store.open_store()?;
        let task = args.eval_task();
        let plans = stored_session::load_interrupted_plan(&store, session, &task)?;
        return measuring::execute_plans(plans, &mut store, &task);
    }
    let snippets = read_snippets(args.language(), &args.snippets, &args.snippet, &parameters)?;
    let request = args.eval_request(snippets, parameters)?;
    if args.watch {
        return watch::run(args, request);
    }
    if args.search.squeeze || args.concurrency == Some(Concurrency::Max) {
        return search_concurrency(args, request);
    }
    let task = args.eval_task();
    let plans = eval::plan_snippets(request, &mut task.progress_display())?;
    explain_samples(args, &plans);
    let mut store = task.open_store()?;
    measuring::execute_plans(plans, &mut store, &task)
}

/// Says what `-n` means if the session takes long with it: in timeit, it is the number of iterations.
fn explain_samples(args: &EvalArgs, plans: &PreparedPlan) {
    let is_measured = !args.execution.list && !args.execution.test;
    let Some(samples) = args.sampling.samples.filter(|_| is_measured) else { return };
    let is_long = measuring_time(&plans.plan).is_some_and(|time| time >= ANNOUNCED_TIME);
    if args.language() == SnippetLanguage::Sh || args.results.output.quiet || !is_long {
        return;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(line) = suggest::translate_timeit(&words) else { return };
    status::print_hint(&format!(
        "-n {samples} measures {samples} samples in each run; as in timeit, with {samples} iterations: speedwell {line}"
    ));
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
    let report_status = measuring::report_session(&session, &task).and_then(|gate| {
        gate.store_line(session.number.unwrap_or_default(), &mut store)?;
        Ok(gate.exit_status())
    });
    let push_status = push::push_pending(&task.owing, &session, &mut store)?;
    Ok(status.combine_with_gate(report_status?).combine_with_gate(push_status))
}
