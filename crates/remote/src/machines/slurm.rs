//! Implements the Slurm engine with Slurm's command-line programs. The engine allocates whole
//! machines, so a job is alone on its node. The states that Slurm's programs report are hints. The
//! spools, which are the workers' result logs, are authoritative.
//!
//! Nothing from a benchmark definition file becomes an option or part of a script. The script is
//! constant. Its arguments are numbers and a folder that [`speedwell_config::fleet`] has
//! validated. Work is submitted as batch jobs: a step started from here would outlive us, and no
//! process would end it. Start at [`SlurmEngine::submit`]; [`job_state_in_queue`] interprets the
//! rows of the queue.

use super::{FleetMachine, JobId, JobState, MachineState, SubmittedJob, TaskBatch};
use anyhow::{Context, Result, bail, ensure};
use speedwell_config::fleet::{MachineEntry, SlurmOptions};
use speedwell_machine::process::is_interrupt_requested;
use speedwell_machine::worker::spawn_connected;
use speedwell_model::MachineAllocation;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Batch script: `$1` is the session's folder, `$2` the number of the first task.
const BATCH_SCRIPT: &str = "#!/bin/sh\n\
    exec \"$1\"/bin/speedwell worker shard \"$1\" \"$(($2 + SLURM_ARRAY_TASK_ID))\"\n";
/// PATH of a step: the standard folders of the Filesystem Hierarchy Standard.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long to retry while the controller is unreachable, and the interval between tries.
const CONTROLLER_RETRY: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(2)];
/// Error of Slurm's programs when the controller is unreachable.
const CONTROLLER_UNREACHABLE: &str = "Unable to contact slurm controller";
/// Slurm's default for MaxArraySize, used if its configuration does not show a value.
const DEFAULT_MAX_ARRAY_SIZE: u32 = 1001;

/// The Slurm scheduler.
#[derive(Debug, Default)]
pub struct SlurmEngine {
    options: SlurmOptions,
    folder: PathBuf,
    configured_machines: Vec<MachineEntry>,
    /// Path of a non-default Slurm configuration.
    conf: Option<PathBuf>,
    /// Exclusive upper bound of array indexes; `None` until it has been queried.
    array_limit: Option<u32>,
    /// Machines of this allocation are reached by steps instead of new jobs.
    pub(super) allocation: Option<MachineAllocation>,
}

impl SlurmEngine {
    /// Creates an engine for the nodes of the partition in `options`. Without a partition, the
    /// engine uses all nodes. All nodes share `folder`. `configured_machines` adds labels and other
    /// settings to some of the nodes.
    pub fn new(
        options: SlurmOptions,
        folder: PathBuf,
        configured_machines: Vec<MachineEntry>,
    ) -> SlurmEngine {
        SlurmEngine { options, folder, configured_machines, ..SlurmEngine::default() }
    }

    /// Makes Slurm's programs use this configuration.
    pub fn with_conf(self, conf: PathBuf) -> SlurmEngine {
        SlurmEngine { conf: Some(conf), ..self }
    }

    pub(super) fn list_machines(&self) -> Result<Vec<FleetMachine>> {
        // The reason may contain any character, so it is the last column.
        let mut sinfo = self.slurm_command("sinfo");
        sinfo.args(["-h", "-N", "-o", "%N|%T|%f|%E"]);
        sinfo.args(self.options.partition.iter().flat_map(|name| ["-p", name]));
        let mut machines: Vec<FleetMachine> = Vec::new();
        for line in run_program(&mut sinfo)?.lines() {
            let [name, state, features, reason] = split_row(line);
            // sinfo lists a node once per partition.
            if machines.iter().any(|machine| machine.name == name) {
                continue;
            }
            let configured = self.configured_machines.iter().find(|entry| entry.name == name);
            let mut labels = configured.map(|entry| entry.labels.clone()).unwrap_or_default();
            let features = features.split(',').filter(|feature| !["", "(null)"].contains(feature));
            labels.extend(features.map(str::to_owned));
            let folder = configured.and_then(|entry| entry.folder.clone());
            machines.push(FleetMachine {
                name: name.to_owned(),
                state: machine_state(state, reason),
                labels,
                folder: folder.unwrap_or_else(|| self.folder.clone()),
                binary: configured.and_then(|entry| entry.binary.clone()),
            });
        }
        Ok(machines)
    }

    pub(super) fn submit(&mut self, batch: &TaskBatch) -> Result<SubmittedJob> {
        let limit = self.array_limit()?;
        let mut jobs: Vec<String> = Vec::new();
        let numbers: Vec<u32> = batch.tasks.iter().map(|task| task.number).collect();
        for (first, indexes) in group_into_arrays(&numbers, limit) {
            match self.submit_array(batch, first, &indexes) {
                Ok(id) => jobs.push(id),
                Err(error) => {
                    // Leave no part of the work running if the submission as a whole fails.
                    let _ = self.cancel_jobs(&[JobId(jobs.join(","))]);
                    return Err(error);
                }
            }
        }
        Ok(SubmittedJob { job: JobId(jobs.join(",")), lines: None })
    }

    /// Submits one array and returns its job number.
    fn submit_array(&self, batch: &TaskBatch, first: u32, indexes: &[u32]) -> Result<String> {
        let indexes: Vec<String> = indexes.iter().map(u32::to_string).collect();
        let mut sbatch = self.slurm_command("sbatch");
        sbatch.args(["--parsable", "--job-name=speedwell", "--no-requeue"]);
        // Do not export our environment: the job gets a login environment.
        sbatch.args(["--output=/dev/null", "--chdir=/", "--export=NONE"]);
        // Run the tasks one at a time: they share a machine.
        sbatch.arg(format!("--array={}%1", indexes.join(",")));
        sbatch.args(self.exclusive_options(&batch.machine));
        sbatch.args(self.file_options());
        sbatch.arg("/dev/stdin").arg(&batch.folder).arg(first.to_string());
        let output = run_with_retry(&mut sbatch, BATCH_SCRIPT)?;
        let id = output.trim().split(';').next().unwrap_or_default();
        let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        ensure!(is_number, "sbatch printed '{}' instead of a job number", output.trim());
        Ok(id.to_owned())
    }

    fn exclusive_options(&self, machine: &str) -> [String; 3] {
        ["--exclusive".to_owned(), "--mem=0".to_owned(), format!("--nodelist={machine}")]
    }

    /// Options from the fleet file.
    pub(super) fn file_options(&self) -> Vec<String> {
        let SlurmOptions { partition, account, reservation, time, cpu_freq, core_spec } =
            &self.options;
        let option = |name: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("--{name}={value}"))
        };
        let minutes = time.map(|time| (time.as_secs().div_ceil(60)).to_string());
        let cores = core_spec.map(|cores| cores.to_string());
        let options = [
            option("partition", partition),
            option("account", account),
            option("reservation", reservation),
            option("time", &minutes),
            option("cpu-freq", cpu_freq),
            option("core-spec", &cores),
        ];
        options.into_iter().flatten().collect()
    }

    /// Queries the states of all jobs with one call of squeue.
    pub(super) fn job_states(&self, jobs: &[JobId]) -> Result<Vec<JobState>> {
        let mut squeue = self.slurm_command("squeue");
        squeue.args(["-h", "--me", "-t", "all", "-o", "%F|%T|%r"]);
        let rows = run_program(&mut squeue)?;
        Ok(jobs.iter().map(|job| job_state_in_queue(job, &rows)).collect())
    }

    pub(super) fn cancel_jobs(&self, jobs: &[JobId]) -> Result<()> {
        let ids: Vec<&str> = jobs.iter().flat_map(array_ids).collect();
        if ids.is_empty() {
            return Ok(());
        }
        match run_program(self.slurm_command("scancel").args(&ids)) {
            // The job has ended and Slurm has forgotten it.
            Err(error) if error.to_string().contains("Invalid job id") => Ok(()),
            other => other.map(drop),
        }
    }

    pub(super) fn start_command(&self, machine: &str, arguments: &[&str]) -> Result<Child> {
        let program = arguments.first().context("nothing to start")?;
        ensure!(!program.starts_with('-'), "invalid program '{program}'");
        let mut srun = self.slurm_command("srun");
        srun.args(["--quiet", "--job-name=speedwell", "--nodes=1", "--ntasks=1", "--chdir=/"]);
        // A step has no login shell, so set PATH.
        srun.arg(format!("--export=PATH={SEARCH_PATH}"));
        match self.step_options(machine) {
            Some(options) => srun.args(options),
            None => srun.args(self.exclusive_options(machine)).args(self.file_options()),
        };
        spawn_connected(srun.args(arguments)).context("cannot start 'srun'")
    }

    fn array_limit(&mut self) -> Result<u32> {
        if let Some(limit) = self.array_limit {
            return Ok(limit);
        }
        let config = run_program(self.slurm_command("scontrol").args(["show", "config"]))?;
        let configured = config.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "MaxArraySize").then(|| value.trim().parse::<u32>().ok())?
        });
        let limit = configured.unwrap_or(DEFAULT_MAX_ARRAY_SIZE).max(1);
        self.array_limit = Some(limit);
        Ok(limit)
    }

    pub(super) fn slurm_command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        if let Some(conf) = &self.conf {
            command.env("SLURM_CONF", conf);
        }
        // Slurm's programs also read options from the environment. Remove these variables, so that
        // only our options apply.
        let is_option = |name: &str| {
            ["SALLOC_", "SBATCH_", "SRUN_", "SQUEUE_", "SINFO_", "SCANCEL_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        };
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(is_option) {
                command.env_remove(name);
            }
        }
        // Slurm's reasons are shown to the user unchanged, so their language must not vary.
        command.env("LC_ALL", "C").current_dir("/");
        command
    }
}

/// Groups task numbers into arrays. Each array has a first number and the offsets of its numbers
/// from the first. All offsets are below `limit`.
fn group_into_arrays(numbers: &[u32], limit: u32) -> Vec<(u32, Vec<u32>)> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut arrays: Vec<(u32, Vec<u32>)> = Vec::new();
    for number in sorted {
        match arrays.last_mut() {
            Some((first, indexes)) if number - *first < limit => indexes.push(number - *first),
            _ => arrays.push((number, vec![0])),
        }
    }
    arrays
}

/// Returns the columns of a row that a Slurm program printed, trimmed. Missing columns are empty;
/// the last one may contain the separator.
pub(super) fn split_row<const COLUMNS: usize>(row: &str) -> [&str; COLUMNS] {
    let mut columns = row.splitn(COLUMNS, '|').map(str::trim);
    std::array::from_fn(|_| columns.next().unwrap_or_default())
}

fn array_ids(job: &JobId) -> impl Iterator<Item = &str> {
    job.0.split(',').filter(|id| !id.is_empty())
}

/// Derives a job's state from the rows of the queue (`ARRAY|STATE|REASON`). A missing job has
/// ended: Slurm forgets jobs some minutes after their end.
fn job_state_in_queue(job: &JobId, rows: &str) -> JobState {
    let mut waiting = None;
    let mut failed = None;
    for row in rows.lines() {
        let [id, state, reason] = split_row(row);
        if !array_ids(job).any(|array_id| array_id == id) {
            continue;
        }
        match state {
            "RUNNING" | "COMPLETING" | "CONFIGURING" | "STAGE_OUT" | "SIGNALING" => {
                return JobState::Running;
            }
            "PENDING" | "SUSPENDED" | "STOPPED" | "REQUEUED" | "RESIZING" | "REQUEUE_HOLD" => {
                // JobArrayTaskLimit only says that an earlier task has to run first; prefer any
                // other reason.
                if waiting.is_none() || reason != "JobArrayTaskLimit" {
                    waiting = Some(reason.to_owned());
                }
            }
            "COMPLETED" => {}
            _ => {
                failed = Some(match reason {
                    "None" | "(null)" | "" => state.to_owned(),
                    reason => format!("{state} ({reason})"),
                });
            }
        }
    }
    match waiting {
        Some(reason) => JobState::Waiting(reason),
        None => JobState::Ended(failed),
    }
}

/// Converts a node state of `sinfo`, such as `idle`, `allocated*` or `drained`. A trailing sign is
/// a flag.
fn machine_state(state: &str, reason: &str) -> MachineState {
    let base_state = state.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
    let is_unresponsive = state.ends_with('*');
    match base_state {
        _ if is_unresponsive => MachineState::Unfit("it does not respond".to_owned()),
        "idle" => MachineState::Free,
        // The scheduler holds a planned node for a pending job. It keeps a blocked node free
        // because of an exclusive job on other nodes.
        "allocated" | "mixed" | "completing" | "reserved" | "planned" | "blocked" => {
            MachineState::Busy
        }
        _ if reason.is_empty() || reason == "none" => MachineState::Unfit(base_state.to_owned()),
        _ => MachineState::Unfit(format!("{base_state}: {reason}")),
    }
}

/// Runs a program and returns its output.
///
/// # Errors
/// Fails if the program fails; the message is the program's own.
pub(super) fn run_program(command: &mut Command) -> Result<String> {
    run_with_input(command, "")
}

/// Runs a program with this input and returns its output.
fn run_with_input(command: &mut Command, input: &str) -> Result<String> {
    let program = Path::new(command.get_program()).display().to_string();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| {
        format!("cannot start '{program}'\nhint: install Slurm's programs on this machine, too")
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input has failed. Its status and stderr give the reason.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    bail!("{program}: {}", failure_reason(&program, &String::from_utf8_lossy(&output.stderr)))
}

/// Calls [`run_with_input`], and retries for a while if the controller is unreachable. Such a
/// request had no effect, and a restarting controller is back within seconds.
fn run_with_retry(command: &mut Command, input: &str) -> Result<String> {
    let begin = Instant::now();
    loop {
        match run_with_input(command, input) {
            Err(error)
                if error.to_string().contains(CONTROLLER_UNREACHABLE)
                    && begin.elapsed() < CONTROLLER_RETRY[0] =>
            {
                ensure!(!is_interrupt_requested(), error);
                thread::sleep(CONTROLLER_RETRY[1]);
            }
            result => return result,
        }
    }
}

/// Extracts the last line of a Slurm program's stderr, without the program's name.
pub(super) fn failure_reason<'a>(program: &str, stderr: &'a str) -> &'a str {
    let mut lines = stderr.lines().map(str::trim);
    let last_line = lines.rfind(|line| !line.is_empty()).unwrap_or("no reason given");
    last_line.strip_prefix(&format!("{program}: error: ")).unwrap_or(last_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_grouped_into_arrays_within_the_index_limit_of_slurm() {
        assert_eq!(group_into_arrays(&[4, 7, 5], 1001), [(4, vec![0, 1, 3])]);
        assert_eq!(
            group_into_arrays(&[1_000_000, 3, 4, 5], 2),
            [(3, vec![0, 1]), (5, vec![0]), (1_000_000, vec![0])]
        );
        assert_eq!(group_into_arrays(&[], 10), []);
        let all: Vec<u32> = (0..2500).collect();
        let parts = group_into_arrays(&all, 1001);
        assert_eq!(parts.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [0, 1001, 2002]);
        let again: Vec<u32> = (parts.iter())
            .flat_map(|(first, indexes)| indexes.iter().map(move |index| first + index))
            .collect();
        assert_eq!(again, all);
    }

    #[test]
    fn job_states_include_the_reason_given_by_the_queue() {
        let state = |id: &str, rows: &str| job_state_in_queue(&JobId(id.to_owned()), rows);
        let waiting = |why: &str| JobState::Waiting(why.to_owned());
        let ended = |why: &str| JobState::Ended(Some(why.to_owned()));
        assert_eq!(state("7", "6|RUNNING|None\n7|PENDING|Resources"), waiting("Resources"));
        assert_eq!(state("7", "7|RUNNING|None\n7|PENDING|JobArrayTaskLimit"), JobState::Running);
        assert_eq!(
            state("7,9", "7|COMPLETED|None\n9|PENDING|JobArrayTaskLimit\n9|PENDING|Resources"),
            waiting("Resources")
        );
        assert_eq!(state("7", "7|COMPLETED|None"), JobState::Ended(None));
        assert_eq!(state("7", "7|NODE_FAIL|NodeDown"), ended("NODE_FAIL (NodeDown)"));
        assert_eq!(state("7", "7|TIMEOUT|None\n7|COMPLETED|None"), ended("TIMEOUT"));
        assert_eq!(state("7", "77|RUNNING|None"), JobState::Ended(None), "it is forgotten");
    }

    #[test]
    fn nodes_are_free_busy_or_unfit_with_a_reason() {
        let unfit = |why: &str| MachineState::Unfit(why.to_owned());
        assert_eq!(machine_state("idle", "none"), MachineState::Free);
        assert_eq!(machine_state("allocated", "none"), MachineState::Busy);
        assert_eq!(machine_state("mixed", "none"), MachineState::Busy);
        assert_eq!(machine_state("planned", "none"), MachineState::Busy);
        assert_eq!(machine_state("idle*", "none"), unfit("it does not respond"));
        assert_eq!(machine_state("drained", "new fans | soon"), unfit("drained: new fans | soon"));
        assert_eq!(machine_state("down", "none"), unfit("down"));
    }

    #[test]
    fn settings_of_the_fleet_file_become_slurm_options() {
        let options = SlurmOptions {
            partition: Some("bench".into()),
            time: Some(std::time::Duration::from_secs(90)),
            core_spec: Some(1),
            ..SlurmOptions::default()
        };
        let slurm = SlurmEngine::new(options, "/shared".into(), Vec::new());
        assert_eq!(slurm.file_options(), ["--partition=bench", "--time=2", "--core-spec=1"]);
    }
}
