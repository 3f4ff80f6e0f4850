//! Finds the most expensive tests: builds the Rust tests and executes each in a process of its own,
//! one after the other. Processor time hardly depends on other load; wall time does.

use crate::build::{self, TestProgram};
use crate::command::{ROOT, command, execute};
use crate::sequence::Sequence;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Options of the measurement and its tables.
#[derive(Debug, PartialEq)]
pub(crate) struct TimesOptions<'a> {
    /// Rows of each table.
    top: usize,
    /// Whether ignored tests are measured, too.
    with_ignored: bool,
    /// Only tests whose names contain one of these words; all, if there are none.
    words: Vec<&'a str>,
}

impl<'a> TimesOptions<'a> {
    /// Reads a command line; `None` if it is wrong.
    pub(crate) fn parse(arguments: &[&'a str]) -> Option<TimesOptions<'a>> {
        let mut options = TimesOptions { top: 30, with_ignored: false, words: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(&argument) = arguments.next() {
            match argument {
                "--top" => options.top = arguments.next()?.parse().ok()?,
                "--ignored" => options.with_ignored = true,
                option if option.starts_with('-') => return None,
                word => options.words.push(word),
            }
        }
        Some(options)
    }

    fn includes(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word))
    }
}

/// Processor and wall time.
type Cost = (Duration, Duration);

/// Measures the tests, writes each into target/test-times.tsv, and prints the sums of the modules and
/// the most expensive tests.
pub(crate) fn measure(options: &TimesOptions<'_>) -> ExitCode {
    let mut screen = io::stdout();
    let Some((programs, _)) = build::compile_tests(&mut Sequence::new(&mut screen)) else {
        return ExitCode::FAILURE;
    };
    match measure_programs(&programs, options) {
        Ok(tests) => {
            print_tables(&tests, options.top);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("target/test-times.tsv cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_programs(
    programs: &[TestProgram],
    options: &TimesOptions<'_>,
) -> io::Result<Vec<(String, Cost)>> {
    let mut tests = Vec::new();
    let folder = Path::new(ROOT).join("target");
    std::fs::create_dir_all(&folder)?;
    let mut table = std::fs::File::create(folder.join("test-times.tsv"))?;
    for program in programs {
        let package = program.folder.file_name().unwrap_or_default().to_string_lossy();
        let file = program.path.rsplit('/').next().unwrap_or_default();
        let target = file.rsplit_once('-').map_or(file, |(target, _hash)| target);
        let ignored: HashSet<String> =
            if options.with_ignored { HashSet::new() } else { names(program, &["--ignored"]) };
        let mut chosen: Vec<String> = names(program, &[]).difference(&ignored).cloned().collect();
        chosen.sort();
        for name in chosen.iter().filter(|name| options.includes(name)) {
            let mut test = program_command(program);
            let done = execute(test.args(["--exact", name, "--include-ignored"]), &mut io::sink());
            let failed = if done.status == 0 { "" } else { "failed" };
            let label = format!("{package} {target} {name}");
            let (cpu, wall) = (done.cpu.as_secs_f64(), done.wall.as_secs_f64());
            writeln!(table, "{label}\t{cpu:.2}\t{wall:.2}\t{failed}")?;
            if done.status != 0 {
                println!("failed: {label}");
            }
            tests.push((label, (done.cpu, done.wall)));
        }
    }
    Ok(tests)
}

fn program_command(program: &TestProgram) -> Command {
    let mut command = command(&program.path);
    command.current_dir(&program.folder);
    command
}

/// The names of a program's tests, or only of the ignored ones.
fn names(program: &TestProgram, arguments: &[&str]) -> HashSet<String> {
    let listed = execute(program_command(program).arg("--list").args(arguments), &mut io::sink());
    listed
        .output
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect()
}

fn print_tables(tests: &[(String, Cost)], top: usize) {
    let (mut modules, mut all) = (BTreeMap::<String, Cost>::new(), Cost::default());
    for (label, (cpu, wall)) in tests {
        let module = label.split("::").next().unwrap_or(label);
        for sum in [modules.entry(module.to_owned()).or_default(), &mut all] {
            *sum = (sum.0 + *cpu, sum.1 + *wall);
        }
    }
    print_table("module", modules.into_iter().collect(), top);
    print_table("test", tests.to_vec(), top);
    print_table("all", vec![(format!("{} tests", tests.len()), all)], 1);
}

/// Prints the rows that took most processor time.
fn print_table(title: &str, mut rows: Vec<(String, Cost)>, top: usize) {
    rows.sort_by_key(|(_, (cpu, _))| std::cmp::Reverse(*cpu));
    println!("\n{title:<100} {:>7} {:>7}", "CPU s", "wall s");
    for (name, (cpu, wall)) in rows.iter().take(top) {
        println!("{name:<100.100} {:7.2} {:7.2}", cpu.as_secs_f64(), wall.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_words_are_read_in_any_order() {
        let options = TimesOptions::parse(&["load", "--top", "5", "--ignored", "push"]).unwrap();
        let words = vec!["load", "push"];
        assert_eq!(options, TimesOptions { top: 5, with_ignored: true, words });
        assert!(options.includes("it::a_load") && !options.includes("it::a_pull"));
        for wrong in [&["--top"][..], &["--top", "x"], &["--all"]] {
            assert_eq!(TimesOptions::parse(wrong), None);
        }
    }
}
