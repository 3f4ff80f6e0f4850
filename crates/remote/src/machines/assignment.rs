//! Assigns cases to machines and cuts the cases of a machine into shards.
//!
//! A case should stay on the machine that has its history. Rendezvous hashing (Thaler and
//! Ravishankar 1998) therefore derives the machine from the names of case and machine: adding or
//! removing a machine moves few cases. The load of a machine exceeds 1.25 times the mean only if a
//! single case takes longer than that, or if a case fits on no machine.

use ring::digest::{SHA256, digest};

/// Load limit of a machine, as a multiple of the mean load of all machines.
const MAX_LOAD_RATIO: f64 = 1.25;

/// Target duration of a shard, in seconds. Short shards make the loss of a machine cheap, and give
/// other users of a queue their turn.
const TARGET_SHARD_S: f64 = 600.0;

/// Returns the index of a machine for each case. A case is given by its name and its duration in
/// seconds.
///
/// The longest cases are placed first. A case that exceeds the limit by itself goes to a machine
/// without cases. A case that fits on no machine goes to the least loaded one.
pub fn assign_cases(cases: &[(&str, f64)], machines: &[&str]) -> Vec<usize> {
    let total_seconds: f64 = cases.iter().map(|(_, seconds)| seconds).sum();
    let limit = MAX_LOAD_RATIO * total_seconds / machines.len().max(1) as f64;
    let mut load = vec![0.0; machines.len()];
    let mut assignment = vec![0; cases.len()];
    let mut longest_first: Vec<usize> = (0..cases.len()).collect();
    longest_first.sort_by(|&left, &right| cases[right].1.total_cmp(&cases[left].1));
    for case in longest_first {
        let (id, seconds) = cases[case];
        let mut preferred: Vec<usize> = (0..machines.len()).collect();
        preferred
            .sort_by_key(|&machine| std::cmp::Reverse(rendezvous_weight(id, machines[machine])));
        let has_room = |machine: &usize| load[*machine] + seconds <= limit.max(seconds);
        let least_loaded = || (0..load.len()).min_by(|&a, &b| load[a].total_cmp(&load[b]));
        let chosen = preferred.iter().copied().find(has_room).or_else(least_loaded);
        if let Some(machine) = chosen {
            assignment[case] = machine;
            load[machine] += seconds;
        }
    }
    assignment
}

/// Weight of a machine for a case (rendezvous hash).
fn rendezvous_weight(case: &str, machine: &str) -> u64 {
    let hash = digest(&SHA256, format!("{case}|{machine}").as_bytes());
    let first_bytes = hash.as_ref().iter().take(8);
    first_bytes.fold(0, |sum, &byte| (sum << 8) | u64::from(byte))
}

/// Cuts the cases of one machine into shards of about ten minutes, each with at least one case. A
/// case is given by its index and its duration in seconds.
pub fn cut_into_shards(cases: impl IntoIterator<Item = (u32, f64)>) -> Vec<Vec<u32>> {
    let mut shards: Vec<Vec<u32>> = Vec::new();
    let mut duration_s = f64::INFINITY;
    for (case, seconds) in cases {
        if duration_s + seconds > TARGET_SHARD_S {
            shards.push(Vec::new());
            duration_s = 0.0;
        }
        duration_s += seconds;
        if let Some(last) = shards.last_mut() {
            last.push(case);
        }
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::{assign_cases, cut_into_shards};

    /// Returns cases with durations from 0.2 to 5 seconds, and names of machines.
    fn example(cases: usize, machines: usize) -> (Vec<(String, f64)>, Vec<String>) {
        let length = |case: usize| 0.2 + 4.8 * ((case * 7919) % 1000) as f64 / 1000.0;
        let cases = (0..cases).map(|case| (format!("g/b n={case}"), length(case)));
        let machines = (0..machines).map(|machine| format!("lab-{machine}"));
        (cases.collect(), machines.collect())
    }

    fn assign_machines(cases: &[(String, f64)], machines: &[String]) -> Vec<String> {
        let cases: Vec<(&str, f64)> = cases.iter().map(|(id, s)| (id.as_str(), *s)).collect();
        let names: Vec<&str> = machines.iter().map(String::as_str).collect();
        let placed = assign_cases(&cases, &names);
        placed.into_iter().map(|at| machines[at].clone()).collect()
    }

    #[test]
    fn no_machine_is_loaded_more_than_a_quarter_above_the_mean() {
        for (count, machines) in [(100, 4), (1000, 10), (7, 3)] {
            let (cases, machines) = example(count, machines);
            let placed = assign_machines(&cases, &machines);
            let mean = cases.iter().map(|(_, s)| s).sum::<f64>() / machines.len() as f64;
            let longest = cases.iter().map(|(_, s)| *s).fold(0.0, f64::max);
            for machine in &machines {
                let own = cases.iter().zip(&placed).filter(|(_, at)| *at == machine);
                let load: f64 = own.map(|((_, s), _)| s).sum();
                assert!(load <= (1.25 * mean).max(longest) + 1e-9, "{machine} {load} {mean}");
            }
        }
    }

    #[test]
    fn adding_or_removing_a_machine_moves_few_cases() {
        let (cases, machines) = example(1000, 11);
        let share_moved = |fewer: &[String], more: &[String]| {
            let (before, after) = (assign_machines(&cases, fewer), assign_machines(&cases, more));
            before.iter().zip(&after).filter(|(a, b)| a != b).count()
        };
        // At least about a tenth of the cases must move.
        assert!(share_moved(&machines[..10], &machines) < 150);
        assert!(share_moved(&machines, &machines[1..]) < 150);
        assert_eq!(share_moved(&machines, &machines), 0);
    }

    #[test]
    fn the_order_of_cases_and_machines_does_not_matter() {
        let (mut cases, mut machines) = example(60, 5);
        for (place, case) in cases.iter_mut().enumerate() {
            // Distinct durations make the placement order unique.
            case.1 += place as f64 * 1e-6;
        }
        let mut before: Vec<(String, String)> = cases
            .iter()
            .map(|(id, _)| id.clone())
            .zip(assign_machines(&cases, &machines))
            .collect();
        cases.reverse();
        machines.reverse();
        let after = cases.iter().map(|(id, _)| id.clone()).zip(assign_machines(&cases, &machines));
        let mut after: Vec<(String, String)> = after.collect();
        before.sort();
        after.sort();
        assert_eq!(before, after);
    }

    #[test]
    fn shards_take_ten_minutes_or_have_one_case() {
        let cases = [(0, 300.0), (1, 300.0), (2, 1.0), (5, 2000.0), (7, 1.0)];
        assert_eq!(cut_into_shards(cases), [vec![0, 1], vec![2], vec![5], vec![7]]);
        assert!(cut_into_shards([]).is_empty());
    }
}
