//! One run of an experiment: starts a fresh process tree, proves that it is the intended variant,
//! measures it, and stops all of it.
//!
//! Decides the order of stages and which failure belongs to which stage. Knows neither definition
//! files nor plans: an [`Assignment`] is the whole input, [`Performed`] the result. Needs a process
//! of its own, since it may enter another network namespace. Start at [`perform`]; `lifecycle.rs`
//! has the stages of a server.

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

pub use figures::{Done, Fallible, stage_failure};
pub use services::{Backing, keep, watch};
pub use site::{Here, SendsLoads, Site};
use speedwell_model::assignment::{Assignment, Work};

/// Performs a run on this machine, drawing random choices from `seed`. Reports failure as part of
/// the result.
pub fn perform(assignment: &Assignment, seed: u64) -> Done {
    let site = Site::default();
    let mut done = Done::default();
    let ended = match enter_network(assignment, &mut done) {
        Ok(()) => beside_services(assignment, &site, seed, &mut done),
        Err(why) => Err(why),
    };
    done.performed.failure = ended.err();
    done
}

/// Enters the private network while this process still has a single thread.
fn enter_network(assignment: &Assignment, done: &mut Done) -> Fallible<()> {
    let Work::Server(service) = &assignment.work else {
        return Ok(());
    };
    if service.private_network
        && let Err(error) = isolation::enter()
    {
        done.performed.notes.push(format!(
            "A network of its own is not permitted here ({error}); the run used that of the machine."
        ));
    }
    Ok(())
}

/// Starts the backing services, runs the target, and stops the services in reverse order.
fn beside_services(
    assignment: &Assignment,
    site: &Site<'_>,
    seed: u64,
    done: &mut Done,
) -> Fallible<()> {
    let mut blanks = site.blanks();
    blanks.extend_from_slice(&assignment.kept);
    let services = services::start_all(&assignment.services, site, assignment.ports, &mut blanks)?;
    let filled = assignment.clone().fill(&blanks);
    let ended = perform_at(&filled, site, seed, done);
    let lost = services::lost(&services);
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
/// The stage that failed. `done` holds what was measured before.
pub fn perform_at(
    assignment: &Assignment,
    site: &Site<'_>,
    seed: u64,
    done: &mut Done,
) -> Fallible<()> {
    let own = isolation::divide(assignment.processors, done);
    match &assignment.work {
        Work::Command => command::live(assignment, own, done),
        Work::Server(service) => lifecycle::live(assignment, service, own, (seed, site), done),
        Work::Load(spec) => loads::send(&assignment.target, spec, own, seed, done),
    }
}
