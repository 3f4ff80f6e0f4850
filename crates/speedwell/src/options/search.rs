//! Defines the options of the search for the best concurrency, and parses the values of `-c` and
//! `--rate`, which may be `max`.

use super::parse;
use clap::Args;
use speedwell_analysis::scaling::SaturationRules;
use speedwell_engine::SearchRequest;
use speedwell_model::load::spec::parse_rate;
use std::str::FromStr;

/// Search options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// Same as '-c max'
    #[arg(long, conflicts_with = "concurrency")]
    pub squeeze: bool,
    /// Highest concurrency that '-c max' tries
    #[arg(long, value_name = "N", value_parser = parse::count, long_help = limit_help())]
    pub concurrency_limit: Option<u32>,
    /// Stop '-c max' after N levels without improvement [default: 2]
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub patience: Option<u32>,
    /// Let '-c max' try multiples of N instead of doubling
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub step: Option<u32>,
}

impl SearchArgs {
    /// Builds the request for the search. Each level is measured `visits` times.
    pub fn search_request(&self, visits: Option<u32>) -> SearchRequest {
        SearchRequest {
            step: self.step,
            limit: self.concurrency_limit,
            patience: self.patience,
            visits,
        }
    }

    /// Default maximum number of concurrent workers. It is lower than for connections, because a
    /// worker may be a process or a thread with its own virtual machine.
    pub const MAX_WORKERS: u32 = 256;
}

fn limit_help() -> String {
    format!(
        "Highest concurrency that '-c max' tries [default: {} for snippets, {} for connections]",
        SearchArgs::MAX_WORKERS,
        SaturationRules::default().limit
    )
}

/// Value of `-c`: the number of workers or concurrent requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concurrency {
    /// These numbers, one after the other.
    Levels(Vec<u32>),
    /// The number with the greatest throughput.
    Max,
}

impl FromStr for Concurrency {
    type Err = String;

    fn from_str(text: &str) -> Result<Concurrency, String> {
        if text == "max" {
            return Ok(Concurrency::Max);
        }
        let mut levels = Vec::new();
        for number in text.split(',').map(str::trim) {
            let level = parse::count(number)
                .map_err(|error| format!("cannot parse '{number}': {error}, or 'max'"))?;
            if levels.contains(&level) {
                return Err(format!("{level} is given twice"));
            }
            levels.push(level);
        }
        Ok(Concurrency::Levels(levels))
    }
}

/// Value of `--rate`: the number of requests per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RateChoice {
    /// A fixed rate.
    PerSecond(f64),
    /// The highest rate that the server sustains.
    Max,
}

impl FromStr for RateChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<RateChoice, String> {
        match text {
            "max" => Ok(RateChoice::Max),
            text => parse_rate(text).map(RateChoice::PerSecond),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_the_highest_concurrencies() {
        let collapse_spaces = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let eval = collapse_spaces(include_str!("../../../../docs/guide/eval.md"));
        let limit = format!(
            "`--concurrency-limit` is the highest number tried ({})",
            SearchArgs::MAX_WORKERS
        );
        assert!(eval.contains(&limit), "{limit}");
        let load = collapse_spaces(include_str!("../../../../docs/guide/load-search.md"));
        let limit = format!("up to `--concurrency-limit` ({})", SaturationRules::default().limit);
        assert!(load.contains(&limit), "{limit}");
    }

    #[test]
    fn a_concurrency_is_one_number_several_numbers_or_max() {
        assert_eq!("max".parse(), Ok(Concurrency::Max));
        assert_eq!("1k".parse(), Ok(Concurrency::Levels(vec![1000])));
        assert_eq!("1, 2,8".parse(), Ok(Concurrency::Levels(vec![1, 2, 8])));
        for invalid in ["", "0", "1,", "2,x", "most", "4,2,4", "1-8"] {
            assert!(invalid.parse::<Concurrency>().is_err(), "{invalid}");
        }
        assert_eq!("90/m".parse(), Ok(RateChoice::PerSecond(1.5)));
        assert_eq!("max".parse(), Ok(RateChoice::Max));
        assert!("maximum".parse::<RateChoice>().is_err());
    }
}
