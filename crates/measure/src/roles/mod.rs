//! Experiments whose parts have machines of their own: which machines these are, and what each of them needs.
//!
//! They are chosen once, all or none, and keep their parts for all runs. [`perform`] is one run, seen from here; [`worker`] is the
//! other end of its lines. Start at [`prepare`].

mod keep;
mod line;
mod relocate;
mod run;
pub mod worker;

pub use keep::keep;
pub use run::perform;

use super::Listener;
use crate::fleet::{order, send};
use crate::load::machines::MOST_MACHINES;
use anyhow::{Context, Result, bail, ensure};
use line::Role as Part;
use speedwell_fleet::bundle::{Bundle, Wanted};
use speedwell_fleet::{Engine, FleetMachine, MachineState, program};
use speedwell_harness::own_program;
use speedwell_model::{Event, PlacedMachine, Placement};
use speedwell_suite::experiment::{Place, Role};
use speedwell_suite::fleet::{EngineKind, FleetFile};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use worker::{Greeting, Order, Said};

/// Where the folder of the definition file lies in a bundle.
const FILES: &str = "files/0";

/// Chooses a machine for every part, and sends each what it needs: the folder of the definition file, `root`, and this program.
///
/// # Errors
/// There is no machine for a part, or one cannot be sent what it needs.
pub fn prepare(
    place: &Place,
    root: &Path,
    file: &FleetFile,
    listener: &mut Listener<'_>,
) -> Result<Placement> {
    ensure!(
        file.engine != EngineKind::Slurm,
        "[place] has no meaning for machines of Slurm, whose jobs have one node each\nhint: a {} with engine = \"ssh\" \
         reaches them if you have reserved them",
        speedwell_suite::fleet::NAME
    );
    let mut engine = Engine::of_file(file);
    let known = engine.machines()?;
    let dealt = dealt(&place.roles, &known)?;
    let bundle = bundle(root)?;
    let session = uuid::Uuid::now_v7().to_string();
    let mut machines: Vec<PlacedMachine> = Vec::new();
    for (role, at) in place
        .roles
        .iter()
        .zip(&dealt)
        .flat_map(|(role, own)| own.iter().map(move |at| (role, *at)))
    {
        let machine = &known[at];
        listener.observe(&Event::Note(&format!(
            "{} gets what it needs",
            machine.name
        )))?;
        let ready = ready(&mut engine, file, machine, &bundle, &session);
        machines.push(ready.with_context(|| {
            format!(
                "'{}' on '{}' cannot get what it needs",
                role.name, machine.name
            )
        })?);
    }
    let mut next = 0..machines.len();
    let mut places = dealt
        .iter()
        .map(|own| next.by_ref().take(own.len()).collect::<Vec<usize>>());
    let mut placement = Placement {
        fleet: file.file.clone(),
        root: root.to_owned(),
        machines: Vec::new(),
        target: 0,
        services: Vec::new(),
        load: Vec::new(),
    };
    for (role, own) in place.roles.iter().zip(places.by_ref()) {
        match (role.name.as_str(), own.as_slice()) {
            ("target", [at]) => placement.target = *at,
            ("load", _) => placement.load = own,
            (_, [at]) => placement.services.push((role.name.clone(), *at)),
            _ => {}
        }
    }
    placement.machines = machines;
    Ok(placement)
}

/// What each machine gets.
fn bundle(root: &Path) -> Result<Bundle> {
    let wanted = [
        Wanted::Folder {
            from: root.to_owned(),
            to: FILES.to_owned(),
        },
        Wanted::Program {
            from: program::sendable(&own_program()),
            to: order::PROGRAM.to_owned(),
        },
    ];
    Bundle::gather(&wanted)
}

/// The places of the machines of each role; no machine has two of them.
fn dealt(roles: &[Role], known: &[FleetMachine]) -> Result<Vec<Vec<usize>>> {
    let mut names: Vec<String> = (known.iter())
        .flat_map(|own| [&own.name].into_iter().chain(&own.labels))
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    for role in roles {
        let named = || format!("in [place], for '{}'", role.name);
        role.on.ensure_known(&names).with_context(named)?;
        ensure!(
            role.machines as usize <= MOST_MACHINES,
            "a load can be sent from {MOST_MACHINES} machines at most, and [place] has {}",
            role.machines
        );
    }
    let mut order: Vec<usize> = (0..known.len()).collect();
    order.sort_by_key(|at| (known[*at].state != MachineState::Free, &known[*at].name));
    let fits = |role: &Role, at: usize| {
        let machine = &known[at];
        let goes_by =
            |name: &str| machine.name == name || machine.labels.iter().any(|own| own == name);
        role.on.fits(&goes_by) && !matches!(machine.state, MachineState::Unfit(_))
    };
    // Whose a machine is: a role, and which of its machines. One that is needed is given up if its role can have another.
    let seats: Vec<usize> = (0..roles.len())
        .flat_map(|role| (0..roles[role].machines).map(move |_| role))
        .collect();
    let mut owners: Vec<Option<usize>> = vec![None; known.len()];
    for seat in 0..seats.len() {
        let wishes = |seat: usize| -> Vec<usize> {
            let own = order.iter().copied();
            own.filter(|at| fits(&roles[seats[seat]], *at)).collect()
        };
        if !seated(seat, &wishes, &mut owners, &mut vec![false; known.len()]) {
            return Err(none_left(&roles[seats[seat]], roles, known));
        }
    }
    let of_role = |role: usize| {
        let own = order.iter().copied();
        own.filter(|at| owners[*at].is_some_and(|seat| seats[seat] == role))
            .collect()
    };
    Ok((0..roles.len()).map(of_role).collect())
}

/// Finds a machine for a seat, moving others where that helps.
fn seated(
    seat: usize,
    wishes: &dyn Fn(usize) -> Vec<usize>,
    owners: &mut [Option<usize>],
    tried: &mut Vec<bool>,
) -> bool {
    for at in wishes(seat) {
        if std::mem::replace(&mut tried[at], true) {
            continue;
        }
        let is_free = match owners[at] {
            None => true,
            Some(other) => seated(other, wishes, owners, tried),
        };
        if is_free {
            owners[at] = Some(seat);
            return true;
        }
    }
    false
}

fn none_left(role: &Role, roles: &[Role], known: &[FleetMachine]) -> anyhow::Error {
    let wanted: u32 = roles.iter().map(|role| role.machines).sum();
    let unfit = known.iter().filter_map(|machine| match &machine.state {
        MachineState::Unfit(reason) => Some(format!("\n  {}: {reason}", machine.name)),
        _ => None,
    });
    anyhow::anyhow!(
        "no machine is left for '{}': the parts of this experiment need {wanted}, each with the labels of its part, and no \
         machine has two of them{}",
        role.name,
        unfit.collect::<String>()
    )
}

/// Sends a machine what it needs, and asks it who it is.
fn ready(
    engine: &mut Engine,
    file: &FleetFile,
    machine: &FleetMachine,
    bundle: &Bundle,
    session: &str,
) -> Result<PlacedMachine> {
    let (folder, laid_out) = if send::is_shared(file) {
        send::here(bundle, session, machine)?
    } else {
        send::there(engine, bundle, session, machine)?
    };
    let program = folder.join(order::PROGRAM).to_string_lossy().into_owned();
    let greeting = greeted(engine, &machine.name, &program)?;
    Ok(PlacedMachine {
        name: machine.name.clone(),
        labels: machine.labels.clone(),
        address: address(file, &machine.name, &greeting)?,
        id: greeting.identity.id,
        class: greeting.identity.class,
        folder: machine.folder.clone(),
        program,
        root: laid_out.join(PathBuf::from(FILES)),
        environment: greeting.environment,
    })
}

fn greeted(engine: &mut Engine, machine: &str, program: &str) -> Result<Greeting> {
    let role = Part::open(engine, (machine, program), "a part", &Order::Greet);
    let said = role.and_then(|role| role.next().map(|said| (role, said)));
    match said {
        Ok((_, Said::Greeting(greeting))) => Ok(*greeting),
        Ok(_) => bail!("the program there says something else"),
        Err(why) => bail!("{}", why.reason),
    }
}

/// Where other machines reach one: what the file says, else where we reach it.
fn address(file: &FleetFile, name: &str, greeting: &Greeting) -> Result<IpAddr> {
    let entry = file.machines.iter().find(|entry| entry.name == name);
    let said = entry.and_then(|entry| entry.address);
    let usual = match file.engine {
        EngineKind::Local => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        EngineKind::Ssh | EngineKind::Slurm => greeting.reached_at,
    };
    said.or(usual).with_context(|| {
        format!("at which address others reach it is not known\nhint: address = \"10.0.0.5\" below name = \"{name}\" in the fleet's file")
    })
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

    fn role(name: &str, on: &str, machines: u32) -> Role {
        Role {
            name: name.to_owned(),
            on: on.parse().unwrap(),
            machines,
        }
    }

    #[test]
    fn a_machine_that_two_parts_could_have_goes_to_the_one_that_needs_it() {
        let known = [
            machine("a", &["lab"]),
            machine("b", &["lab", "fast"]),
            machine("c", &["lab"]),
        ];
        // The target could have any, and would take the first; the load needs 'a' and 'c'.
        let roles = [
            role("target", "lab", 1),
            role("db", "fast | a", 1),
            role("load", "a", 1),
        ];
        assert_eq!(dealt(&roles, &known).unwrap(), [vec![2], vec![1], vec![0]]);
        let roles = [role("target", "lab", 1), role("load", "lab", 2)];
        let found = dealt(&roles, &known).unwrap();
        assert_eq!((found[0].len(), found[1].len()), (1, 2));
    }

    #[test]
    fn all_parts_get_machines_or_none_does() {
        let mut known = [machine("a", &["lab"]), machine("b", &["lab"])];
        let roles = [role("target", "lab", 1), role("load", "lab", 2)];
        let refused = dealt(&roles, &known).unwrap_err().to_string();
        assert!(
            refused.starts_with("no machine is left for 'load'"),
            "{refused}"
        );
        let roles = [role("target", "a", 1), role("load", "b", 1)];
        assert!(dealt(&roles, &known).is_ok());
        known[1].state = MachineState::Unfit("it does not answer".to_owned());
        let refused = dealt(&roles, &known).unwrap_err().to_string();
        assert!(
            refused.contains("'load'") && refused.contains("b: it does not answer"),
            "{refused}"
        );
        let roles = [role("target", "a", 1), role("load", "laod", 1)];
        let refused = format!("{:#}", dealt(&roles, &known).unwrap_err());
        assert!(
            refused.contains("for 'load'") && refused.contains("no machine or label 'laod'"),
            "{refused}"
        );
    }
}
