//! Decides what each argument of `compare` names: results, a benchmark program, benchmarks of a file
//! or a command. Files are read, but nothing is executed. Answers arguments that name none of these
//! with the command that works.
//!
//! Arguments are tried in this order: `@SESSION`, `-`, an existing path (before `::`), text with a
//! space. Start at [`classify_all`].

use crate::operand::{self, is_setting, quote_all, revision_kind};
use crate::options::RunArgs;
use anyhow::{anyhow, bail, ensure};
use speedwell_adapters::KnownAdapters;
use speedwell_adapters::discover::{find_sources, is_command, similar_file};
use speedwell_machine::process::resolve_program;
use speedwell_model::quote;
use std::path::Path;

/// What an argument of a comparison names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperandKind {
    /// A stored session, a file or folder of results, stdin, or a profile.
    Results,
    /// A program with benchmarks of a known kind.
    Program,
    /// Benchmarks of a file, `FILE::NAME`.
    Benchmarks,
    /// A shell command.
    Command(String),
}

/// Decides what the targets of `compare` name.
///
/// # Errors
/// Fails if a target names nothing that can be compared with the others; the message suggests a
/// command.
pub fn classify_all(args: &RunArgs) -> anyhow::Result<Vec<OperandKind>> {
    let arguments = &args.targets;
    if let Some(url) = arguments.iter().find(|argument| is_url(argument)) {
        bail!("'{url}' is an address\nhint: speedwell load {}", quote_all(arguments));
    }
    suggest_by(args)?;
    suggest_packages(arguments)?;
    let adapters = KnownAdapters::new(&[], &std::env::current_dir()?)?;
    let classified =
        arguments.iter().map(|argument| classify(argument, &args.arguments, &adapters));
    let found: Vec<Option<OperandKind>> = classified.collect::<anyhow::Result<_>>()?;
    if let Some(index) = found.iter().position(Option::is_none) {
        return Err(explain_unknown(&arguments[index], arguments));
    }
    let kinds: Vec<OperandKind> = found.into_iter().flatten().collect();
    check_commands(arguments, &kinds)?;
    Ok(kinds)
}

/// Returns what the argument names; `None` if it names nothing.
fn classify(
    argument: &String,
    program_arguments: &[String],
    adapters: &KnownAdapters,
) -> anyhow::Result<Option<OperandKind>> {
    let has_space = argument.contains(char::is_whitespace);
    let to_command = |command: String| {
        let quoted = program_arguments.iter().map(|argument| format!(" {}", quote(argument)));
        OperandKind::Command(command + &quoted.collect::<String>())
    };
    let operand = match operand::parse_all(std::slice::from_ref(argument)) {
        Err(_) if has_space => return Ok(Some(to_command(argument.clone()))),
        parsed => parsed?.pop(),
    };
    let Some(operand) = operand else { return Ok(None) };
    let Some(location) = operand.locations.first() else { return Ok(None) };
    if location == "-" || location.starts_with('@') {
        return Ok(Some(OperandKind::Results));
    }
    let path = Path::new(location);
    Ok(if operand::is_benchmark_program(location, adapters) {
        Some(OperandKind::Program)
    } else if !path.exists() {
        has_space.then(|| to_command(argument.clone()))
    } else if operand.part.is_some() && is_target(location) {
        Some(OperandKind::Benchmarks)
    } else if operand::is_executable(path) && resolve_program(path).is_ok() && !is_target(location)
    {
        let folder = if location.contains('/') { "" } else { "./" };
        Some(to_command(folder.to_owned() + &quote(location)))
    } else {
        Some(OperandKind::Results)
    })
}

/// Whether the word is the URL of a web server.
pub fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://")
}

/// Whether this location is a benchmark file, or a folder with benchmark files.
pub fn is_target(location: &str) -> bool {
    let Ok(folder) = std::env::current_dir() else { return false };
    let adapters = KnownAdapters::new(&[location.to_owned()], &folder);
    folder.join(location).exists()
        && adapters.is_ok_and(|adapters| find_sources(location, &folder, &adapters).is_ok())
}

/// Suggests `--by` if a single benchmark file and several values of a parameter are given.
fn suggest_by(args: &RunArgs) -> anyhow::Result<()> {
    // In a comparison, NAME=SOURCE is a source with a label, and text with a space is a command.
    let is_value = |argument: &&String| {
        let value = argument.split_once('=').map_or("", |(_, value)| value);
        let is_source = |text: &str| text.starts_with(['@', '-']) || Path::new(text).exists();
        let is_command = argument.contains(char::is_whitespace);
        is_setting(argument) && !is_command && !value.split(',').any(is_source)
    };
    let (settings, others): (Vec<&String>, Vec<&String>) = args.targets.iter().partition(is_value);
    let [target] = others[..] else { return Ok(()) };
    let mut pairs = args.selection.set.iter().chain(settings).filter_map(|set| set.split_once('='));
    let Some((name, first_values)) = pairs.next() else { return Ok(()) };
    let others_of_name = pairs.filter(|(other, _)| *other == name).map(|(_, values)| values);
    let values: Vec<&str> = std::iter::once(first_values).chain(others_of_name).collect();
    let set = format!("{name}={}", values.join(","));
    ensure!(
        !set.contains(',') || !is_target(target),
        "'{set}' makes cases, which are not compared with each other\nhint: speedwell compare {} --by {}",
        quote(target),
        quote(&set)
    );
    Ok(())
}

/// Suggests the folders of Go files from which benchmarks are named: Go builds packages.
fn suggest_packages(arguments: &[String]) -> anyhow::Result<()> {
    let exists = |text: &str| Path::new(text).exists();
    let in_package = |argument: &String| {
        let (file, name) = operand::split_part(argument, exists)
            .filter(|(file, _)| file.ends_with("_test.go") && exists(file))?;
        let folder = file.rsplit_once('/').map_or(".", |(folder, _)| folder);
        Some(format!("{folder}::{name}"))
    };
    let Some(file) = arguments.iter().find(|argument| in_package(argument).is_some()) else {
        return Ok(());
    };
    let mended = |argument: &String| in_package(argument).unwrap_or_else(|| argument.clone());
    let working: Vec<String> = arguments.iter().map(mended).collect();
    bail!(
        "'{file}' is part of a Go package, which is named by its folder\nhint: speedwell compare {}",
        quote_all(&working)
    )
}

/// Rejects commands together with other kinds, and misspelled files that look like commands.
fn check_commands(arguments: &[String], kinds: &[OperandKind]) -> anyhow::Result<()> {
    let (mut commands, mut others) = (Vec::new(), Vec::new());
    for (argument, kind) in arguments.iter().zip(kinds) {
        match kind {
            OperandKind::Command(_) => commands.push(argument),
            kind => others.push((argument, kind)),
        }
    }
    for command in &commands {
        if !is_command(command)
            && let Some(near) = similar_file(command, Path::new("."))
        {
            bail!(
                "cannot find '{command}': no file and no program\nhint: did you mean the file '{near}'?"
            );
        }
    }
    let (Some(command), Some((other, kind))) = (commands.first(), others.first()) else {
        return Ok(());
    };
    let is_benchmark = |(argument, kind): &(&String, &OperandKind)| {
        **kind == OperandKind::Benchmarks || is_target(argument)
    };
    if let [old, new] = &commands[..]
        && others.iter().all(is_benchmark)
    {
        let targets: Vec<&String> = others.iter().map(|(argument, _)| *argument).collect();
        return Err(suggest_programs([old, new], &targets));
    }
    let what = match kind {
        OperandKind::Program => "a benchmark program",
        OperandKind::Benchmarks => "benchmarks",
        _ if other.starts_with('@') => "a stored result",
        _ => "a file of results",
    };
    let hint = match kind {
        OperandKind::Program => format!("speedwell time {}", quote_all(arguments)),
        _ => format!("speedwell time {} --tag a", quote(command)),
    };
    bail!("cannot compare a command with {what}\nhint: {hint}")
}

fn suggest_programs([old, new]: [&str; 2], targets: &[&String]) -> anyhow::Error {
    anyhow!(
        "'{old}' and '{new}' are programs, and '{}' is a benchmark\nhint: speedwell compare --old {} --new {} {}",
        targets[0],
        quote(old),
        quote(new),
        quote_all(targets)
    )
}

/// Explains why `word`, one of the arguments, names nothing.
fn explain_unknown(word: &str, arguments: &[String]) -> anyhow::Error {
    if let Some(error) = explain_revisions(word, arguments) {
        return error;
    }
    let exists = |argument: &&String| argument.starts_with('@') || Path::new(argument).exists();
    let (existing, unknown): (Vec<&String>, Vec<&String>) = arguments.iter().partition(exists);
    let is_program = |argument: &&String| resolve_program(Path::new(argument)).is_ok();
    if unknown.iter().all(is_program) {
        let targets: Vec<&String> =
            existing.into_iter().filter(|argument| is_target(argument)).collect();
        if let ([old, new], false) = (&unknown[..], targets.is_empty()) {
            return suggest_programs([old, new], &targets);
        }
        let programs: Vec<&String> = arguments.iter().filter(is_program).collect();
        return anyhow!("'{word}' is a program\nhint: speedwell time {}", quote_all(&programs));
    }
    match similar_file(word, Path::new(".")) {
        Some(near) => anyhow!("cannot find '{word}': no file\nhint: did you mean '{near}'?"),
        None => anyhow!(
            "cannot find '{word}': no file, program or revision\nhint: name a file, a stored session \
             such as @latest, or a command in quotes"
        ),
    }
}

/// If all arguments that do not exist are revisions, returns an error with the command that compares
/// these revisions; if only some are, an error that names another.
pub fn explain_revisions(word: &str, arguments: &[String]) -> Option<anyhow::Error> {
    let (mut revisions, mut targets) = (Vec::new(), Vec::new());
    for argument in arguments {
        let name = argument.strip_prefix("rev:").unwrap_or(argument);
        if Path::new(argument).exists() {
            targets.push(argument.as_str());
        } else if let Some((old, new)) = name.split_once("..") {
            let ends = [old, new.trim_start_matches('.')];
            revisions.extend(ends.map(|end| if end.is_empty() { "HEAD" } else { end }));
        } else {
            revisions.push(name);
        }
    }
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        revisions.iter().partition(|name| revision_kind(name).is_some());
    let kind = revision_kind(known.first()?)?;
    if let Some(unknown) = unknown.first() {
        return Some(anyhow!("cannot find '{unknown}': no file, program or revision"));
    }
    if revisions.len() > 2 {
        return None;
    }
    let side =
        |(option, name): (&str, &&str)| format!("{option} {} ", quote(&format!("rev:{name}")));
    let sides: String = ["--old", "--new"].into_iter().zip(&revisions).map(side).collect();
    let targets = if targets.is_empty() { ".".to_owned() } else { quote_all(&targets) };
    let what = if word.contains("..") { "range of revisions" } else { kind };
    Some(anyhow!(
        "cannot find '{word}': no file; it is a {what}\nhint: speedwell compare {sides}{targets}"
    ))
}
