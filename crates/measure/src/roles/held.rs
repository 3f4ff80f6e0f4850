//! What an experiment holds from its first run to its last: the scheduler's job, if there is one,
//! and a lock on each machine. The lease lasts for the whole experiment: exclusive users are not
//! starved and no run blocks halfway. Start at [`Held`].

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

/// The machines of an experiment, held until this value is dropped or the process ends.
pub struct Held {
    /// Connections whose other end holds the machine's lock. They end before the lease does.
    _lines: Vec<Role>,
    _lease: Option<Lease>,
}

impl Held {
    /// Acquires the locks of all machines in the order of their identities: two experiments that
    /// used different orders could deadlock. Several names of one machine share a lock.
    ///
    /// # Errors
    /// Fails if a machine cannot be reached or the user interrupts.
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

/// Waits until the other end of the connection holds the machine's lock.
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

/// Name of the scheduler's job that holds the machines of an experiment.
pub(super) fn name_of(session: &str) -> String {
    format!("speedwell-{session}")
}

/// Waits until a scheduler allocates machines for all roles at once.
///
/// # Errors
/// Fails if it rejects the request or the user interrupts.
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

/// Reacquires the machines of an interrupted session.
///
/// # Errors
/// Fails if they are unavailable or the user interrupts.
pub fn have_again(placement: &mut Placement, listener: &mut Listener<'_>) -> Result<Held> {
    let file = FleetFile::read(&placement.fleet)?;
    let mut engine = Engine::of_file(&file);
    let mut own = None;
    if let Some(earlier) = &placement.allocation {
        // Waiting for machines that a leftover job holds would never end.
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

/// Components that request the machines of an earlier allocation.
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
