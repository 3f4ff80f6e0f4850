//! Computes and formats the figures of a command as hyperfine does. Values are added in the order
//! of the runs, so that exports agree with hyperfine's to the last digit. Start at
//! [`CommandFigures::from_runs`].

use clap::ValueEnum;
use serde::{Serialize, Serializer};
use speedwell_machine::process::ProcessEnd;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Results of one run. Times are in seconds and exclude the time of the shell, unless stated
/// otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunTiming {
    /// Wall time.
    pub real_s: f64,
    /// CPU time in user mode.
    pub user_s: f64,
    /// CPU time in the kernel.
    pub system_s: f64,
    /// Maximum resident set size.
    pub memory_bytes: u64,
    /// How the command ended.
    pub ended: ProcessEnd,
    /// Wall time including the shell.
    pub with_shell_s: f64,
    /// Block in which the run was measured.
    pub block: u32,
}

/// Figures of a command; times in seconds. This is also an entry of the JSON export.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommandFigures {
    /// Name in exports.
    #[serde(rename = "command")]
    pub name: String,
    /// Name in tables.
    #[serde(skip)]
    pub title: String,
    pub mean: f64,
    /// Standard deviation of times; `None` for one run.
    #[serde(rename = "stddev")]
    pub deviation: Option<f64>,
    pub median: f64,
    /// Mean CPU time in user mode.
    pub user: f64,
    /// Mean CPU time in the kernel.
    pub system: f64,
    pub min: f64,
    pub max: f64,
    #[serde(flatten, serialize_with = "serialize_runs")]
    pub runs: Vec<RunTiming>,
    /// Names and values of its parameters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

fn serialize_runs<S: Serializer>(runs: &[RunTiming], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct RunLists {
        times: Vec<f64>,
        memory_usage_byte: Vec<u64>,
        exit_codes: Vec<Option<i32>>,
    }
    let exit_code = |run: &RunTiming| match run.ended {
        ProcessEnd::Exit(code) => Some(code),
        _ => None,
    };
    let lists = RunLists {
        times: runs.iter().map(|run| run.real_s).collect(),
        memory_usage_byte: runs.iter().map(|run| run.memory_bytes).collect(),
        exit_codes: runs.iter().map(exit_code).collect(),
    };
    lists.serialize(serializer)
}

impl CommandFigures {
    /// Computes the figures of the runs; there must be at least one.
    pub fn from_runs(
        name: String,
        title: String,
        parameters: BTreeMap<String, String>,
        runs: Vec<RunTiming>,
    ) -> CommandFigures {
        let times: Vec<f64> = runs.iter().map(|run| run.real_s).collect();
        let mean_of =
            |time_of: fn(&RunTiming) -> f64| mean(&runs.iter().map(time_of).collect::<Vec<_>>());
        let average = mean(&times);
        CommandFigures {
            mean: average,
            deviation: deviation(&times, average),
            median: median(&times),
            user: mean_of(|run| run.user_s),
            system: mean_of(|run| run.system_s),
            min: times.iter().copied().fold(f64::INFINITY, f64::min),
            max: times.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            name,
            title,
            parameters,
            runs,
        }
    }

    /// Returns the wall times in order.
    pub fn wall_times(&self) -> impl Iterator<Item = f64> {
        self.runs.iter().map(|run| run.real_s)
    }
}

/// Returns the mean. Adds the values in their order, because the order affects rounding.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64], mean: f64) -> Option<f64> {
    let squares = values.iter().map(|value| (value - mean) * (value - mean));
    (values.len() > 1).then(|| (squares.sum::<f64>() / (values.len() - 1) as f64).sqrt())
}

fn median(values: &[f64]) -> f64 {
    speedwell_model::median(&mut values.to_vec()).unwrap_or(f64::NAN)
}

/// Returns the signed distance of each value from the median, in units of the median absolute
/// deviation (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
pub fn outlier_scores(values: &[f64]) -> Vec<f64> {
    let center = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    let typical_distance = median(&distances);
    let typical_distance = if typical_distance > 0.0 { typical_distance } else { f64::EPSILON };
    values.iter().map(|value| (value - center) / typical_distance).collect()
}

/// Unit of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TimeUnit {
    /// Shown with one decimal.
    Microsecond,
    /// Shown with one decimal.
    Millisecond,
    /// Shown with three decimals.
    Second,
}

impl TimeUnit {
    /// Returns the unit in which to state a time: seconds from 1 s on, milliseconds from 1 ms on,
    /// else microseconds.
    pub fn for_seconds(seconds: f64) -> TimeUnit {
        match seconds {
            s if s < 0.001 => TimeUnit::Microsecond,
            s if s < 1.0 => TimeUnit::Millisecond,
            _ => TimeUnit::Second,
        }
    }

    /// Returns the unit's symbol, the number of units in a second, and the number of decimals.
    fn notation(self) -> (&'static str, f64, usize) {
        match self {
            TimeUnit::Microsecond => ("µs", 1e6, 1),
            TimeUnit::Millisecond => ("ms", 1e3, 1),
            TimeUnit::Second => ("s", 1.0, 3),
        }
    }

    /// Returns the unit's symbol.
    pub fn symbol(self) -> &'static str {
        self.notation().0
    }

    /// Formats a time in this unit, without its symbol.
    pub fn format_digits(self, seconds: f64) -> String {
        let (_, factor, decimals) = self.notation();
        format!("{:.decimals$}", seconds * factor)
    }

    /// Formats a time in this unit.
    pub fn format_time(self, seconds: f64) -> String {
        format!("{} {}", self.format_digits(seconds), self.symbol())
    }
}

/// A command's mean relative to the reference's.
#[derive(Debug, Clone)]
pub struct RelativeFigures<'a> {
    pub figures: &'a CommandFigures,
    /// Ratio of the command's mean to the reference's mean, or the inverse ratio if the command is
    /// faster. The ratio is never below 1.
    pub ratio: f64,
    /// Standard deviation of the ratio, propagated from the standard deviations of the two
    /// commands.
    pub deviation: Option<f64>,
    /// Whether the command is the reference.
    pub is_reference: bool,
    /// How the command's mean compares with the reference's: `Less` if the command is faster.
    pub order: Ordering,
}

/// Returns the index of the command with the smallest mean; if several have the same mean, the
/// first of them.
pub fn fastest_index(figures: &[CommandFigures]) -> usize {
    let fastest = (0..figures.len()).min_by(|&a, &b| compare_means(&figures[a], &figures[b]));
    fastest.unwrap_or(0)
}

fn compare_means(one: &CommandFigures, other: &CommandFigures) -> Ordering {
    one.mean.partial_cmp(&other.mean).unwrap_or(Ordering::Equal)
}

/// Compares every command with the reference. If `by_time` is set, the result is sorted by mean. A
/// ratio is infinite if one of the two means is 0, except for the ratio of the reference to itself.
pub fn relative_to(
    commands: &[CommandFigures],
    reference: usize,
    by_time: bool,
) -> Vec<RelativeFigures<'_>> {
    let base = &commands[reference];
    let rows = commands.iter().map(|figures| {
        let order = compare_means(figures, base);
        // As in hyperfine, a command with exactly the same figures as the reference is also treated
        // as the reference.
        let is_reference = figures == base;
        let ratio = match order {
            _ if figures.mean == 0.0 && is_reference => 1.0,
            _ if figures.mean == 0.0 => f64::INFINITY,
            Ordering::Less => base.mean / figures.mean,
            Ordering::Equal => 1.0,
            Ordering::Greater => figures.mean / base.mean,
        };
        let variance = |command: &CommandFigures| Some((command.deviation? / command.mean).powi(2));
        let variances = variance(figures).zip(variance(base)).filter(|_| figures.mean != 0.0);
        let deviation = variances.map(|(one, other)| ratio * (one + other).sqrt());
        RelativeFigures { figures, ratio, deviation, is_reference, order }
    });
    let mut rows: Vec<RelativeFigures<'_>> = rows.collect();
    if by_time {
        rows.sort_by(|a, b| compare_means(a.figures, b.figures));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(real_s: f64) -> RunTiming {
        RunTiming {
            real_s,
            user_s: 0.0,
            system_s: 0.0,
            memory_bytes: 0,
            ended: ProcessEnd::Exit(0),
            with_shell_s: real_s,
            block: 0,
        }
    }

    fn figures(name: &str, times: &[f64]) -> CommandFigures {
        let runs = times.iter().map(|&time| timing(time)).collect();
        CommandFigures::from_runs(name.to_owned(), name.to_owned(), BTreeMap::new(), runs)
    }

    #[test]
    fn means_match_hyperfine_in_every_digit() {
        let figures = figures("a", &[0.1; 30]);
        // In binary, adding 0.1 thirty times does not give exactly 3, and hyperfine exports all
        // digits.
        assert_eq!(figures.mean.to_string(), "0.10000000000000005");
        assert_eq!(figures.median, 0.1);
        assert!(figures.deviation.is_some_and(|deviation| deviation > 0.0));
        assert_eq!(super::tests::figures("b", &[2.0]).deviation, None);
    }

    #[test]
    fn the_ratio_to_a_reference_with_a_mean_of_zero_is_infinite() {
        let all = [figures("a", &[0.0, 0.0]), figures("b", &[1.0, 1.0])];
        let rows = relative_to(&all, 0, false);
        assert_eq!((rows[0].ratio, rows[0].deviation), (1.0, None));
        assert_eq!(rows[1].ratio, f64::INFINITY);
    }

    #[test]
    fn a_value_far_from_the_median_has_a_high_score() {
        let scores = outlier_scores(&[10.0, 1.0, 1.1, 0.9, 1.0, 1.05]);
        assert!(scores[0] > 100.0 && scores[2].abs() < 5.0, "{scores:?}");
        assert_eq!(super::outlier_scores(&[5.0]), [0.0]);
    }
}
