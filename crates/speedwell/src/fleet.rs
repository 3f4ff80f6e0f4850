//! `speedwell fleet`: lists the machines, and checks whether they are fit for measurements.
//!
//! The subcommands `status`, `collect`, `cancel` and `clean` are for sessions with detached workers,
//! and for experiments whose roles (target, services and load) run on several machines. Such an
//! experiment is measured by a process that stays connected to the machines.

use crate::options::{ComparisonArgs, MeasureTask, OutputArgs, StoreArgs, fleet_file, hide_unused};
use crate::run::report_stored;
use crate::{CommandStatus, status, stored_session};
use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use speedwell_config::fleet::MachineSelector;
use speedwell_machine::worker::ClockOffset;
use speedwell_remote::fleet::{DetachedAction, ShardStatus, clean_up, reattach_session};
use speedwell_remote::machines::check::{self, MachineReport};
use speedwell_remote::machines::{FleetEngine, FleetMachine, MachineState, content_store};
use speedwell_remote::roles::{MeasuringProcess, PlacedSession, RoleStatus};
use speedwell_report::{self as report, FleetFacts, FleetLine, RoleRow, ShardRow};
use speedwell_store::{ShardState, Store};

/// Clock offset above which a machine gets a note. No result depends on the offset.
const MAX_CLOCK_OFFSET_NS: u64 = 1_000_000_000;

/// Show the machines of the fleet and check whether they are fit for measuring
///
/// The machines are defined by the project's fleet.toml, else by ~/.config/speedwell/fleet.toml. LABELS combines names
/// and labels of machines with & | ! and parentheses.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  speedwell fleet
  speedwell fleet 'lab & !zen4'
  speedwell fleet check lab
  speedwell fleet collect @31"
)]
pub struct FleetArgs {
    #[command(subcommand)]
    command: Option<FleetCommand>,
    #[command(flatten)]
    list: CheckArgs,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Check each machine as doctor does, and show its identity, clock offset and speed
    ///
    /// Exit status 1 if a machine is unavailable or has a problem. Unless fleet.toml sets 'binary' for a machine, this
    /// program is copied to the machine once.
    Check(CheckArgs),
    /// Fetch results from the workers of a session, and show their progress
    Status(StatusArgs),
    /// Wait for a session started with --detach, and report it
    ///
    /// Lost workers are replaced. Ctrl-C stops waiting, not the workers.
    Collect(CollectArgs),
    /// Stop the workers of a session, keeping completed runs
    Cancel(CancelArgs),
    /// Remove files of sessions from the machines: plans, programs, benchmark files, spools
    Clean(CleanArgs),
}

#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "chart unit no_progress")))]
struct CheckArgs {
    /// Select machines by name or label
    #[arg(value_name = "LABELS")]
    labels: Option<MachineSelector>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the subcommand, or lists the machines.
///
/// # Errors
/// Fails if there is no fleet, the fleet file is invalid, or the engine does not respond; if there is
/// no such session, or it has ended.
pub fn run(args: &FleetArgs) -> Result<CommandStatus> {
    match &args.command {
        None => list_machines(&args.list),
        Some(FleetCommand::Check(args)) => check_machines(args),
        Some(FleetCommand::Status(StatusArgs { session, places })) => {
            attend_session(session, &places.task(), DetachedAction::Report)
        }
        Some(FleetCommand::Collect(CollectArgs { session, comparison, places })) => {
            let task = MeasureTask {
                settings: comparison.analysis_settings(&[], None),
                fail_on: comparison.fail_on,
                ..places.task()
            };
            attend_session(session, &task, DetachedAction::Wait)
        }
        Some(FleetCommand::Cancel(CancelArgs { session, places })) => {
            attend_session(session, &places.task(), DetachedAction::Cancel)
        }
        Some(FleetCommand::Clean(args)) => clean_machines(args),
    }
}

fn list_machines(args: &CheckArgs) -> Result<CommandStatus> {
    let mut engine = FleetEngine::from_file(&fleet_file()?);
    let machines = select_machines(&mut engine, args.labels.as_ref())?;
    let lines: Vec<FleetLine> = machines.iter().map(machine_line).collect();
    args.output.print_document(&report::list_fleet_machines(&lines))?;
    Ok(CommandStatus::DONE)
}

fn check_machines(args: &CheckArgs) -> Result<CommandStatus> {
    let mut engine = FleetEngine::from_file(&fleet_file()?);
    let executable = std::env::current_exe().context("cannot find the file of this program")?;
    let program_file = content_store::program_to_send(&executable);
    let mut lines = Vec::new();
    for machine in select_machines(&mut engine, args.labels.as_ref())? {
        let mut line = machine_line(&machine);
        if !matches!(machine.state, MachineState::Unfit(_)) {
            status::print_note(&format!("checking {}", machine.name));
            let result = content_store::send_program(&mut engine, &machine, &program_file)
                .and_then(|program| check::check_machine(&mut engine, &machine, &program));
            match result {
                Ok((offset, report)) => add_check_results(&mut line, offset, &report),
                Err(error) => {
                    line.state = "unfit".to_owned();
                    line.notes.push(format!("{error:#}").replace('\n', ", "));
                }
            }
        }
        lines.push(line);
    }
    warn_about_clones(&mut lines);
    args.output.print_document(&report::list_fleet_machines(&lines))?;
    let is_unfit = lines.iter().any(|line| line.state == "unfit");
    Ok(if is_unfit { CommandStatus::NEGATIVE } else { CommandStatus::DONE })
}

/// Returns the machines that match the labels, or all machines if there are no labels.
///
/// # Errors
/// Fails if the engine does not respond, a label is unknown, or no machine matches.
fn select_machines(
    engine: &mut FleetEngine,
    labels: Option<&MachineSelector>,
) -> Result<Vec<FleetMachine>> {
    let mut machines = engine.list_machines()?;
    if let Some(labels) = labels {
        FleetMachine::ensure_known(labels, &machines)?;
        machines.retain(|machine| machine.is_in(labels));
        ensure!(!machines.is_empty(), "no machine matches '{labels}'");
    }
    Ok(machines)
}

fn machine_line(machine: &FleetMachine) -> FleetLine {
    let (state, notes) = match &machine.state {
        MachineState::Free => ("free", Vec::new()),
        MachineState::Busy => ("busy", Vec::new()),
        MachineState::Unfit(reason) => ("unfit", vec![reason.clone()]),
    };
    FleetLine {
        name: machine.name.clone(),
        state: state.to_owned(),
        labels: machine.labels.clone(),
        known: None,
        notes,
    }
}

/// Adds the results of checking a machine to its line.
fn add_check_results(line: &mut FleetLine, offset: ClockOffset, report: &MachineReport) {
    let checks = || report.checks.iter();
    line.state = match () {
        () if checks().any(|check| check.is_problem) => "unfit",
        () if checks().any(|check| check.is_warning) => "warning",
        () => "fit",
    }
    .to_owned();
    line.notes.extend(checks().filter(|check| check.is_problem || check.is_warning).map(|check| {
        let remedy =
            if check.remedy.is_empty() { String::new() } else { format!(" ({})", check.remedy) };
        format!("{}: {}{remedy}", check.name, check.found)
    }));
    line.notes.extend(report.identity.warning.clone());
    if offset.offset_ns.unsigned_abs() > MAX_CLOCK_OFFSET_NS {
        line.notes
            .push("its clock is more than a second off; this does not affect results".to_owned());
    }
    let probe = report.speed_probe;
    line.known = Some(FleetFacts {
        id: report.identity.id.clone(),
        class: report.identity.class.clone(),
        offset_ns: (offset.offset_ns, offset.uncertainty_ns),
        speed_probe_ns: [probe.integer_ns, probe.memory_ns],
    });
}

/// Warns about machines that share an identity, because their histories would be merged.
fn warn_about_clones(lines: &mut [FleetLine]) {
    let id = |line: &FleetLine| line.known.as_ref().map(|facts| facts.id.clone());
    let ids: Vec<Option<String>> = lines.iter().map(id).collect();
    for index in 0..lines.len() {
        let first = ids.iter().position(|other| other.is_some() && *other == ids[index]);
        if let Some(first) = first.filter(|first| *first < index) {
            let name = lines[first].name.clone();
            lines[index].notes.push(format!(
                "same /etc/machine-id as {name}: the same machine or a clone, distinguished by name only"
            ));
        }
    }
}

/// Where to print results, and where the session is stored.
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "tag no_save")))]
struct SessionPlaces {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

impl SessionPlaces {
    /// Returns a task that shows a session of this store.
    fn task(&self) -> MeasureTask {
        let (output, store) = (self.output.clone(), self.store.clone());
        MeasureTask { output, store, ..MeasureTask::default() }
    }
}

/// Session to show.
#[derive(Debug, Args)]
struct StatusArgs {
    /// Session, e.g. @31
    #[arg(value_name = "SESSION", default_value = "@latest")]
    session: String,
    #[command(flatten)]
    places: SessionPlaces,
}

/// Session to wait for.
#[derive(Debug, Args)]
struct CollectArgs {
    /// Session, e.g. @31
    #[arg(value_name = "SESSION", default_value = "@latest")]
    session: String,
    #[command(flatten)]
    comparison: ComparisonArgs,
    #[command(flatten)]
    places: SessionPlaces,
}

/// Session to cancel.
#[derive(Debug, Args)]
struct CancelArgs {
    /// Session, e.g. @31
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    places: SessionPlaces,
}

/// Sessions whose files are removed.
#[derive(Debug, Args)]
struct CleanArgs {
    /// Session, e.g. @31 [default: all unused for 14 days]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    places: SessionPlaces,
}

/// Performs `action` on a session: shows its progress, waits for its end and reports it, or cancels
/// it.
fn attend_session(
    session: &str,
    task: &MeasureTask,
    action: DetachedAction,
) -> Result<CommandStatus> {
    let store = task.store.open_with(Store::open_to_read)?;
    let number = stored_session::find_session(&store, session)?.number;
    if let Some(placed) = PlacedSession::find(&store, number)? {
        return attend_placed((&store, number), &placed, task, action);
    }
    drop(store);
    let (mut store, file) = (task.store.open_store()?, fleet_file()?);
    let how = (&task.settings, action);
    let shards = reattach_session(&mut store, number, &file, how, &mut task.progress_display())?;
    if action == DetachedAction::Wait {
        let is_unfinished = |status: &ShardStatus| {
            !matches!(status.shard.state, ShardState::Done | ShardState::Lost)
        };
        let status = if shards.iter().any(is_unfinished) {
            status::print_note(&format!(
                "the workers of @{number} continue; wait for them with: speedwell fleet collect @{number}"
            ));
            CommandStatus::INTERRUPTED
        } else {
            CommandStatus::DONE
        };
        let gate = report_stored((&store, number), task)?;
        gate.store_line(number, &mut store)?;
        return Ok(status.combine_with_gate(gate.exit_status()));
    }
    let row = |(place, status): (u32, &ShardStatus)| ShardRow {
        place,
        machine: status.machine.clone(),
        state: status.shard.state.name().to_owned(),
        cases: status.shard.jobs.len(),
        blocks: status.blocks,
        attempt: status.shard.attempt,
        said: status.engine_status.clone().unwrap_or_default(),
    };
    let rows: Vec<ShardRow> = (0..).zip(&shards).map(row).collect();
    task.output.print_document(&report::list_fleet_shards(&rows))?;
    if action == DetachedAction::Cancel {
        status::print_note(&format!(
            "completed runs are stored; resume with: speedwell run --resume @{number}"
        ));
    }
    Ok(CommandStatus::DONE)
}

/// Removes the files that sessions left on machines.
///
/// # Errors
/// Fails if the session is being measured, or a machine cannot be reached.
fn clean_machines(args: &CleanArgs) -> Result<CommandStatus> {
    let removed_files = match &args.session {
        Some(session) => {
            let store = args.places.store.open_with(Store::open_to_read)?;
            let number = stored_session::find_session(&store, session)?.number;
            match PlacedSession::find(&store, number)? {
                Some(placed) => placed.clean(&store)?,
                None => clean_up(Some((&store, number)), &fleet_file()?)?,
            }
        }
        None => clean_up(None, &fleet_file()?)?,
    };
    let rows: Vec<(String, u32, u64)> = removed_files
        .into_iter()
        .map(|(machine, removed)| (machine, removed.sessions, removed.bytes))
        .collect();
    args.places.output.print_document(&report::list_fleet_cleaned(&rows))?;
    Ok(CommandStatus::DONE)
}

/// Does the same as [`attend_session`] for a session whose roles run on several machines.
fn attend_placed(
    (store, number): (&Store, i64),
    placed_session: &PlacedSession,
    task: &MeasureTask,
    action: DetachedAction,
) -> Result<CommandStatus> {
    match action {
        DetachedAction::Report => {
            let process = placed_session.measuring_process(store)?;
            task.output
                .print_document(&report::list_fleet_roles(&role_rows(placed_session, process)?))?;
            let finished_runs = store.finished_slots(number)?.len();
            status::print_note(&format!(
                "session @{number}: {finished_runs} of {} runs are done; {}",
                placed_session.planned,
                next_step(number, process)
            ));
            Ok(CommandStatus::DONE)
        }
        DetachedAction::Wait => {
            let process = placed_session.wait(store)?;
            let status = if process == MeasuringProcess::Complete {
                CommandStatus::DONE
            } else {
                status::print_note(&next_step(number, process));
                CommandStatus::INTERRUPTED
            };
            let gate = report_stored((store, number), task)?;
            gate.store_line(number, &mut task.store.open_store()?)?;
            Ok(status.worse_of(gate.exit_status()))
        }
        DetachedAction::Cancel => {
            placed_session.cancel(store)?;
            if !task.output.quiet {
                status::print_note(&format!(
                    "the machines of session @{number} are free again; {}",
                    next_step(number, placed_session.measuring_process(store)?)
                ));
            }
            Ok(CommandStatus::DONE)
        }
    }
}

/// Returns the machine of each role, with the state of the session.
fn role_rows(placed_session: &PlacedSession, process: MeasuringProcess) -> Result<Vec<RoleRow>> {
    let state = match process {
        MeasuringProcess::Here(_) | MeasuringProcess::Elsewhere => "running",
        MeasuringProcess::Interrupted => "interrupted",
        MeasuringProcess::Complete => "done",
    };
    let row = |part: RoleStatus| RoleRow {
        role: part.role,
        machine: part.machine,
        address: part.address,
        state: state.to_owned(),
        said: part.engine_status.unwrap_or_default(),
    };
    Ok(placed_session.role_statuses()?.into_iter().map(row).collect())
}

/// Describes what the user can do next with a session.
fn next_step(number: i64, process: MeasuringProcess) -> String {
    match process {
        MeasuringProcess::Here(process) => format!(
            "process {process} is measuring the session; 'speedwell fleet cancel @{number}' stops it"
        ),
        MeasuringProcess::Elsewhere => {
            "a process on another machine is measuring the session".to_owned()
        }
        MeasuringProcess::Interrupted => {
            format!("measure the rest with: speedwell run --resume @{number}")
        }
        MeasuringProcess::Complete => format!("'speedwell report @{number}' shows it"),
    }
}
