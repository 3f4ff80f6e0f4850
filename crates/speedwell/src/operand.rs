//! Parses SOURCE arguments: `[NAME=]LOCATION[,LOCATION...][[VARIANT]][::NAME]`. Recognizes single
//! words (settings, scripts, programs, revisions), and quotes the words of a command line.
//!
//! Parsing does not read the locations. Start at [`parse_all`]. The module then builds the programs
//! among the operands of a comparison if necessary ([`program_side`]). `operand_kind` decides what
//! an argument of `compare` names, and `source` reads results and profiles.

use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::discover::{self, BenchmarkPart, ComparisonSide};
use speedwell_adapters::{
    KnownAdapters, ProgressReporter, build_single_program, builtin_adapter, explain_framework,
    framework_without_adapter, is_elf, is_program_with_harness, is_script, is_text, is_wrapper,
};
use speedwell_machine::environment::GitRepository;
use speedwell_model::{Variant, quote};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// A parsed SOURCE.
#[derive(Debug, Clone)]
pub struct SourceOperand {
    /// Label in tables.
    pub label: String,
    /// Files, folders, programs, `-` or stored sessions. All locations together form one side of
    /// the comparison.
    pub locations: Vec<String>,
    pub variant: Option<String>,
    pub part: Option<BenchmarkPart>,
}

/// Parses all arguments. Arguments with the same `NAME=` form one operand. The label of an operand
/// without a name comes from its files.
///
/// # Errors
/// Fails on an invalid pattern.
pub fn parse_all(arguments: &[String]) -> Result<Vec<SourceOperand>> {
    parse_among(arguments, |argument| Path::new(argument).exists())
}

/// Parses arguments that name stored sessions, without accessing the disk.
///
/// # Errors
/// Fails if a pattern is invalid, or an argument names anything but stored sessions.
#[cfg(feature = "serve")]
pub fn parse_stored(arguments: &[String]) -> Result<Vec<SourceOperand>> {
    let operands = parse_among(arguments, |_| false)?;
    for location in operands.iter().flat_map(|operand| &operand.locations) {
        ensure!(
            location.starts_with('@'),
            "'{location}' is not a stored session\nhint: use @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or @base"
        );
    }
    Ok(operands)
}

/// Parses all arguments. `is_file` tells whether a whole argument is the name of a file.
fn parse_among(arguments: &[String], is_file: fn(&str) -> bool) -> Result<Vec<SourceOperand>> {
    let mut operands: Vec<(bool, SourceOperand)> = Vec::new();
    for argument in arguments {
        let (has_name, operand) =
            parse_argument(argument, is_file).with_context(|| format!("in source '{argument}'"))?;
        let existing = operands
            .iter_mut()
            .find(|(is_named, existing)| *is_named && has_name && existing.label == operand.label);
        match existing {
            Some((_, existing)) => {
                let pattern = |operand: &SourceOperand| {
                    operand.part.as_ref().map(|part| part.pattern().to_owned())
                };
                ensure!(
                    existing.variant == operand.variant && pattern(existing) == pattern(&operand),
                    "the sources named '{}' select different variants or benchmarks\nhint: select the same in \
                     each, or give them different names",
                    operand.label
                );
                existing.locations.extend(operand.locations);
            }
            None => operands.push((has_name, operand)),
        }
    }
    shorten_labels(&mut operands);
    Ok(operands.into_iter().map(|(_, operand)| operand).collect())
}

/// Returns the common name that replaces the matched parts of case names, so that cases of
/// different operands can be compared. Returns `None` if no replacement is needed.
pub fn common_name(operands: &[SourceOperand]) -> Option<String> {
    discover::shared_word(&operands.iter().map(|operand| operand.part.as_ref()).collect::<Vec<_>>())
}

/// Parses one argument. Returns whether the argument has a `NAME=`, and the operand.
fn parse_argument(argument: &str, is_file: fn(&str) -> bool) -> Result<(bool, SourceOperand)> {
    let (name, remainder) = split_name(argument, is_file);
    let (source, part) = match split_part(remainder, is_file) {
        Some((source, text)) => (source, Some(BenchmarkPart::parse(text)?)),
        None => (remainder, None),
    };
    let (locations, variant) =
        match source.strip_suffix(']').and_then(|before| before.rsplit_once('[')) {
            Some((locations, variant)) if !locations.is_empty() => {
                (locations, Some(variant.to_owned()))
            }
            _ => (source, None),
        };
    let operand = SourceOperand {
        label: name.unwrap_or(argument).to_owned(),
        locations: split_places(locations, is_file),
        variant,
        part,
    };
    Ok((name.is_some(), operand))
}

/// Splits a source and the text that selects some of its cases: at the first `::` behind the name of
/// a file or, without one, at the first `::`.
pub fn split_part(text: &str, is_file: fn(&str) -> bool) -> Option<(&str, &str)> {
    let splits = text.match_indices("::").map(|(index, _)| (&text[..index], &text[index + 2..]));
    let splits: Vec<(&str, &str)> = splits.filter(|_| !is_file(text)).collect();
    splits.iter().find(|(source, _)| is_file(source)).or(splits.first()).copied()
}

/// Splits off a name before `=`. Does not split the name of a file, or text that cannot be a name.
fn split_name(argument: &str, is_file: fn(&str) -> bool) -> (Option<&str>, &str) {
    let is_name = |name: &str| {
        let is_name_character = |c: char| c.is_alphanumeric() || "_-.+".contains(c);
        !name.is_empty() && name.chars().all(is_name_character)
    };
    match argument.split_once('=') {
        Some((name, remainder)) if is_name(name) && !remainder.is_empty() && !is_file(argument) => {
            (Some(name), remainder)
        }
        _ => (None, argument),
    }
}

/// Splits locations at commas. Does not split the name of a file.
fn split_places(locations: &str, is_file: fn(&str) -> bool) -> Vec<String> {
    if is_file(locations) {
        return vec![locations.to_owned()];
    }
    locations.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Shortens labels to the shortest path suffixes that differ. Equal labels get numbers. Parts of one
/// source are named after what distinguishes them.
fn shorten_labels(operands: &mut [(bool, SourceOperand)]) {
    if let Some(labels) = part_labels(operands) {
        for ((_, operand), label) in operands.iter_mut().zip(labels) {
            operand.label = label;
        }
        return;
    }
    let is_plain =
        |(is_named, operand): &(bool, SourceOperand)| *is_named || operand.locations.len() == 1;
    let arguments: Vec<String> =
        operands.iter().map(|(_, operand)| operand.label.clone()).collect();
    let mut labels = if operands.iter().all(is_plain) {
        shortest_labels(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    } else {
        arguments
    };
    for (index, (is_named, operand)) in operands.iter().enumerate() {
        // '<(command)' of a shell is the number of a file descriptor, which says nothing.
        let is_descriptor =
            |path: &String| path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
        if !is_named && operand.locations.first().is_some_and(is_descriptor) {
            labels[index] = format!("input {}", index + 1);
        }
    }
    for (index, (_, operand)) in operands.iter_mut().enumerate() {
        let count_equal = |candidates: &[String]| {
            candidates.iter().filter(|label| **label == labels[index]).count()
        };
        operand.label = match count_equal(&labels) {
            1 => labels[index].clone(),
            _ => format!("{} ({})", labels[index], count_equal(&labels[..index]) + 1),
        };
    }
}

/// Returns the labels of different parts of one source: `regex` and `loop` for `FILE::impl=regex` and
/// `FILE::impl=loop`.
fn part_labels(operands: &[(bool, SourceOperand)]) -> Option<Vec<String>> {
    let ((_, first), others) = operands.split_first()?;
    let is_same_source = |(is_named, operand): &(bool, SourceOperand)| {
        !is_named && operand.locations == first.locations && operand.variant == first.variant
    };
    if others.is_empty() || !operands.iter().all(is_same_source) {
        return None;
    }
    let parts = operands.iter().map(|(_, operand)| Some(operand.part.as_ref()?.pattern()));
    let texts = parts.collect::<Option<Vec<&str>>>()?;
    let name = texts[0].split_once('=').map_or("", |(name, _)| name);
    let value = |text: &&str| Some(text.strip_prefix(name)?.strip_prefix('=')?.to_owned());
    let values: Option<Vec<String>> = texts.iter().map(value).collect();
    let labels = values.unwrap_or_else(|| texts.iter().map(|&text| text.to_owned()).collect());
    (labels.iter().collect::<HashSet<_>>().len() == labels.len()).then_some(labels)
}

/// Returns labels for the arguments: the shortest path suffixes that differ.
fn shortest_labels(arguments: &[&str]) -> Vec<String> {
    let longest =
        arguments.iter().map(|argument| path_components(argument).len()).max().unwrap_or(1);
    let suffixes = |count: usize| -> Vec<String> {
        arguments.iter().map(|argument| path_suffix(argument, count)).collect()
    };
    (1..longest)
        .map(suffixes)
        .find(|labels| are_distinct(arguments, labels))
        .unwrap_or_else(|| arguments.iter().map(|argument| (*argument).to_owned()).collect())
}

/// Whether different arguments have different labels.
fn are_distinct(arguments: &[&str], labels: &[String]) -> bool {
    arguments.iter().enumerate().all(|(index, argument)| {
        (0..index).all(|before| arguments[before] == *argument || labels[before] != labels[index])
    })
}

/// Returns the last `count` components of the path, followed by `[VARIANT]` and `::REGEX` as typed.
fn path_suffix(argument: &str, count: usize) -> String {
    let (path, selection) = argument.split_at(end_of_path(argument));
    let components = path_components(path);
    components[components.len().saturating_sub(count)..].join("/") + selection
}

fn path_components(argument: &str) -> Vec<&str> {
    argument[..end_of_path(argument)].split('/').collect()
}

/// Returns the position where the path ends and `[VARIANT]` or `::REGEX` begins.
fn end_of_path(argument: &str) -> usize {
    let part_start = argument.find("::").unwrap_or(argument.len());
    argument[..part_start].find('[').unwrap_or(part_start)
}

/// Returns the program that an operand names, as a side of a comparison. The program will be
/// started with `arguments`. Returns `None` if the operand names results.
///
/// # Errors
/// Fails if the program has no benchmarks of a known kind, or if the operand has other locations.
pub fn program_side(
    operand: &SourceOperand,
    arguments: &[String],
    reporter: ProgressReporter<'_>,
) -> Result<Option<ComparisonSide>> {
    let adapters = KnownAdapters::new(&[], &std::env::current_dir()?)?;
    let is_program = |location: &&String| is_benchmark_program(location, &adapters);
    let Some(location) = operand.locations.iter().find(is_program) else { return Ok(None) };
    let context = || format!("in source '{}'", operand.label);
    if operand.locations.len() > 1 {
        bail!("'{location}' is a program and cannot be merged with other sources");
    }
    if let Some(variant) = &operand.variant {
        bail!("'{location}' is a program and has no variant '[{variant}]'");
    }
    let (adapter, file) = match adapters.split_operand(location) {
        Some((suite, path)) => (Some(suite), Path::new(path)),
        None => (adapters.recognize(Path::new(location)), Path::new(location)),
    };
    let google_benchmark = || builtin_adapter("google-benchmark");
    let mut suite = adapter.or_else(|| is_wrapper(file).then(google_benchmark)?);
    if suite.is_none() && !is_program_with_harness(file) {
        let name = framework_without_adapter(file).unwrap_or_default();
        bail!("'{location}': {}", explain_framework(name, location));
    }
    let mut file = Path::new(".").join(file);
    let unbuilt = suite.as_deref().filter(|suite| suite.keys.build.is_none());
    let suite_program = unbuilt.and_then(|suite| suite.keys.program.clone());
    if !file.is_dir() && suite_program.is_none() {
        file = speedwell_machine::process::resolve_program(&file).with_context(context)?;
    }
    file = file.canonicalize().with_context(context)?;
    let mut variant = Variant { arguments: arguments.to_vec(), ..Variant::plain(&operand.label) };
    let mut directory = None;
    if let Some(package) = suite.as_deref().filter(|suite| suite.keys.build.is_some()) {
        let built = build_single_program((package, &adapters), &file, &variant, reporter);
        let (program, adapter_of_build) = built.with_context(context)?;
        directory = Some(std::mem::replace(&mut file, program));
        suite = Some(adapter_of_build);
    }
    match suite_program {
        Some(_) => variant.artifact = Some(file.clone()),
        None => variant.program = Some(file.clone()),
    }
    Ok(Some(ComparisonSide { variant, file, suite, directory, part: operand.part.clone() }))
}

/// Whether `location` is a program with benchmarks of a known kind, or a folder or artifact from which
/// one is started. Reads files without executing them.
pub fn is_benchmark_program(location: &str, adapters: &KnownAdapters) -> bool {
    let file = Path::new(location);
    let suite = || adapters.recognize(file);
    let is_known = || {
        is_program_with_harness(file)
            || is_wrapper(file)
            || suite().is_some()
            || framework_without_adapter(file).is_some()
    };
    // A package is built, and a suite's program executes an artifact such as a jar.
    let is_package = || file.is_dir() && suite().is_some_and(|suite| suite.keys.build.is_some());
    let is_run_by_suite = || suite().is_some_and(|suite| suite.keys.program.is_some());
    adapters.split_operand(location).is_some()
        || is_executable(file) && is_known()
        || is_package()
        || file.is_file() && is_run_by_suite() && !is_text(file)
}

/// Whether the file is an ELF program or an executable script.
pub fn is_executable(file: &Path) -> bool {
    file.is_file() && (is_elf(file) || is_script(file))
}

/// Whether an argument among the targets has the form NAME=VALUE, and is neither a file nor a part
/// of one, FILE::NAME=VALUE.
pub fn is_setting(argument: &str) -> bool {
    let exists = |text: &str| Path::new(text).exists();
    let is_part = || split_part(argument, exists).is_some_and(|(target, _)| exists(target));
    let has_name = argument.split_once('=').is_some_and(|(name, _)| !name.contains("::"));
    has_name && !exists(argument) && !is_part()
}

/// Returns the name in `name=value` or `--name=value`.
pub fn option_name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// Timeout for git to look up a name.
const GIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the shell command that starts a script; `None` for other files.
pub fn script_command(file: &Path) -> Option<String> {
    discover::script_command(&file.to_string_lossy(), file)
}

/// Returns what kind of revision git knows under this name: branch, tag or revision.
pub fn revision_kind(name: &str) -> Option<&'static str> {
    let git = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT);
    git.commit_id(name)?;
    let kinds = [("refs/heads/", "branch"), ("refs/tags/", "tag")];
    let is_in = |(folder, _): &(&str, &str)| git.commit_id(&format!("{folder}{name}")).is_some();
    Some(kinds.into_iter().find(is_in).map_or("revision", |(_, kind)| kind))
}

/// Quotes the arguments as words of a shell command.
pub fn quote_all<T: AsRef<str>>(arguments: &[T]) -> String {
    arguments.iter().map(|argument| quote(argument.as_ref())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Vec<SourceOperand> {
        let arguments: Vec<String> =
            arguments.iter().map(|argument| (*argument).to_owned()).collect();
        parse_all(&arguments).unwrap()
    }

    fn labels_of(arguments: &[&str]) -> Vec<String> {
        read(arguments).into_iter().map(|operand| operand.label).collect()
    }

    #[test]
    fn a_source_is_a_location_with_a_variant_and_a_part() {
        let operand = read(&["@latest[old]::BM_(mem|str)cpy/8"]).remove(0);
        assert_eq!(operand.locations, ["@latest"]);
        assert_eq!(operand.variant.as_deref(), Some("old"));
        assert_eq!(operand.part.unwrap().pattern(), "BM_(mem|str)cpy/8");
        let is_file: fn(&str) -> bool = |text| matches!(text, "a::b" | "c::d::e");
        assert_eq!(split_part("a::b::T::x", is_file), Some(("a::b", "T::x")));
        assert_eq!(split_part("x::T::x", is_file), Some(("x", "T::x")));
        assert_eq!(split_part("c::d::e", is_file), None);
    }

    #[test]
    fn sources_with_the_same_name_form_one_side() {
        let operands = read(&["old=a.json", "new=c.json", "old=b.json", "x.json,y.json"]);
        let locations: Vec<_> =
            operands.iter().map(|operand| operand.locations.join(" ")).collect();
        assert_eq!(locations, ["a.json b.json", "c.json", "x.json y.json"]);
        assert_eq!(labels_of(&["old=a.json", "new=b.json"]), ["old", "new"]);
        let words = ["old=a.json", "old=b.json[x]", "new=c.json"].map(str::to_owned);
        let error = parse_all(&words).unwrap_err().to_string();
        assert!(error.contains("'old' select different"), "{error}");
    }

    #[test]
    fn sides_are_labelled_by_the_shortest_distinct_file_name() {
        assert_eq!(labels_of(&["r/a.json", "s/b.json"]), ["a.json", "b.json"]);
        assert_eq!(labels_of(&["q/r/a", "q/s/a"]), ["r/a", "s/a"]);
        assert_eq!(labels_of(&["./a::x", "./a::y"]), ["x", "y"]);
        assert_eq!(labels_of(&["a::k=x", "a::k=y"]), ["x", "y"]);
        assert_eq!(labels_of(&["a::k=x", "a::l=y"]), ["k=x", "l=y"]);
        assert_eq!(labels_of(&["./a::x", "b::y"]), ["a::x", "b::y"]);
        assert_eq!(labels_of(&["./a", "./a"]), ["a (1)", "a (2)"]);
        assert_eq!(labels_of(&["@1", "-"]), ["@1", "-"]);
        assert_eq!(labels_of(&["/dev/fd/63", "/dev/fd/62"]), ["input 1", "input 2"]);
    }

    #[test]
    fn files_are_labelled_by_the_shortest_distinct_name() {
        for (arguments, expected) in [
            (["out/a.json", "out/b.json"], ["a.json", "b.json"]),
            (["/x/old/r.csv", "/x/new/r.csv"], ["old/r.csv", "new/r.csv"]),
            (["a/r.csv", "r.csv"], ["a/r.csv", "r.csv"]),
            (["x/r.csv[old]", "x/r.csv[new]"], ["r.csv[old]", "r.csv[new]"]),
            (["x/r.csv::a/b", "x/r.csv::a/c"], ["r.csv::a/b", "r.csv::a/c"]),
            (["x/r.csv", "x/r.csv"], ["r.csv", "r.csv"]),
            (["@prev", "@latest"], ["@prev", "@latest"]),
        ] {
            assert_eq!(shortest_labels(&arguments), expected);
        }
    }
}
