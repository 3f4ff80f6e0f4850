//! Prepares experiments whose roles run on different machines. Selects the machines and sends the
//! necessary files to each.
//!
//! The machines are selected once, for all roles or for none, and keep their roles in all runs. No
//! machine gets two roles.
//! [`perform_run`] controls one run from this machine, and [`worker`] executes a role on another
//! machine. Start at [`prepare_machines`].
//!
//! An experiment holds the scheduler's job, if there is one, and a lock on each machine from its
//! first run to its last ([`MachineLease`]). Runs therefore never wait for a machine halfway. Other
//! users who wait for exclusive use of a machine get it when the experiment ends.

mod control;
mod run;
pub mod worker;

pub use control::{MeasuringProcess, PlacedSession, RoleStatus};
pub use run::{keep_services, perform_placed_run};

use crate::fleet::{attempt, upload};
use crate::load::MAX_MACHINES;
use crate::machines::bundle::{BundleSource, FileBundle};
use crate::machines::{
    AllocationLease, FleetEngine, FleetMachine, LeaseComponent, MachineState, ROLE_SUBCOMMAND,
    WorkerRequest, content_store,
};
use anyhow::{Context, Result, anyhow, ensure};
use run::RoleConnection;
use speedwell_adapters::own_program;
use speedwell_config::experiment::{PlacedRole, RolePlacement};
use speedwell_config::fleet::{EngineKind, FleetFile};
use speedwell_engine::EventListener;
use speedwell_engine::execution::experiment::{StageResult, stage_error};
use speedwell_machine::process;
use speedwell_model::stage_report::RunStage;
use speedwell_model::{MachineAllocation, MachinePlacement, PlacedMachine, SessionEvent};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use worker::{ProbeReport, WorkerEvent};

/// Path of the definition file's folder in a bundle.
const FILES_PATH: &str = "files/0";

/// Selects machines for every role. Sends each machine this program and the folder of the
/// definition file, `root`. The machines are held until the returned [`MachineLease`] is dropped.
///
/// # Errors
/// Fails if a role gets no machine, or if the files cannot be sent to a machine.
pub fn prepare_machines(
    role_placement: &RolePlacement,
    root: &Path,
    file: &FleetFile,
    listener: &mut EventListener<'_>,
) -> Result<(MachinePlacement, MachineLease)> {
    let mut engine = FleetEngine::from_file(file);
    let fleet_machines = engine.list_machines()?;
    let mut assignment = assign_machines(&role_placement.roles, &fleet_machines)?;
    let bundle = gather_bundle(root)?;
    upload::warn_of_left_out(&bundle, listener)?;
    let session = uuid::Uuid::now_v7().to_string();
    let components = lease_components(&role_placement.roles, &fleet_machines, &assignment);
    let job_name = format!("speedwell-{session}");
    let lease = acquire_allocation(&mut engine, &job_name, &components, listener)?;
    if let Some(lease) = &lease {
        let index_of = |name: &str| fleet_machines.iter().position(|machine| machine.name == name);
        for (component, role_machines) in (0..).zip(&mut assignment) {
            *role_machines = lease.machines(component).filter_map(index_of).collect();
        }
    }
    engine = engine.within_allocation(lease.as_ref().map(|lease| &lease.allocation));
    let leased = lease.as_ref();
    let mut sender = BundleSender { engine: &mut engine, file, lease: leased, bundle, session };
    let mut placement = MachinePlacement {
        fleet: file.file.clone(),
        root: root.to_owned(),
        allocation: leased.map(|lease| lease.allocation.clone()),
        ..MachinePlacement::default()
    };
    for (role, role_machines) in role_placement.roles.iter().zip(&assignment) {
        for machine in role_machines.iter().map(|index| &fleet_machines[*index]) {
            let name = &machine.name;
            upload::note_sending(&sender.bundle, name, listener)?;
            let error_context = || format!("cannot send the files of '{}' to '{name}'", role.name);
            let prepared = sender.prepare_machine(machine).with_context(error_context)?;
            let index = placement.machines.len();
            placement.machines.push(prepared);
            match role.name.as_str() {
                "target" => placement.target = index,
                "load" => placement.load.push(index),
                service => placement.services.push((service.to_owned(), index)),
            }
        }
    }
    let machine_lease = MachineLease::acquire(&mut engine, &placement, lease, listener)?;
    Ok((placement, machine_lease))
}

/// Sends the files of an interrupted session again to machines from which they have been removed.
fn resend_missing(
    engine: &mut FleetEngine,
    placement: &mut MachinePlacement,
    lease: Option<&AllocationLease>,
    file: &FleetFile,
) -> Result<()> {
    let Some(session) = placement.session().map(str::to_owned) else {
        return Ok(());
    };
    let lacks_files =
        |placed: &&mut PlacedMachine| probe_machine(engine, &placed.name, &placed.program).is_err();
    let missing: Vec<&mut PlacedMachine> =
        placement.machines.iter_mut().filter(lacks_files).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let fleet_machines = engine.known_machines()?;
    let bundle = gather_bundle(&placement.root)?;
    let mut sender = BundleSender { engine, file, lease, bundle, session };
    for placed in missing {
        let machine = fleet_machines.iter().find(|machine| machine.name == placed.name);
        let machine =
            machine.with_context(|| format!("machine '{}' has left the fleet", placed.name))?;
        let error_context = || format!("cannot send the files to '{}'", placed.name);
        *placed = sender.prepare_machine(machine).with_context(error_context)?;
    }
    Ok(())
}

fn gather_bundle(root: &Path) -> Result<FileBundle> {
    let sources = [
        BundleSource::Folder { from: root.to_owned(), to: FILES_PATH.to_owned() },
        BundleSource::Program {
            from: content_store::program_to_send(&own_program()),
            to: attempt::PROGRAM_PATH.to_owned(),
        },
    ];
    FileBundle::gather(&sources)
}

struct BundleSender<'a> {
    engine: &'a mut FleetEngine,
    file: &'a FleetFile,
    lease: Option<&'a AllocationLease>,
    bundle: FileBundle,
    session: String,
}

impl BundleSender<'_> {
    /// Sends the necessary files to a machine and queries its identity.
    fn prepare_machine(&mut self, machine: &FleetMachine) -> Result<PlacedMachine> {
        let (bundle, session) = (&self.bundle, self.session.as_str());
        let (folder, laid_out) =
            upload::send_bundle(self.engine, self.file, bundle, session, machine)?;
        let program = folder.join(attempt::PROGRAM_PATH).to_string_lossy().into_owned();
        let greeting = probe_machine(self.engine, &machine.name, &program)?;
        let leased_address = (self.lease).and_then(|lease| lease.addresses.get(&machine.name));
        let reached_at = leased_address.copied().or(greeting.reached_at);
        Ok(PlacedMachine {
            name: machine.name.clone(),
            labels: machine.labels.clone(),
            address: machine_address(self.file, &machine.name, reached_at)?,
            id: greeting.identity.id,
            class: greeting.identity.class,
            folder: machine.folder.clone(),
            program,
            root: laid_out.join(FILES_PATH),
            environment: greeting.environment,
        })
    }
}

fn probe_machine(engine: &mut FleetEngine, machine: &str, program: &str) -> Result<ProbeReport> {
    engine.start_worker(machine, program, &[ROLE_SUBCOMMAND])?.request(&WorkerRequest::Probe)
}

/// Returns the address at which other machines reach a machine. The address in the fleet file takes
/// precedence over the address at which this process reaches the machine.
fn machine_address(file: &FleetFile, name: &str, reached_at: Option<IpAddr>) -> Result<IpAddr> {
    let entry = file.machines.iter().find(|entry| entry.name == name);
    let configured = entry.and_then(|entry| entry.address);
    let default = match file.engine {
        EngineKind::Local => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        EngineKind::Ssh | EngineKind::Slurm => reached_at,
    };
    configured.or(default).with_context(|| {
        format!(
            "the address at which other machines reach it is unknown\nhint: add address = \"10.0.0.5\" \
             below name = \"{name}\" in the fleet file"
        )
    })
}

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
    fn acquire(
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
            let connection = RoleConnection::open(engine, machine, "lock", &request);
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
                observed.map_err(stage_error(RunStage::Start))?;
            }
            other => return Err(connection.start_failure(other)),
        }
    }
}

/// Waits until a scheduler allocates machines for all `components` at once, in a job called `name`.
///
/// # Errors
/// Fails if the scheduler rejects the request or the user interrupts.
fn acquire_allocation(
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
    engine = engine.within_allocation(placement.allocation.as_ref());
    resend_missing(&mut engine, placement, lease.as_ref(), &file)?;
    MachineLease::acquire(&mut engine, placement, lease, listener)
}

/// Returns components that request the machines of an earlier allocation.
fn same_machines(earlier: &MachineAllocation) -> Vec<LeaseComponent> {
    let last = earlier.components.iter().map(|(_, component)| *component).max();
    let component = |index: u32| {
        let machines = earlier.components.iter().filter(|(_, component)| *component == index);
        let named_nodes: Vec<String> = machines.map(|(name, _)| name.clone()).collect();
        let machines = named_nodes.len() as u32;
        LeaseComponent { machines, named_nodes, excluded_nodes: Vec::new() }
    };
    last.into_iter().flat_map(|last| 0..=last).map(component).collect()
}

/// Maximum length of a list of names passed as one argument. The kernel allows 128 KiB.
const MAX_LIST_BYTES: usize = 64 << 10;

/// Returns the indexes of each role's machines. No machine has two roles.
fn assign_machines(roles: &[PlacedRole], machines: &[FleetMachine]) -> Result<Vec<Vec<usize>>> {
    for role in roles {
        let error_context = || format!("in [place], for '{}'", role.name);
        FleetMachine::ensure_known(&role.on, machines).with_context(error_context)?;
        ensure!(
            role.machines as usize <= MAX_MACHINES,
            "a load can be sent from at most {MAX_MACHINES} machines, but [place] requests {}",
            role.machines
        );
    }
    let mut order: Vec<usize> = (0..machines.len()).collect();
    order.sort_by_key(|index| {
        (machines[*index].state != MachineState::Free, &machines[*index].name)
    });
    // A role has one seat for each machine that it needs. A seat may take a machine from another
    // seat that can get a different one.
    let seats: Vec<usize> =
        (0..roles.len()).flat_map(|role| (0..roles[role].machines).map(move |_| role)).collect();
    let mut owners: Vec<Option<usize>> = vec![None; machines.len()];
    for seat in 0..seats.len() {
        let suitable_machines = |seat: usize| -> Vec<usize> {
            let candidates = order.iter().copied();
            candidates.filter(|index| is_suitable(&roles[seats[seat]], &machines[*index])).collect()
        };
        if !find_seat(seat, &suitable_machines, &mut owners, &mut vec![false; machines.len()]) {
            return Err(no_machine_error(&roles[seats[seat]], roles, machines));
        }
    }
    let machines_of_role = |role: usize| {
        let candidates = order.iter().copied();
        candidates.filter(|index| owners[*index].is_some_and(|seat| seats[seat] == role)).collect()
    };
    Ok((0..roles.len()).map(machines_of_role).collect())
}

/// Builds the components of a job that gives each role suitable machines. Normally, the scheduler
/// chooses the machines of a role. The components name the machines in `assignment` if the
/// scheduler's choice could take a machine that another role needs, or if the list of machines to
/// avoid would be too long.
fn lease_components(
    roles: &[PlacedRole],
    machines: &[FleetMachine],
    assignment: &[Vec<usize>],
) -> Vec<LeaseComponent> {
    let suitable_machines = |role: &PlacedRole| -> BTreeSet<usize> {
        (0..machines.len()).filter(|index| is_suitable(role, &machines[*index])).collect()
    };
    let suitable: Vec<BTreeSet<usize>> = roles.iter().map(suitable_machines).collect();
    let name = |index: usize| machines[index].name.clone();
    let mut components = Vec::new();
    for ((role, own), assigned) in roles.iter().zip(&suitable).zip(assignment) {
        let others = (0..machines.len()).filter(|index| !own.contains(index));
        let mut excluded_nodes: Vec<String> = others.map(name).collect();
        let length: usize = excluded_nodes.iter().map(|name| name.len() + 1).sum();
        let is_independent = suitable.iter().all(|other| other == own || other.is_disjoint(own));
        let mut named_nodes = Vec::new();
        if !is_independent || length > MAX_LIST_BYTES {
            named_nodes = assigned.iter().map(|index| name(*index)).collect();
            excluded_nodes.clear();
        }
        components.push(LeaseComponent { machines: role.machines, named_nodes, excluded_nodes });
    }
    components
}

/// Whether a machine has the labels of a role and is available.
fn is_suitable(role: &PlacedRole, machine: &FleetMachine) -> bool {
    machine.is_in(&role.on) && !matches!(machine.state, MachineState::Unfit(_))
}

/// Finds a machine for a seat, moving other seats if necessary (augmenting path).
fn find_seat(
    seat: usize,
    suitable_machines: &dyn Fn(usize) -> Vec<usize>,
    owners: &mut [Option<usize>],
    tried: &mut Vec<bool>,
) -> bool {
    for machine in suitable_machines(seat) {
        if std::mem::replace(&mut tried[machine], true) {
            continue;
        }
        let is_free = match owners[machine] {
            None => true,
            Some(other) => find_seat(other, suitable_machines, owners, tried),
        };
        if is_free {
            owners[machine] = Some(seat);
            return true;
        }
    }
    false
}

fn no_machine_error(
    role: &PlacedRole,
    roles: &[PlacedRole],
    machines: &[FleetMachine],
) -> anyhow::Error {
    let wanted: u32 = roles.iter().map(|role| role.machines).sum();
    let unfit = machines.iter().filter_map(|machine| match &machine.state {
        MachineState::Unfit(reason) => Some(format!("\n  {}: {reason}", machine.name)),
        _ => None,
    });
    anyhow!(
        "no machine is left for '{}': the roles of this experiment need {wanted} different \
         machines, each with the labels of its role{}",
        role.name,
        unfit.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, labels: &[&str]) -> FleetMachine {
        FleetMachine {
            name: name.to_owned(),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            state: MachineState::Free,
            folder: "/x".into(),
            binary: None,
        }
    }

    fn role(name: &str, on: &str, machines: u32) -> PlacedRole {
        PlacedRole { name: name.to_owned(), on: on.parse().unwrap(), machines }
    }

    #[test]
    fn a_contested_machine_goes_to_the_role_that_needs_it() {
        let known =
            [machine("a", &["lab"]), machine("b", &["lab", "fast"]), machine("c", &["lab"])];
        // The target could use any machine and would take the first, but the load needs 'a'.
        let roles = [role("target", "lab", 1), role("db", "fast | a", 1), role("load", "a", 1)];
        assert_eq!(assign_machines(&roles, &known).unwrap(), [vec![2], vec![1], vec![0]]);
        let roles = [role("target", "lab", 1), role("load", "lab", 2)];
        let found = assign_machines(&roles, &known).unwrap();
        assert_eq!((found[0].len(), found[1].len()), (1, 2));
    }

    #[test]
    fn all_parts_get_machines_or_none_does() {
        let mut known = [machine("a", &["lab"]), machine("b", &["lab"])];
        let roles = [role("target", "lab", 1), role("load", "lab", 2)];
        let refused = assign_machines(&roles, &known).unwrap_err().to_string();
        assert!(refused.starts_with("no machine is left for 'load'"), "{refused}");
        let roles = [role("target", "a", 1), role("load", "b", 1)];
        assert!(assign_machines(&roles, &known).is_ok());
        known[1].state = MachineState::Unfit("it does not respond".to_owned());
        let refused = assign_machines(&roles, &known).unwrap_err().to_string();
        assert!(
            refused.contains("'load'") && refused.contains("b: it does not respond"),
            "{refused}"
        );
        let roles = [role("target", "a", 1), role("load", "laod", 1)];
        let refused = format!("{:#}", assign_machines(&roles, &known).unwrap_err());
        assert!(
            refused.contains("for 'load'") && refused.contains("unknown machine or label 'laod'"),
            "{refused}"
        );
    }

    #[test]
    fn machines_are_named_to_the_scheduler_only_if_the_choice_matters() {
        let known = [
            machine("a", &["server"]),
            machine("b", &["load"]),
            machine("c", &["load"]),
            machine("d", &["load", "server"]),
        ];
        let asked = |roles: &[PlacedRole]| {
            let dealt = assign_machines(roles, &known).unwrap();
            let all = lease_components(roles, &known, &dealt).into_iter();
            let words = all.map(|own| {
                let (these, never) = (own.named_nodes.join(","), own.excluded_nodes.join(","));
                format!("{} of {these} but {never}", own.machines)
            });
            words.collect::<Vec<String>>()
        };
        // No machine suits both roles.
        let apart = [role("target", "server & !d", 1), role("load", "load & !d", 2)];
        assert_eq!(asked(&apart), ["1 of  but b,c,d", "2 of  but a,d"]);
        let same = [role("target", "load", 1), role("load", "load", 2)];
        assert_eq!(asked(&same), ["1 of  but a", "2 of  but a"]);
        // If the target got 'd', the load would have too few machines.
        let crossed = [role("target", "server", 1), role("load", "load", 3)];
        assert_eq!(asked(&crossed), ["1 of a but ", "3 of b,c,d but "]);
    }
}
