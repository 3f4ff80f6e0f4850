//! What the units of Go's benchmarks measure, and what their names stand for.
//!
//! Decides metrics and cases. It must not know lines. Start at [`Measure::of`] and [`case`].

use speedwell_model::{Better, Case, Metric, Value};

/// Units of package testing: name and unit here, good direction, factor.
const KNOWN: [(&str, &str, &str, Better, f64); 4] = [
    ("ns/op", "time", "ns", Better::Lower, 1.0),
    ("MB/s", "bytes_per_second", "B/s", Better::Higher, 1e6),
    ("B/op", "bytes_per_op", "B", Better::Lower, 1.0),
    ("allocs/op", "allocs_per_op", "", Better::Lower, 1.0),
];

/// A unit, understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// The metric.
    pub metric: Metric,
    /// What figures are multiplied by.
    pub factor: f64,
    /// Whether the good direction is a guess.
    pub is_guess: bool,
}

impl Measure {
    /// The measure of a unit, which a `Unit` line may have given a direction.
    pub fn of(unit: &str, is_higher: Option<bool>) -> Measure {
        let known = KNOWN.iter().find(|(known, ..)| *known == unit);
        let mut measure = match known {
            Some((_, name, unit, better, factor)) => Measure {
                metric: Metric::new(*name, *unit, *better),
                factor: *factor,
                is_guess: false,
            },
            None => {
                let is_rate = unit.ends_with("/s");
                let better = direction(is_rate);
                Measure {
                    metric: Metric::new(unit, unit, better),
                    factor: 1.0,
                    is_guess: !is_rate && is_higher.is_none(),
                }
            }
        };
        if let Some(is_higher) = is_higher {
            measure.metric.better = direction(is_higher);
        }
        measure
    }
}

fn direction(is_higher: bool) -> Better {
    if is_higher {
        Better::Higher
    } else {
        Better::Lower
    }
}

/// The case of a name as it is printed: `BenchmarkJoin/n=8-2`.
///
/// Parts `key=value` of a sub-benchmark are parameters. The number at the end is GOMAXPROCS, which
/// package testing leaves out if it is 1.
pub fn case(package: Option<&str>, name: &str) -> Case {
    let (name, processors) = processors(name);
    let mut benchmark = String::new();
    let mut values: Vec<(String, Value)> = Vec::new();
    for (at, part) in name.split('/').enumerate() {
        match part.split_once('=') {
            Some((key, value)) if at > 0 && is_new(key, &values) => {
                values.push((key.to_owned(), Value::guess(value)));
            }
            _ => {
                let slash = if at > 0 { "/" } else { "" };
                benchmark.push_str(&format!("{slash}{part}"));
            }
        }
    }
    let short = benchmark.strip_prefix("Benchmark").unwrap_or(&benchmark);
    let short = if short.is_empty() || short.starts_with('/') {
        benchmark.as_str()
    } else {
        short
    };
    values.push((PROCESSORS.to_owned(), Value::Number(processors)));
    match package {
        Some(package) => Case::new(format!("{package}/{short}"), values),
        None => Case::new(short, values),
    }
}

/// The parameter for the number at the end of a name; benchstat calls it so, too.
const PROCESSORS: &str = "gomaxprocs";

fn is_new(key: &str, values: &[(String, Value)]) -> bool {
    !key.is_empty() && key != PROCESSORS && values.iter().all(|(known, _)| known != key)
}

fn processors(name: &str) -> (&str, f64) {
    let end = name.rsplit_once('-').and_then(|(name, digits)| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = digits.parse().ok().filter(|_| is_number)?;
        Some((name, f64::from(number)))
    });
    end.unwrap_or((name, 1.0))
}

/// A line for a shell that executes this benchmark alone.
pub fn replay(package: Option<&str>, name: &str) -> String {
    let (name, _) = processors(name);
    let parts: Vec<String> = name
        .split('/')
        .map(|part| format!("^{}$", regex::escape(part)))
        .collect();
    let pattern = parts.join("/");
    shell_words::join([
        "go",
        "test",
        "-run",
        "^$",
        "-bench",
        &pattern,
        package.unwrap_or("."),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_package_a_benchmark_and_parameters() {
        for (name, id) in [
            ("BenchmarkJoin/n=8/sep=x-2", "p/Join gomaxprocs=2 n=8 sep=x"),
            ("BenchmarkJoin/big/n=8", "p/Join/big gomaxprocs=1 n=8"),
            ("BenchmarkJoin/a=1/a=2-4", "p/Join/a=2 a=1 gomaxprocs=4"),
            (
                "BenchmarkJoin/=1/gomaxprocs=7",
                "p/Join/=1/gomaxprocs=7 gomaxprocs=1",
            ),
            ("Benchmark-8", "p/Benchmark gomaxprocs=8"),
            ("BenchmarkA/utf-x", "p/A/utf-x gomaxprocs=1"),
        ] {
            assert_eq!(case(Some("p"), name).id(), id, "{name}");
        }
    }

    #[test]
    fn directions_come_from_the_unit_or_from_its_line() {
        let of = |unit, line| {
            let measure = Measure::of(unit, line);
            (measure.metric.better, measure.is_guess)
        };
        assert_eq!(of("ns/op", None), (Better::Lower, false));
        assert_eq!(of("MB/s", None), (Better::Higher, false));
        assert_eq!(of("fills/s", None), (Better::Higher, false));
        assert_eq!(of("hits/op", None), (Better::Lower, true));
        assert_eq!(of("hits/op", Some(true)), (Better::Higher, false));
    }

    #[test]
    fn a_shell_line_names_every_level() {
        assert_eq!(
            replay(Some("x/y"), "BenchmarkA/n=8-2"),
            "go test -run '^$' -bench '^BenchmarkA$/^n=8$' x/y"
        );
    }
}
