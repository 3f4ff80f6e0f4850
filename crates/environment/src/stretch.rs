//! What a stretch of time cost some processes, and what else the machine did meanwhile.
//!
//! Start at [`Stretch::begin`]; [`super::Watch`] looks again and again instead.

use super::activity::{Resource, pressure_total_us, steal_ticks};
use super::tree::Tree;
use speedwell_process::cpu_ns_of;
use std::path::Path;
use std::time::Instant;

/// A stretch that has begun.
#[derive(Debug)]
pub struct Stretch {
    tree: Tree,
    pid: i32,
    begin: Instant,
    cpu_ns: Option<u64>,
    waited_us: Option<u64>,
    stolen: Option<(u64, u64)>,
}

/// What a stretch cost. What the kernel does not tell is absent; shares are parts of 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Its length in nanoseconds.
    pub elapsed_ns: u64,
    /// Processor time of the processes, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Share of the time in which some task of the machine waited for a processor.
    pub pressure: Option<f64>,
    /// Share of the machine's processor time that its host gave to others.
    pub steal: Option<f64>,
}

impl Stretch {
    /// Begins, for the process `pid` and all it starts.
    pub fn begin(pid: i32) -> Stretch {
        let tree = Tree::at(Path::new("/"));
        Stretch {
            pid,
            waited_us: pressure_total_us(&tree, Resource::Cpu),
            stolen: steal_ticks(&tree),
            cpu_ns: cpu_ns_of(pid),
            begin: Instant::now(),
            tree,
        }
    }

    /// Ends.
    pub fn end(self) -> Spent {
        let elapsed_ns = self.begin.elapsed().as_nanos() as u64;
        let cpu_ns = self.cpu_ns.zip(cpu_ns_of(self.pid));
        let waited = self
            .waited_us
            .zip(pressure_total_us(&self.tree, Resource::Cpu));
        let stolen = self.stolen.zip(steal_ticks(&self.tree));
        Spent {
            elapsed_ns,
            cpu_ns: cpu_ns.map(|(from, to)| to.saturating_sub(from)),
            pressure: waited.map(|(from, to)| {
                let waited_ns = to.saturating_sub(from) as f64 * 1e3;
                (waited_ns / elapsed_ns.max(1) as f64).min(1.0)
            }),
            steal: stolen.and_then(|(from, to)| {
                let all = to.1.saturating_sub(from.1);
                (all > 0).then(|| to.0.saturating_sub(from.0) as f64 / all as f64)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_process::{Service, Spec};
    use std::time::Duration;

    #[test]
    fn processor_time_is_told_in_less_than_ticks() {
        // A process of its own: those of other tests come and go in this one.
        let work = Spec::new("/bin/sh").args(["-c", "while :; do :; done"]);
        let service = Service::start(work).unwrap();
        let used = || cpu_ns_of(service.pid()).unwrap();
        let (begin, before_ns) = (Instant::now(), used());
        let stretch = Stretch::begin(service.pid());
        let inside_ns = used();
        while used() < inside_ns + 30_000_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let least_ns = used() - inside_ns;
        let spent = stretch.end();
        let most_ns = used() - before_ns;
        let cpu_ns = spent.cpu_ns.unwrap();
        assert!(
            (least_ns..=most_ns).contains(&cpu_ns),
            "{cpu_ns} instead of {least_ns} to {most_ns}"
        );
        // A tick of 10 ms would make a round number of it.
        assert!(!cpu_ns.is_multiple_of(10_000_000), "{cpu_ns}");
        let whole_ns = begin.elapsed().as_nanos() as u64;
        assert!((1..=whole_ns).contains(&spent.elapsed_ns), "{spent:?}");
        assert!(
            spent
                .pressure
                .is_none_or(|share| (0.0..=1.0).contains(&share))
        );
    }
}
