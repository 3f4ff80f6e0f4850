//! Parses the command line of `compare.py`.
//!
//! Follows the rules of Python's argparse: long options may be abbreviated, values may follow `=`
//! or a space, and everything after the inputs is passed to the measured programs. Does not check
//! whether an input is a result file or a program. Start at [`ComparePyCommand::parse`].

use crate::console::split_value;
use std::path::PathBuf;

/// Name of the tool in messages.
pub const TOOL: &str = "compare.py";

/// Parsed command line.
#[derive(Debug, Clone, PartialEq)]
pub enum ComparePyCommand {
    Help,
    /// No mode was given.
    Nothing,
    Compare(ComparePyRequest),
}

/// Options of a comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComparePyRequest {
    /// Baseline and contender. In the mode `filters`, both are the same argument.
    pub inputs: [String; 2],
    /// Filter of each input; `None` in the mode `benchmarks`.
    pub filters: Option<[String; 2]>,
    /// Whether baseline and contender come from the same input, as in the mode `filters`.
    pub is_one_input: bool,
    /// `-a`.
    pub aggregates_only: bool,
    /// `-d`.
    pub dump: Option<PathBuf>,
    /// Whether to run the Mann-Whitney test. False with `--no-utest`.
    pub tests: bool,
    /// `--alpha`.
    pub alpha: f64,
    /// When to use colors.
    pub color: ColorMode,
    /// `--strict-compat`.
    pub strict: bool,
    /// Options passed to the measured programs.
    pub passed: Vec<String>,
    /// Whether a `--` marks all options in `passed` as intended for the programs.
    pub is_separated: bool,
}

/// When to use colors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ColorMode {
    /// Default, as in `compare.py`: always, unless `NO_COLOR` is set.
    #[default]
    Unsaid,
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    Always,
    Never,
}

/// Long name and letter of each option, and whether it takes a value. The last two options do not
/// exist in `compare.py`. They do not make abbreviations of other options ambiguous.
const KNOWN_OPTIONS: [(&str, Option<char>, bool); 8] = [
    ("--help", Some('h'), false),
    ("--display_aggregates_only", Some('a'), false),
    ("--no-color", None, false),
    ("--dump_to_json", Some('d'), true),
    ("--no-utest", None, false),
    ("--alpha", None, true),
    ("--color", None, true),
    ("--strict-compat", None, false),
];

/// Modes and their arguments: inputs and filters.
const KNOWN_MODES: [(&str, &[&str]); 3] = [
    ("benchmarks", &["baseline", "contender"]),
    ("filters", &["input", "filter of the baseline", "filter of the contender"]),
    (
        "benchmarksfiltered",
        &["baseline", "filter of the baseline", "contender", "filter of the contender"],
    ),
];

impl ComparePyCommand {
    /// Parses a command line.
    ///
    /// # Errors
    /// Fails if the command line is invalid; a sentence fragment says why.
    pub fn parse(arguments: &[String]) -> Result<ComparePyCommand, String> {
        let mut reader = ArgumentReader {
            remaining: arguments.iter(),
            mode: None,
            operands: Vec::new(),
            request: ComparePyRequest { tests: true, alpha: 0.05, ..ComparePyRequest::default() },
        };
        while let Some(argument) = reader.remaining.next() {
            if argument == "--" && !reader.request.is_separated {
                reader.request.is_separated = true;
            } else if !reader.request.is_separated && is_option(argument) {
                if reader.read_option(argument)? {
                    return Ok(ComparePyCommand::Help);
                }
            } else {
                reader.read_operand(argument)?;
            }
            if reader.is_complete() {
                break;
            }
        }
        reader.finish()
    }
}

struct ArgumentReader<'a> {
    remaining: std::slice::Iter<'a, String>,
    mode: Option<(&'static str, &'static [&'static str])>,
    operands: Vec<&'a String>,
    request: ComparePyRequest,
}

impl<'a> ArgumentReader<'a> {
    fn is_complete(&self) -> bool {
        self.mode.is_some_and(|(_, operand_names)| self.operands.len() == operand_names.len())
    }

    fn read_operand(&mut self, operand: &'a String) -> Result<(), String> {
        if self.mode.is_some() {
            self.operands.push(operand);
            return Ok(());
        }
        let mode = KNOWN_MODES.into_iter().find(|(name, _)| name == operand);
        self.mode = Some(mode.ok_or_else(|| {
            format!("unknown mode '{operand}'; expected benchmarks, filters or benchmarksfiltered")
        })?);
        Ok(())
    }

    /// Parses one option, whose value may be the next argument. Returns whether it asks for help.
    fn read_option(&mut self, option: &str) -> Result<bool, String> {
        if let Some(letters) = option.strip_prefix('-').filter(|name| !name.starts_with('-')) {
            return self.read_letters(letters);
        }
        let (typed_name, value) = split_value(option);
        let (name, takes_value) = find_option(typed_name)
            .map_err(|candidates| self.unknown_option(typed_name, &candidates))?;
        match (takes_value, value) {
            (false, Some(_)) => Err(format!("the option '{typed_name}' takes no value")),
            (true, None) => self.set_option_from_next(name, typed_name),
            (_, value) => self.set_option(name, value.unwrap_or_default()),
        }
    }

    /// Parses clustered one-letter options: `-ad FILE`, `-dFILE`, `-d=FILE`.
    fn read_letters(&mut self, letters: &str) -> Result<bool, String> {
        let mut remaining = letters.chars();
        let mut last_option = Err(self.unknown_option("-", &[]));
        while let Some(letter) = remaining.next() {
            let option = KNOWN_OPTIONS.iter().find(|(_, short, _)| *short == Some(letter));
            let typed_option = format!("-{letter}");
            let (name, _, takes_value) =
                option.ok_or_else(|| self.unknown_option(&typed_option, &[]))?;
            if *name == "--help" {
                return Ok(true);
            }
            if !takes_value {
                last_option = self.set_option(name, "");
                continue;
            }
            let value = remaining.as_str();
            return match value {
                "" => self.set_option_from_next(name, &typed_option),
                value => self.set_option(name, value.strip_prefix('=').unwrap_or(value)),
            };
        }
        last_option
    }

    fn set_option_from_next(&mut self, name: &str, typed_option: &str) -> Result<bool, String> {
        let next = self.remaining.clone().next().filter(|argument| !is_option(argument));
        let value = next.ok_or_else(|| format!("the option '{typed_option}' needs a value"))?;
        self.remaining.next();
        self.set_option(name, value)
    }

    fn set_option(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let request = &mut self.request;
        match name {
            "--display_aggregates_only" => request.aggregates_only = true,
            "--no-color" => request.color = ColorMode::Never,
            "--dump_to_json" => request.dump = Some(value.into()),
            "--no-utest" => request.tests = false,
            "--strict-compat" => request.strict = true,
            "--alpha" => {
                let number = value.trim().parse();
                request.alpha = number.map_err(|_| format!("--alpha '{value}' is not a number"))?;
            }
            "--color" => {
                request.color = match value {
                    "auto" => ColorMode::Auto,
                    "always" => ColorMode::Always,
                    "never" => ColorMode::Never,
                    _ => return Err(format!("--color '{value}' must be auto, always or never")),
                }
            }
            // Only `--help` is left. It takes precedence over all other arguments, so nothing is
            // set.
            _ => {}
        }
        Ok(name == "--help")
    }

    fn unknown_option(&self, typed_option: &str, candidates: &[&str]) -> String {
        let place = if self.mode.is_some() { "the inputs" } else { "the mode and the inputs" };
        let hint = match candidates {
            [] => format!("put options for the measured programs after {place}"),
            candidates => format!("could be {}", candidates.join(" or ")),
        };
        format!("unknown option '{typed_option}'\nhint: {hint}")
    }

    fn finish(self) -> Result<ComparePyCommand, String> {
        let Some((mode, operand_names)) = self.mode else { return Ok(ComparePyCommand::Nothing) };
        if let Some(missing) = operand_names.get(self.operands.len()) {
            return Err(format!("the mode '{mode}' needs another argument: {missing}"));
        }
        let operand = |index: usize| self.operands[index].clone();
        let (inputs, filters) = match mode {
            "benchmarks" => ([operand(0), operand(1)], None),
            "filters" => ([operand(0), operand(0)], Some([operand(1), operand(2)])),
            _ => ([operand(0), operand(2)], Some([operand(1), operand(3)])),
        };
        // The first `--` is a separator wherever it appears before or right after the last input.
        let mut passed = self.remaining.as_slice();
        let mut is_separated = self.request.is_separated;
        if let [first, after_separator @ ..] = passed
            && first == "--"
            && !is_separated
        {
            (passed, is_separated) = (after_separator, true);
        }
        Ok(ComparePyCommand::Compare(ComparePyRequest {
            inputs,
            filters,
            is_one_input: mode == "filters",
            passed: passed.to_vec(),
            is_separated,
            ..self.request
        }))
    }
}

/// Finds an option by its full or abbreviated name. Returns the full name, and whether the option
/// takes a value. If the name is unknown or ambiguous, the error lists all options that the name
/// may abbreviate.
fn find_option(typed_name: &str) -> Result<(&'static str, bool), Vec<&'static str>> {
    let exact = KNOWN_OPTIONS.iter().filter(|(long, ..)| *long == typed_name);
    let abbreviated = KNOWN_OPTIONS.iter().filter(|(long, ..)| long.starts_with(typed_name));
    match &exact.chain(abbreviated).collect::<Vec<_>>()[..] {
        [(long, _, takes_value)] => Ok((long, *takes_value)),
        [(long, _, takes_value), ..] if *long == typed_name => Ok((long, *takes_value)),
        several => Err(several.iter().map(|(long, ..)| *long).collect()),
    }
}

/// Whether argparse treats an argument as an option. It treats `-`, negative numbers and arguments
/// with a space as values.
fn is_option(argument: &str) -> bool {
    let is_number = argument.starts_with('-') && argument.parse::<f64>().is_ok_and(f64::is_finite);
    argument.len() > 1 && argument.starts_with('-') && !is_number && !argument.contains(' ')
}

impl ComparePyRequest {
    /// Returns the options of this tool that are misplaced among the options for the measured
    /// programs. None are misplaced if a `--` marks all options as intended for the programs.
    pub fn misplaced_options(&self) -> Vec<&str> {
        let is_misplaced = |option: &&String| {
            let name = option.split('=').next().unwrap_or_default();
            !self.is_separated && KNOWN_OPTIONS[1..].iter().any(|(long, ..)| *long == name)
        };
        self.passed.iter().filter(is_misplaced).map(String::as_str).collect()
    }

    /// Returns the value of the last option for the measured programs that begins with `prefix`.
    pub fn passed_value(&self, prefix: &str) -> Option<&str> {
        let values = self.passed.iter().rev();
        values.filter_map(|option| option.strip_prefix(prefix)).next()
    }

    /// Returns the filters if both are given and not empty. If one filter is empty, `compare.py`
    /// uses neither.
    pub fn both_filters(&self) -> Option<[&str; 2]> {
        let [baseline, contender] = self.filters.as_ref()?;
        (!baseline.is_empty() && !contender.is_empty()).then_some([baseline, contender])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<ComparePyCommand, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ComparePyCommand::parse(&words)
    }

    fn parse_request(line: &str) -> ComparePyRequest {
        match parse(line) {
            Ok(ComparePyCommand::Compare(request)) => request,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_mode_takes_its_words_and_passes_on_the_rest() {
        let plain = parse_request("benchmarks a b");
        assert_eq!(plain.inputs, ["a", "b"]);
        assert_eq!((plain.filters, plain.alpha, plain.tests), (None, 0.05, true));
        let one = parse_request("filters t x y --benchmark_min_time=1s z");
        assert_eq!((one.inputs, one.is_one_input), (["t", "t"].map(str::to_owned), true));
        assert_eq!(one.filters, Some(["x", "y"].map(str::to_owned)));
        assert_eq!(one.passed, ["--benchmark_min_time=1s", "z"]);
        let two = parse_request("benchmarksfiltered a x b y");
        assert_eq!(two.inputs, ["a", "b"]);
        assert_eq!(two.filters, Some(["x", "y"].map(str::to_owned)));
    }

    #[test]
    fn one_separator_is_dropped_and_lets_filters_begin_with_a_dash() {
        for line in ["benchmarks a b -- e", "benchmarks a -- b e", "benchmarks -- a b e"] {
            let request = parse_request(line);
            assert_eq!(
                (request.inputs, request.passed),
                (["a", "b"].map(str::to_owned), vec!["e".to_owned()])
            );
        }
        assert_eq!(parse_request("benchmarks a b -- -- e").passed, ["--", "e"]);
        assert_eq!(parse_request("benchmarks a b x -- e").passed, ["x", "--", "e"]);
        assert_eq!(
            parse_request("filters t -- -x -y").filters,
            Some(["-x", "-y"].map(str::to_owned))
        );
    }

    #[test]
    fn options_may_be_abbreviated_and_clustered() {
        let request = parse_request("-ad out.json --no-u --alp=0.5 --no-c benchmarks a b");
        assert!(request.aggregates_only && !request.tests);
        assert_eq!((request.alpha, request.color), (0.5, ColorMode::Never));
        assert_eq!(request.dump, Some("out.json".into()));
        assert_eq!(super::tests::parse_request("-dx benchmarks a b").dump, Some("x".into()));
        assert_eq!(super::tests::parse_request("--alpha -1 benchmarks a b").alpha, -1.0);
        let error = parse("--no- benchmarks a b").unwrap_err();
        assert!(error.ends_with("could be --no-color or --no-utest"), "{error}");
        let error = parse("--d=x benchmarks a b").unwrap_err();
        assert!(error.contains("--display_aggregates_only or --dump_to_json"), "{error}");
    }

    #[test]
    fn own_options_after_the_inputs_are_passed_on_but_noted_as_misplaced() {
        assert!(parse_request("benchmarks --no-utest a -a b").aggregates_only);
        let late = parse_request("benchmarks a b --no-color --alpha=1 -a --x");
        assert_eq!(late.color, ColorMode::Unsaid);
        assert_eq!(late.passed, ["--no-color", "--alpha=1", "-a", "--x"]);
        assert_eq!(late.misplaced_options(), ["--no-color", "--alpha=1"]);
        assert_eq!(parse_request("benchmarks a b -- --no-color").misplaced_options(), [""; 0]);
    }

    #[test]
    fn argument_errors_have_specific_messages() {
        for (line, expected) in [
            ("foo a b", "unknown mode 'foo'"),
            ("benchmarks a", "needs another argument: contender"),
            ("filters a x", "needs another argument: filter of the contender"),
            ("--alpha=x benchmarks a b", "--alpha 'x' is not a number"),
            ("--alpha benchmarks", "--alpha 'benchmarks' is not a number"),
            ("-d --no-color benchmarks a b", "the option '-d' needs a value"),
            ("--no-color=1 benchmarks a b", "takes no value"),
            ("--color=red benchmarks a b", "must be auto, always or never"),
            ("-x benchmarks a b", "unknown option '-x'"),
            ("benchmarks --benchmark_filter=x a b", "after the inputs"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
        assert_eq!(parse(""), Ok(ComparePyCommand::Nothing));
        assert_eq!(parse("-a"), Ok(ComparePyCommand::Nothing));
        assert_eq!(parse("benchmarks a --he"), Ok(ComparePyCommand::Help));
    }

    #[test]
    fn the_last_of_several_passed_values_counts() {
        let request = parse_request("benchmarks a b --benchmark_filter=x --benchmark_filter=y");
        assert_eq!(request.passed_value("--benchmark_filter="), Some("y"));
        assert_eq!(request.passed_value("--benchmark_out="), None);
    }
}
