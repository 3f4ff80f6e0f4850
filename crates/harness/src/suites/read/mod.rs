//! Parses framework output: the cases it lists, and the results of an executed case. Start at
//! [`results`].

use super::command::Filling;
use crate::Observation;
use crate::attempt::invalid;
use anyhow::{Context as _, Result, ensure};
use regex::Regex;
use speedwell_model::{Better, Case, Cause, Metric};
use speedwell_results::foreign::suites::{
    Reported, catch2, criterion, described, divan, go_bench, google_benchmark, jmh, libtest,
    pytest_benchmark, vitest,
};
use speedwell_results::foreign::{readable, utf8};
use speedwell_results::formats::pyperf;
use speedwell_suite::adapter::{Adapter, Direction, Read};

/// A case listed by its framework.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Name that selects it on the command line.
    pub name: String,
    /// The case under Speedwell's name.
    pub case: Case,
}

/// Last lines of a framework's stdout, for failures without stderr.
pub fn last_lines(stdout: &str) -> String {
    let lines: Vec<&str> = stdout.trim_end().lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Parses the results in a framework's output.
///
/// # Errors
/// The output does not match the adapter; the message gives the first position.
pub fn results(adapter: &Adapter, bytes: &[u8]) -> Result<Vec<Reported>> {
    ensure!(!readable::is_utf16(bytes), "it is UTF-16 text, not UTF-8");
    let bytes = readable::plain(bytes)?;
    let keys = &adapter.keys;
    let unit = keys.unit.as_deref().unwrap_or("ns");
    let better = keys.better.map(|direction| match direction {
        Direction::Less => Better::Lower,
        Direction::More => Better::Higher,
    });
    match keys.read {
        Read::Json => {
            let paths = described::Paths {
                results: &keys.results,
                name: keys.name.as_deref(),
                samples: keys.samples.as_deref().unwrap_or_default(),
                unit,
                better,
            };
            paths.read(bytes)
        }
        Read::Lines => {
            let pattern = Regex::new(keys.line.as_deref().unwrap_or_default())?;
            described::read_lines(bytes, &pattern, unit, better)
        }
        Read::GoogleBenchmark => google_benchmark::read(bytes),
        Read::GoBench => go_bench::read(bytes),
        Read::Criterion => criterion::read(bytes),
        Read::Divan => divan::read(bytes),
        Read::Libtest => libtest::read(bytes),
        Read::Jmh => jmh::read(bytes),
        Read::PytestBenchmark => pytest_benchmark::read(bytes),
        Read::Pyperf => pyperf::reported(bytes),
        Read::Catch2 => catch2::read(bytes),
        Read::Vitest => vitest::read(bytes),
    }
}

/// Parses the listed cases: lines that match the adapter's pattern, or the names of results.
///
/// # Errors
/// As for [`results`], or parameters of a case cannot be parsed.
pub fn cases(adapter: &Adapter, output: &[u8]) -> Result<Vec<Listed>> {
    let Some(pattern) = &adapter.keys.case else {
        return Ok(results(adapter, output)?
            .into_iter()
            .filter_map(listed)
            .collect());
    };
    let pattern = Regex::new(pattern)?;
    let mut found = Vec::new();
    for groups in utf8(output)?
        .lines()
        .filter_map(|line| pattern.captures(line))
    {
        let group = |name| groups.name(name).map(|group| group.as_str().to_owned());
        let name = group("name").unwrap_or_default();
        ensure!(
            !name.is_empty(),
            "it lists a case without a name: '{}'",
            &groups[0]
        );
        let case = match group("params") {
            Some(words) => Case::with_values(&name, &words).with_context(|| {
                format!("the parameters of '{name}' are not of the form k=v k=v")
            })?,
            None => Case::new(&name, Vec::new()),
        };
        found.push(Listed { name, case });
    }
    Ok(found)
}

/// The case of a result.
pub fn listed(reported: Reported) -> Option<Listed> {
    let name = reported.name?;
    let case = reported
        .case
        .unwrap_or_else(|| Case::new(&name, Vec::new()));
    Some(Listed { name, case })
}

/// Extracts the result of the case that the framework calls `name`.
pub fn observation(
    adapter: &Adapter,
    name: &str,
    case: &Case,
    written: &[u8],
) -> (Option<Observation>, Option<Cause>) {
    let wrong = |reason: String| (None, Some(invalid(reason)));
    if written.trim_ascii().is_empty() {
        return wrong(format!("wrote no results; has it a benchmark '{name}'?"));
    }
    let all = match results(adapter, written) {
        Ok(all) => all,
        Err(error) => {
            let reason = shortened(&format!("{error:#}"));
            return wrong(format!("its results cannot be read: {reason}"));
        }
    };
    // Go appends the number of processors to a name, unless it is one; a single result is always
    // the requested one.
    let is_only = all.len() == 1 && adapter.keys.read == Read::GoBench;
    let is_own = |reported: &Reported| {
        is_only || (reported.name.as_deref()).is_none_or(|reported| reported == name)
    };
    let (mut own, others): (Vec<Reported>, Vec<Reported>) = all.into_iter().partition(is_own);
    if own.is_empty() {
        let reason = format!("wrote no results of '{name}'");
        return (
            None,
            Some(skip_of_all(&others).unwrap_or_else(|| invalid(reason))),
        );
    }
    // If one name selects several cases, such as the benchmarks of one test, drops the others.
    if own.iter().any(|reported| is_case(reported, case)) {
        own.retain(|reported| is_case(reported, case));
    }
    if let Some(count) = namesakes(adapter.keys.read, &own) {
        return wrong(format!(
            "wrote results of {count} benchmarks that are all called '{name}', and nothing tells them apart; give each a \
             name of its own"
        ));
    }
    let mut observation = Observation::new(case.clone(), Vec::new());
    let mut cause = None;
    for reported in own {
        cause = cause.or(reported.cause);
        for metric in reported.metrics {
            if observation
                .metrics
                .iter()
                .all(|known| known.name != metric.name)
            {
                observation.metrics.push(metric);
            }
        }
        observation.samples.extend(reported.samples);
        observation.notes.extend(reported.notes);
    }
    if observation.samples.is_empty() && cause.is_none() {
        return wrong(format!("wrote no samples of '{name}'"));
    }
    (Some(observation), cause)
}

/// Returns the number of benchmarks of one name with results for the same metric, if there are
/// several. Readers merge repetitions, or their framework writes one result for each name;
/// described formats may repeat names.
fn namesakes(read: Read, own: &[Reported]) -> Option<usize> {
    let may_repeat = matches!(read, Read::Json | Read::Lines | Read::Pyperf);
    let primary = || own.iter().filter_map(|reported| reported.metrics.first());
    let of_first = |first: &Metric| primary().filter(|metric| metric.name == first.name).count();
    let most = primary().map(of_first).max()?;
    (most > 1 && !may_repeat).then_some(most)
}

/// Returns why nothing was measured, if all benchmarks that make up a case were skipped.
fn skip_of_all(reported: &[Reported]) -> Option<Cause> {
    let is_skip = |one: &Reported| one.cause.as_ref().is_some_and(Cause::is_skip);
    let first = reported.first()?.cause.clone();
    first.filter(|_| reported.iter().all(is_skip))
}

/// Returns the reason if the output says that the benchmark was skipped.
pub fn skip(adapter: &Adapter, printed: &str) -> Option<Cause> {
    let pattern = Regex::new(adapter.keys.skipped.as_deref()?).ok()?;
    let found = pattern.captures(printed)?;
    let reason = found.name("reason").map(|reason| reason.as_str().trim());
    let reason = reason.map_or_else(|| format!("{} skips it", adapter.name), str::to_owned);
    Some(Cause::Skipped { reason })
}

/// Maximum length of a reason: libraries may repeat what they could not parse.
const LONGEST_REASON: usize = 400;

fn shortened(reason: &str) -> String {
    match reason.char_indices().nth(LONGEST_REASON) {
        Some((end, _)) => format!("{}...", &reason[..end]),
        None => reason.to_owned(),
    }
}

/// Whether a result belongs to the case, whose name may have the program's name as a prefix.
fn is_case(reported: &Reported, case: &Case) -> bool {
    (reported.case.as_ref())
        .is_some_and(|own| own.values == case.values && case.benchmark.ends_with(&own.benchmark))
}

/// The same command as a user would type it, with results on the terminal.
pub fn by_hand(filling: Filling) -> Filling {
    let terminal = "/dev/stdout";
    filling.text("pipe", terminal).text("output", terminal)
}

#[cfg(test)]
mod tests;
