//! Parses the command line of erlperf.
//!
//! Decides which options exist, which combinations are rejected, and which hook belongs to which
//! snippet. The n-th hook of a kind, such as `--init`, belongs to the n-th snippet, wherever the
//! two stand on the command line. A hook whose option has the suffix `_all`, such as `--init_all`,
//! applies to the remaining snippets. Messages name options as the user types them. Start at
//! [`ErlperfRequest::parse`].

use crate::console::{self, ArgumentError, ParsedArguments};
use crate::erlperf::table::ReportDetail;
use clap::ValueEnum;
use speedwell_model::{Snippet, SnippetLanguage};
use speedwell_report::ReportFormat;
use std::str::FromStr;
use std::time::Duration;

/// Options of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct ErlperfRequest {
    /// Snippets in the order typed.
    pub snippets: Vec<TypedSnippet>,
    /// Definition of a sample.
    pub sample: SampleDefinition,
    /// `-s`.
    pub samples: u32,
    /// `-w`: samples to discard.
    pub warmup: u32,
    /// `-c`.
    pub workers: u32,
    /// `--cv`: if given, sampling continues until the samples vary little enough.
    pub until: Option<SteadyCondition>,
    /// `-q`.
    pub squeeze: Option<SqueezeOptions>,
    /// `-r`; the default depends on the number of samples: see [`ErlperfRequest::report_detail`].
    pub report: Option<ReportDetail>,
    /// `-v`.
    pub verbose: bool,
    /// `-i`: one VM per snippet.
    pub isolated: bool,
    /// `-pa`, as typed.
    pub paths: Vec<String>,
    /// `--order`.
    pub order: SampleOrder,
    /// `--subtract-empty`.
    pub subtracts_empty: bool,
    /// `--format`.
    pub format: ReportFormat,
}

/// One snippet with its hooks, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedSnippet {
    /// The argument to iterate, and the hooks `--init`, `--init_runner` and `--done`.
    pub snippet: Snippet,
    /// `--label`.
    pub label: Option<String>,
}

/// Definition of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleDefinition {
    /// `-d`: number of iterations within this time.
    Window(Duration),
    /// `-l`: time for this many iterations.
    Loop(u64),
}

/// Condition under which samples are considered steady, and limits to waiting for steady samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyCondition {
    /// `--cv`: samples are steady if their standard deviation is at most this fraction of their
    /// mean.
    pub variation: f64,
    /// `--max-samples`.
    pub max_samples: u32,
    /// `--max-time`.
    pub max_time: Option<Duration>,
}

/// Search for the best number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqueezeOptions {
    /// `--min`.
    pub min_workers: u32,
    /// `--step`.
    pub step: u32,
    /// `--max`.
    pub max_workers: u32,
    /// `-t`: the search ends when this many added workers have not increased throughput.
    pub threshold: u32,
}

/// Order in which snippets take their samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SampleOrder {
    /// Takes one sample of each snippet, then one of each in reverse order, and so on. Slow changes
    /// of the machine then affect all snippets equally.
    Blocks,
    /// Takes one sample of each snippet in the order typed, repeatedly.
    Alternate,
    /// Measures all snippets at the same time, as erlperf does.
    Parallel,
}

impl ErlperfRequest {
    /// Returns the report that the user chose; by default, the extended report for ten samples or
    /// more, and the basic report for fewer.
    pub fn report_detail(&self) -> ReportDetail {
        let default_detail =
            if self.samples < 10 { ReportDetail::Basic } else { ReportDetail::Extended };
        self.report.unwrap_or(default_detail)
    }
}

/// Maximum number of workers, as in erlperf.
const MAX_WORKERS: u32 = 1 << 30;

/// Default process limit of a VM (2^18), minus a thousand for the VM's own processes.
const DEFAULT_MAX_WORKERS: u32 = 261_144;

/// All options, as [`console::find_option`] reads them. Messages use the first name. Names that
/// appear only in erlperf's documentation come last.
const OPTIONS: &str = "--concurrency|-c= --duration|-d|--sample_duration= --samples|-s= --loop|-l= \
                       --warmup|-w= --cv= --report|-r= --squeeze|-q|--concurrency_estimation \
                       --min= --step= --max= --threshold|-t= --verbose|-v --isolated|-i|--isolation \
                       --init= --init_runner= --done= --label= --init_all= --init_runner_all= \
                       --done_all= --order= --max-samples= --max-time= --subtract-empty --format= \
                       --help|-h -pa=";

impl ErlperfRequest {
    /// Parses a command line; returns `None` if help is requested.
    ///
    /// # Errors
    /// Returns a message for the user about what cannot be parsed or is not supported.
    pub fn parse(arguments: &[String]) -> Result<Option<ErlperfRequest>, String> {
        let parsed = console::parse_getopt(arguments, find_option).map_err(explain_error)?;
        if parsed.has("--help") {
            return Ok(None);
        }
        if parsed.others.is_empty() {
            return Err("required argument missing: code".to_owned());
        }
        parsed.reject_conflicts()?;
        let samples = parsed.parse_count("--samples", 1, u32::MAX)?.unwrap_or(3);
        let duration = parsed.parse_count("--duration", 1, u32::MAX)?.unwrap_or(1000);
        let sample = match parsed.value("--loop") {
            Some(text) => SampleDefinition::Loop(parse_iterations(text)?),
            None => SampleDefinition::Window(Duration::from_millis(duration.into())),
        };
        let workers = parsed.parse_count("--concurrency", 1, MAX_WORKERS)?;
        let snippets = parsed.typed_snippets()?;
        let squeeze = parsed.parse_squeeze()?;
        if squeeze.is_some() && snippets.len() > 1 {
            return Err(
                "parallel concurrency estimation runs are not supported: -q takes one snippet\n\
                 hint: 'speedwell eval erlang CODE CODE -c max' estimates the concurrency of one \
                 snippet after the other"
                    .to_owned(),
            );
        }
        let isolated = parsed.has("--isolated");
        let order = parsed.parse_choice("--order")?.unwrap_or(SampleOrder::Blocks);
        if isolated && order == SampleOrder::Parallel && snippets.len() > 1 {
            let reason =
                "isolated snippets run in turn, so -i is not compatible with --order parallel";
            return Err(reason.to_owned());
        }
        Ok(Some(ErlperfRequest {
            snippets,
            sample,
            samples,
            warmup: parsed.parse_count("--warmup", 0, u32::MAX)?.unwrap_or(0),
            workers: workers.unwrap_or(1),
            until: parsed.parse_steady_rule(samples)?,
            squeeze,
            report: parsed.parse_choice("--report")?,
            verbose: parsed.has("--verbose"),
            isolated,
            paths: parsed.values("-pa").map(str::to_owned).collect(),
            order,
            subtracts_empty: parsed.has("--subtract-empty"),
            format: ReportFormat::from_str(parsed.value("--format").unwrap_or("text"))
                .map_err(|unknown| format!("--format: {unknown}"))?,
        }))
    }
}

fn find_option(name: &str) -> Option<(&'static str, bool)> {
    let normalize = |name: &str| name.replace('-', "_");
    // A dash within a name is equivalent to an underscore.
    console::find_option(OPTIONS, |known_name| {
        known_name.starts_with("--") == name.starts_with("--")
            && normalize(known_name) == normalize(name)
    })
}

fn explain_error(error: ArgumentError<'_>) -> String {
    match error {
        ArgumentError::NeedsValue("-pa") => {
            "required argument missing: the folder of -pa".to_owned()
        }
        ArgumentError::NeedsValue(name) => {
            let dash = if name.starts_with('-') { "" } else { "-" };
            format!("required argument missing: the value of {dash}{name}")
        }
        ArgumentError::TakesNoValue(name) => format!("{name} takes no value"),
        ArgumentError::UnknownLetter(_, word) => format!("unrecognised argument: {word}"),
        ArgumentError::UnknownName(typed_name) => {
            let name = typed_name[2..].replace('-', "_");
            let distance = |known_name: &str| {
                strsim::damerau_levenshtein(&known_name[2..].replace('-', "_"), &name)
            };
            let similar = console::first_names(OPTIONS)
                .filter(|known_name| *known_name != "-pa")
                .min_by_key(|known_name| distance(known_name))
                .filter(|known_name| distance(known_name) * 3 <= name.len());
            let hint = similar.map(|known_name| format!("\nhint: did you mean '{known_name}'?"));
            format!("unrecognised argument: {typed_name}{}", hint.unwrap_or_default())
        }
    }
}

/// The values of the options of erlperf.
impl ParsedArguments<'_> {
    fn parse_count(&self, option: &str, min: u32, max: u32) -> Result<Option<u32>, String> {
        let Some(text) = self.value(option) else { return Ok(None) };
        let count = (text.parse::<u32>().ok()).filter(|count| (min..=max).contains(count));
        count.map(Some).ok_or_else(|| {
            format!(
                "invalid argument {text} for: {option}, expected a whole number of at least {min}"
            )
        })
    }

    fn parse_choice<T: ValueEnum>(&self, option: &str) -> Result<Option<T>, String> {
        let Some(text) = self.value(option) else { return Ok(None) };
        T::from_str(text, false).map(Some).map_err(|_| {
            let values = T::value_variants().iter().filter_map(T::to_possible_value);
            let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
            format!("invalid argument {text} for: {option}, expected one of {}", names.join(", "))
        })
    }

    /// Rejects options that contradict each other.
    fn reject_conflicts(&self) -> Result<(), String> {
        let reject_others = |mode: &str, others: &[&str]| {
            let clashing = others.iter().find(|other| self.has(other));
            clashing.map_or(Ok(()), |other| {
                let hint = match *other {
                    "--concurrency" | "--warmup" if self.has("--loop") => {
                        "\nhint: 'speedwell eval erlang CODE --iterations N' supports both"
                    }
                    _ => "",
                };
                Err(format!("{mode} is not compatible with {other} option{hint}"))
            })
        };
        if self.has("--loop") {
            let others = ["--concurrency", "--duration", "--warmup", "--cv", "--squeeze"];
            reject_others("timed benchmarking", &others)?;
        }
        if self.has("--squeeze") {
            reject_others("concurrency estimation", &["--concurrency"])?;
        }
        Ok(())
    }

    fn typed_snippets(&self) -> Result<Vec<TypedSnippet>, String> {
        let typed = |code: &&str| TypedSnippet {
            snippet: Snippet::new(SnippetLanguage::Erlang, *code),
            label: None,
        };
        let mut snippets: Vec<TypedSnippet> = self.others.iter().map(typed).collect();
        self.attach_hooks("--init", &mut snippets, |typed| &mut typed.snippet.init)?;
        self.attach_hooks("--init_runner", &mut snippets, |typed| &mut typed.snippet.init_worker)?;
        self.attach_hooks("--done", &mut snippets, |typed| &mut typed.snippet.done)?;
        self.attach_hooks("--label", &mut snippets, |typed| &mut typed.label)?;
        Ok(snippets)
    }

    /// Assigns the hooks of one kind to the snippets in order. The remaining snippets get the hook
    /// of the option with the suffix `_all`, if given.
    fn attach_hooks(
        &self,
        option: &str,
        snippets: &mut [TypedSnippet],
        hook_of: fn(&mut TypedSnippet) -> &mut Option<String>,
    ) -> Result<(), String> {
        let mut hooks = self.values(option);
        let shared_hook = self.value(&format!("{option}_all"));
        let count = snippets.len();
        for snippet in snippets {
            *hook_of(snippet) = hooks.next().or(shared_hook).map(str::to_owned);
        }
        let Some(surplus) = hooks.next() else { return Ok(()) };
        let existing = match count {
            1 => "is only one snippet".to_owned(),
            count => format!("are only {count} snippets"),
        };
        Err(format!(
            "{option} '{surplus}' would belong to snippet number {}, but there {existing}",
            count + 1
        ))
    }

    /// Parses the options of the search for the best number of workers. Returns `None` without
    /// `-q`, because these options then have no effect.
    fn parse_squeeze(&self) -> Result<Option<SqueezeOptions>, String> {
        let count = |option: &str| self.parse_count(option, 1, u32::MAX);
        let squeeze = SqueezeOptions {
            min_workers: count("--min")?.unwrap_or(1),
            step: count("--step")?.unwrap_or(1),
            max_workers: count("--max")?.unwrap_or(DEFAULT_MAX_WORKERS),
            threshold: count("--threshold")?.unwrap_or(3),
        };
        Ok(self.has("--squeeze").then_some(squeeze))
    }

    fn parse_steady_rule(&self, samples: u32) -> Result<Option<SteadyCondition>, String> {
        // If the samples are not steady after ten times the requested number, we assume that they
        // never will be.
        let default_max_samples = samples.saturating_mul(10).max(100);
        let max_samples = self.parse_count("--max-samples", 1, u32::MAX)?;
        let max_time = self.value("--max-time").map(parse_seconds).transpose()?;
        let Some(text) = self.value("--cv") else {
            return match (max_samples, max_time) {
                (None, None) => Ok(None),
                _ => Err("--max-samples and --max-time require --cv".to_owned()),
            };
        };
        let variation = text.parse::<f64>().ok().filter(|share| share.is_finite() && *share >= 0.0);
        let error =
            || format!("invalid argument {text} for: --cv, expected a fraction such as 0.05");
        Ok(Some(SteadyCondition {
            variation: variation.ok_or_else(error)?,
            max_samples: max_samples.unwrap_or(default_max_samples).max(samples),
            max_time,
        }))
    }
}

/// Parses `10`, `10k`, `2M`, `1G`.
fn parse_iterations(text: &str) -> Result<u64, String> {
    let error = || {
        format!(
            "unsupported syntax for timed iteration count: {text}\n\
             hint: use a positive whole number, optionally followed by K, M or G (thousand, \
             million, billion)"
        )
    };
    let factor = match text.chars().last() {
        Some('k' | 'K') => 1_000,
        Some('m' | 'M') => 1_000_000,
        Some('g' | 'G') => 1_000_000_000,
        _ => 1,
    };
    let digits = if factor == 1 { text } else { &text[..text.len() - 1] };
    let count = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    count.filter(|count| *count > 0).ok_or_else(error)
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    let seconds = digits.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| format!("invalid argument {text} for: --max-time, expected seconds"))
}

#[cfg(test)]
mod tests;
