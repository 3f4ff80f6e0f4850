//! Experiments whose roles run on different machines: selects the machines and sends each the
//! necessary files.
//!
//! The machines are selected once, all or none, and keep their roles for all runs. [`perform_run`]
//! is one run, seen from here; [`worker`] is the remote side. Start at [`prepare_machines`].

mod attend;
mod choose;
mod held;
mod line;
mod relocate;
mod run;
pub mod worker;

pub use attend::{MeasuringProcess, PlacedSession, RoleStatus};
pub use held::{MachineLease, reacquire_machines};
pub use run::{keep_services, perform_run};

use super::EventListener;
use crate::fleet::{order, send};
use anyhow::{Context, Result, bail};
use line::RoleConnection as Part;
use speedwell_fleet::bundle::{BundleSource, FileBundle};
use speedwell_fleet::{AllocationLease, FleetEngine, FleetMachine, program};
use speedwell_harness::own_program;
use speedwell_model::{MachinePlacement, PlacedMachine};
use speedwell_suite::experiment::RolePlacement;
use speedwell_suite::fleet::{EngineKind, FleetFile};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use worker::{ProbeReport, WorkerEvent, WorkerRequest};

/// Path of the definition file's folder in a bundle.
const FILES_PATH: &str = "files/0";

/// Selects a machine for every role and sends it the necessary files: the folder of the definition
/// file, `root`, and this program. The machines are held until the returned [`MachineLease`] is
/// dropped.
///
/// # Errors
/// Fails if a role gets no machine, or if the files cannot be sent to one.
pub fn prepare_machines(
    place: &RolePlacement,
    root: &Path,
    file: &FleetFile,
    listener: &mut EventListener<'_>,
) -> Result<(MachinePlacement, MachineLease)> {
    let mut engine = FleetEngine::from_file(file);
    let known = engine.list_machines()?;
    let mut dealt = choose::assign_machines(&place.roles, &known)?;
    let bundle = gather_bundle(root)?;
    send::warn_of_left_out(&bundle, listener)?;
    let session = uuid::Uuid::now_v7().to_string();
    let wanted = choose::lease_components(&place.roles, &known, &dealt);
    let lease =
        held::acquire_allocation(&mut engine, &held::job_name(&session), &wanted, listener)?;
    if let Some(lease) = &lease {
        let place_of = |name: &str| known.iter().position(|own| own.name == name);
        for (component, own) in (0..).zip(&mut dealt) {
            *own = lease.machines(component).filter_map(place_of).collect();
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
    let all = (place.roles.iter()).zip(&dealt);
    for (role, at) in all.flat_map(|(role, own)| own.iter().map(move |at| (role, *at))) {
        let name = &known[at].name;
        send::note_sending(&sender.bundle, name, listener)?;
        let ready = sender.prepare_machine(&known[at]);
        let failed = || format!("cannot send the files of '{}' to '{name}'", role.name);
        machines.push(ready.with_context(failed)?);
    }
    let mut placement = build_placement(place, &dealt, machines);
    (placement.fleet, placement.root) = (file.file.clone(), root.to_owned());
    placement.allocation = lease.as_ref().map(|lease| lease.allocation.clone());
    let BundleSender { mut engine, .. } = sender;
    let held = MachineLease::acquire(&mut engine, &placement, lease, listener)?;
    Ok((placement, held))
}

/// Sends files of an interrupted session to its machines again if they have been removed since.
fn resend_missing(
    engine: &mut FleetEngine,
    placement: &mut MachinePlacement,
    lease: Option<&AllocationLease>,
    file: &FleetFile,
) -> Result<()> {
    let Some(session) = placement.session().map(str::to_owned) else {
        return Ok(());
    };
    let is_lost =
        |own: &&mut PlacedMachine| probe_machine(engine, &own.name, &own.program).is_err();
    let lost: Vec<&mut PlacedMachine> = placement.machines.iter_mut().filter(is_lost).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let mut sender = BundleSender {
        engine: FleetEngine::from_file(file).within_allocation(placement.allocation.as_ref()),
        file,
        lease,
        bundle: gather_bundle(&placement.root)?,
        session,
    };
    let known = sender.engine.list_machines()?;
    for own in lost {
        let machine = known.iter().find(|known| known.name == own.name);
        let machine =
            machine.with_context(|| format!("machine '{}' is no longer in the fleet", own.name))?;
        let failed = || format!("cannot send the files to '{}'", own.name);
        *own = sender.prepare_machine(machine).with_context(failed)?;
    }
    Ok(())
}

/// Assigns machines to the roles; `machines` is in the order of the roles.
fn build_placement(
    place: &RolePlacement,
    dealt: &[Vec<usize>],
    machines: Vec<PlacedMachine>,
) -> MachinePlacement {
    let mut next = 0..machines.len();
    let mut placement = MachinePlacement {
        fleet: PathBuf::new(),
        root: PathBuf::new(),
        machines,
        target: 0,
        services: Vec::new(),
        load: Vec::new(),
        allocation: None,
    };
    for (role, own) in place.roles.iter().zip(dealt) {
        let own: Vec<usize> = next.by_ref().take(own.len()).collect();
        match (role.name.as_str(), own.as_slice()) {
            ("target", [at]) => placement.target = *at,
            ("load", _) => placement.load = own,
            (_, [at]) => placement.services.push((role.name.clone(), *at)),
            _ => {}
        }
    }
    placement
}

fn gather_bundle(root: &Path) -> Result<FileBundle> {
    let wanted = [
        BundleSource::Folder {
            from: root.to_owned(),
            to: FILES_PATH.to_owned(),
        },
        BundleSource::Program {
            from: program::program_to_send(&own_program()),
            to: order::PROGRAM_PATH.to_owned(),
        },
    ];
    FileBundle::gather(&wanted)
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
        let (folder, laid_out) = if send::is_shared(self.file) {
            send::send_to_folder(bundle, session, machine)?
        } else {
            send::send_over_connection(&mut self.engine, bundle, session, machine)?
        };
        let program = folder
            .join(order::PROGRAM_PATH)
            .to_string_lossy()
            .into_owned();
        let greeting = probe_machine(&mut self.engine, &machine.name, &program)?;
        let of_lease = (self.lease).and_then(|lease| lease.addresses.get(&machine.name));
        let reached_at = of_lease.copied().or(greeting.reached_at);
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
    let role = Part::open(engine, (machine, program), "a part", &WorkerRequest::Greet);
    let said = role.and_then(|role| role.next_event().map(|said| (role, said)));
    match said {
        Ok((_, WorkerEvent::Greeting(greeting))) => Ok(*greeting),
        Ok(_) => bail!("the remote program sent an unexpected message"),
        Err(why) => bail!("{}", why.reason),
    }
}

/// Address at which other machines reach a machine: the one in the fleet file, or else the one at
/// which we reach it.
fn machine_address(file: &FleetFile, name: &str, reached_at: Option<IpAddr>) -> Result<IpAddr> {
    let entry = file.machines.iter().find(|entry| entry.name == name);
    let said = entry.and_then(|entry| entry.address);
    let usual = match file.engine {
        EngineKind::Local => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        EngineKind::Ssh | EngineKind::Slurm => reached_at,
    };
    said.or(usual).with_context(|| {
        format!(
            "the address at which others reach it is unknown\nhint: add address = \"10.0.0.5\" \
             below name = \"{name}\" in the fleet file"
        )
    })
}
