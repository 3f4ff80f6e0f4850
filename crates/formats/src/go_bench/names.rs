//! Decides what the name in a line of `go test -bench` output means: the case
//! ([`case_from_name`]), and whether a number at the end of the name is GOMAXPROCS
//! ([`ProcessorSuffixes`]).

use speedwell_model::{Case, ParameterValue};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Returns the case of a benchmark, given its name without GOMAXPROCS: `BenchmarkJoin/n=8`.
///
/// Parts of a sub-benchmark's name that have the form `key=value` become parameters. `processors`
/// is GOMAXPROCS; if it is known, it also becomes a parameter.
pub fn case_from_name(package: Option<&str>, name: &str, processors: Option<u32>) -> Case {
    let mut benchmark = String::new();
    let mut values: Vec<(String, ParameterValue)> = Vec::new();
    for (index, part) in name.split('/').enumerate() {
        match part.split_once('=') {
            Some((key, value)) if index > 0 && is_new_parameter(key, &values) => {
                values.push((key.to_owned(), ParameterValue::infer_value(value)));
            }
            _ => {
                let slash = if index > 0 { "/" } else { "" };
                benchmark.push_str(&format!("{slash}{part}"));
            }
        }
    }
    let is_name = |name: &&str| !name.is_empty() && !name.starts_with('/');
    let short_name = benchmark.strip_prefix("Benchmark").filter(is_name).unwrap_or(&benchmark);
    let value = processors.map(|count| ParameterValue::Number(count.into()));
    values.extend(value.map(|value| (PROCESSORS_PARAMETER.to_owned(), value)));
    let folder = package.map(|package| format!("{package}/")).unwrap_or_default();
    Case::new(folder + short_name, values)
}

/// Name of the parameter that holds GOMAXPROCS, the same as in benchstat.
const PROCESSORS_PARAMETER: &str = "gomaxprocs";

fn is_new_parameter(key: &str, values: &[(String, ParameterValue)]) -> bool {
    !key.is_empty()
        && key != PROCESSORS_PARAMETER
        && values.iter().all(|(existing, _)| existing != key)
}

/// Decides which numbers at the ends of names are GOMAXPROCS.
///
/// Go's `testing` package appends `-N` to the name of a result unless N is 1, but `gzip-6` may also
/// be the name of a sub-benchmark. With `-v`, Go prints the name without GOMAXPROCS before the
/// result, which resolves the ambiguity. Otherwise, a number is taken as GOMAXPROCS only if every
/// benchmark of the package was measured with this number. If the names are `X`, `X-2` and `X-4`
/// (`-cpu 1,2,4`), 2 and 4 are GOMAXPROCS; if they are `gzip`, `gzip-6` and `none`, 6 is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessorSuffixes(BTreeSet<u32>);

impl ProcessorSuffixes {
    /// Infers the numbers from the names of all results of a package. The numbers in `announced` are
    /// certain to be GOMAXPROCS, because `-v` printed the names without them.
    pub fn from_names<'n>(
        names: impl IntoIterator<Item = &'n str>,
        announced: impl IntoIterator<Item = u32>,
    ) -> ProcessorSuffixes {
        let distinct: BTreeSet<&str> = names.into_iter().collect();
        // Number of results per benchmark, assuming that every number at the end of a name is
        // GOMAXPROCS.
        let mut results: HashMap<&str, usize> = HashMap::new();
        let mut with_number: BTreeMap<u32, Vec<(&str, &str)>> = BTreeMap::new();
        for name in &distinct {
            let end = number_at_end(name);
            let benchmark = end.map_or(*name, |(benchmark, _)| benchmark);
            *results.entry(benchmark).or_default() += 1;
            if let Some((_, number)) = end {
                with_number.entry(number).or_default().push((name, benchmark));
            }
        }
        // Reject the rarest number first. Of two equally rare numbers, first reject the one with
        // fewer benchmarks that were also measured without a number.
        let mut numbers: Vec<_> = with_number.into_iter().collect();
        numbers.sort_by_key(|(_, names)| {
            let also_without = names.iter().filter(|(_, benchmark)| distinct.contains(benchmark));
            (names.len(), also_without.count())
        });
        let mut first = numbers.len();
        for (index, (_, names)) in numbers.iter().enumerate() {
            if names.len() >= results.len() {
                first = index;
                break;
            }
            for (name, benchmark) in names {
                match results.get_mut(benchmark) {
                    Some(count) if *count > 1 => *count -= 1,
                    _ => drop(results.remove(benchmark)),
                }
                *results.entry(name).or_default() += 1;
            }
        }
        let inferred = numbers[first..].iter().map(|(number, _)| *number);
        let certain = announced.into_iter().filter(|number| *number > 1);
        ProcessorSuffixes(inferred.chain(certain).collect())
    }

    /// Splits the name of a result into benchmark and GOMAXPROCS, which is 1 if no number is
    /// appended.
    pub fn split_name<'n>(&self, name: &'n str) -> (&'n str, u32) {
        number_at_end(name).filter(|(_, number)| self.0.contains(number)).unwrap_or((name, 1))
    }

    /// Splits the name of a benchmark that failed or was skipped. The name has no number if the
    /// benchmark stopped in its first iteration; GOMAXPROCS is then the number in the names of
    /// results, if there is only one.
    pub fn split_stopped_name<'n>(&self, name: &'n str, announced: Option<&str>) -> (&'n str, u32) {
        let split = announced.and_then(|announced| split_announced_name(announced, name));
        match split.unwrap_or_else(|| self.split_name(name)) {
            (name, 1) if self.0.len() == 1 => (name, self.0.first().copied().unwrap_or(1)),
            split => split,
        }
    }
}

/// Splits the name of a result into benchmark and GOMAXPROCS. `announced` is the name that `-v`
/// printed before the result. Returns `None` if the result belongs to another benchmark.
pub fn split_announced_name<'n>(announced: &str, name: &'n str) -> Option<(&'n str, u32)> {
    if name == announced {
        return Some((name, 1));
    }
    number_at_end(name).filter(|(benchmark, _)| *benchmark == announced)
}

/// Splits a name before the number at its end if Go's `testing` package may have appended the
/// number. Such a number is never 1 and has no leading zeros.
fn number_at_end(name: &str) -> Option<(&str, u32)> {
    let (benchmark, digits) = name.rsplit_once('-')?;
    let is_appended = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let number = digits.parse().ok().filter(|number| *number > 1);
    number.filter(|_| is_appended).map(|number| (benchmark, number))
}

/// Returns the shell command that runs only this benchmark, given its name without GOMAXPROCS.
pub fn replay_command(package: Option<&str>, name: &str) -> String {
    let parts: Vec<String> =
        name.split('/').map(|part| format!("^{}$", regex::escape(part))).collect();
    let pattern = parts.join("/");
    shell_words::join(["go", "test", "-run", "^$", "-bench", &pattern, package.unwrap_or(".")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_package_a_benchmark_and_parameters() {
        for (name, processors, id) in [
            ("BenchmarkJoin/n=8/sep=x", 2, "p/Join gomaxprocs=2 n=8 sep=x"),
            ("BenchmarkJoin/big/n=8", 1, "p/Join/big gomaxprocs=1 n=8"),
            ("BenchmarkJoin/a=1/a=2", 4, "p/Join/a=2 a=1 gomaxprocs=4"),
            ("BenchmarkJoin/=1/gomaxprocs=7", 1, "p/Join/=1/gomaxprocs=7 gomaxprocs=1"),
            ("Benchmark", 8, "p/Benchmark gomaxprocs=8"),
            ("BenchmarkA/utf-8", 1, "p/A/utf-8 gomaxprocs=1"),
        ] {
            assert_eq!(case_from_name(Some("p"), name, Some(processors)).id(), id, "{name}");
        }
        assert_eq!(case_from_name(None, "BenchmarkA/n=8", None).id(), "A n=8");
    }

    /// Returns `BENCHMARK PROCESSORS` for each result of a package.
    fn split_names(names: &[&str]) -> Vec<String> {
        let processors = ProcessorSuffixes::from_names(names.iter().copied(), []);
        let split = names.iter().map(|name| processors.split_name(name));
        split.map(|(name, count)| format!("{name} {count}")).collect()
    }

    #[test]
    fn a_suffix_is_gomaxprocs_only_if_every_benchmark_has_it() {
        let compressions = ["B/gzip", "B/gzip-1", "B/gzip-6", "B/gzip-9"];
        let ones = compressions.map(|name| format!("{name} 1"));
        assert_eq!(split_names(&compressions), ones, "GOMAXPROCS=1");
        let with_two = compressions.map(|name| format!("{name}-2"));
        let twos = compressions.map(|name| format!("{name} 2"));
        assert_eq!(split_names(&with_two.each_ref().map(String::as_str)), twos);
        let all_names: Vec<&str> =
            compressions.into_iter().chain(with_two.iter().map(String::as_str)).collect();
        assert_eq!(split_names(&all_names), [ones, twos].concat(), "-cpu 1,2");
        assert_eq!(
            split_names(&["X", "X-2", "X-4", "Y", "Y-2", "Y-4"]),
            ["X 1", "X 2", "X 4", "Y 1", "Y 2", "Y 4"]
        );
        assert_eq!(split_names(&["X-2", "X-16"]), ["X 2", "X 16"], "-cpu 2,16");
        assert_eq!(split_names(&["gzip", "gzip-6", "none"]), ["gzip 1", "gzip-6 1", "none 1"]);
        assert_eq!(split_names(&["utf-8", "utf-8-2"]), ["utf-8 1", "utf-8 2"], "-cpu 1,2");
        assert_eq!(split_names(&["a-1", "b-1"]), ["a-1 1", "b-1 1"], "1 is never appended");
        assert_eq!(split_names(&["a-08", "b-08"]), ["a-08 1", "b-08 1"]);
    }

    #[test]
    fn an_announced_name_separates_gomaxprocs_from_the_name() {
        assert_eq!(split_announced_name("B/gzip", "B/gzip-2"), Some(("B/gzip", 2)));
        assert_eq!(split_announced_name("B/gzip-6", "B/gzip-6"), Some(("B/gzip-6", 1)));
        assert_eq!(split_announced_name("B/gzip-6", "B/gzip-6-8"), Some(("B/gzip-6", 8)));
        assert_eq!(split_announced_name("B/gzip", "B/gzip-1"), None);
        assert_eq!(split_announced_name("B/gzip", "B/other-2"), None);
    }

    #[test]
    fn the_replay_command_matches_every_part_of_the_name_exactly() {
        assert_eq!(
            replay_command(Some("x/y"), "BenchmarkA/n=8"),
            "go test -run '^$' -bench '^BenchmarkA$/^n=8$' x/y"
        );
    }
}
