//! Emulates hyperfine: measures shell commands, with hyperfine's options, output and exports.
//!
//! Decides the order of steps and the exit status: 0 if every command was measured, 1 if a command
//! failed or a value such as a number is invalid, 2 for any other invalid command line.
//! `docs/reference/hyperfine.md` lists the differences from hyperfine. Start at [`run`].

mod arguments;
mod figures;
mod measuring;
mod report;

use crate::console::DropInConsole;
use crate::hyperfine::arguments::{HyperfineRequest, OutputStyle, OutputTarget, exit_status};
use crate::hyperfine::measuring::CommandMeasurement;
use anyhow::{Context, Result};
use speedwell_engine::draw_seed;
use speedwell_formats::output_files::{OutputFile, refuse_file, refuse_same, refuse_word};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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
    let mut outputs: Vec<OutputFile> = exports
        .filter_map(|(_, option, file)| {
            OutputFile::new(format!("--{option} {file}"), Path::new(file))
        })
        .collect();
    // Several commands may write into the same file, one run after the other.
    let written: BTreeSet<&Path> = (options.output.iter())
        .filter_map(|output| match output {
            OutputTarget::File(file) => Some(file.as_path()),
            _ => None,
        })
        .collect();
    outputs.extend(
        (written.into_iter())
            .filter_map(|file| OutputFile::new(format!("--output {}", file.display()), file)),
    );
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
