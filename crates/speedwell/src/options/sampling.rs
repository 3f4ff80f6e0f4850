//! How much is measured.

use super::parse;
use clap::Args;
use speedwell_measure::SamplingRequest;
use speedwell_model::Length;
use std::time::Duration;

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
