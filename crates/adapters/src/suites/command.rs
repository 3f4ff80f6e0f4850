//! Expands the placeholders of an adapter's commands ([`PlaceholderValues`]), decides their options,
//! and reads what they write to stdout, to a pipe, or to a file. Other modules start the commands.

use super::registry::files_matching;
use speedwell_config::adapter::{AdapterKeys, SuiteAdapter};
use speedwell_config::fill_text;
use speedwell_machine::process::{ChannelKind, ChildConversation, NextStep, ScratchFolder};
use speedwell_model::{Case, FailureCause, RequestedDivision, SampleDivision, SampleLength};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Path under which a process opens the pipe for its results.
pub const RESULT_PIPE: &str = "/dev/fd/3";

/// Replacements for placeholders.
#[derive(Debug, Default, Clone)]
pub struct PlaceholderValues {
    strings: HashMap<&'static str, String>,
    /// Words that replace a placeholder that is a whole word.
    words: HashMap<&'static str, Vec<String>>,
}

impl PlaceholderValues {
    pub fn text(mut self, name: &'static str, text: impl Into<String>) -> PlaceholderValues {
        self.strings.insert(name, text.into());
        self
    }

    pub fn path(self, name: &'static str, path: &Path) -> PlaceholderValues {
        self.text(name, path.to_string_lossy())
    }

    /// Adds words that replace `{name}` where it is a whole word.
    pub fn words(mut self, name: &'static str, words: Vec<String>) -> PlaceholderValues {
        self.words.insert(name, words);
        self
    }

    /// Adds the values that can select a case: its name, a pattern for the name, and patterns for
    /// the parts of the name between slashes.
    pub fn with_case(
        self,
        name: &str,
        case: Option<&Case>,
        keys: &AdapterKeys,
    ) -> PlaceholderValues {
        // For POSIX extended, ECMAScript, RE2 and Java patterns: only characters that are special in
        // all four syntaxes are escaped.
        let escape_pattern = |text: &str| escape(text, |c| "\\^$.|?*+()[]{}".contains(c));
        let levels: Vec<String> =
            name.split('/').map(|part| format!("^{}$", escape_pattern(part))).collect();
        let values = case.map(|case| case.values.as_slice()).unwrap_or_default();
        let parameters = values.iter().flat_map(|(key, value)| {
            let filling =
                PlaceholderValues::default().text("key", key).text("value", value.plain());
            filling.fill(&keys.parameters)
        });
        self.text("name", name)
            .text("pattern", escape_pattern(name))
            // For tools that have special characters of their own, but accept a backslash before any
            // character.
            .text("escaped", escape(name, |c| c.is_ascii_punctuation()))
            .text("levels", levels.join("/"))
            .words("parameters", parameters.collect())
    }

    /// Expands the words of a command.
    pub fn fill(&self, command: &[String]) -> Vec<String> {
        let mut filled = Vec::new();
        for word in command {
            let placeholder = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
            match placeholder.and_then(|name| self.words.get(name)) {
                Some(words) => filled.extend(words.iter().cloned()),
                None => filled.push(self.fill_text(word)),
            }
        }
        filled
    }

    /// Expands the placeholders of a string.
    pub fn fill_text(&self, text: &str) -> String {
        fill_text(text, |name| self.strings.get(name).cloned())
    }
}

/// Appends the placeholders that the command lacks.
pub fn with_placeholders(command: &[String], placeholders: &[&str]) -> Vec<String> {
    let mut words = command.to_vec();
    for placeholder in placeholders {
        let word = format!("{{{placeholder}}}");
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Puts a backslash before the special characters of a name.
fn escape(name: &str, is_special: impl Fn(char) -> bool) -> String {
    let escaped = |c: char| is_special(c).then_some('\\').into_iter().chain([c]);
    name.chars().flat_map(escaped).collect()
}

/// Removes from `words` the options that are also in `given`, the user's own arguments, because
/// some programs reject duplicates. The values of these options are also removed.
pub fn remove_given(words: Vec<String>, given: &[String]) -> Vec<String> {
    let mut keeps_option = true;
    let is_kept = |word: &String| {
        if word.starts_with('-') {
            keeps_option =
                !given.iter().any(|given_option| option_name(given_option) == option_name(word));
        }
        keeps_option
    };
    words.into_iter().filter(is_kept).collect()
}

/// Removes from the user's `arguments` the options that `command` itself sets after its target. For
/// example, a listing sets a short time per benchmark.
pub fn remove_decided(arguments: &[String], command: &[String]) -> Vec<String> {
    let is_target = |word: &String| ["{program}", "{file}", "{folder}"].contains(&word.as_str());
    let target = command.iter().rposition(is_target).unwrap_or_default();
    let decided = &command[target..];
    let mut kept = Vec::new();
    let mut words = arguments.iter().peekable();
    while let Some(word) = words.next() {
        let is_same = |fixed: &String| word.starts_with('-') && is_same_option(word, fixed);
        let Some(index) = decided.iter().position(is_same) else {
            kept.push(word.clone());
            continue;
        };
        let is_value = |word: &String| !word.starts_with(['-', '{']);
        let takes_value =
            decided[index].contains('=') || decided.get(index + 1).is_some_and(is_value);
        if takes_value && !word.contains('=') {
            words.next_if(|next| !next.starts_with('-'));
        }
    }
    kept
}

/// Whether `word`, which the user typed, is the same option as `option`, which the adapter defines.
/// Go accepts one hyphen or two.
fn is_same_option(word: &str, option: &str) -> bool {
    let (word, option) = (option_name(word), option_name(option));
    word == option || word.strip_prefix('-') == Some(option)
}

fn option_name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// Returns the options of a measuring run. The run is divided into samples as the user requested,
/// or else by the adapter's defaults. If neither determines the division, the run gets no options
/// for it.
pub fn run_options(adapter: &SuiteAdapter, requested: RequestedDivision) -> Vec<String> {
    let (options, defaults) = (&adapter.keys.options, &adapter.keys.usual);
    let ns = |ms: u32| u64::from(ms) * 1_000_000;
    let count = requested.count.or(defaults.samples);
    let length = requested.length.or(defaults.time_ms.map(|ms| SampleLength::TimeNs(ns(ms))));
    let warmup_ns = requested.warmup_ns.or(defaults.warmup_ms.map(ns));
    let samples = count.unwrap_or(SampleDivision::default().count);
    let mut words = Vec::new();
    let mut add = |template: &Option<Vec<String>>, filling: PlaceholderValues| {
        words.extend(filling.fill(template.as_deref().unwrap_or_default()));
    };
    add(&options.always, PlaceholderValues::default());
    match length {
        Some(SampleLength::TimeNs(ns)) => add(&options.time, time_values(ns, samples)),
        Some(SampleLength::Iterations(count)) => {
            add(&options.iterations, PlaceholderValues::default().text("count", count.to_string()));
        }
        None => {}
    }
    if let Some(count) = count {
        add(&options.samples, PlaceholderValues::default().text("count", count.to_string()));
    }
    if let Some(ns) = warmup_ns {
        add(&options.warmup, time_values(ns, 1));
    }
    words
}

fn time_values(ns: u64, samples: u32) -> PlaceholderValues {
    let total = ns.saturating_mul(samples.into());
    let seconds = |ns: u64| (ns as f64 / 1e9).to_string();
    let ms = |ns: u64| (ns as f64 / 1e6).to_string();
    PlaceholderValues::default()
        .text("ns", ns.to_string())
        .text("seconds", seconds(ns))
        .text("total_seconds", seconds(total))
        .text("ms", ms(ns))
        .text("total_ms", ms(total))
}

/// Returns the requested option that the framework does not support, if any.
pub fn unsupported_option(
    adapter: &SuiteAdapter,
    requested: RequestedDivision,
) -> Option<&'static str> {
    let options = &adapter.keys.options;
    let is_time = matches!(requested.length, Some(SampleLength::TimeNs(_)));
    let lacks = [
        ("--samples", requested.count.is_some(), &options.samples),
        ("--time", is_time, &options.time),
        ("--iterations", requested.length.is_some() && !is_time, &options.iterations),
        ("--warmup", requested.warmup_ns.is_some(), &options.warmup),
    ];
    let found = lacks.into_iter().find(|(_, is_requested, words)| *is_requested && words.is_none());
    found.map(|(name, ..)| name)
}

/// Rejects options of the user that would execute several cases or write the results elsewhere.
///
/// # Errors
/// Fails with the reason if there is such an option.
pub fn check_options(adapter: &SuiteAdapter, arguments: &[String]) -> Result<(), FailureCause> {
    let refuse = &adapter.keys.refuse;
    let is_refused = |word: &&String| refuse.iter().any(|refused| is_same_option(word, refused));
    arguments.iter().find(is_refused).map_or(Ok(()), |word| {
        let option = option_name(word);
        Err(FailureCause::invalid(format!(
            "does not accept the option '{option}' of {}, because --filter and --set choose the \
             cases, and Speedwell stores the results",
            adapter.name
        )))
    })
}

/// Where a process writes its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultLocation {
    /// Standard output.
    Stdout,
    /// Descriptor 3.
    Pipe,
    /// The file `{output}`, or one whose name matches the adapter's glob, in the folder of the run.
    File,
}

impl ResultLocation {
    /// Returns the place to which an adapter's command writes results.
    pub fn from_adapter(adapter: &SuiteAdapter) -> ResultLocation {
        let has =
            |placeholder: &str| adapter.keys.run.iter().any(|word| word.contains(placeholder));
        if adapter.keys.output.is_some() || has("{output}") {
            ResultLocation::File
        } else if has("{pipe}") {
            ResultLocation::Pipe
        } else {
            ResultLocation::Stdout
        }
    }

    /// Channel that the process needs to report its results.
    pub fn required_channel(self) -> ChannelKind {
        match self {
            ResultLocation::Stdout => ChannelKind::Stdout,
            ResultLocation::Pipe => ChannelKind::Pipe("SPEEDWELL_RESULTS"),
            ResultLocation::File => ChannelKind::None,
        }
    }
}

/// Reads the results of an adapter's command from a file: `output`, or the one that matches the
/// adapter's glob in the folder of the run.
pub fn read_result_file(adapter: &SuiteAdapter, scratch: &ScratchFolder, output: &Path) -> Vec<u8> {
    let found = adapter.keys.output.as_ref().map(|glob| files_matching(scratch.folder(), glob));
    let file = found.map_or(Some(output.to_owned()), |files| files.into_iter().next());
    file.and_then(|file| fs::read(file).ok()).unwrap_or_default()
}

/// Collects everything received over the channel.
#[derive(Default)]
pub struct CollectedOutput(pub Vec<u8>);

impl ChildConversation for CollectedOutput {
    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        self.0.extend_from_slice(line);
        self.0.push(b'\n');
        NextStep::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::registry::builtin_adapter;

    fn requested_division(count: Option<u32>, length: Option<SampleLength>) -> RequestedDivision {
        RequestedDivision { count, length, warmup_ns: None }
    }

    #[test]
    fn a_requested_division_replaces_the_default() {
        let go = builtin_adapter("go").unwrap();
        let defaults = ["-test.benchtime=50000000ns", "-test.count=5"];
        assert_eq!(run_options(&go, RequestedDivision::default()), defaults);
        let own = requested_division(Some(2), Some(SampleLength::Iterations(10)));
        assert_eq!(run_options(&go, own), ["-test.benchtime=10x", "-test.count=2"]);
        let criterion = builtin_adapter("criterion").unwrap();
        let own = run_options(&criterion, requested_division(Some(10), None));
        assert_eq!(own, ["--measurement-time=0.2", "--sample-size=10", "--warm-up-time=0.3"]);
        let libtest = builtin_adapter("libtest").unwrap();
        assert_eq!(run_options(&libtest, RequestedDivision::default()), ["--bench"]);
        assert_eq!(
            unsupported_option(&libtest, requested_division(Some(2), None)),
            Some("--samples")
        );
        assert_eq!(unsupported_option(&go, requested_division(Some(2), None)), None);
    }

    #[test]
    fn one_case_is_chosen_by_the_name_that_the_suite_gives_it() {
        let go = builtin_adapter("go").unwrap();
        let filling = PlaceholderValues::default()
            .text("program", "x.test")
            .with_case("BenchmarkA/n=8.5", None, &go.keys)
            .words("options", vec!["-o".to_owned()]);
        let words = filling.fill(&with_placeholders(&go.keys.run, &["options"]));
        assert_eq!(
            words[2..],
            [r"-test.bench=^BenchmarkA$/^n=8\.5$", "-test.benchmem", "-test.v", "-o"]
        );
    }

    #[test]
    fn an_option_that_the_user_gives_is_not_given_twice() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let ours = || words("-r 5ms -i 3 -wi 1 -w 50ms");
        assert_eq!(remove_given(ours(), &words("-i 2 -prof gc")), words("-r 5ms -wi 1 -w 50ms"));
        let ours = words("--time=1 --count=2");
        assert_eq!(remove_given(ours, &words("--count=7")), ["--time=1"]);
    }

    #[test]
    fn a_listing_drops_user_options_that_it_sets_itself() {
        let listed = |suite: &str, words: &str| {
            let keys = builtin_adapter(suite).unwrap().keys.clone();
            let command = if keys.expand.is_empty() { keys.list } else { keys.expand };
            assert!(command.contains(&"{arguments}".to_owned()), "{suite}");
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            remove_decided(&words, &command).join(" ")
        };
        assert_eq!(listed("go", "-size=9 --test.benchtime 5s -test.v -dsn x"), "-size=9 -dsn x");
        assert_eq!(listed("catch2", "-c inner --benchmark-samples 50 [fast]"), "-c inner [fast]");
        assert_eq!(
            listed("pytest-benchmark", "-n0 -p no:randomly -c a.ini"),
            "-n0 -p no:randomly -c a.ini"
        );
        assert_eq!(listed("pyperf", "-q unpickle"), "unpickle");
        assert_eq!(listed("vitest", "--project=unit"), "--project=unit");
        for suite in ["jmh", "google-benchmark"] {
            assert_eq!(listed(suite, "--own=1"), "--own=1");
        }
        // The programs of a package have different options, so a listing gets none of the user's
        // options. The listed cases do not depend on these options.
        for suite in ["criterion", "libtest"] {
            let list = builtin_adapter(suite).unwrap().keys.list.clone();
            assert!(!list.contains(&"{arguments}".to_owned()), "{suite}");
        }
    }

    #[test]
    fn a_name_is_taken_literally() {
        let jmh = builtin_adapter("jmh").unwrap();
        let filling = PlaceholderValues::default().with_case("a, \"b\" [c].d", None, &jmh.keys);
        assert_eq!(filling.fill_text("{escaped}"), r#"a\, \"b\" \[c\]\.d"#);
        assert_eq!(filling.fill_text("{pattern}"), r#"a, "b" \[c\]\.d"#);
    }

    #[test]
    fn options_that_start_several_cases_are_found() {
        let go = builtin_adapter("go").unwrap();
        let words = |words: &[&str]| -> Vec<String> {
            words.iter().map(|word| (*word).to_owned()).collect()
        };
        let refused = |arguments: &[&str]| {
            let checked = check_options(&go, &words(arguments));
            checked.err().map(|cause| cause.to_string())
        };
        let names = |option: &str, arguments: &[&str]| {
            refused(arguments).unwrap().contains(&format!("the option '{option}' of go,"))
        };
        assert!(names("--test.bench", &["-test.count=1", "--test.bench=."]));
        assert!(names("-test.bench", &["-test.bench", "."]));
        assert_eq!(refused(&["-test.benchtime=1s"]), None);
    }
}
