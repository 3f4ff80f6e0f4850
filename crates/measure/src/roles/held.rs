//! What an experiment has of its machines from its first run to its last: the job that gives them, where a scheduler does, and the
//! right to be on each. So whoever wants a machine alone is not overtaken by its runs, and it waits for nobody in the middle.
//! Start at [`Held`].

use super::line::Role;
use super::run::{failure_of, unexpected};
use super::send_again;
use super::worker::{Order, Said};
use crate::Listener;
use anyhow::{Result, anyhow, ensure};
use speedwell_fleet::{Component, Engine, Lease};
use speedwell_model::performed::Stage;
use speedwell_model::{Allocation, Event, Placement};
use speedwell_process as process;
use speedwell_runner::experiment::{Fallible, stage_failure};
use speedwell_suite::fleet::FleetFile;

/// Machines of an experiment. They are free again when it ends, or this process does.
pub struct Held {
    /// A line to each machine, whose other end has its lock. They end first.
    _lines: Vec<Role>,
    _lease: Option<Lease>,
}

impl Held {
    /// Waits for the locks of all machines, one after the other by their identity: two experiments that did so in different orders would
    /// wait for each other. Several names of one machine have one lock.
    ///
    /// # Errors
    /// A machine cannot be reached, or the user wants to stop.
    pub(super) fn of(
        engine: &mut Engine,
        placement: &Placement,
        lease: Option<Lease>,
        listener: &mut Listener<'_>,
    ) -> Result<Held> {
        let mut machines: Vec<_> = placement.machines.iter().collect();
        machines.sort_by_key(|machine| &machine.id);
        machines.dedup_by(|one, other| one.id == other.id);
        let mut lines = Vec::new();
        for machine in machines {
            let order = Order::Hold(machine.folder.clone());
            let there = (machine.name.as_str(), machine.program.as_str());
            let line = Role::open(engine, there, "lock", &order);
            let had = line.and_then(|line| held(line, &machine.name, listener));
            lines.push(had.map_err(|why| anyhow!(why.reason))?);
        }
        Ok(Held {
            _lines: lines,
            _lease: lease,
        })
    }
}

/// A line whose other end has the lock of its machine.
fn held(line: Role, machine: &str, listener: &mut Listener<'_>) -> Fallible<Role> {
    loop {
        match line.next()? {
            Said::Has => return Ok(line),
            Said::Waits(whom) => {
                let sentence = format!("waiting for {whom} to give '{machine}' back");
                let heard = listener.observe(&Event::Waiting(&sentence));
                heard.map_err(|error| stage_failure(Stage::Start, format!("{error:#}")))?;
            }
            Said::Done(done) => return Err(line.named(failure_of(*done))),
            _ => return Err(line.named(unexpected())),
        }
    }
}

/// The name of the job that has the machines of an experiment.
pub(super) fn name_of(session: &str) -> String {
    format!("speedwell-{session}")
}

/// Waits for machines of a scheduler, for all parts at once.
///
/// # Errors
/// It refuses, or the user wants to stop.
pub(super) fn lease(
    engine: &mut Engine,
    name: &str,
    wanted: &[Component],
    listener: &mut Listener<'_>,
) -> Result<Option<Lease>> {
    let mut known = String::new();
    engine.lease(name, wanted, &mut |why| {
        ensure!(
            !process::interrupted(),
            "interrupted while waiting for machines"
        );
        if why.is_empty() || why == known {
            return Ok(());
        }
        why.clone_into(&mut known);
        listener.observe(&Event::Waiting(&format!(
            "waiting until Slurm has machines for all parts of this experiment: {why}"
        )))
    })
}

/// Has the machines of an interrupted session again, the same ones.
///
/// # Errors
/// They cannot be had, or the user wants to stop.
pub fn have_again(placement: &mut Placement, listener: &mut Listener<'_>) -> Result<Held> {
    let file = FleetFile::read(&placement.fleet)?;
    let mut engine = Engine::of_file(&file);
    let mut own = None;
    if let Some(earlier) = &placement.allocation {
        // One that was left would be waited for in vain.
        engine.release(earlier)?;
        own = lease(&mut engine, &earlier.name, &same(earlier), listener)?;
    }
    if let Some(own) = &own {
        placement.allocation = Some(own.allocation.clone());
    }
    let mut engine = engine.within(placement.allocation.as_ref());
    send_again(&mut engine, placement, own.as_ref(), &file)?;
    Held::of(&mut engine, placement, own, listener)
}

/// What an allocation had.
fn same(earlier: &Allocation) -> Vec<Component> {
    let mut components: Vec<Component> = Vec::new();
    for (name, component) in &earlier.components {
        let at = *component as usize;
        if components.len() <= at {
            let empty = Component {
                machines: 0,
                these: Vec::new(),
                never: Vec::new(),
            };
            components.resize(at + 1, empty);
        }
        components[at].machines += 1;
        components[at].these.push(name.clone());
    }
    components
}
