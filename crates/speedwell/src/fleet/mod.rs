//! `speedwell fleet`: lists the machines, and checks whether they are fit for measurements.

mod sessions;

use super::options::{OutputArgs, fleet_file, hide_unused};
use super::{CommandStatus, status};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use speedwell_config::fleet::MachineSelector;
use speedwell_machine::worker::ClockOffset;
use speedwell_remote::machines::check::{self, MachineReport};
use speedwell_remote::machines::{FleetEngine, FleetMachine, MachineState, content_store};
use speedwell_report::{self as report, FleetFacts, FleetLine};

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
    Status(sessions::StatusArgs),
    /// Wait for a session started with --detach, and report it
    ///
    /// Lost workers are replaced. Ctrl-C stops waiting, not the workers.
    Collect(sessions::CollectArgs),
    /// Stop the workers of a session, keeping completed runs
    Cancel(sessions::CancelArgs),
    /// Remove files of sessions from the machines: plans, programs, benchmark files, spools
    Clean(sessions::CleanArgs),
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
/// Fails if there is no fleet, the fleet file is invalid, or the engine does not respond.
pub fn run(args: &FleetArgs) -> Result<CommandStatus> {
    match &args.command {
        None => list_machines(&args.list),
        Some(FleetCommand::Check(args)) => check_machines(args),
        Some(FleetCommand::Status(args)) => sessions::show_status(args),
        Some(FleetCommand::Collect(args)) => sessions::collect_session(args),
        Some(FleetCommand::Cancel(args)) => sessions::cancel_session(args),
        Some(FleetCommand::Clean(args)) => sessions::clean_machines(args),
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
                    let message = format!("{error:#}").replace('\n', ", ");
                    line.notes.push(message);
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
        anyhow::ensure!(!machines.is_empty(), "no machine matches '{labels}'");
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
    let notable = checks().filter(|check| check.is_problem || check.is_warning);
    line.notes.extend(notable.map(|check| {
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
