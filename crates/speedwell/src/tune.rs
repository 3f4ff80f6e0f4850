//! `speedwell tune`: changes settings of this machine that make measurements noisy, and restores
//! them.
//!
//! Decides when settings change and what is reported; `environment::tune` knows the settings. Start
//! at [`run`].

use super::options::{OutputArgs, parse};
use super::{Status, status};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use speedwell_environment::tune::{
    self, Journal, KNOBS, KnobState, Lock, Machine, Outcome, Plan, Request, Restoration, Restored,
    guard,
};
use speedwell_model::nearest;
use speedwell_process::{self as process, CpuSet, Ended, Identity};
use speedwell_report::{self as report, KnobLine, SettingLine, TunedMachine};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Change settings of this machine that make measurements noisy, and put them back
///
/// With a command, the settings are changed, the command is executed, and the settings are put back however it ends.
/// Without, they stay until 'speedwell tune reset', or for --for. What is put back is what was there before. Knobs with
/// the state 'on request' are turned only when they are named.
///
/// Exit status 1 if nothing can be changed here; that of the command, if there is one.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  speedwell tune --dry-run
  sudo speedwell tune --cpus 2,3 -- sudo -u \"$USER\" speedwell run benchmarks
  sudo speedwell tune governor turbo --for 30m
  sudo speedwell tune reset"
)]
pub struct TuneArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Knobs to turn; the usual ones if none is named
    #[arg(value_name = "KNOB")]
    knobs: Vec<String>,
    /// After '--': a command to be executed with these settings
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Print what would be changed, and why; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Processors to keep free for what is measured, e.g. 2,3
    #[arg(long, value_name = "CPUS")]
    cpus: Option<CpuSet>,
    /// Put the settings back after this time [default: 2h]
    ///
    /// With a command they are put back when it ends.
    #[arg(long = "for", value_name = "DUR", value_parser = parse::duration)]
    limit: Option<Duration>,
    /// Also stop services that work against a knob (irqbalance)
    ///
    /// They are started again afterwards.
    #[arg(long)]
    services: bool,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Put the settings back as they were before
    Reset(ActionArgs),
    /// Print which settings are changed, by whom, and for how long
    Status(ActionArgs),
}

#[derive(Debug, Args)]
struct ActionArgs {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: OutputArgs,
}

/// Where the settings are.
#[derive(Debug, Args)]
pub struct Place {
    /// A folder that stands for the machine, for tests
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    pub root: PathBuf,
    /// Kills this process at its Nth step, for tests
    #[arg(long, value_name = "N", hide = true, requires = "root")]
    dies_at: Option<u32>,
}

impl Place {
    /// Opens the machine at this place.
    ///
    /// # Errors
    /// Fails if the folder that stands for the machine cannot be parsed.
    pub fn machine(&self) -> anyhow::Result<Machine> {
        Ok(Machine::at(&self.root, self.dies_at)?)
    }
}

/// Default time until settings are restored: longer than most measurements, shorter than a working
/// day.
const USUAL_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Runs the command.
///
/// # Errors
/// Fails if this user may not change the machine, if another process has changed it, or if the
/// command cannot be started.
pub fn run(args: TuneArgs) -> anyhow::Result<Status> {
    match &args.action {
        Some(Action::Reset(args)) => reset(args),
        Some(Action::Status(args)) => show_status(args),
        None => apply(&args),
    }
}

/// Watches another process and restores the settings when it ends.
///
/// # Errors
/// Fails if the settings cannot be restored.
pub fn guard(root: &Path, limit_ms: Option<u64>) -> anyhow::Result<Status> {
    let machine = Machine::at(root, None)?;
    guard::watch(&machine, limit_ms.map(Duration::from_millis))?;
    Ok(Status::DONE)
}

fn apply(args: &TuneArgs) -> anyhow::Result<Status> {
    let machine = args.place.machine()?;
    let request = args.request(&machine)?;
    if !args.dry_run {
        needs_root(&machine, "tune")?;
    }
    let plan = tune::plan(&machine, &request)?;
    for warning in tune::warnings(&machine, &plan) {
        status::warn(&warning);
    }
    if args.dry_run || !plan.has_effect() {
        print(&plan, args.dry_run, &args.output)?;
        return Ok(answer(&plan));
    }
    let has_command = request.has_command;
    let program = args
        .command
        .first()
        .map(|name| process::resolve(Path::new(name)));
    let program = program.transpose()?;
    let lock = free(&machine)?;
    // Plan again, now that the lock prevents other changes.
    let mut plan = tune::plan(&machine, &request)?;
    let is_tuned = plan.has_work();
    if is_tuned {
        let limit = args.limit.or((!has_command).then_some(USUAL_LIMIT));
        let guard = guard::start(&machine, limit)?;
        plan.apply(&lock, guard, &args.line(), !has_command, limit)?;
    }
    drop(lock);
    let Some(program) = program else {
        print(&plan, false, &args.output)?;
        return Ok(answer(&plan));
    };
    say(&plan, &args.output);
    let ended = execute(&machine, &plan, &program, &args.command[1..]);
    if is_tuned {
        put_back(&machine)?;
    }
    ended
}

/// Locks the machine, unless its settings are changed already.
fn free(machine: &Machine) -> anyhow::Result<Lock<'_>> {
    let lock = Lock::take(machine)?;
    if let Some(journal) = lock.journal()? {
        bail!(
            "this machine is tuned already by {}\nhint: sudo speedwell tune reset",
            journal.holder()
        );
    }
    Ok(lock)
}

/// Tunes this machine for other work of this process.
pub struct Tuner {
    machine: Machine,
    request: Request,
    guard: Identity,
}

impl Tuner {
    /// Prepares the default knobs. Must be called before this process adopts orphans, because the
    /// guard must not become its child. Keeps the processors of `pin` free if others remain.
    /// Returns `None` if nothing can be changed.
    ///
    /// # Errors
    /// Fails if this user may not change the machine, or if another process has changed it.
    pub fn new(place: &Place, pin: Option<&CpuSet>) -> anyhow::Result<Option<Tuner>> {
        let machine = place.machine()?;
        needs_root(&machine, "doctor --calibrate TARGET --tuned")?;
        drop(free(&machine)?);
        let cpus = pin
            .map(numbers)
            .filter(|cpus| tune::check_cpus(&machine, cpus).is_ok());
        let request = Request {
            cpus,
            ..Request::default()
        };
        if !tune::plan(&machine, &request)?.has_work() {
            return Ok(None);
        }
        let guard = guard::start(&machine, None)?;
        Ok(Some(Tuner {
            machine,
            request,
            guard,
        }))
    }

    /// Changes the settings; returns the knobs that were set.
    ///
    /// # Errors
    /// As for [`Tuner::new`], or if the journal cannot be written.
    pub fn tune(&self) -> anyhow::Result<String> {
        let lock = free(&self.machine)?;
        let mut plan = tune::plan(&self.machine, &self.request)?;
        let line = "speedwell doctor --calibrate --tuned";
        plan.apply(&lock, self.guard.clone(), line, false, None)?;
        let knobs = plan
            .knobs
            .iter()
            .filter(|knob| knob.outcome == Outcome::Set);
        let names: Vec<&str> = knobs.map(|knob| knob.knob.name).collect();
        Ok(names.join(", "))
    }

    /// Restores the settings.
    ///
    /// # Errors
    /// Fails if the journal cannot be read or removed.
    pub fn put_back(&self) -> anyhow::Result<()> {
        put_back(&self.machine)
    }
}

fn numbers(cpus: &CpuSet) -> Vec<u32> {
    cpus.cpus().iter().map(|cpu| *cpu as u32).collect()
}

impl TuneArgs {
    fn request(&self, machine: &Machine) -> anyhow::Result<Request> {
        let known: Vec<String> = KNOBS.iter().map(|knob| knob.name.to_owned()).collect();
        if let Some(name) = self.knobs.iter().find(|name| !known.contains(name)) {
            let hint = match nearest(name, &known) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("the knobs are {}", known.join(", ")),
            };
            bail!("there is no knob '{name}'\nhint: {hint}");
        }
        let cpus = self.cpus.as_ref().map(numbers);
        if let Some(cpus) = &cpus {
            tune::check_cpus(machine, cpus)?;
        }
        Ok(Request {
            knobs: self.knobs.clone(),
            cpus,
            has_command: !self.command.is_empty(),
            stops_services: self.services,
        })
    }

    /// The command line as shown to other users.
    fn line(&self) -> String {
        let words = ["speedwell", "tune"].into_iter().map(str::to_owned);
        let words = words.chain(self.knobs.iter().cloned());
        let dashes = (!self.command.is_empty()).then(|| "--".to_owned());
        let line = words.chain(dashes).chain(self.command.iter().cloned());
        shell_words::join(line)
    }
}

fn needs_root(machine: &Machine, words: &str) -> anyhow::Result<()> {
    if machine.is_ours() {
        return Ok(());
    }
    bail!(
        "settings of the machine may be changed by root only\nhint: sudo speedwell {words}; 'speedwell tune --dry-run' \
         needs no root"
    )
}

/// Executes the command and returns its exit status as ours.
fn execute(
    machine: &Machine,
    plan: &Plan,
    program: &Path,
    arguments: &[String],
) -> anyhow::Result<Status> {
    plan.enter_own_cpus(machine)
        .context("cannot move the command to its own processors")?;
    process::on_interrupt()?;
    let heat = tune::Heat::now(machine);
    let folder = std::env::current_dir()?;
    // No time limit after Ctrl-C: a measuring command may need a while to report.
    let ended = process::run_attached(program, arguments, &folder, Duration::MAX)
        .with_context(|| format!("cannot start '{}'", program.display()))?;
    if let Some(warning) = heat.compare(machine) {
        status::warn(&warning);
    }
    Ok(match ended {
        Ended::Exit(code) => Status::from_code(code),
        Ended::Signal(signal) => Status::from_code(128 + signal),
        Ended::Interrupted | Ended::Timeout | Ended::Lingered => Status::INTERRUPTED,
    })
}

/// Restores the settings after the command, and reports those that differ from before.
fn put_back(machine: &Machine) -> anyhow::Result<()> {
    let lock = Lock::take(machine)?;
    match lock.journal()?.filter(Journal::is_own) {
        None => status::warn("The settings were put back before the command had ended."),
        Some(journal) => {
            let restored = journal.restore(&lock, false)?;
            for line in not_restored(&restored) {
                status::warn(&report::not_restored(&line));
            }
        }
    }
    Ok(())
}

fn reset(args: &ActionArgs) -> anyhow::Result<Status> {
    let machine = args.place.machine()?;
    needs_root(&machine, "tune reset")?;
    let lock = Lock::take(&machine)?;
    let Some(journal) = lock.journal()? else {
        args.output.print(&report::tuned(None))?;
        return Ok(Status::DONE);
    };
    journal.dismiss_guard(&lock);
    let restored = journal.restore(&lock, true)?;
    let others = not_restored(&restored);
    args.output
        .print(&report::restored(restored.len() - others.len(), &others))?;
    let is_refused = |one: &Restored| matches!(one.outcome, Restoration::Refused(_));
    Ok(if restored.iter().any(is_refused) {
        Status::NO
    } else {
        Status::DONE
    })
}

fn not_restored(restored: &[Restored]) -> Vec<SettingLine> {
    let lines = restored.iter().filter_map(|one| {
        let (state, after) = match &one.outcome {
            Restoration::Done => return None,
            Restoration::LeftAlone(value) => ("left alone".to_owned(), value.clone()),
            Restoration::Gone => ("gone".to_owned(), String::new()),
            Restoration::Refused(why) => (why.clone(), String::new()),
        };
        Some(SettingLine {
            path: one.path.clone(),
            state,
            before: one.old.clone(),
            after,
        })
    });
    lines.collect()
}

fn show_status(args: &ActionArgs) -> anyhow::Result<Status> {
    let machine = args.place.machine()?;
    let journal = tune::status(&machine)?;
    let tuned = journal.map(|journal| TunedMachine {
        holder: journal.holder(),
        left_ms: journal.left_ms(),
        settings: journal
            .entries
            .iter()
            .map(|entry| SettingLine {
                path: entry.path.clone(),
                before: entry.old.clone().unwrap_or_default(),
                after: entry.held(&machine).unwrap_or_default(),
                state: entry.standing(&machine).to_owned(),
            })
            .collect(),
        knobs: journal.knobs,
    });
    args.output.print(&report::tuned(tuned.as_ref()))?;
    Ok(Status::DONE)
}

fn answer(plan: &Plan) -> Status {
    if plan.has_effect() {
        Status::DONE
    } else {
        Status::NO
    }
}

fn print(plan: &Plan, is_plan: bool, output: &OutputArgs) -> anyhow::Result<()> {
    let lines: Vec<KnobLine> = plan.knobs.iter().map(line).collect();
    output.print(&report::knobs(&lines, is_plan, &output.settings()))
}

fn line(knob: &KnobState) -> KnobLine {
    let settings = knob.settings.iter().map(|one| SettingLine {
        path: one.path.clone(),
        state: words(one.outcome).to_owned(),
        before: one.before.clone().unwrap_or_default(),
        after: one.after.clone(),
    });
    KnobLine {
        name: knob.knob.name,
        state: words(knob.outcome),
        effect: knob.knob.effect,
        note: knob.note.clone(),
        settings: settings.collect(),
    }
}

fn words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Planned => "would set",
        Outcome::Set => "set",
        Outcome::Already => "already",
        Outcome::OnRequest => "on request",
        Outcome::Cannot => "cannot",
    }
}

/// Reports what was changed, in a line beside the output of the command.
fn say(plan: &Plan, output: &OutputArgs) {
    if output.quiet {
        return;
    }
    let of = |outcome: Outcome| {
        let knobs = plan.knobs.iter().filter(|knob| knob.outcome == outcome);
        let names: Vec<String> = knobs
            .map(|knob| match knob.note.as_str() {
                "" => knob.knob.name.to_owned(),
                note => format!("{} ({note})", knob.knob.name),
            })
            .collect();
        (!names.is_empty()).then(|| format!("{}: {}", words(outcome), names.join(", ")))
    };
    let parts = [Outcome::Set, Outcome::Already, Outcome::Cannot].map(of);
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    status::note(&parts.join("; "));
}
