//! `speedwell eval`: from pieces of code to runs.
//!
//! It decides which of four ways the words ask for: fresh processes, whose runs are planned and analysed like those
//! of benchmark files; one process in which codes take turns (`together.rs`); a search for the best concurrency
//! (`search.rs`); or watching (`watch.rs`). Start at [`run`].

mod codes;
mod plans;
mod search;
mod watch;

use super::options::{Concurrency, EvalArgs};
use super::{Status, run as measuring};
use crate::measure;
use crate::process;

/// Measures code.
///
/// # Errors
/// Wrong words, files that cannot be read, a store that cannot be written.
pub fn run(args: EvalArgs) -> anyhow::Result<Status> {
    process::adopt_orphans();
    process::on_interrupt()?;
    if let Some(session) = &args.execution.resume {
        let mut store = args.store.open()?;
        let plans = measure::resumed(&store, session, args.execution.budget)?;
        return measuring::execute(plans, &mut store, &args.task());
    }
    let codes = codes::read(&args)?;
    if args.watch {
        return watch::run(args, codes);
    }
    if args.search.squeeze || args.concurrency == Some(Concurrency::Max) {
        return search::run(args, codes);
    }
    let plans = plans::plans(&args, codes)?;
    let task = args.task();
    let mut store = task.open_store()?;
    measuring::execute(plans, &mut store, &task)
}
