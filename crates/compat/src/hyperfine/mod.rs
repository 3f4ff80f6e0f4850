//! Emulates hyperfine: measures shell commands, with hyperfine's options, output and exports.
//!
//! Decides the order of steps and the exit status: 0 if every command was measured, 1 if a command
//! failed or a value such as a number is invalid, 2 for any other invalid command line.
//! `docs/reference/hyperfine.md` lists the differences from hyperfine. Start at [`run`].
//!
//! Each run is a separate process, timed from start to exit; steps such as `--prepare` are executed
//! around it. If there are several commands, their runs are shuffled within blocks, so that slow
//! changes of the machine affect all commands equally. In two cases, commands are measured one
//! after the other: with `--strict-compat`, as in hyperfine, and with `--setup` or `--cleanup`,
//! which prepare the machine for one command at a time.

mod arguments;
mod figures;
mod report;

use crate::console::DropInConsole;
use crate::hyperfine::arguments::{
    CommandExecutor, ExportKind, HyperfineRequest, IgnoredStatuses, MeasuredCommand, OutputStyle,
    OutputTarget, ResultOrder, exit_status,
};
use crate::hyperfine::figures::{CommandFigures, RunTiming, mean};
use crate::hyperfine::report::ReportLook;
use anyhow::{Context, Result, bail};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use speedwell_adapters::plan::BlockShuffle;
use speedwell_adapters::snippet::sh::{ShellCommand, time_empty_line};
use speedwell_engine::draw_seed;
use speedwell_formats::output_files::{OutputFile, refuse_file, refuse_same, refuse_word};
use speedwell_machine::process::{OrphanTracker, ProcessEnd, ProcessStopwatch, TimedExecution};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{PipeReader, Read, pipe};
use std::path::Path;
use std::time::Duration;

const TOOL: &str = "hyperfine";

/// Runs the tool; returns the exit status.
///
/// # Errors
/// Fails if a command failed, or a file cannot be written.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    let error = match HyperfineRequest::parse(arguments) {
        Ok(request) => return measure_commands(&request, console).map(|()| 0),
        Err(error) => error,
    };
    let text = error.render().to_string();
    if error.use_stderr() {
        console.reject(TOOL, text.trim_start_matches("error: ").trim_end(), "")?;
    } else {
        console.print_help(&text)?;
    }
    Ok(exit_status(&error))
}

fn measure_commands(request: &HyperfineRequest, console: &mut DropInConsole<'_>) -> Result<()> {
    check_files(request)?;
    for (.., file) in request.options.exports().filter(|(.., file)| *file != "-") {
        fs::File::create(file).with_context(|| format!("cannot write '{file}'"))?;
    }
    let seed = request.options.seed.unwrap_or_else(draw_seed);
    let style = output_style(request, console);
    let mut measuring = CommandMeasurement::new(request, console, style, seed)?;
    if measuring.measures_in_turn()
        && !request.options.strict
        && request.commands.len() > 1
        && measuring.is_shown()
    {
        measuring.console.warn(
            TOOL,
            "--setup and --cleanup apply to one command at a time, so the commands are measured \
             one after the other. Slow changes of the machine can therefore look like differences \
             between commands.",
        )?;
    }
    let outcome = measuring.measure_all();
    for message in measuring.remarks_on_processes() {
        measuring.console.warn(TOOL, &message)?;
    }
    let results = outcome?;
    if measuring.is_shown() {
        match report::format_comparison(&results, request, measuring.look) {
            Ok(text) => measuring.console.stdout.write_all(text.as_bytes())?,
            Err(note) => writeln!(measuring.console.stderr, "{note}")?,
        }
    }
    for (export, ..) in request.options.exports().filter(|(.., file)| *file == "-") {
        let text = measuring.format_export(export, &results)?;
        write!(measuring.console.stdout, "\n{text}\n")?;
    }
    Ok(())
}

/// Fails if an export or an output file would overwrite another one, or a file that a command
/// reads.
fn check_files(request: &HyperfineRequest) -> Result<()> {
    let options = &request.options;
    let exports = options.exports().filter(|(.., file)| *file != "-");
    let export_files = exports.map(|(_, option, file)| (option, Path::new(file)));
    let written = options.output.iter().filter_map(|output| match output {
        OutputTarget::File(file) => Some(("output", file.as_path())),
        _ => None,
    });
    // Several commands may write into the same file, one run after the other.
    let written: BTreeSet<(&str, &Path)> = written.collect();
    let output = |(option, file): (&str, &Path)| {
        OutputFile::new(format!("--{option} {}", file.display()), file)
    };
    let outputs: Vec<OutputFile> = export_files.chain(written).filter_map(output).collect();
    refuse_same(&outputs)?;
    refuse_file(&outputs, &options.input)?;
    // Check only hooks that are executed before a run. Hooks that are executed afterwards may read
    // files that the runs have written.
    let hooks_before = options.setup.iter().chain(&options.prepare);
    for command in &request.commands {
        let lines = hooks_before.clone().map(|template| command.fill_parameters(template));
        for line in lines.chain([command.command_line()]) {
            refuse_word(&outputs, &line, Path::new(""))?;
        }
    }
    Ok(())
}

/// Returns the style that the user requested, or by default a style that suits standard output and
/// the terminal.
fn output_style(request: &HyperfineRequest, console: &DropInConsole<'_>) -> OutputStyle {
    let variable = |name: &str| (console.variable)(name);
    let is_inherited = request.options.output.contains(&OutputTarget::Inherit);
    match request.options.style {
        OutputStyle::Auto if is_inherited || !console.stdout_is_terminal => OutputStyle::Basic,
        OutputStyle::Auto
            if variable("TERM").is_none_or(|term| term == "unknown" || term == "dumb")
                || variable("NO_COLOR").is_some_and(|text| !text.is_empty()) =>
        {
            OutputStyle::NoColour
        }
        OutputStyle::Auto => OutputStyle::Full,
        style => style,
    }
}

/// Number of times that an empty command is executed to measure the time of the shell.
const SHELL_CALIBRATION_RUNS: usize = 50;

/// Exclusive limit of the length of the environment variable that shifts the addresses of a process
/// (Mytkowicz et al., Producing Wrong Data Without Doing Anything Obviously Wrong, ASPLOS 2009).
const MAX_OFFSET_BYTES: usize = 4096;

/// Wall time, CPU time in user mode and CPU time in the kernel, in seconds.
type ProcessTimes = [f64; 3];

fn process_times(timed: &TimedExecution) -> ProcessTimes {
    [timed.wall_ns, timed.usage.user_ns, timed.usage.system_ns].map(|ns| ns as f64 / 1e9)
}

/// Measures the times that the shell adds to every run as hyperfine does: executes an empty command
/// repeatedly, and returns the mean times.
fn measure_shell(argv: &[String]) -> Result<ProcessTimes> {
    let executions = time_empty_line(argv, SHELL_CALIBRATION_RUNS, Duration::ZERO)
        .with_context(|| format!("cannot execute '{} -c \"\"'", argv.join(" ")))?;
    let times: Vec<ProcessTimes> = executions.iter().map(process_times).collect();
    Ok([0, 1, 2].map(|kind| mean(&times.iter().map(|times| times[kind]).collect::<Vec<_>>())))
}

/// Kind of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Execution {
    /// A step before or after runs, such as `--prepare`.
    Around,
    Warmup(u64),
    Run(u64),
}

/// State of a measurement of commands.
struct CommandMeasurement<'a, 'c> {
    request: &'a HyperfineRequest,
    console: &'a mut DropInConsole<'c>,
    style: OutputStyle,
    look: ReportLook,
    shuffle: BlockShuffle,
    shell: ProcessTimes,
    offsets: Xoshiro256PlusPlus,
    watch: ProcessStopwatch,
    /// Finds the processes that commands leave behind. Processes that steps such as `--setup` leave
    /// behind are kept, because the following runs may need them.
    left_behind: OrphanTracker,
    /// Names of the killed processes, by the command line that left them behind.
    killed: BTreeMap<String, BTreeSet<String>>,
}

impl<'a, 'c> CommandMeasurement<'a, 'c> {
    /// Creates a measurement. If there is a shell, measures the time that it takes.
    ///
    /// # Errors
    /// Fails if the shell cannot be started.
    fn new(
        request: &'a HyperfineRequest,
        console: &'a mut DropInConsole<'c>,
        style: OutputStyle,
        seed: u64,
    ) -> Result<CommandMeasurement<'a, 'c>> {
        let shell = match &request.executor {
            CommandExecutor::Shell(argv) => measure_shell(argv)?,
            _ => ProcessTimes::default(),
        };
        let colours = matches!(style, OutputStyle::Full | OutputStyle::Colour);
        Ok(CommandMeasurement {
            request,
            console,
            style,
            look: ReportLook { colours, unit: request.options.unit },
            shuffle: BlockShuffle::new(seed),
            shell,
            offsets: Xoshiro256PlusPlus::seed_from_u64(seed),
            watch: ProcessStopwatch::default(),
            left_behind: OrphanTracker::start_tracking(),
            killed: BTreeMap::new(),
        })
    }

    /// Returns messages about processes that were killed because measured commands left them
    /// behind.
    fn remarks_on_processes(&self) -> Vec<String> {
        let message = |(command_line, names): (&String, &BTreeSet<String>)| {
            let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
            format!(
                "'{command_line}' left processes behind, which were killed after each run: {}.",
                quoted.join(", ")
            )
        };
        self.killed.iter().map(message).collect()
    }

    /// Whether commands are measured one after the other.
    fn measures_in_turn(&self) -> bool {
        let options = &self.request.options;
        let prepares_each_command = options.setup.is_some() || options.cleanup.is_some();
        options.strict || prepares_each_command || self.request.commands.len() < 2
    }

    /// Whether results are shown.
    fn is_shown(&self) -> bool {
        self.style != OutputStyle::Silent
    }

    /// Formats an export in the requested unit and order.
    ///
    /// # Errors
    /// Fails if a figure cannot be represented in JSON.
    fn format_export(&self, export: ExportKind, figures: &[CommandFigures]) -> Result<String> {
        let by_time = self.request.options.sort == ResultOrder::MeanTime;
        report::format_export(export, figures, self.look.unit, by_time)
    }

    /// Prints the heading of a command: before its runs or, if commands are measured in blocks,
    /// before its results.
    fn print_heading(&mut self, number: usize) -> Result<()> {
        if self.is_shown() {
            let title = self.request.commands[number].table_title();
            let line = report::format_heading(number, &title, self.look);
            self.console.stdout.write_all(line.as_bytes())?;
            // The command may write to the same stream, and its output must follow this line.
            self.console.stdout.flush()?;
        }
        Ok(())
    }

    /// Shows the completed and the total number of runs. If commands are measured in blocks, these
    /// are the runs of all commands; otherwise, of the current command.
    fn show_progress(&mut self, done: u64, total: u64) {
        if matches!(self.style, OutputStyle::Full | OutputStyle::NoColour) {
            let end = if done == total { "\r\x1b[K" } else { "" };
            // If progress cannot be shown, measuring continues.
            let _ = write!(self.console.stderr, "\r\x1b[K  {done} of {total} runs{end}");
        }
    }

    /// Prints the results of a command.
    fn print_figures(&mut self, figures: &CommandFigures) -> Result<()> {
        let warnings = report::warnings(figures, self.request, self.shell_seconds());
        if self.is_shown() {
            let text = report::format_paragraph(figures, self.look);
            self.console.stdout.write_all(text.as_bytes())?;
            self.console.stdout.flush()?;
        }
        if !warnings.is_empty() {
            writeln!(self.console.stderr, " ")?;
        }
        for warning in &warnings {
            let line = report::format_warning(warning, self.look);
            self.console.stderr.write_all(line.as_bytes())?;
        }
        if self.is_shown() {
            writeln!(self.console.stdout, " ")?;
        }
        Ok(())
    }

    /// Saves the completed runs of each command. If `is_part` is set, more runs of these commands
    /// will follow. Called repeatedly, so that little is lost if the process is killed.
    fn save_results(&self, figures: &[CommandFigures], is_part: bool) -> Result<()> {
        for (export, _, file) in self.request.options.exports().filter(|(.., file)| *file != "-") {
            // Output to a pipe cannot be replaced, so a pipe gets only the results of commands that
            // have ended.
            if is_part && !Path::new(file).is_file() {
                continue;
            }
            let text = self.format_export(export, figures)?;
            report::replace_file(file, &text).with_context(|| format!("cannot write '{file}'"))?;
        }
        Ok(())
    }

    /// Returns the time that the shell adds to every run, in seconds; 0 without a shell.
    fn shell_seconds(&self) -> f64 {
        match &self.request.executor {
            CommandExecutor::Shell(_) => self.shell[0],
            CommandExecutor::Direct => 0.0,
            CommandExecutor::Pretended(line) => pretended_timing(line).real_s,
        }
    }

    /// Measures every command.
    ///
    /// # Errors
    /// Fails if a command cannot be started or fails (unless the failure is ignored), or if results
    /// cannot be written.
    fn measure_all(&mut self) -> Result<Vec<CommandFigures>> {
        if self.measures_in_turn() {
            return self.measure_in_turn();
        }
        let mut runs: Vec<Vec<RunTiming>> = vec![Vec::new(); self.request.commands.len()];
        let result = self.measure_in_blocks(&mut runs);
        // The runs before the failure of a command are still valid.
        let figures = self.collect_figures(&runs);
        self.save_results(&figures, false)?;
        result?;
        for (number, command_figures) in figures.iter().enumerate() {
            self.print_heading(number)?;
            self.print_figures(command_figures)?;
        }
        Ok(figures)
    }

    /// Measures all commands in shuffled blocks, and adds their runs to `runs`.
    fn measure_in_blocks(&mut self, runs: &mut [Vec<RunTiming>]) -> Result<()> {
        let commands = runs.len();
        for number in 0..commands {
            self.warm_up(number)?;
        }
        let mut remaining_runs = vec![0; commands];
        for number in self.shuffle.shuffle_block(commands, 1) {
            let (timing, count) = self.first_run(number)?;
            runs[number].push(timing);
            remaining_runs[number] = count - 1;
        }
        let total: u64 = remaining_runs.iter().sum::<u64>() + commands as u64;
        let (mut done, mut saved) = (commands as u64, 0);
        for (block, members) in block_members(&remaining_runs, &mut self.shuffle).iter().enumerate()
        {
            // Every save writes all results. To avoid a total cost that is quadratic in the number
            // of runs, results are saved only when they have grown by a sixteenth.
            if (done - saved) * 16 >= saved {
                self.save_results(&self.collect_figures(runs), true)?;
                saved = done;
            }
            for &number in members {
                let kind = Execution::Run(runs[number].len() as u64);
                runs[number].push(self.run_with_hooks(number, kind, block as u32 + 1)?.0);
                done += 1;
                self.show_progress(done, total);
            }
        }
        Ok(())
    }

    /// Returns the figures of all commands that have runs.
    fn collect_figures(&self, runs: &[Vec<RunTiming>]) -> Vec<CommandFigures> {
        let commands = self.request.commands.iter().zip(runs);
        let measured = commands.filter(|(_, runs)| !runs.is_empty());
        measured.map(|(command, runs)| command_figures(command, runs.clone())).collect()
    }

    fn measure_in_turn(&mut self) -> Result<Vec<CommandFigures>> {
        let mut figures = Vec::new();
        for (number, command) in self.request.commands.iter().enumerate() {
            self.print_heading(number)?;
            self.run_hook(number, self.request.options.setup.as_ref(), "setup")?;
            self.warm_up(number)?;
            let (first, count) = self.first_run(number)?;
            let mut runs = vec![first];
            for index in 1..count {
                runs.push(self.run_with_hooks(number, Execution::Run(index), 0)?.0);
                self.show_progress(index + 1, count);
            }
            let measured = command_figures(command, runs);
            self.print_figures(&measured)?;
            figures.push(measured);
            self.save_results(&figures, false)?;
            self.run_hook(number, self.request.options.cleanup.as_ref(), "cleanup")?;
        }
        Ok(figures)
    }

    fn warm_up(&mut self, number: usize) -> Result<()> {
        for index in 0..self.request.options.warmup {
            self.run_with_hooks(number, Execution::Warmup(index), 0)?;
        }
        Ok(())
    }

    /// Performs the first run of a command. Also returns the total number of runs: as many as fill
    /// the minimum time, within the bounds that the user set.
    fn first_run(&mut self, number: usize) -> Result<(RunTiming, u64)> {
        let (timing, around_s) = self.run_with_hooks(number, Execution::Run(0), 0)?;
        let (min_runs, max_runs) = self.request.runs;
        let total_s = timing.real_s + self.shell_seconds() + around_s;
        // If the command takes no time, infinitely many runs would fit.
        let min_time_s = self.request.options.min_time_s;
        let fitting_runs = if total_s > 0.0 { (min_time_s / total_s) as u64 } else { min_runs };
        Ok((timing, fitting_runs.max(min_runs).min(max_runs.unwrap_or(u64::MAX)).max(1)))
    }

    /// Performs one run with the steps before and after it; also returns the time of these steps in
    /// seconds.
    fn run_with_hooks(
        &mut self,
        number: usize,
        kind: Execution,
        block: u32,
    ) -> Result<(RunTiming, f64)> {
        let request = self.request;
        let options = &request.options;
        let before_s = self.run_hook(number, options.prepare.get(number), "prepare")?;
        let command = &request.commands[number];
        let line = command.command_line();
        let timing = self.execute(&line, kind, &options.output[number])?;
        if let Some(fault) = describe_failure(timing.ended, options.ignored.as_ref()) {
            bail!(
                "'{line}' {fault} in its {}\nhint: use '-i' to ignore this, or '--show-output' to \
                 see its output",
                match kind {
                    Execution::Warmup(index) => format!("warm-up run number {}", index + 1),
                    Execution::Run(index) => format!("run number {}", index + 1),
                    Execution::Around => "only run".to_owned(),
                }
            );
        }
        let after_s = self.run_hook(number, options.conclude.get(number), "conclude")?;
        Ok((RunTiming { block, ..timing }, before_s + after_s))
    }

    /// Executes a step before or after runs, such as `--prepare`; returns its time in seconds, 0 if
    /// there is no such step.
    fn run_hook(&mut self, number: usize, template: Option<&String>, option: &str) -> Result<f64> {
        let Some(template) = template else { return Ok(0.0) };
        let line = self.request.commands[number].fill_parameters(template);
        let timing = self
            .execute(&line, Execution::Around, &self.request.options.output[number])
            .with_context(|| format!("in --{option}"))?;
        if let Some(fault) = describe_failure(timing.ended, None) {
            bail!("'{line}' of --{option} {fault}\nhint: if this is intended, append '|| true'");
        }
        Ok(timing.real_s + self.shell_seconds())
    }

    fn execute(&mut self, line: &str, kind: Execution, output: &OutputTarget) -> Result<RunTiming> {
        let mut command = match &self.request.executor {
            CommandExecutor::Pretended(_) => return Ok(pretended_timing(line)),
            CommandExecutor::Shell(shell) => ShellCommand::through_shell(line, shell),
            CommandExecutor::Direct => ShellCommand::without_shell(line)?,
        };
        command.is_shown = *output == OutputTarget::Inherit;
        let mut process = command.to_command();
        let input = &self.request.options.input;
        let file =
            File::open(input).with_context(|| format!("cannot read '{}'", input.display()))?;
        process.stdin(file);
        let drain = match output {
            OutputTarget::Null | OutputTarget::Inherit => None,
            OutputTarget::File(path) => {
                let file = File::create(path)
                    .with_context(|| format!("cannot write '{}'", path.display()))?;
                process.stdout(file);
                None
            }
            OutputTarget::Pipe => {
                let (reader, writer) = pipe()?;
                process.stdout(writer);
                Some(std::thread::spawn(move || discard_output(reader)))
            }
        };
        let offset = (self.offsets.next_u32() as usize) % MAX_OFFSET_BYTES;
        process.env("HYPERFINE_RANDOMIZED_ENVIRONMENT_OFFSET", "X".repeat(offset));
        let iteration = match kind {
            Execution::Around => None,
            Execution::Warmup(index) => Some(format!("warmup-{index}")),
            Execution::Run(index) => Some(index.to_string()),
        };
        process.envs(iteration.map(|iteration| ("HYPERFINE_ITERATION", iteration)));
        let timed = self.watch.time_process(&mut process);
        // Closes our copy of the pipe's write end; otherwise the reader never sees the end of the
        // output.
        drop(process);
        if kind == Execution::Around {
            self.left_behind.keep_new();
        } else {
            let killed = self.left_behind.kill_new();
            if !killed.is_empty() {
                self.killed.entry(line.to_owned()).or_default().extend(killed);
            }
        }
        if let Some(drain) = drain.filter(|_| kind != Execution::Around) {
            // A panic of the reader does not affect the result.
            let _ = drain.join();
        }
        let timed = timed.with_context(|| format!("cannot execute '{line}'"))?;
        Ok(self.net_timing(&timed))
    }

    /// Subtracts the shell's time from the times of an execution. The results are at least 0.
    fn net_timing(&self, timed: &TimedExecution) -> RunTiming {
        let times = process_times(timed);
        let [real_s, user_s, system_s] =
            [0, 1, 2].map(|kind| (times[kind] - self.shell[kind]).max(0.0));
        RunTiming {
            real_s,
            user_s,
            system_s,
            memory_bytes: timed.usage.max_rss_bytes,
            ended: timed.ended,
            with_shell_s: times[0],
            block: 0,
        }
    }
}

fn command_figures(command: &MeasuredCommand, runs: Vec<RunTiming>) -> CommandFigures {
    let (name, title) = (command.name(), command.table_title());
    CommandFigures::from_runs(name, title, command.parameters.iter().cloned().collect(), runs)
}

/// Reads and discards output.
fn discard_output(mut reader: PipeReader) {
    let mut buffer = vec![0; 64 * 1024];
    while matches!(reader.read(&mut buffer), Ok(1..)) {}
}

/// Describes the failure of a command, if any.
fn describe_failure(ended: ProcessEnd, ignored: Option<&IgnoredStatuses>) -> Option<String> {
    match (ended, ignored) {
        (ProcessEnd::Exit(0), _) | (_, Some(IgnoredStatuses::Everything)) => None,
        (ProcessEnd::Exit(code), Some(IgnoredStatuses::Only(codes))) if codes.contains(&code) => {
            None
        }
        _ => Some(ended.to_string()),
    }
}

/// Returns the timing of a pretended run: how long `sleep N` would take; 0 for any other command.
fn pretended_timing(line: &str) -> RunTiming {
    let seconds = line.strip_prefix("sleep ").and_then(|text| text.parse().ok()).unwrap_or(0.0);
    RunTiming {
        real_s: seconds,
        user_s: 0.0,
        system_s: 0.0,
        memory_bytes: 0,
        ended: ProcessEnd::Exit(0),
        with_shell_s: seconds,
        block: 0,
    }
}

/// Distributes runs over blocks, given the number of runs of each command. A block contains about
/// two runs of the command with the fewest runs, and a proportional number of runs of every other
/// command. Returns the commands of each block in shuffled order.
fn block_members(run_counts: &[u64], shuffle: &mut BlockShuffle) -> Vec<Vec<usize>> {
    let fewest = run_counts.iter().copied().min().unwrap_or(0);
    let count = (fewest / 2).max(1);
    let block = |index: u64| {
        let runs = |(number, runs): (usize, &u64)| {
            let share = (index + 1) * runs / count - index * runs / count;
            std::iter::repeat_n(number, share as usize)
        };
        let members: Vec<usize> = run_counts.iter().enumerate().flat_map(runs).collect();
        let order = shuffle.shuffle_block(members.len(), 1);
        order.into_iter().map(|index| members[index]).collect()
    };
    (0..count).map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_runs_and_its_share_of_every_block() {
        let remaining_runs = [9, 30, 301];
        let blocks = block_members(&remaining_runs, &mut BlockShuffle::new(7));
        assert_eq!(blocks.len(), 4);
        for (number, total) in remaining_runs.iter().enumerate() {
            let runs_in =
                |block: &Vec<usize>| block.iter().filter(|one| **one == number).count() as u64;
            assert_eq!(blocks.iter().map(runs_in).sum::<u64>(), *total);
            let share = total / 4;
            assert!(blocks.iter().all(|block| (share..=share + 1).contains(&runs_in(block))));
        }
        assert!(blocks[0] != blocks[1], "each block has an order of its own");
        assert_eq!(super::block_members(&[0, 0], &mut BlockShuffle::new(7)), [Vec::<usize>::new()]);
    }

    #[test]
    fn exit_codes_and_signals_are_failures_unless_ignored() {
        let codes = IgnoredStatuses::Only(vec![3]);
        let only = Some(&codes);
        let (exit, killed) = (ProcessEnd::Exit, ProcessEnd::Signal(9));
        assert_eq!(describe_failure(exit(0), None), None);
        assert_eq!(describe_failure(exit(3), only), None);
        assert_eq!(describe_failure(killed, Some(&IgnoredStatuses::Everything)), None);
        for (ended, ignored) in [(exit(3), None), (exit(4), only), (killed, only)] {
            assert!(describe_failure(ended, ignored).is_some());
        }
    }
}
