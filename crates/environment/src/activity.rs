//! What else the machine is doing at this moment: load, pressure, stolen time.

use super::tree::Tree;
use speedwell_model::Environment;

/// Load averages over 1, 5 and 15 minutes.
pub(super) fn load(tree: &Tree) -> Option<[f64; 3]> {
    let text = tree.text("/proc/loadavg")?;
    let mut figures = text.split(' ').map_while(|word| word.parse::<f64>().ok());
    let mut next = || figures.next().filter(|figure| figure.is_finite());
    Some([next()?, next()?, next()?])
}

/// A resource that tasks may have to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Cpu,
    Memory,
    Io,
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 3] = [Resource::Cpu, Resource::Memory, Resource::Io];

    /// The kernel's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
            Resource::Io => "io",
        }
    }

    /// Pressure in percent beyond which figures get noisier, and beyond which they are likely to be wrong. Even a
    /// small pressure on memory means that pages are being reclaimed while we measure, which is worse than waiting
    /// for a processor now and then.
    pub fn limits_percent(self) -> (f64, f64) {
        match self {
            Resource::Memory => (1.0, 10.0),
            Resource::Cpu | Resource::Io => (5.0, Environment::BUSY_PERCENT),
        }
    }
}

/// Share of the last 10 seconds, in percent, in which some task waited for the resource
/// (pressure stall information; kernel documentation, `accounting/psi.rst`).
pub(super) fn pressure_percent(tree: &Tree, resource: Resource) -> Option<f64> {
    let text = tree.text(format!("/proc/pressure/{}", resource.name()))?;
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ')
        .find_map(|word| word.strip_prefix("avg10="))?
        .parse()
        .ok()
}

/// Time since the start of the machine, in microseconds, in which some task waited for the resource.
pub(super) fn pressure_total_us(tree: &Tree, resource: Resource) -> Option<u64> {
    let text = tree.text(format!("/proc/pressure/{}", resource.name()))?;
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ')
        .find_map(|word| word.strip_prefix("total="))?
        .parse()
        .ok()
}

/// Ticks of the processors since the start of the machine that the host gave to others while we wanted them,
/// and all ticks. The first line of `/proc/stat` counts user, nice, system, idle, iowait, irq, softirq and
/// steal time; guest time is part of user time.
pub(super) fn steal_ticks(tree: &Tree) -> Option<(u64, u64)> {
    let text = tree.text("/proc/stat")?;
    let counters = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = counters
        .split_whitespace()
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    Some((*ticks.get(7)?, ticks.iter().sum()))
}

/// Share of them, in percent.
pub(super) fn steal_percent(tree: &Tree) -> Option<f64> {
    let (stolen, all) = steal_ticks(tree)?;
    (all > 0).then(|| stolen as f64 / all as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::tree::fake::machine;
    use super::*;

    #[test]
    fn load_pressure_and_steal_are_read() {
        let machine = machine(&[
            ("/proc/loadavg", "0.52 1.25 3.00 2/345 6789\n"),
            (
                "/proc/pressure/cpu",
                "some avg10=1.53 avg60=0.80 avg300=7.59 total=96103027\n",
            ),
            (
                "/proc/stat",
                "cpu  600 0 200 150 0 0 0 50 10 0\ncpu0 1 2 3\n",
            ),
        ]);
        assert_eq!(load(&machine), Some([0.52, 1.25, 3.0]));
        assert_eq!(pressure_percent(&machine, Resource::Cpu), Some(1.53));
        assert_eq!(pressure_percent(&machine, Resource::Io), None);
        assert_eq!(steal_percent(&machine), Some(5.0));
    }

    #[test]
    fn a_load_that_is_no_number_is_no_load() {
        assert_eq!(load(&machine(&[("/proc/loadavg", "nan 1 1")])), None);
        assert_eq!(load(&machine(&[("/proc/loadavg", "0.1 0.2")])), None);
    }
}
