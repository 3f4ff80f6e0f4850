//! One line about a machine that is busy with other things, to be said before anything is measured.
//!
//! Decides from which pressure on it is worth a word; the same limits judge the machine in `speedwell doctor`.

use super::activity::{Resource, pressure_percent};
use super::tree::Tree;
use std::path::Path;

/// A sentence that says how busy the machine is right now; `None` if it is quiet enough, or does not say.
///
/// Takes well under a millisecond: it reads three small files of the kernel.
pub fn busy_machine() -> Option<String> {
    busy(&Tree::at(Path::new("/")))
}

fn busy(tree: &Tree) -> Option<String> {
    let above = |resource: &Resource| {
        let percent = pressure_percent(tree, *resource)?;
        let (_, bad) = resource.limits_percent();
        (percent > bad).then(|| format!("{} pressure {percent:.0} %", resource.name()))
    };
    let known: Vec<String> = Resource::ALL.iter().filter_map(above).collect();
    (!known.is_empty()).then(|| {
        format!(
            "The machine is busy with other work ({}): expect noisy figures; 'speedwell doctor' says more.",
            known.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::fake::machine;
    use super::*;

    fn under(cpu: &str, memory: &str) -> Option<String> {
        let line = |percent: &str| format!("some avg10={percent} avg60=0.00 avg300=0.00 total=1\n");
        busy(&machine(&[
            ("/proc/pressure/cpu", &line(cpu)),
            ("/proc/pressure/memory", &line(memory)),
        ]))
    }

    #[test]
    fn a_busy_machine_is_one_line_and_a_quiet_one_none() {
        assert_eq!(under("24.90", "0.00"), None);
        assert_eq!(busy(&machine(&[])), None);
        let said = under("99.12", "10.50").unwrap();
        assert!(
            said.contains("(cpu pressure 99 %, memory pressure 10 %)"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1);
    }
}
