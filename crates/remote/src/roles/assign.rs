//! Assigns machines of a fleet to the roles of an experiment. No machine gets two roles, and either
//! all roles get their machines or none does. Start at [`assign_machines`].

use crate::load::MAX_MACHINES;
use crate::machines::{FleetMachine, LeaseComponent, MachineState};
use anyhow::{Context, Result, ensure};
use speedwell_config::experiment::PlacedRole;

/// Maximum length of a list of names passed as one argument. The kernel allows 128 KiB.
const MAX_LIST_BYTES: usize = 64 << 10;

/// Returns the indexes of each role's machines. No machine has two roles.
pub(super) fn assign_machines(
    roles: &[PlacedRole],
    machines: &[FleetMachine],
) -> Result<Vec<Vec<usize>>> {
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
pub(super) fn lease_components(
    roles: &[PlacedRole],
    machines: &[FleetMachine],
    assignment: &[Vec<usize>],
) -> Vec<LeaseComponent> {
    let suitable: Vec<Vec<usize>> = (roles.iter())
        .map(|role| {
            (0..machines.len()).filter(|index| is_suitable(role, &machines[*index])).collect()
        })
        .collect();
    let never_conflicts = |role_machines: &Vec<usize>, other_machines: &Vec<usize>| {
        role_machines == other_machines
            || !role_machines.iter().any(|index| other_machines.contains(index))
    };
    let name = |index: usize| machines[index].name.clone();
    let component =
        |(role, (role_machines, assignment)): (&PlacedRole, (&Vec<usize>, &Vec<usize>))| {
            let others: Vec<String> = (0..machines.len())
                .filter(|index| !role_machines.contains(index))
                .map(name)
                .collect();
            let length: usize = others.iter().map(|name| name.len() + 1).sum();
            let is_independent = suitable
                .iter()
                .all(|other_machines| never_conflicts(role_machines, other_machines));
            let scheduler_chooses = is_independent && length <= MAX_LIST_BYTES;
            let assigned = assignment.iter().map(|index| name(*index));
            LeaseComponent {
                machines: role.machines,
                named_nodes: if scheduler_chooses { Vec::new() } else { assigned.collect() },
                excluded_nodes: if scheduler_chooses { others } else { Vec::new() },
            }
        };
    let role_choices = roles.iter().zip(suitable.iter().zip(assignment));
    role_choices.map(component).collect()
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
    anyhow::anyhow!(
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
