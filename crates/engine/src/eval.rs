//! Creates plans that measure snippets of code, and parses the parameter values that a user types:
//! ranges of decimal numbers, and lists.
//!
//! This module decides which snippets become variants of one case and which become separate cases.
//! Ranges are exact: numbers are integer multiples of a power of ten, so three steps of 0.1 give
//! 0.3. Start at [`plan_snippets`], [`parse_range`] and [`parse_list`].

use crate::{EventListener, PlanRequest, PreparedPlan, VariantRequest, measured_code, revisions};
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::discover::{BenchmarkSelection, DiscoveredBenchmarks};
use speedwell_adapters::{BenchmarkJob, BenchmarkSource, SourceKind};
use speedwell_model::{
    Case, ParameterValue, SampleDivision, SampleLength, Snippet, SnippetLanguage, Variant,
};
use std::path::PathBuf;

/// Default division of a command's run: one sample of as many executions as fit into the time, but
/// at least one. There is no warm-up, because an execution does not warm up the next process.
const COMMAND_SAMPLES: SampleDivision =
    SampleDivision { count: 1, length: SampleLength::TimeNs(300_000_000), warmup_ns: 0 };

/// A named snippet.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedSnippet {
    /// Name in tables.
    pub name: String,
    /// The snippet.
    pub snippet: Snippet,
}

/// Options for measuring snippets.
#[derive(Debug, Clone)]
pub struct EvalRequest {
    /// Language of all snippets.
    pub language: SnippetLanguage,
    /// The snippets.
    pub snippets: Vec<NamedSnippet>,
    /// Parameters that occur in snippets as `{NAME}`, with their values in order.
    pub parameters: Vec<(String, Vec<ParameterValue>)>,
    /// Cases to measure, by ID.
    pub selection: BenchmarkSelection,
    /// Numbers of workers to measure with. Empty if the user gave none; concurrency is then not a
    /// parameter of the cases.
    pub levels: Vec<u32>,
    /// Programs to compare.
    pub variants: VariantRequest,
    /// Program of every variant that names none, instead of the language's default.
    pub program: Option<PathBuf>,
    /// Options of the plan.
    pub plan: PlanRequest,
    /// Whether all snippets run in one process.
    pub shares_process: bool,
}

/// Creates a plan that measures snippets. If programs are compared, each snippet becomes a case.
/// Otherwise, the snippets become variants of one case and are compared.
///
/// # Errors
/// Fails if the variants conflict with each other or with other options.
pub fn plan_snippets(
    mut request: EvalRequest,
    listener: &mut EventListener<'_>,
) -> Result<PreparedPlan> {
    let has_named_variants = !request.variants.given.is_empty();
    let shared = request.shares_process && request.snippets.len() > 1;
    ensure!(
        !(shared && has_named_variants),
        "compared programs cannot share a process\nhint: leave out --shared and --order parallel"
    );
    ensure!(
        !(request.shares_process && request.language.is_compiled()),
        "{} is compiled, so every snippet is a separate program\nhint: leave out --shared and \
         --order parallel",
        request.language
    );
    if !request.variants.revisions.is_empty() {
        request.variants = revisions::check_out_revisions(&request.variants, &[], listener)?;
    }
    let compares_snippets = !has_named_variants && request.snippets.len() > 1;
    let jobs = build_jobs(&request, compares_snippets)?;
    let compared_snippets = request.snippets.iter().filter(|_| compares_snippets);
    let snippet_variants = compared_snippets.map(|named| Variant {
        snippet: Some(named.snippet.clone()),
        ..Variant::plain(&named.name)
    });
    let mut variants = request.variants.build_variants(snippet_variants.collect())?;
    for variant in &mut variants {
        variant.program = variant.program.take().or_else(|| request.program.clone());
    }
    request.plan.sampling.check_bounds(variants.len())?;
    revisions::place_benchmark_files(&variants, std::iter::empty())?;
    let suite = DiscoveredBenchmarks {
        files: jobs.len(),
        warnings: measured_code::identical_warnings(&variants, &jobs),
        jobs,
        ..DiscoveredBenchmarks::default()
    };
    let mut plan = request.plan.build_plan(variants, &suite);
    plan.shared = shared;
    if request.language == SnippetLanguage::Sh && !request.plan.sampling.divides_runs() {
        plan.sampling.samples = COMMAND_SAMPLES;
    }
    Ok(PreparedPlan::new(plan, suite))
}

/// Builds a case for every combination of values and every number of workers. Snippets that are
/// compared share these cases. Otherwise, every snippet has cases of its own.
///
/// # Errors
/// Fails if the current folder is gone, there are too many combinations, or the selection matches
/// no case.
fn build_jobs(request: &EvalRequest, compares_snippets: bool) -> Result<Vec<BenchmarkJob>> {
    let levels: Vec<Option<u32>> = match request.levels.as_slice() {
        [] => vec![None],
        levels => levels.iter().copied().map(Some).collect(),
    };
    let separate_snippets: Vec<Option<&NamedSnippet>> =
        if compares_snippets { vec![None] } else { request.snippets.iter().map(Some).collect() };
    let rows = Case::cartesian_product(&request.parameters)?;
    let mut jobs = Vec::new();
    for snippet in separate_snippets {
        for row in &rows {
            for level in &levels {
                jobs.push(build_job(request, snippet, row, *level)?);
            }
        }
    }
    let count = jobs.len();
    jobs.retain(|job| request.selection.selects_name(&job.label));
    ensure!(!jobs.is_empty(), "0 of {count} cases are selected\nhint: --list shows all cases");
    Ok(jobs)
}

/// Builds the case of a snippet with these values and this concurrency. If `snippet` is `None`, all
/// snippets share the case, because they are compared.
///
/// # Errors
/// Fails if the current folder is gone.
fn build_job(
    request: &EvalRequest,
    snippet: Option<&NamedSnippet>,
    row: &[(String, ParameterValue)],
    level: Option<u32>,
) -> Result<BenchmarkJob> {
    let benchmark = format!("eval/{}", request.language);
    let name =
        snippet.map(|snippet| ("code".to_owned(), ParameterValue::Text(snippet.name.clone())));
    let concurrency =
        level.map(|level| ("concurrency".to_owned(), ParameterValue::Number(level.into())));
    let case = Case::new(
        &benchmark,
        name.into_iter().chain(row.iter().cloned()).chain(concurrency).collect(),
    );
    let directory = std::env::current_dir()?;
    let kind = SourceKind::Snippet(request.language);
    let source = BenchmarkSource {
        name: benchmark,
        ..BenchmarkSource::new(kind, &directory, &directory, &directory)
    };
    let label = case.id();
    Ok(BenchmarkJob {
        test: request.plan.execution.test,
        case: Some(case),
        snippet: snippet.map(|named| named.snippet.clone()),
        ..BenchmarkJob::new(source, &label)
    })
}

/// A decimal number: `units` times 10 to the power of -`places`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DecimalNumber {
    units: i128,
    places: u32,
}

/// Maximum number of decimal places; no parameter needs more.
const MAX_PLACES: u32 = 18;

impl DecimalNumber {
    fn parse(text: &str) -> Option<DecimalNumber> {
        let positive = || (1, text.strip_prefix('+').unwrap_or(text));
        let (sign, digits) = text.strip_prefix('-').map_or_else(positive, |digits| (-1, digits));
        let (integer_digits, decimals) = digits.split_once('.').unwrap_or((digits, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = is_digits(integer_digits)
            && is_digits(decimals)
            && !(integer_digits.is_empty() && decimals.is_empty());
        let places = u32::try_from(decimals.len()).ok().filter(|places| *places <= MAX_PLACES)?;
        let units: i128 =
            format!("0{integer_digits}{decimals}").parse().ok().filter(|_| is_number)?;
        // Below this limit, scaling to more decimal places and the subtraction in `parse_range` can
        // still overflow; both are checked.
        (units < 1_000_000_000_000_000_000_000)
            .then_some(DecimalNumber { units: sign * units, places })
    }

    /// Returns the units of the same number written with more decimal places; `None` on overflow.
    fn with_places(self, places: u32) -> Option<i128> {
        self.units.checked_mul(10i128.checked_pow(places.checked_sub(self.places)?)?)
    }

    fn to_text(self) -> String {
        let sign = if self.units < 0 { "-" } else { "" };
        let digits = format!("{:0>1$}", self.units.unsigned_abs(), self.places as usize + 1);
        let (integer_digits, decimals) = digits.split_at(digits.len() - self.places as usize);
        let point = if decimals.is_empty() { "" } else { "." };
        format!("{sign}{integer_digits}{point}{decimals}")
    }
}

/// Returns the numbers from `first` up to `last` in steps of `step`. The default step is 1. `last`
/// is included only if a step reaches it exactly. The first number keeps its decimal places. The
/// other numbers have as many decimal places as `first` or `step`, whichever has more.
///
/// # Errors
/// Fails if an argument is not a number, the range is empty, the step is not positive, or there are
/// more numbers than the limit on cases.
pub fn parse_range(first: &str, last: &str, step: Option<&str>) -> Result<Vec<String>> {
    let number = |text: &str| {
        DecimalNumber::parse(text).with_context(|| {
            format!("cannot parse '{text}': expected a decimal number such as 10 or 0.5")
        })
    };
    let [begin, end, step] = [number(first)?, number(last)?, number(step.unwrap_or("1"))?];
    let places = begin.places.max(step.places);
    let max_places = places.max(end.places);
    let scaled = [begin, end, step].map(|number| number.with_places(max_places));
    let too_long = || format!("the numbers from {first} to {last} have too many digits");
    let [Some(scaled_begin), Some(scaled_end), Some(scaled_step)] = scaled else {
        bail!(too_long());
    };
    ensure!(
        scaled_begin <= scaled_end,
        "the range from {first} to {last} is empty\nhint: the smaller number comes first"
    );
    ensure!(scaled_step > 0, "invalid step {}: expected a number greater than 0", step.to_text());
    let distance = scaled_end.checked_sub(scaled_begin).with_context(too_long)?;
    let count = (distance / scaled_step).saturating_add(1);
    ensure!(
        count <= Case::MOST as i128,
        "the range from {first} to {last} has {count} values, more than the limit of {} cases",
        Case::MOST
    );
    let shift = 10i128.pow(max_places - places);
    let number_at = |index: i128| match index {
        0 => begin,
        index => DecimalNumber { units: (scaled_begin + index * scaled_step) / shift, places },
    };
    Ok((0..count).map(|index| number_at(index).to_text()).collect())
}

/// Splits a list at commas. `\,` is a literal comma, `\\` a backslash.
pub fn parse_list(text: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let last = values.len() - 1;
        match character {
            ',' => values.push(String::new()),
            '\\' if matches!(characters.peek(), Some(',' | '\\')) => {
                values[last].extend(characters.next())
            }
            character => values[last].push(character),
        }
    }
    values
}

/// Converts strings to numbers if all of them are numbers, or to booleans if all are booleans,
/// provided that each prints exactly as the user typed it. Otherwise, they stay strings.
pub fn infer_values(strings: &[String]) -> Vec<ParameterValue> {
    let inferred: Vec<ParameterValue> =
        strings.iter().map(|text| ParameterValue::infer_value(text)).collect();
    let prints_as_typed = |(text, value): (&String, &ParameterValue)| value.plain() == **text;
    let are_alike = inferred.windows(2).all(|pair| pair[0].kind() == pair[1].kind());
    if are_alike && strings.iter().zip(&inferred).all(prints_as_typed) {
        inferred
    } else {
        strings.iter().cloned().map(ParameterValue::Text).collect()
    }
}

#[cfg(test)]
mod parameter_tests {
    use super::*;

    #[test]
    fn a_range_is_exact_and_ends_at_the_last_number_that_a_step_reaches() {
        let numbers = |first, last, step| parse_range(first, last, step).unwrap();
        assert_eq!(numbers("1", "4", None), ["1", "2", "3", "4"]);
        assert_eq!(numbers("0.1", "0.4", Some("0.1")), ["0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(numbers("-1", "1", Some("0.75")), ["-1", "-0.25", "0.50"]);
        assert_eq!(numbers("5", "5", None), ["5"]);
        assert_eq!(numbers("1", "2.001", None), ["1", "2"]);
    }

    #[test]
    fn an_invalid_or_excessive_range_is_an_error() {
        for (first, last, step) in [
            ("4", "1", None),
            ("1", "2", Some("0")),
            ("1", "2", Some("-1")),
            ("a", "2", None),
            ("1", "1e3", None),
            (".", "1", None),
            ("0", "1", Some("0.0000001")),
            ("0", "99999999999999999999999999", None),
            ("-999999999999999999999", "999999999999999999999", Some("0.00000000000000001")),
        ] {
            assert!(parse_range(first, last, step).is_err(), "{first} {last} {step:?}");
        }
    }

    #[test]
    fn a_list_is_cut_at_commas_unless_they_are_escaped() {
        assert_eq!(parse_list("a,b"), ["a", "b"]);
        assert_eq!(parse_list(r"a\,b,c\\,\d"), ["a,b", r"c\", r"\d"]);
        assert_eq!(parse_list(""), [""]);
    }

    #[test]
    fn values_are_numbers_only_if_they_read_back_as_they_were_typed() {
        let of = |texts: &[&str]| {
            infer_values(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(&["1", "2.5"]), [ParameterValue::Number(1.0), ParameterValue::Number(2.5)]);
        assert_eq!(
            of(&["0.10", "0.2"]),
            [ParameterValue::Text("0.10".into()), ParameterValue::Text("0.2".into())]
        );
        assert_eq!(
            of(&["1", "a"]),
            [ParameterValue::Text("1".into()), ParameterValue::Text("a".into())]
        );
    }
}
