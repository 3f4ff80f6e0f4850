//! The command line of hyperfine: a table of its options, and the request that they form.
//!
//! Decides what is an option, a value, or a command, and rejects contradictions. Start at
//! [`Asked::parse`].

use crate::hyperfine::commands::{self, Command};
use crate::hyperfine::figures::Unit;
use std::path::PathBuf;

/// Parsed command line.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    Help,
    Version,
    Measure(Box<Request>),
}

/// Options of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Commands in the order of the original; the reference, if any, first.
    pub commands: Vec<Command>,
    /// Whether the first command is a reference named by the user.
    pub has_reference: bool,
    /// `-w`.
    pub warmup: u64,
    /// `-m`, `-M` and `-r`.
    pub runs: (u64, Option<u64>),
    /// `--min-benchmarking-time`, in seconds.
    pub least_time_s: f64,
    /// `-s`: once before the runs of a command.
    pub setup: Option<String>,
    /// `-p`: before every run; none, one for all commands, or one for each.
    pub prepare: Vec<String>,
    /// `-C`: after every run; like `-p`.
    pub conclude: Vec<String>,
    /// `-c`: once after the runs of a command.
    pub cleanup: Option<String>,
    /// How commands are executed.
    pub executor: Executor,
    /// `-i`: nonzero statuses that do not count as failures.
    pub ignored: Ignored,
    /// `--output`: where the output of commands goes; one for each.
    pub outputs: Vec<Output>,
    /// `--input`: standard input of commands; empty by default.
    pub input: Option<PathBuf>,
    /// `--style`; `None` depends on the terminal.
    pub style: Option<Style>,
    /// `--sort`.
    pub sort: Sort,
    /// `-u`.
    pub unit: Option<Unit>,
    /// `--export-*`: format and file.
    pub exports: Vec<(Export, String)>,
    /// `--strict-compat`: measure one command after the other, and print the original's messages.
    pub strict: bool,
    /// `--seed` of the order of runs; random by default.
    pub seed: Option<u64>,
}

/// How commands are executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executor {
    /// By a shell, given with its arguments.
    Shell(Vec<String>),
    /// Without a shell: `-N`.
    Direct,
    /// `--debug-mode`: nothing is executed; `sleep N` counts as N seconds, and the shell as long as
    /// the given command.
    Pretended(Option<String>),
}

/// Nonzero statuses that do not count as failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ignored {
    Nothing,
    /// All, and termination by a signal.
    Everything,
    /// Only these.
    Only(Vec<i32>),
}

/// Where the output of a command goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// It is discarded.
    Null,
    /// It goes through a pipe and is discarded at the other end.
    Pipe,
    /// It goes to the output of this program.
    Inherit,
    /// It goes to a file, which keeps that of the last run.
    File(PathBuf),
}

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without colors and progress line.
    Basic,
    /// With both.
    Full,
    /// With a progress line.
    NoColour,
    /// With colors.
    Colour,
    /// Nothing is shown.
    Silent,
}

/// Order of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// The comparison by time, exports as typed.
    Auto,
    /// As typed.
    Command,
    MeanTime,
}

/// Export format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    AsciiDoc,
    Csv,
    Json,
    Markdown,
    Org,
}

impl Export {
    /// All formats, in the order in which their files are written.
    const ALL: [Export; 5] = [
        Export::AsciiDoc,
        Export::Json,
        Export::Csv,
        Export::Markdown,
        Export::Org,
    ];

    /// The option that asks for it, without hyphens.
    pub fn option(self) -> &'static str {
        match self {
            Export::AsciiDoc => "export-asciidoc",
            Export::Csv => "export-csv",
            Export::Json => "export-json",
            Export::Markdown => "export-markdown",
            Export::Org => "export-orgmode",
        }
    }
}

/// How many values an option takes, and how often it may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// One after `=`, or none.
    Perhaps,
    Once(usize),
    Often(usize),
    /// One; the last occurrence counts.
    Last,
}

/// Options: letter, name, values.
const OPTIONS: &[(&str, &str, Takes)] = &[
    ("w", "warmup", Takes::Once(1)),
    ("m", "min-runs", Takes::Once(1)),
    ("M", "max-runs", Takes::Once(1)),
    ("r", "runs", Takes::Once(1)),
    ("s", "setup", Takes::Once(1)),
    ("", "reference", Takes::Once(1)),
    ("", "reference-name", Takes::Once(1)),
    ("p", "prepare", Takes::Often(1)),
    ("C", "conclude", Takes::Often(1)),
    ("c", "cleanup", Takes::Once(1)),
    ("P", "parameter-scan", Takes::Once(3)),
    ("D", "parameter-step-size", Takes::Once(1)),
    ("L", "parameter-list", Takes::Often(2)),
    ("S", "shell", Takes::Last),
    ("N", "", Takes::Nothing),
    ("i", "ignore-failure", Takes::Perhaps),
    ("", "style", Takes::Once(1)),
    ("", "sort", Takes::Once(1)),
    ("u", "time-unit", Takes::Once(1)),
    ("", "export-asciidoc", Takes::Once(1)),
    ("", "export-csv", Takes::Once(1)),
    ("", "export-json", Takes::Once(1)),
    ("", "export-markdown", Takes::Once(1)),
    ("", "export-orgmode", Takes::Once(1)),
    ("", "show-output", Takes::Nothing),
    ("", "output", Takes::Often(1)),
    ("", "input", Takes::Once(1)),
    ("n", "command-name", Takes::Often(1)),
    ("h", "help", Takes::Nothing),
    ("V", "version", Takes::Nothing),
    ("", "min-benchmarking-time", Takes::Once(1)),
    ("", "debug-mode", Takes::Nothing),
    ("", "strict-compat", Takes::Nothing),
    ("", "seed", Takes::Once(1)),
];

/// Mutually exclusive options.
const CONFLICTS: &[(&str, &str)] = &[
    ("runs", "min-runs"),
    ("runs", "max-runs"),
    ("parameter-list", "parameter-scan"),
    ("parameter-list", "parameter-step-size"),
    ("N", "shell"),
    ("N", "debug-mode"),
    ("show-output", "style"),
    ("show-output", "output"),
];

/// Options that require another one.
const NEEDS: &[(&str, &str)] = &[
    ("reference-name", "reference"),
    ("parameter-step-size", "parameter-scan"),
];

/// Reason to reject a command line, and the exit status: 2 if it cannot be parsed, 1 if it is
/// contradictory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: String,
    /// Exit status, as in the original.
    pub status: i32,
}

/// Creates the refusal of a command line that cannot be parsed.
fn grammar(reason: String) -> Refusal {
    Refusal { reason, status: 2 }
}

/// Creates the refusal of a contradictory command line.
fn nonsense(reason: impl Into<String>) -> Refusal {
    Refusal {
        reason: reason.into(),
        status: 1,
    }
}

/// Command line split into options and commands.
#[derive(Debug, Default)]
struct Words<'a> {
    given: Vec<(&'static str, Vec<&'a str>)>,
    commands: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn read(arguments: &'a [String]) -> Result<Words<'a>, Refusal> {
        let mut words = Words::default();
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(word) = rest.next() {
            if word == "--" {
                words.commands.extend(rest.by_ref());
            } else if let Some(long) = word.strip_prefix("--") {
                let (name, attached) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (long, None),
                };
                let known = OPTIONS
                    .iter()
                    .find(|known| !name.is_empty() && known.1 == name);
                let known = known.ok_or_else(|| unknown(&format!("--{name}")))?;
                words.take(known, word, attached, &mut rest)?;
            } else if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                words.cluster(letters, word, &mut rest)?;
            } else {
                words.commands.push(word);
            }
        }
        Ok(words)
    }

    /// Parses letters after one dash, up to the first that takes a value.
    fn cluster(
        &mut self,
        letters: &'a str,
        word: &'a str,
        rest: &mut dyn Iterator<Item = &'a str>,
    ) -> Result<(), Refusal> {
        for (at, letter) in letters.char_indices() {
            let known = OPTIONS.iter().find(|known| known.0 == letter.to_string());
            let known = known.ok_or_else(|| unknown(&format!("-{letter}")))?;
            let behind = &letters[at + letter.len_utf8()..];
            let value = Some(behind.strip_prefix('=').unwrap_or(behind));
            match known.2 {
                Takes::Nothing => self.take(known, word, None, rest)?,
                Takes::Perhaps if !behind.starts_with('=') => self.take(known, word, None, rest)?,
                _ => return self.take(known, word, value.filter(|_| !behind.is_empty()), rest),
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        known: &(&'static str, &'static str, Takes),
        word: &str,
        attached: Option<&'a str>,
        rest: &mut dyn Iterator<Item = &'a str>,
    ) -> Result<(), Refusal> {
        let (letter, name, takes) = *known;
        let name = if name.is_empty() { letter } else { name };
        let count = match takes {
            Takes::Nothing if attached.is_some() => {
                return Err(grammar(format!("'{word}': the option takes no value")));
            }
            Takes::Nothing | Takes::Perhaps => 0,
            Takes::Once(count) | Takes::Often(count) => count,
            Takes::Last => 1,
        };
        if !matches!(takes, Takes::Often(_) | Takes::Last) && self.has(name) {
            return Err(grammar(format!("{} is given twice", dashed(name))));
        }
        let mut values: Vec<&str> = attached.into_iter().collect();
        while values.len() < count {
            // Only options that accept negative numbers take a value that looks like an option.
            let may_be_dashed = matches!(name, "parameter-scan" | "parameter-list");
            let next = rest.next();
            let next = next.filter(|next| may_be_dashed || *next == "-" || !next.starts_with('-'));
            values.push(
                next.ok_or_else(|| grammar(format!("{} needs {count} value(s)", dashed(name))))?,
            );
        }
        self.given.push((name, values));
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(known, _)| *known == name)
    }

    fn every(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let own = self.given.iter().filter(move |(known, _)| *known == name);
        own.flat_map(|(_, values)| values.iter().copied())
    }

    /// Returns the last value.
    fn value(&self, name: &str) -> Option<&'a str> {
        self.every(name).last()
    }

    fn owned(&self, name: &str) -> Option<String> {
        self.value(name).map(str::to_owned)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let read = |text: &str| {
            text.parse()
                .map_err(|_| nonsense(format!("--{name}: '{text}' is not a number that fits here")))
        };
        self.value(name).map(read).transpose()
    }

    /// Maps the value to its meaning in `known`.
    fn one_of<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> Result<Option<T>, Refusal> {
        let Some(word) = self.value(name) else {
            return Ok(None);
        };
        let found = known.iter().find(|(name, _)| *name == word);
        found.map(|(_, meaning)| Some(*meaning)).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            grammar(format!(
                "--{name}: there is no '{word}'\nhint: there are {}",
                names.join(", ")
            ))
        })
    }
}

fn dashed(name: &str) -> String {
    match name.len() {
        1 => format!("-{name}"),
        _ => format!("--{name}"),
    }
}

fn unknown(typed: &str) -> Refusal {
    let names: Vec<String> = OPTIONS
        .iter()
        .map(|known| format!("--{}", known.1))
        .collect();
    let near = speedwell_model::nearest(typed, &names);
    let hint = near.map_or_else(
        || format!("\nhint: a command that begins so stands behind '--': -- '{typed} ...'"),
        |near| format!("\nhint: did you mean '{near}'?"),
    );
    grammar(format!("unknown option '{typed}'{hint}"))
}

impl Asked {
    /// Parses the command line.
    ///
    /// # Errors
    /// The original rejects it, too; the refusal has the original's exit status.
    pub fn parse(arguments: &[String]) -> Result<Asked, Refusal> {
        let words = Words::read(arguments)?;
        if words.has("help") {
            return Ok(Asked::Help);
        }
        if words.has("version") {
            return Ok(Asked::Version);
        }
        for (one, other) in CONFLICTS {
            if words.has(one) && words.has(other) {
                let (one, other) = (dashed(one), dashed(other));
                return Err(grammar(format!("{one} cannot be used with {other}")));
            }
        }
        for (one, other) in NEEDS {
            if words.has(one) && !words.has(other) {
                let (one, other) = (dashed(one), dashed(other));
                return Err(grammar(format!("{one} needs {other}")));
            }
        }
        if words.commands.is_empty() || words.commands.contains(&"") {
            return Err(grammar(
                "there is no command to measure, or it is empty".to_owned(),
            ));
        }
        request(&words).map(|request| Asked::Measure(Box::new(request)))
    }
}

fn request(words: &Words<'_>) -> Result<Request, Refusal> {
    let style = [
        ("auto", None),
        ("basic", Some(Style::Basic)),
        ("full", Some(Style::Full)),
        ("nocolor", Some(Style::NoColour)),
        ("color", Some(Style::Colour)),
        ("none", Some(Style::Silent)),
    ];
    let sort = [
        ("auto", Sort::Auto),
        ("command", Sort::Command),
        ("mean-time", Sort::MeanTime),
    ];
    let unit = [
        ("microsecond", Unit::Microsecond),
        ("millisecond", Unit::Millisecond),
        ("second", Unit::Second),
    ];
    let (style, sort) = (words.one_of("style", &style)?, words.one_of("sort", &sort)?);
    let unit = words.one_of("time-unit", &unit)?;
    let names: Vec<&str> = words.every("command-name").collect();
    let parameters = commands::Parameters {
        scan: words.every("parameter-scan").collect(),
        step: words.value("parameter-step-size"),
        lists: words.every("parameter-list").collect(),
    };
    let mut all = commands::all(&words.commands, &names, &parameters).map_err(nonsense)?;
    let reference = words.value("reference");
    if let Some(line) = reference {
        all.insert(0, Command::plain(words.value("reference-name"), line));
    }
    let count = all.len();
    let request = Request {
        commands: all,
        has_reference: reference.is_some(),
        warmup: words.number("warmup")?.unwrap_or(0),
        runs: bounds(words)?,
        least_time_s: words.number("min-benchmarking-time")?.unwrap_or(3.0),
        setup: words.owned("setup"),
        prepare: each(words, "prepare", count)?,
        conclude: each(words, "conclude", count)?,
        cleanup: words.owned("cleanup"),
        executor: executor(words)?,
        ignored: ignored(words)?,
        outputs: outputs(words, count)?,
        input: input(words)?,
        style: style.flatten(),
        sort: sort.unwrap_or(Sort::Auto),
        unit,
        exports: exports(words),
        strict: words.has("strict-compat"),
        seed: words.number("seed")?,
    };
    Ok(request)
}

/// Returns the minimum and maximum number of runs: at least ten by default, fewer only if the
/// maximum is lower.
fn bounds(words: &Words<'_>) -> Result<(u64, Option<u64>), Refusal> {
    let exactly: Option<u64> = words.number("runs")?;
    let fewest = exactly.or(words.number("min-runs")?);
    let most = exactly.or(words.number("max-runs")?);
    match (fewest, most) {
        (Some(fewest), Some(most)) if fewest > most => Err(nonsense(format!(
            "--min-runs {fewest} is more than --max-runs {most}"
        ))),
        (_, Some(0)) => Err(nonsense("a command cannot be measured in 0 runs")),
        (None, Some(most)) => Ok((most.min(10), Some(most))),
        (fewest, most) => Ok((fewest.unwrap_or(10), most)),
    }
}

/// Returns commands around every run: none, one for all, or one for each of `count`.
fn each(words: &Words<'_>, name: &str, count: usize) -> Result<Vec<String>, Refusal> {
    let given: Vec<String> = words.every(name).map(str::to_owned).collect();
    if given.len() > 1 && given.len() != count {
        return Err(nonsense(format!(
            "--{name} is given {} times for {count} commands\nhint: once for all, or once for each (the reference too)",
            given.len()
        )));
    }
    Ok(given)
}

fn executor(words: &Words<'_>) -> Result<Executor, Refusal> {
    if words.has("N") {
        return Ok(Executor::Direct);
    }
    let shell = words.value("shell");
    if words.has("debug-mode") {
        return Ok(Executor::Pretended(shell.map(str::to_owned)));
    }
    match shell {
        None | Some("default") => Ok(Executor::Shell(vec!["sh".to_owned()])),
        Some("none") => Ok(Executor::Direct),
        Some(line) => {
            let argv = shell_words::split(line)
                .map_err(|error| nonsense(format!("--shell '{line}': {error}")))?;
            match argv.first() {
                Some(program) if !program.is_empty() => Ok(Executor::Shell(argv)),
                _ => Err(nonsense("--shell names no program")),
            }
        }
    }
}

fn ignored(words: &Words<'_>) -> Result<Ignored, Refusal> {
    if !words.has("ignore-failure") {
        return Ok(Ignored::Nothing);
    }
    match words.value("ignore-failure") {
        None | Some("" | "all-non-zero") => Ok(Ignored::Everything),
        Some(codes) => {
            let codes = codes.split(',').map(|code| {
                code.trim().parse().map_err(|_| {
                    nonsense(format!("--ignore-failure: '{code}' is not an exit status"))
                })
            });
            Ok(Ignored::Only(codes.collect::<Result<_, _>>()?))
        }
    }
}

fn outputs(words: &Words<'_>, count: usize) -> Result<Vec<Output>, Refusal> {
    let mut outputs = Vec::new();
    for word in words.every("output") {
        outputs.push(match word {
            "null" => Output::Null,
            "pipe" => Output::Pipe,
            "inherit" => Output::Inherit,
            file if file.contains('/') => Output::File(file.into()),
            word => {
                return Err(nonsense(format!(
                    "--output: there is no '{word}'\nhint: null, pipe, inherit, or a file as './{word}'"
                )));
            }
        });
    }
    if words.has("show-output") {
        outputs = vec![Output::Inherit];
    }
    match outputs.len() {
        0 => Ok(vec![Output::Null; count]),
        1 => Ok(vec![outputs[0].clone(); count]),
        given if given == count => Ok(outputs),
        given => Err(nonsense(format!(
            "--output is given {given} times for {count} commands\nhint: once for all, or once for each (the reference too)"
        ))),
    }
}

fn input(words: &Words<'_>) -> Result<Option<PathBuf>, Refusal> {
    match words.value("input") {
        None | Some("null") => Ok(None),
        Some(file) if std::path::Path::new(file).exists() => Ok(Some(file.into())),
        Some(file) => Err(nonsense(format!("--input: there is no file '{file}'"))),
    }
}

fn exports(words: &Words<'_>) -> Vec<(Export, String)> {
    let given = Export::ALL
        .iter()
        .filter_map(|export| Some((*export, words.owned(export.option())?)));
    given.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, Refusal> {
        let words = shell_words::split(line).unwrap();
        match Asked::parse(&words)? {
            Asked::Measure(request) => Ok(*request),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_may_be_clustered_attached_and_behind_commands() {
        let request = parse("-Nw3 'a b' --runs=7 -i=1,2 c -n x -n y").unwrap();
        assert_eq!(request.executor, Executor::Direct);
        assert_eq!((request.warmup, request.runs), (3, (7, Some(7))));
        assert_eq!(request.ignored, Ignored::Only(vec![1, 2]));
        let names: Vec<String> = request.commands.iter().map(Command::name).collect();
        assert_eq!(names, ["x", "y"]);
        assert_eq!(parse("-i false").unwrap().ignored, Ignored::Everything);
    }

    #[test]
    fn what_cannot_be_taken_apart_ends_with_2_and_what_makes_no_sense_with_1() {
        for (line, status, part) in [
            ("--bogus true", 2, "unknown option"),
            ("--warmpu 3 true", 2, "did you mean '--warmup'"),
            ("", 2, "no command"),
            ("-r 2 -m 3 true", 2, "--runs cannot be used with --min-runs"),
            ("-D 2 true", 2, "needs --parameter-scan"),
            ("--sort up true", 2, "auto, command, mean-time"),
            ("true -w", 2, "--warmup needs 1"),
            ("-w 1 -w 2 true", 2, "twice"),
            ("-r x true", 1, "'x'"),
            ("-r 0 true", 1, "0 runs"),
            ("-m 9 -M 3 true", 1, "more than"),
            ("--output log true", 1, "./log"),
            ("--input /nowhere true", 1, "/nowhere"),
            ("-p a -p b -p c x y", 1, "3 times for 2 commands"),
            ("-S '' true", 1, "names no program"),
            ("-i=a true", 1, "exit status"),
        ] {
            let refusal = parse(line).unwrap_err();
            assert_eq!(refusal.status, status, "{line}: {refusal:?}");
            assert!(refusal.reason.contains(part), "{line}: {refusal:?}");
        }
    }

    #[test]
    fn the_most_runs_lower_the_fewest_where_those_are_not_given() {
        assert_eq!(parse("-M 4 a").unwrap().runs, (4, Some(4)));
        assert_eq!(parse("-M 40 a").unwrap().runs, (10, Some(40)));
        assert_eq!(parse("a").unwrap().runs, (10, None));
    }
}
