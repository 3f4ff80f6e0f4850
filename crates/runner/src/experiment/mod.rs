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
mod target;

pub use figures::Done;
use figures::{Fallible, stage_failure};
use speedwell_model::assignment::{Assignment, Work};

/// Performs a run, whose random choices come from `seed`. A failure is part of what it gives.
pub fn perform(assignment: &Assignment, seed: u64) -> Done {
    let mut done = Done::default();
    let own = isolation::divide(assignment.processors, &mut done);
    let ended = match &assignment.work {
        Work::Command => command::live(assignment, own, &mut done),
        Work::Server(service) => lifecycle::live(assignment, service, own, seed, &mut done),
        Work::Load(spec) => loads::send(&assignment.target, spec, own, seed, &mut done),
    };
    done.performed.failure = ended.err();
    done
}
