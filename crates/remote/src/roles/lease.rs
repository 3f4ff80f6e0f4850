//! Acquires the scheduler's job, if there is one, and a lock on each machine. An experiment holds
//! both from its first run to its last. Therefore, no run blocks halfway, and users who wait for
//! exclusive use of a machine are not starved. Start at [`MachineLease`].

use super::connection::RoleConnection;
use super::resend_missing;
use super::run::{outcome_failure, unexpected_message};
use crate::machines::{AllocationLease, FleetEngine, LeaseComponent};
use crate::messages::{WorkerEvent, WorkerRequest};
use anyhow::{Result, anyhow, ensure};
use speedwell_config::fleet::FleetFile;
use speedwell_engine::EventListener;
use speedwell_engine::execution::experiment::{StageResult, stage_failure};
use speedwell_machine::process;
use speedwell_model::stage_report::RunStage;
use speedwell_model::{MachineAllocation, MachinePlacement, SessionEvent};

/// The machines of an experiment, held until this value is dropped or the process ends.
pub struct MachineLease {
    /// Connections to the processes that hold the locks of the machines. These connections end
    /// before the lease does.
    _connections: Vec<RoleConnection>,
    _lease: Option<AllocationLease>,
}

impl MachineLease {
    /// Acquires the locks of all machines in the order of their identities: two experiments that
    /// use different orders could deadlock. Several names of one machine share a lock.
    ///
    /// # Errors
    /// Fails if a machine cannot be reached or the user interrupts.
    pub(super) fn acquire(
        engine: &mut FleetEngine,
        placement: &MachinePlacement,
        lease: Option<AllocationLease>,
        listener: &mut EventListener<'_>,
    ) -> Result<MachineLease> {
        let mut machines: Vec<_> = placement.machines.iter().collect();
        machines.sort_by_key(|machine| &machine.id);
        machines.dedup_by(|left, right| left.id == right.id);
        let mut connections = Vec::new();
        for machine in machines {
            let request = WorkerRequest::Lock(machine.folder.clone());
            let remote_program = (machine.name.as_str(), machine.program.as_str());
            let connection = RoleConnection::open(engine, remote_program, "lock", &request);
            let locked =
                connection.and_then(|connection| await_lock(connection, &machine.name, listener));
            connections.push(locked.map_err(|failure| anyhow!(failure.reason))?);
        }
        Ok(MachineLease { _connections: connections, _lease: lease })
    }
}

/// Waits until the process that the connection started holds its machine's lock.
fn await_lock(
    connection: RoleConnection,
    machine: &str,
    listener: &mut EventListener<'_>,
) -> StageResult<RoleConnection> {
    loop {
        match connection.next_event()? {
            WorkerEvent::Locked => return Ok(connection),
            WorkerEvent::Queued(holders) => {
                let sentence = format!("waiting for {holders} to release '{machine}'");
                let observed = listener.observe(&SessionEvent::Waiting(&sentence));
                observed.map_err(|error| stage_failure(RunStage::Start, format!("{error:#}")))?;
            }
            WorkerEvent::Done(outcome) => {
                return Err(connection.with_role_name(outcome_failure(*outcome)));
            }
            _ => return Err(connection.with_role_name(unexpected_message())),
        }
    }
}

/// Returns the name of the scheduler's job that holds an experiment's machines.
pub(super) fn job_name(session: &str) -> String {
    format!("speedwell-{session}")
}

/// Waits until a scheduler allocates machines for all `components` at once, in a job called `name`.
///
/// # Errors
/// Fails if the scheduler rejects the request or the user interrupts.
pub(super) fn acquire_allocation(
    engine: &mut FleetEngine,
    name: &str,
    components: &[LeaseComponent],
    listener: &mut EventListener<'_>,
) -> Result<Option<AllocationLease>> {
    let mut last_reason = String::new();
    engine.acquire_lease(name, components, &mut |reason| {
        ensure!(!process::is_interrupt_requested(), "interrupted while waiting for machines");
        if reason.is_empty() || reason == last_reason {
            return Ok(());
        }
        reason.clone_into(&mut last_reason);
        listener.observe(&SessionEvent::Waiting(&format!(
            "waiting until Slurm has machines for all parts of this experiment: {reason}"
        )))
    })
}

/// Reacquires the machines of an interrupted session.
///
/// # Errors
/// Fails if the machines are unavailable or the user interrupts.
pub fn reacquire_machines(
    placement: &mut MachinePlacement,
    listener: &mut EventListener<'_>,
) -> Result<MachineLease> {
    let file = FleetFile::read(&placement.fleet)?;
    let mut engine = FleetEngine::from_file(&file);
    let mut lease = None;
    if let Some(earlier) = &placement.allocation {
        // A job of the earlier process may still hold the machines. Waiting for them would then
        // never end.
        engine.release_allocation(earlier)?;
        lease = acquire_allocation(&mut engine, &earlier.name, &same_machines(earlier), listener)?;
    }
    if let Some(lease) = &lease {
        placement.allocation = Some(lease.allocation.clone());
    }
    let mut engine = engine.within_allocation(placement.allocation.as_ref());
    resend_missing(&mut engine, placement, lease.as_ref(), &file)?;
    MachineLease::acquire(&mut engine, placement, lease, listener)
}

/// Returns components that request the machines of an earlier allocation.
fn same_machines(earlier: &MachineAllocation) -> Vec<LeaseComponent> {
    let mut components: Vec<LeaseComponent> = Vec::new();
    for (name, component) in &earlier.components {
        let index = *component as usize;
        if components.len() <= index {
            let empty =
                LeaseComponent { machines: 0, named_nodes: Vec::new(), excluded_nodes: Vec::new() };
            components.resize(index + 1, empty);
        }
        components[index].machines += 1;
        components[index].named_nodes.push(name.clone());
    }
    components
}
