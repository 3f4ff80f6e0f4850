//! Allocates Slurm machines for all roles of an experiment at once, or for none. The request is one
//! heterogeneous job with a component for each role. The job ends when the requesting process ends
//! or is killed: a guard shell then reaches the end of its input and cancels the job, even if the
//! job is still queued.
//!
//! A connection to a machine is a step of this job, and all steps share the job's resources. Start
//! at [`SlurmEngine::acquire_lease`].

use super::SlurmEngine;
use super::slurm::{failure_reason, run_program, split_row};
use anyhow::{Result, bail};
use speedwell_machine::process::CompanionProcess;
use speedwell_machine::worker::StderrTail;
use speedwell_model::MachineAllocation;
use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs the command `$@`, terminates it when the input ends, and exits with the command's status.
/// One signal removes a queued job, but a signal that arrives while the job starts may be lost. The
/// script therefore repeats the signal.
const GUARD_SCRIPT: &str = r#"exec 3<&0 </dev/null
"$@" 3<&- &
job=$!
{ cat <&3; while kill "$job"; do sleep 1; done; } >/dev/null 2>&1 &
guard=$!
wait "$job"
code=$?
kill "$guard" 2>/dev/null
exit "$code""#;
/// Command that keeps the machines allocated while nothing runs on them. It lasts another second
/// when it is terminated: salloc terminates it once for each component of the job, and loops forever
/// if it exits in between (Slurm 22.05: the thread that terminates it then reaps it, too).
const HOLD_COMMAND: [&str; 3] = [
    "/bin/sh",
    "-c",
    "trap 'trap \"\" TERM; kill $! 2>/dev/null; sleep 1; exit' TERM; sleep 2147483647 & wait",
];
/// Initial and maximum interval between queries of the queue.
const POLL_INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// How long to wait for the job to end. After that, the guard goes on signaling the job by itself.
const END_GRACE: Duration = Duration::from_secs(30);

/// Machines needed by one role of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseComponent {
    /// Number of machines.
    pub machines: u32,
    /// Machines to use; if empty, Slurm chooses them.
    pub named_nodes: Vec<String>,
    /// Machines to avoid.
    pub excluded_nodes: Vec<String>,
}

/// Machines that are allocated to us until this value is dropped or this process ends.
#[derive(Debug)]
pub struct AllocationLease {
    /// The job.
    pub allocation: MachineAllocation,
    /// For each machine, by name, the address at which other machines reach it, according to Slurm.
    pub addresses: BTreeMap<String, IpAddr>,
    _guard: SallocGuard,
}

/// The guard shell, which cancels the job when its input ends.
#[derive(Debug)]
struct SallocGuard {
    _companion: CompanionProcess,
    shell: Child,
    stderr: StderrTail,
}

impl AllocationLease {
    /// Returns the names of a component's machines.
    pub fn machines(&self, component: u32) -> impl Iterator<Item = &str> {
        let components = self.allocation.components.iter();
        components.filter(move |(_, index)| *index == component).map(|(name, _)| name.as_str())
    }
}

impl Drop for SallocGuard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let deadline = Instant::now() + END_GRACE;
        while matches!(self.shell.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl SallocGuard {
    fn end_reason(&mut self) -> Result<Option<String>> {
        let Some(status) = self.shell.try_wait()? else {
            return Ok(None);
        };
        let stderr = self.stderr.text();
        if stderr.trim().is_empty() {
            return Ok(Some(format!("salloc exited: {status}")));
        }
        Ok(Some(failure_reason("salloc", &stderr).to_owned()))
    }
}

impl SlurmEngine {
    /// Waits until machines for all roles are allocated; see [`super::FleetEngine::acquire_lease`].
    pub(super) fn acquire_lease(
        &self,
        name: &str,
        components_wanted: &[LeaseComponent],
        on_wait: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<AllocationLease> {
        let mut guard = self.start_salloc(name, components_wanted)?;
        let mut pause = POLL_INTERVALS[0];
        let components = loop {
            let queue = self.query_queue(name)?;
            if let Some(components) = granted_components(&queue, components_wanted.len()) {
                break components;
            }
            if let Some(reason) = guard.end_reason()? {
                bail!("Slurm cannot allocate the machines for this experiment: {reason}");
            }
            on_wait(pending_reason(&queue))?;
            thread::sleep(pause);
            pause = (pause * 2).min(POLL_INTERVALS[1]);
        };
        let mut allocation = MachineAllocation {
            name: name.to_owned(),
            job: components[0].0.clone(),
            components: Vec::new(),
        };
        for (component, (_, nodes)) in (0..).zip(&components) {
            let names =
                run_program(self.slurm_command("scontrol").args(["show", "hostnames", nodes]))?;
            let node_names = names.split_whitespace();
            (allocation.components).extend(node_names.map(|name| (name.to_owned(), component)));
        }
        let nodes: Vec<&str> =
            allocation.components.iter().map(|(name, _)| name.as_str()).collect();
        let mut scontrol = self.slurm_command("scontrol");
        let output = run_program(scontrol.args(["--oneliner", "show", "node", &nodes.join(",")]))?;
        Ok(AllocationLease { addresses: parse_addresses(&output), allocation, _guard: guard })
    }

    fn start_salloc(&self, name: &str, components: &[LeaseComponent]) -> Result<SallocGuard> {
        let mut arguments: Vec<String> =
            vec!["-c".into(), GUARD_SCRIPT.into(), "sh".into(), "salloc".into()];
        for (index, component) in components.iter().enumerate() {
            arguments.extend((index > 0).then(|| ":".to_owned()));
            arguments.extend(["--no-bell", "--kill-command"].map(str::to_owned));
            arguments.push(format!("--job-name={name}"));
            arguments.extend(self.component_options(component));
        }
        arguments.extend(HOLD_COMMAND.map(str::to_owned));
        let mut command = self.slurm_command("/bin/sh");
        command.args(arguments).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        // The guard gets its own process group, because Ctrl-C must reach only us. The end of its
        // input tells the guard to cancel the job.
        let mut shell = command.process_group(0).spawn()?;
        let stderr = StderrTail::collect(&mut shell);
        Ok(SallocGuard { _companion: CompanionProcess::of(&shell), shell, stderr })
    }

    /// Returns the options of salloc for one role. The role gets whole machines, as every job does.
    fn component_options(&self, component: &LeaseComponent) -> Vec<String> {
        let mut options = vec![
            format!("--nodes={}", component.machines),
            "--exclusive".to_owned(),
            "--mem=0".to_owned(),
        ];
        let list = |option: &str, names: &[String]| {
            (!names.is_empty()).then(|| format!("--{option}={}", names.join(",")))
        };
        options.extend(list("nodelist", &component.named_nodes));
        options.extend(list("exclude", &component.excluded_nodes));
        options.extend(self.file_options());
        options
    }

    /// Returns the job's rows in the queue, in the form `NUMBER+COMPONENT|STATE|NODES|REASON`.
    pub(super) fn query_queue(&self, name: &str) -> Result<String> {
        let mut squeue = self.slurm_command("squeue");
        squeue.args(["-h", "--me", "-o", "%i|%T|%N|%r"]);
        run_program(squeue.arg(format!("--name={name}")))
    }

    /// Returns the options of srun for a step on a machine of the allocation. Returns `None` for
    /// other machines.
    pub(super) fn step_options(&self, machine: &str) -> Option<Vec<String>> {
        let allocation = self.allocation.as_ref()?;
        let mut components = allocation.components.iter();
        let (_, component) = components.find(|(name, _)| name == machine)?;
        let is_heterogeneous = allocation.components.iter().any(|(_, other)| *other > 0);
        let group = is_heterogeneous.then(|| format!("--het-group={component}"));
        let frequency =
            self.file_options().into_iter().filter(|option| option.starts_with("--cpu-freq="));
        let options = [
            format!("--jobid={}", allocation.job),
            format!("--nodelist={machine}"),
            // A target and its services run side by side, each with all resources of the machine.
            "--overlap".to_owned(),
            "--mem=0".to_owned(),
            "--cpu-bind=none".to_owned(),
        ];
        Some(options.into_iter().chain(group).chain(frequency).collect())
    }

    pub(super) fn release_allocation(&self, allocation: &MachineAllocation) -> Result<bool> {
        let exists = is_active(&self.query_queue(&allocation.name)?);
        if exists {
            let mut scancel = self.slurm_command("scancel");
            run_program(scancel.args(["--me", "--name", &allocation.name]))?;
        }
        Ok(exists)
    }
}

/// Returns the job number and nodes of each component, or `None` until all components are running.
fn granted_components(queue: &str, expected: usize) -> Option<Vec<(String, String)>> {
    let mut components: BTreeMap<usize, (String, String)> = BTreeMap::new();
    for row in queue.lines() {
        let [id, "RUNNING", nodes, _] = split_row(row) else {
            continue;
        };
        let (job, component) = id.split_once('+').unwrap_or((id, "0"));
        if !nodes.is_empty() {
            components.insert(component.parse().ok()?, (job.to_owned(), nodes.to_owned()));
        }
    }
    (components.len() == expected).then(|| components.into_values().collect())
}

/// Whether the job holds or waits for machines. A completing job is already returning its machines.
fn is_active(queue: &str) -> bool {
    let mut states = queue.lines().filter_map(|row| row.split('|').nth(1));
    states.any(|state| state.trim() != "COMPLETING")
}

/// Returns the job's number and state, and why the job has not started. Returns `None` if the queue
/// has no rows for the job.
pub(super) fn describe_queue_state(queue: &str) -> Option<String> {
    let [id, state, ..]: [&str; 4] = split_row(queue.lines().next()?);
    let job = id.split_once('+').map_or(id, |(job, _)| job);
    let reason_clause = match pending_reason(queue) {
        "" => String::new(),
        reason_clause => format!(" ({reason_clause})"),
    };
    Some(format!("job {job}: {state}{reason_clause}"))
}

/// Returns Slurm's reason why a job has not started. It is empty while the reason is unknown.
fn pending_reason(queue: &str) -> &str {
    let mut reasons = queue.lines().map(|row| split_row::<4>(row)[3]);
    let is_informative = |reason: &&str| !["", "None", "(null)"].contains(reason);
    reasons.find(is_informative).unwrap_or_default()
}

/// Parses the addresses of nodes from the output of `scontrol`, one node per line.
fn parse_addresses(output: &str) -> BTreeMap<String, IpAddr> {
    let value = |line: &str, key: &str| {
        let mut words = line.split_whitespace();
        words.find_map(|word| Some(word.strip_prefix(key)?.strip_prefix('=')?.to_owned()))
    };
    let address = |line: &str| {
        let name = value(line, "NodeName")?;
        let host = value(line, "NodeAddr")?;
        let addresses: Vec<IpAddr> =
            (host.as_str(), 0).to_socket_addrs().ok()?.map(|address| address.ip()).collect();
        // A machine may resolve its own name to a loopback address, which other machines cannot
        // use.
        let external = addresses.iter().find(|address| !address.is_loopback());
        Some((name, *external.or(addresses.first())?))
    };
    output.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_config::fleet::SlurmOptions;
    use std::io::Read;
    use std::process::Command;

    #[test]
    fn a_lease_is_granted_once_all_components_run() {
        let waiting = "8+0|PENDING||Resources\n8+1|PENDING||None\n";
        assert_eq!(granted_components(waiting, 2), None);
        assert_eq!(pending_reason(waiting), "Resources");
        let begun = "8+1|RUNNING|n[2-3]|None\n8+0|CONFIGURING|n1|None\n";
        assert_eq!(granted_components(begun, 2), None);
        assert_eq!(pending_reason(begun), "");
        let both = granted_components("8+1|RUNNING|n[2-3]|None\n8+0|RUNNING|n1|None\n", 2);
        let own = |job: &str, nodes: &str| (job.to_owned(), nodes.to_owned());
        assert_eq!(both, Some(vec![own("8", "n1"), own("8", "n[2-3]")]));
        assert!(is_active(waiting) && is_active(begun));
        assert!(!is_active("9|COMPLETING|n1|None") && !is_active(""));
        let said = [waiting, "9|RUNNING|n1|None", ""].map(describe_queue_state);
        let own = |text: &str| Some(text.to_owned());
        assert_eq!(said, [own("job 8: PENDING (Resources)"), own("job 9: RUNNING"), None]);
        let own = |job: &str, nodes: &str| (job.to_owned(), nodes.to_owned());
        assert_eq!(granted_components("9|RUNNING|n1|None", 1), Some(vec![own("9", "n1")]));
        assert_eq!(
            pending_reason("8+0|PENDING||Nodes required | are DOWN"),
            "Nodes required | are DOWN"
        );
    }

    #[test]
    fn node_addresses_are_parsed_and_unresolvable_ones_left_out() {
        let shown = "NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.5 NodeHostName=n1 OS=Linux x\n\
            NodeName=n2 Arch=x86_64 NodeAddr=no.such.host.invalid NodeHostName=n2\n";
        let found = parse_addresses(shown);
        assert_eq!(found.len(), 1);
        assert_eq!(found["n1"].to_string(), "10.0.0.5");
    }

    #[test]
    fn a_connection_within_an_allocation_is_a_step_of_its_component() {
        let options = SlurmOptions {
            cpu_freq: Some("high".to_owned()),
            partition: Some("bench".to_owned()),
            ..SlurmOptions::default()
        };
        let mut slurm = SlurmEngine::new(options, "/shared".into(), Vec::new());
        assert_eq!(slurm.step_options("n1"), None);
        let own = |name: &str, component| (name.to_owned(), component);
        slurm.allocation = Some(MachineAllocation {
            name: "speedwell-1".to_owned(),
            job: "8".to_owned(),
            components: vec![own("n1", 0), own("n3", 1)],
        });
        let step = slurm.step_options("n3").unwrap_or_default().join(" ");
        let wanted = "--jobid=8 --nodelist=n3 --overlap --mem=0 --cpu-bind=none --het-group=1 --cpu-freq=high";
        assert_eq!(step, wanted);
        assert_eq!(slurm.step_options("n2"), None);
        let part = LeaseComponent {
            machines: 2,
            named_nodes: Vec::new(),
            excluded_nodes: vec!["n1".to_owned(), "n4".to_owned()],
        };
        assert_eq!(
            slurm.component_options(&part).join(" "),
            "--nodes=2 --exclusive --mem=0 --exclude=n1,n4 --partition=bench --cpu-freq=high"
        );
    }

    /// Starts the guard with `script` in place of salloc.
    fn start_guarded(script: &str) -> SallocGuard {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", GUARD_SCRIPT, "sh", "/bin/sh", "-c", script]);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let shell = shell.stderr(Stdio::null()).spawn();
        let shell = shell.expect("there is a shell");
        let stderr = StderrTail::default();
        SallocGuard { _companion: CompanionProcess::of(&shell), shell, stderr }
    }

    #[test]
    fn a_dropped_guard_is_ended_and_an_exited_guard_reports_its_status() {
        let mut guard = start_guarded("echo here; exec sleep 600");
        let mut said = [0; 5];
        let mut output = guard.shell.stdout.take().expect("it is piped");
        output.read_exact(&mut said).expect("it says something");
        assert_eq!((&said, guard.end_reason().ok()), (b"here\n", Some(None)));
        let begin = Instant::now();
        drop(guard);
        assert!(begin.elapsed() < END_GRACE, "it was ended");
        // No process holds the guard's output open any more.
        let mut rest = String::new();
        output.read_to_string(&mut rest).expect("it ends");
        let mut guard = start_guarded("exit 3");
        let why = loop {
            match guard.end_reason() {
                Ok(Some(why)) => break why,
                other => assert!(matches!(other, Ok(None))),
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert!(why.contains("exit status: 3"), "{why}");
    }
}
