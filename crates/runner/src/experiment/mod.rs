//! One run of an experiment: starts a fresh process tree, proves that it is the intended variant,
//! measures it, and stops all of it.
//!
//! Decides the order of stages and which failure belongs to which stage. Independent of definition
//! files and plans: a [`RunAssignment`] is the whole input, a [`RunReport`] the result. Needs a
//! process of its own, since it may enter another network namespace. Start at [`perform_run`];
//! `lifecycle.rs` has the stages of a server.

mod command;
mod counters;
mod figures;
mod isolation;
mod lifecycle;
mod loads;
mod profiling;
mod proof;
mod services;
mod site;
mod target;

pub use figures::{RunReport, StageResult, stage_failure};
pub use services::{RunningService, run_shared_services, wait_for_loss};
pub use site::{LoadSender, LocalSender, RunSite};
use speedwell_model::assignment::{RunAssignment, TargetWork};

/// Performs a run on this machine, drawing random choices from `seed`. Reports failure as part of
/// the result.
pub fn perform_run(assignment: &RunAssignment, seed: u64) -> RunReport {
    let site = RunSite::default();
    let mut done = RunReport::default();
    let ended = match enter_private_network(assignment, &mut done) {
        Ok(()) => run_with_services(assignment, &site, seed, &mut done),
        Err(why) => Err(why),
    };
    done.performed.failure = ended.err();
    done
}

/// Enters the private network while this process still has a single thread.
fn enter_private_network(assignment: &RunAssignment, done: &mut RunReport) -> StageResult<()> {
    let TargetWork::Server(service) = &assignment.work else {
        return Ok(());
    };
    if service.private_network
        && let Err(error) = isolation::enter_network_namespace()
    {
        done.performed.notes.push(format!(
            "A private network is not permitted here ({error}); the run used the network of the \
             machine."
        ));
    }
    Ok(())
}

/// Starts the backing services, runs the target, and stops the services in reverse order.
fn run_with_services(
    assignment: &RunAssignment,
    site: &RunSite<'_>,
    seed: u64,
    done: &mut RunReport,
) -> StageResult<()> {
    let mut blanks = site.placeholders();
    blanks.extend_from_slice(&assignment.kept);
    let services = services::start_all(&assignment.services, site, assignment.ports, &mut blanks)?;
    let filled = assignment.clone().fill_placeholders(&blanks);
    let ended = run_target(&filled, site, seed, done);
    let lost = services::find_lost_service(&services);
    let stopped = services::stop_all(services, done);
    // A lost service is reported first: a target whose database is gone fails because of that.
    match lost {
        Some(why) => Err(why),
        None => ended.and(stopped),
    }
}

/// Runs a target at this site; its services are ready already.
///
/// # Errors
/// Returns the stage that failed. `done` holds the earlier measurements.
pub fn run_target(
    assignment: &RunAssignment,
    site: &RunSite<'_>,
    seed: u64,
    done: &mut RunReport,
) -> StageResult<()> {
    let own = isolation::divide_processors(assignment.processors, done);
    match &assignment.work {
        TargetWork::Command => command::run_command(assignment, own, done),
        TargetWork::Server(service) => {
            lifecycle::run_server(assignment, service, own, (seed, site), done)
        }
        TargetWork::Load(spec) => loads::send_load(&assignment.target, spec, own, seed, done),
    }
}
