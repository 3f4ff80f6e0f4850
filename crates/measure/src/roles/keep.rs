//! Services that several runs of an experiment share, as the process that has them lives: on this machine, or each at the end of
//! a line. Start at [`keep`].

use super::line::Role;
use super::run::{blanks, end_all, start_services};
use speedwell_fleet::Engine;
use speedwell_model::Placement;
use speedwell_model::assignment::{Blank, Keeping};
use speedwell_model::performed::{Performed, Stage};
use speedwell_runner::experiment::{self, Done, Fallible, stage_failure, watch};
use speedwell_suite::fleet::FleetFile;

/// Starts services, says by `ready` where they are, and has them live until this process is interrupted or one is lost. What is
/// given are remarks, and what failed.
pub fn keep(keeping: &Keeping, ready: &mut dyn FnMut(&[Blank])) -> Performed {
    let mut done = Done::default();
    let ended = match &keeping.placement {
        None => experiment::keep(keeping, ready, &mut done),
        Some(placement) => keep_there(keeping, placement, ready, &mut done),
    };
    done.performed.failure = ended.err();
    done.performed
}

/// The same on the machines that they are placed on.
fn keep_there(
    keeping: &Keeping,
    placement: &Placement,
    ready: &mut dyn FnMut(&[Blank]),
    done: &mut Done,
) -> Fallible<()> {
    let file = FleetFile::read(&placement.fleet)
        .map_err(|error| stage_failure(Stage::Start, format!("{error:#}")))?;
    let mut engine = Engine::of_file(&file).within(placement.allocation.as_ref());
    let mut known = blanks(placement, &keeping.kept);
    let before = known.len();
    let mut services: Vec<Role> = Vec::new();
    let wanted = (&keeping.services[..], keeping.ports);
    let ended = start_services(&mut engine, placement, wanted, &mut known, &mut services);
    let ended = ended.and_then(|()| {
        ready(&known[before..]);
        watch(|| services.iter().find_map(Role::lost))
    });
    let stopped = end_all(services, done);
    ended.and(stopped)
}
