//! Which benchmarks, which values, which metric.

use super::{ExecutionArgs, VariantArgs, parse};
use anyhow::Context;
use clap::Args;
use regex::Regex;
use speedwell_harness::Trial;
use speedwell_harness::discover::Selection;
use speedwell_measure::{MeasureRequest, PlanRequest, SamplingRequest};
use speedwell_model::Length;
use std::path::Path;
use std::time::Duration;

/// Selection options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct SelectionArgs {
    /// Only benchmarks whose 'group/name' matches this pattern (repeatable: any of them)
    #[arg(short = 'f', long = "filter", value_name = "RE")]
    pub filter: Vec<Regex>,
    /// Leave out benchmarks whose 'group/name' matches this pattern (repeatable)
    #[arg(short = 'x', long = "exclude", value_name = "RE")]
    pub exclude: Vec<Regex>,
    /// Set a parameter to these values instead of the declared ones (repeatable); '@FILE' reads
    /// lines such as 'group/file.js n=1000', as 'speedwell iterations' writes them
    #[arg(short = 's', long = "set", value_name = "NAME=V[,V...]|@FILE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub metric: MetricArgs,
}

/// What is looked at.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct MetricArgs {
    /// Metric to report instead of the first (repeatable; 'all' for every one)
    #[arg(long = "metric", value_name = "NAME")]
    pub names: Vec<String>,
}

impl SelectionArgs {
    /// What is measured: the targets among `words`, of which those that are NAME=VALUE and no files are settings, with
    /// `arguments` for every program.
    ///
    /// # Errors
    /// Settings or variants that cannot be read.
    pub fn request(
        &self,
        words: &[String],
        arguments: &[String],
        variants: &VariantArgs,
        execution: &ExecutionArgs,
        plan: PlanRequest,
    ) -> anyhow::Result<MeasureRequest> {
        let is_value = |word: &String| word.contains('=') && !Path::new(word).exists();
        let (values, targets): (Vec<String>, _) = words.iter().cloned().partition(is_value);
        Ok(MeasureRequest {
            targets,
            selection: self.selection(&values, execution.trial())?,
            variants: variants.request(arguments)?,
            plan,
            only_lists: execution.list,
        })
    }

    /// What is to be read, with `more` NAME=VALUE words that stood among the targets.
    ///
    /// # Errors
    /// A setting that is not of the form NAME=VALUE.
    pub fn selection(&self, more: &[String], trial: Trial) -> anyhow::Result<Selection> {
        let mut selection = Selection {
            filters: self.filter.clone(),
            excludes: self.exclude.clone(),
            trial,
            ..Selection::default()
        };
        for text in &self.set {
            match text.strip_prefix('@') {
                Some(file) => std::fs::read_to_string(file)
                    .map_err(anyhow::Error::from)
                    .and_then(|lines| selection.add_lines(&lines))
                    .with_context(|| format!("cannot read the values in '{file}'"))
                    .context("in --set")?,
                None => selection
                    .sets
                    .extend(Selection::parse_set(text).context("in --set")?),
            }
        }
        for text in more {
            // Typed as in the original: the whole rest of the word is one value.
            let (name, value) = text
                .split_once('=')
                .context("a value has the form NAME=VALUE")?;
            let value = Selection::written_out(value);
            selection.sets.push((name.to_owned(), value));
        }
        Ok(selection)
    }
}

/// Study options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Study")]
pub struct StudyArgs {
    /// Study how the metric depends on this parameter
    #[arg(long, value_name = "NAME")]
    pub x_axis: Option<String>,
    /// One line for each value of this parameter, or 'variant'
    #[arg(long, value_name = "NAME", requires = "x_axis")]
    pub by: Option<String>,
    /// Logarithmic x axis
    #[arg(long, requires = "x_axis")]
    pub log: bool,
}

/// Sampling options.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Exactly N runs of every case and variant [default: 6; when variants are compared,
    /// as many as the sequential test needs, 8 to 32]
    #[arg(short = 'r', long, value_name = "N", value_parser = parse::count)]
    pub runs: Option<u32>,
    /// Without comparison: measure until the interval's half width is below this (at most 40 runs)
    #[arg(long, value_name = "PCT", value_parser = parse::percent, conflicts_with = "runs")]
    pub precision: Option<f64>,
    /// Samples in one run, where the harness owns the loop (C++, Python) [default: 5]
    #[arg(short = 'n', long, value_name = "N", value_parser = parse::count)]
    pub samples: Option<u32>,
    /// Length of a sample; the harness finds the number of iterations [default: 50ms]
    #[arg(short = 't', long, value_name = "DUR", value_parser = parse::duration)]
    pub time: Option<Duration>,
    /// Iterations of a sample, instead of a length
    #[arg(short = 'i', long, value_name = "N", value_parser = parse::count, conflicts_with = "time")]
    pub iterations: Option<u32>,
    /// Time of iterations that are thrown away before the first sample; 0 for none [default: 100ms]
    #[arg(short = 'w', long, value_name = "DUR", value_parser = parse::duration_or_none)]
    pub warmup: Option<Duration>,
    /// Time limit of a run
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = parse::duration)]
    pub timeout: Duration,
}

impl SamplingArgs {
    /// The same as data.
    pub fn request(&self) -> SamplingRequest {
        let ns = |time: Duration| time.as_nanos() as u64;
        let time = self.time.map(|time| Length::TimeNs(ns(time)));
        let iterations = self
            .iterations
            .map(|count| Length::Iterations(count.into()));
        SamplingRequest {
            runs: self.runs,
            precision: self.precision,
            samples: self.samples,
            length: iterations.or(time),
            warmup_ns: self.warmup.map(ns),
            timeout: Some(self.timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use speedwell_model::Samples;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sampling: SamplingArgs,
    }

    fn args(words: &[&str]) -> SamplingRequest {
        Line::parse_from([&["x"], words].concat())
            .sampling
            .request()
    }

    #[test]
    fn a_run_is_divided_as_asked_and_usually_as_always() {
        assert_eq!(args(&[]).sampling(1).samples, Samples::default());
        assert!(!args(&["--runs", "3"]).divides_runs());
        let asked = args(&["-n", "9", "-t", "2ms", "-w", "0"]);
        let expected = Samples {
            count: 9,
            length: Length::TimeNs(2_000_000),
            warmup_ns: 0,
        };
        assert_eq!(asked.sampling(2).samples, expected);
        let fixed = args(&["-i", "10k"]);
        assert_eq!(fixed.sampling(1).samples.length, Length::Iterations(10_000));
        assert!(asked.divides_runs() && fixed.divides_runs());
    }
}
