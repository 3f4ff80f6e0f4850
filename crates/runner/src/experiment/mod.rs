//! One run of an experiment: a fresh process tree is started, proven to be the variant that is meant, measured, and
//! ended without leftovers.
//!
//! It decides what follows what and what is a failure of which stage. It knows neither definition files nor plans:
//! an [`Assignment`] says all there is to do, and [`Performed`] what came of it. It is meant for a process of its own,
//! because it may enter another network. Start at [`perform`]; `lifecycle.rs` is the life of a server, stage by stage.

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

/// Performs a run on this machine, whose random choices come from `seed`. A failure is part of what it gives.
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

/// The network is entered before there is a second thread.
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

/// Starts what the target needs, has it do its work, and ends the others in the opposite order.
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
    // A target whose database is gone fails because of that.
    match lost {
        Some(why) => Err(why),
        None => ended.and(stopped),
    }
}

/// Has a target do its work at this place; what it needs is there already.
///
/// # Errors
/// The stage that failed. What was measured before is in `done`.
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
