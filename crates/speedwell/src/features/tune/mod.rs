//! Implements `speedwell tune`: changes machine settings that make measurements noisy, and restores
//! them afterwards.
//!
//! This module decides when to change settings, and reports changes. `environment::tune` defines
//! the settings. Start at [`run`].

use crate::options::{OutputArgs, hide_unused, parse};
use crate::{CommandStatus, status};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use speedwell_machine::environment::tune::{
    self, KNOBS, KnobOutcome, KnobState, RestoreOutcome, RestoredSetting, TunableMachine,
    TuneJournal, TuneLock, TunePlan, TuneRequest,
};
use speedwell_machine::process::{self, CpuSet, ProcessEnd, ProcessIdentity};
use speedwell_model::nearest_name;
use speedwell_report::{self as report, KnobLine, SettingLine, TunedMachine};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Change machine settings that make measurements noisy, and restore them
///
/// With a command, the settings are changed, the command is executed, and the previous settings are restored however it
/// ends. Without a command, the changes stay until 'speedwell tune reset', or until the time of --for is up. Knobs in the state
/// 'on request' are only changed if they are named.
///
/// Exit status 1 if nothing can be changed on this machine; a command is then not executed. Otherwise, the exit status
/// is that of the command, if there is one.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    mut_args(|arg| hide_unused(arg, "chart unit sort no_progress")),
    after_help = "Examples:
  speedwell tune --dry-run
  sudo speedwell tune --cpus 2,3 -- sudo -u \"$USER\" speedwell run benchmarks
  sudo speedwell tune governor turbo --for 30m
  sudo speedwell tune reset"
)]
pub struct TuneArgs {
    #[command(subcommand)]
    action: Option<TuneAction>,
    /// Knobs to change [default: all but those 'on request']
    #[arg(value_name = "KNOB")]
    knobs: Vec<String>,
    /// After '--': a command to execute with these settings
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Print what would change, and why, without changing it
    #[arg(long)]
    dry_run: bool,
    /// Processors to reserve for the measurement, e.g. 2,3
    #[arg(long, value_name = "CPUS")]
    cpus: Option<CpuSet>,
    /// Restore the settings after this time [default: 2h]
    ///
    /// With a command, they are restored when it ends.
    #[arg(long = "for", value_name = "DUR", value_parser = parse::duration)]
    limit: Option<Duration>,
    /// Also stop services that work against a knob (irqbalance)
    ///
    /// They are restarted afterwards.
    #[arg(long)]
    services: bool,
    #[command(flatten)]
    place: TunePlace,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Subcommand)]
enum TuneAction {
    /// Restore the previous settings
    Reset(ActionArgs),
    /// Show which settings are changed, by whom, and for how long
    Status(ActionArgs),
}

#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "chart unit sort no_progress")))]
struct ActionArgs {
    #[command(flatten)]
    place: TunePlace,
    #[command(flatten)]
    output: OutputArgs,
}

/// The machine whose settings are changed: this machine or, in tests, a folder that stands for it.
#[derive(Debug, Args)]
pub struct TunePlace {
    /// A folder that stands for the machine, for tests
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    pub root: PathBuf,
    /// Kills this process at its Nth step, for tests
    #[arg(long, value_name = "N", hide = true, requires = "root")]
    dies_at: Option<u32>,
}

impl TunePlace {
    /// Opens the machine to change: this machine or, in tests, a folder that stands for it.
    ///
    /// # Errors
    /// Fails if a file in that folder cannot be parsed.
    pub fn open_machine(&self) -> Result<TunableMachine> {
        Ok(TunableMachine::open(&self.root, self.dies_at)?)
    }
}

/// Default time until settings are restored. Most measurements are shorter.
const DEFAULT_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Runs the command.
///
/// # Errors
/// Fails if this user may not change the machine, if another process has changed it, or if the
/// command cannot be started.
pub fn run(args: TuneArgs) -> Result<CommandStatus> {
    match &args.action {
        Some(TuneAction::Reset(args)) => reset_settings(args),
        Some(TuneAction::Status(args)) => show_status(args),
        None => apply_settings(&args),
    }
}

/// Waits until the process that changed the settings ends or the time is up, then restores the
/// settings.
///
/// # Errors
/// Fails if the settings cannot be restored.
pub fn watch_tuner(root: &Path, limit_ms: Option<u64>) -> Result<CommandStatus> {
    tune::run_guard(&TunableMachine::open(root, None)?, limit_ms.map(Duration::from_millis))?;
    Ok(CommandStatus::DONE)
}

fn apply_settings(args: &TuneArgs) -> Result<CommandStatus> {
    let machine = args.place.open_machine()?;
    let request = args.tune_request(&machine)?;
    if !args.dry_run {
        require_root(&machine, "tune")?;
    }
    let plan = tune::plan(&machine, &request)?;
    for warning in tune::plan_warnings(&machine, &plan) {
        status::print_warning(&warning);
    }
    if args.dry_run || !plan.has_effect() {
        return print_plan(&plan, args.dry_run, &args.output);
    }
    let has_command = request.has_command;
    let program =
        args.command.first().map(|name| process::resolve_program(Path::new(name))).transpose()?;
    let lock = lock_untuned(&machine)?;
    // Plan again, because the lock now prevents other changes.
    let mut plan = tune::plan(&machine, &request)?;
    let is_tuned = plan.has_work();
    if is_tuned {
        let limit = args.limit.or((!has_command).then_some(DEFAULT_LIMIT));
        let started = tune::start_guard(&machine, limit)?;
        plan.apply(&lock, started, &args.command_line(), !has_command, limit)?;
    }
    drop(lock);
    let Some(program) = program else { return print_plan(&plan, false, &args.output) };
    report_changes(&plan, &args.output);
    let result = execute_command(&machine, &plan, &program, &args.command[1..]);
    if is_tuned {
        restore_after_command(&machine)?;
    }
    result
}

/// Locks the machine. Fails if its settings have been changed.
fn lock_untuned(machine: &TunableMachine) -> Result<TuneLock<'_>> {
    let lock = TuneLock::acquire(machine)?;
    if let Some(journal) = lock.current_journal()? {
        bail!(
            "this machine is already tuned by {}\nhint: sudo speedwell tune reset",
            journal.holder()
        );
    }
    Ok(lock)
}

/// Tunes this machine for other work of this process, such as a calibration.
pub struct MachineTuner {
    /// The machine, whose settings [`restore_after_command`] restores.
    pub machine: TunableMachine,
    request: TuneRequest,
    guard: ProcessIdentity,
}

impl MachineTuner {
    /// Prepares the default knobs, and starts the guard: a process that restores the settings if
    /// this process ends without restoring them. Call this before this process adopts orphans,
    /// because the guard must not become its child. Keeps other work off the processors of `pin`,
    /// if other processors remain. Returns `None` if there is nothing to change.
    ///
    /// # Errors
    /// Fails if this user may not change the machine, or if another process has changed it.
    pub fn new(place: &TunePlace, pin: Option<&CpuSet>) -> Result<Option<MachineTuner>> {
        let machine = place.open_machine()?;
        require_root(&machine, "doctor --calibrate TARGET --tuned")?;
        drop(lock_untuned(&machine)?);
        let cpus = pin.map(cpu_numbers).filter(|cpus| tune::check_cpus(&machine, cpus).is_ok());
        let request = TuneRequest { cpus, ..TuneRequest::default() };
        if !tune::plan(&machine, &request)?.has_work() {
            return Ok(None);
        }
        let started = tune::start_guard(&machine, None)?;
        Ok(Some(MachineTuner { machine, request, guard: started }))
    }

    /// Changes the settings; returns the knobs that were set.
    ///
    /// # Errors
    /// Fails under the same conditions as [`MachineTuner::new`], or if the journal cannot be
    /// written.
    pub fn tune_machine(&self) -> Result<String> {
        let lock = lock_untuned(&self.machine)?;
        let mut plan = tune::plan(&self.machine, &self.request)?;
        let command_line = "speedwell doctor --calibrate --tuned";
        plan.apply(&lock, self.guard.clone(), command_line, false, None)?;
        let knobs = plan.knobs.iter().filter(|knob| knob.outcome == KnobOutcome::Set);
        Ok(knobs.map(|knob| knob.knob.name).collect::<Vec<_>>().join(", "))
    }
}

fn cpu_numbers(cpus: &CpuSet) -> Vec<u32> {
    cpus.cpus().iter().map(|cpu| *cpu as u32).collect()
}

impl TuneArgs {
    fn tune_request(&self, machine: &TunableMachine) -> Result<TuneRequest> {
        let knob_names: Vec<String> = KNOBS.iter().map(|knob| knob.name.to_owned()).collect();
        if let Some(name) = self.knobs.iter().find(|name| !knob_names.contains(name)) {
            let hint = match nearest_name(name, &knob_names) {
                Some(similar) => format!("did you mean '{similar}'?"),
                None => format!("the knobs are {}", knob_names.join(", ")),
            };
            bail!("unknown knob '{name}'\nhint: {hint}");
        }
        let cpus = self.cpus.as_ref().map(cpu_numbers);
        if let Some(cpus) = &cpus {
            tune::check_cpus(machine, cpus)?;
        }
        Ok(TuneRequest {
            knobs: self.knobs.clone(),
            cpus,
            has_command: !self.command.is_empty(),
            stops_services: self.services,
        })
    }

    /// Returns the command line as shown to other users.
    fn command_line(&self) -> String {
        let dashes = (!self.command.is_empty()).then(|| "--".to_owned());
        let words = ["speedwell", "tune"].map(str::to_owned).into_iter().chain(self.knobs.clone());
        shell_words::join(words.chain(dashes).chain(self.command.clone()))
    }
}

fn require_root(machine: &TunableMachine, command: &str) -> Result<()> {
    if machine.may_change() {
        return Ok(());
    }
    bail!(
        "only root can change machine settings\nhint: sudo speedwell {command}; 'speedwell tune --dry-run' \
         works without root"
    )
}

/// Executes the command and returns its exit status.
fn execute_command(
    machine: &TunableMachine,
    plan: &TunePlan,
    program: &Path,
    arguments: &[String],
) -> Result<CommandStatus> {
    plan.enter_own_cpus(machine).context("cannot move the command to its reserved processors")?;
    process::install_handlers()?;
    let throttle_count = tune::ThrottleCount::now(machine);
    let folder = std::env::current_dir()?;
    // No time limit after Ctrl-C, because a measuring command may need a while to report.
    let end = process::run_attached(program, arguments, &folder, Duration::MAX)
        .with_context(|| format!("cannot start '{}'", program.display()))?;
    if let Some(warning) = throttle_count.compare(machine) {
        status::print_warning(&warning);
    }
    Ok(match end {
        ProcessEnd::Exit(code) => CommandStatus::from_code(code),
        ProcessEnd::Signal(signal) => CommandStatus::from_code(128 + signal),
        ProcessEnd::Interrupted | ProcessEnd::Timeout | ProcessEnd::Lingered => {
            CommandStatus::INTERRUPTED
        }
    })
}

/// Restores the settings, and reports failures.
///
/// # Errors
/// Fails if the journal cannot be read or the machine cannot be locked.
pub fn restore_after_command(machine: &TunableMachine) -> Result<()> {
    let lock = TuneLock::acquire(machine)?;
    match lock.current_journal()?.filter(TuneJournal::is_own) {
        None => status::print_warning("The settings were restored before the command ended."),
        Some(journal) => {
            for line in not_restored(&journal.restore_all(&lock, false)?) {
                status::print_warning(&report::not_restored_sentence(&line));
            }
        }
    }
    Ok(())
}

fn reset_settings(args: &ActionArgs) -> Result<CommandStatus> {
    let machine = args.place.open_machine()?;
    require_root(&machine, "tune reset")?;
    let lock = TuneLock::acquire(&machine)?;
    let Some(journal) = lock.current_journal()? else {
        args.output.print_document(&report::report_tuned(None))?;
        return Ok(CommandStatus::DONE);
    };
    journal.dismiss_guard(&lock);
    let restored = journal.restore_all(&lock, true)?;
    let others = not_restored(&restored);
    args.output.print_document(&report::report_restored(restored.len() - others.len(), &others))?;
    let is_refused =
        |setting: &RestoredSetting| matches!(setting.outcome, RestoreOutcome::Refused(_));
    Ok(if restored.iter().any(is_refused) { CommandStatus::NEGATIVE } else { CommandStatus::DONE })
}

fn not_restored(restored: &[RestoredSetting]) -> Vec<SettingLine> {
    let line = |setting: &RestoredSetting| {
        let (state, after) = match &setting.outcome {
            RestoreOutcome::Done => return None,
            RestoreOutcome::LeftAlone(value) => ("left alone".to_owned(), value.clone()),
            RestoreOutcome::Gone => ("gone".to_owned(), String::new()),
            RestoreOutcome::Refused(reason) => (reason.clone(), String::new()),
        };
        Some(SettingLine { path: setting.path.clone(), state, before: setting.old.clone(), after })
    };
    restored.iter().filter_map(line).collect()
}

fn show_status(args: &ActionArgs) -> Result<CommandStatus> {
    let machine = args.place.open_machine()?;
    let journal = tune::current_changes(&machine)?;
    let tuned = journal.map(|journal| TunedMachine {
        holder: journal.holder(),
        left_ms: journal.left_ms(),
        settings: journal
            .entries
            .iter()
            .map(|entry| SettingLine {
                path: entry.path.clone(),
                before: entry.old.clone().unwrap_or_default(),
                after: entry.current_value(&machine).unwrap_or_default(),
                state: entry.describe_state(&machine).to_owned(),
            })
            .collect(),
        knobs: journal.knobs,
    });
    args.output.print_document(&report::report_tuned(tuned.as_ref()))?;
    Ok(CommandStatus::DONE)
}

/// Prints the plan. Returns a negative status if nothing can be changed.
fn print_plan(plan: &TunePlan, is_plan: bool, output: &OutputArgs) -> Result<CommandStatus> {
    let lines: Vec<KnobLine> = plan.knobs.iter().map(knob_line).collect();
    output.print_document(&report::report_knobs(&lines, is_plan, &output.report_settings()))?;
    Ok(if plan.has_effect() { CommandStatus::DONE } else { CommandStatus::NEGATIVE })
}

fn knob_line(knob: &KnobState) -> KnobLine {
    let settings = knob.settings.iter().map(|setting| SettingLine {
        path: setting.path.clone(),
        state: outcome_label(setting.outcome).to_owned(),
        before: setting.before.clone().unwrap_or_default(),
        after: setting.after.clone(),
    });
    KnobLine {
        name: knob.knob.name,
        state: outcome_label(knob.outcome),
        effect: knob.knob.effect,
        note: knob.note.clone(),
        settings: settings.collect(),
    }
}

fn outcome_label(outcome: KnobOutcome) -> &'static str {
    match outcome {
        KnobOutcome::Planned => "would set",
        KnobOutcome::Set => "set",
        KnobOutcome::Already => "already",
        KnobOutcome::OnRequest => "on request",
        KnobOutcome::Cannot => "cannot",
    }
}

/// Prints the changes in one line.
fn report_changes(plan: &TunePlan, output: &OutputArgs) {
    if output.quiet {
        return;
    }
    let describe = |outcome: KnobOutcome| {
        let knobs = plan.knobs.iter().filter(|knob| knob.outcome == outcome);
        let names: Vec<String> = knobs
            .map(|knob| match knob.note.as_str() {
                "" => knob.knob.name.to_owned(),
                note => format!("{} ({note})", knob.knob.name),
            })
            .collect();
        (!names.is_empty()).then(|| format!("{}: {}", outcome_label(outcome), names.join(", ")))
    };
    let parts = [KnobOutcome::Set, KnobOutcome::Already, KnobOutcome::Cannot].map(describe);
    status::print_note(&parts.into_iter().flatten().collect::<Vec<String>>().join("; "));
}
