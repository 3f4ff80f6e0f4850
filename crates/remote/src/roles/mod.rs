//! Prepares experiments whose roles run on different machines. Selects the machines and sends the
//! necessary files to each.
//!
//! The machines are selected once, for all roles or for none, and keep their roles in all runs.
//! [`perform_run`] controls one run from this machine, and [`worker`] executes a role on another
//! machine. Start at [`prepare_machines`].

mod assign;
mod connection;
mod control;
mod lease;
mod relocate;
mod run;
pub mod worker;

pub use control::{MeasuringProcess, PlacedSession, RoleStatus};
pub use lease::{MachineLease, reacquire_machines};
pub use run::{keep_services, perform_run};

use crate::fleet::{shard_request, upload};
use crate::machines::bundle::{BundleSource, FileBundle};
use crate::machines::{AllocationLease, FleetEngine, FleetMachine, program};
use crate::messages::{ProbeReport, ROLE_SUBCOMMAND, WorkerRequest};
use anyhow::{Context, Result};
use speedwell_adapters::own_program;
use speedwell_config::experiment::RolePlacement;
use speedwell_config::fleet::{EngineKind, FleetFile};
use speedwell_engine::EventListener;
use speedwell_model::{MachinePlacement, PlacedMachine};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

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
    let mut assignment = assign::assign_machines(&role_placement.roles, &fleet_machines)?;
    let bundle = gather_bundle(root)?;
    upload::warn_of_left_out(&bundle, listener)?;
    let session = uuid::Uuid::now_v7().to_string();
    let components = assign::lease_components(&role_placement.roles, &fleet_machines, &assignment);
    let lease =
        lease::acquire_allocation(&mut engine, &lease::job_name(&session), &components, listener)?;
    if let Some(lease) = &lease {
        let index_of = |name: &str| fleet_machines.iter().position(|machine| machine.name == name);
        for (component, role_machines) in (0..).zip(&mut assignment) {
            *role_machines = lease.machines(component).filter_map(index_of).collect();
        }
    }
    let mut sender = BundleSender {
        engine: engine.within_allocation(lease.as_ref().map(|lease| &lease.allocation)),
        file,
        lease: lease.as_ref(),
        bundle,
        session,
    };
    let mut machines: Vec<PlacedMachine> = Vec::new();
    let role_assignments = (role_placement.roles.iter()).zip(&assignment);
    for (role, index) in role_assignments
        .flat_map(|(role, role_machines)| role_machines.iter().map(move |index| (role, *index)))
    {
        let name = &fleet_machines[index].name;
        upload::note_sending(&sender.bundle, name, listener)?;
        let prepared = sender.prepare_machine(&fleet_machines[index]);
        let error_context = || format!("cannot send the files of '{}' to '{name}'", role.name);
        machines.push(prepared.with_context(error_context)?);
    }
    let mut placement = build_placement(role_placement, &assignment, machines);
    (placement.fleet, placement.root) = (file.file.clone(), root.to_owned());
    placement.allocation = lease.as_ref().map(|lease| lease.allocation.clone());
    let BundleSender { mut engine, .. } = sender;
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
    let mut sender = BundleSender {
        engine: FleetEngine::from_file(file).within_allocation(placement.allocation.as_ref()),
        file,
        lease,
        bundle: gather_bundle(&placement.root)?,
        session,
    };
    let fleet_machines = sender.engine.list_machines()?;
    for placed in missing {
        let machine = fleet_machines.iter().find(|machine| machine.name == placed.name);
        let machine =
            machine.with_context(|| format!("machine '{}' has left the fleet", placed.name))?;
        let error_context = || format!("cannot send the files to '{}'", placed.name);
        *placed = sender.prepare_machine(machine).with_context(error_context)?;
    }
    Ok(())
}

/// Assigns machines to the roles. `machines` is in the order of the roles.
fn build_placement(
    role_placement: &RolePlacement,
    assignment: &[Vec<usize>],
    machines: Vec<PlacedMachine>,
) -> MachinePlacement {
    let mut indices = 0..machines.len();
    let mut placement = MachinePlacement {
        fleet: PathBuf::new(),
        root: PathBuf::new(),
        machines,
        target: 0,
        services: Vec::new(),
        load: Vec::new(),
        allocation: None,
    };
    for (role, role_machines) in role_placement.roles.iter().zip(assignment) {
        let role_machines: Vec<usize> = indices.by_ref().take(role_machines.len()).collect();
        match (role.name.as_str(), role_machines.as_slice()) {
            ("target", [index]) => placement.target = *index,
            ("load", _) => placement.load = role_machines,
            (_, [index]) => placement.services.push((role.name.clone(), *index)),
            _ => {}
        }
    }
    placement
}

fn gather_bundle(root: &Path) -> Result<FileBundle> {
    let sources = [
        BundleSource::Folder { from: root.to_owned(), to: FILES_PATH.to_owned() },
        BundleSource::Program {
            from: program::program_to_send(&own_program()),
            to: shard_request::PROGRAM_PATH.to_owned(),
        },
    ];
    FileBundle::gather(&sources)
}

struct BundleSender<'a> {
    engine: FleetEngine,
    file: &'a FleetFile,
    lease: Option<&'a AllocationLease>,
    bundle: FileBundle,
    session: String,
}

impl BundleSender<'_> {
    /// Sends the necessary files to a machine and queries its identity.
    fn prepare_machine(&mut self, machine: &FleetMachine) -> Result<PlacedMachine> {
        let (bundle, session) = (&self.bundle, self.session.as_str());
        let (folder, laid_out) = if upload::is_shared(self.file) {
            upload::send_to_folder(bundle, session, machine)?
        } else {
            upload::send_over_connection(&mut self.engine, bundle, session, machine)?
        };
        let program = folder.join(shard_request::PROGRAM_PATH).to_string_lossy().into_owned();
        let greeting = probe_machine(&mut self.engine, &machine.name, &program)?;
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
            root: laid_out.join(PathBuf::from(FILES_PATH)),
            environment: greeting.environment,
        })
    }
}

fn probe_machine(engine: &mut FleetEngine, machine: &str, program: &str) -> Result<ProbeReport> {
    let connection = engine.start_worker(machine, program, &[ROLE_SUBCOMMAND])?;
    connection.request(&WorkerRequest::Probe)
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
