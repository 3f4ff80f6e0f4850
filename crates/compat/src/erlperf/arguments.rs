//! What a command line of erlperf asks for.
//!
//! Reading words is in `arguments/read.rs`; which hook belongs to which code is in `arguments/attach.rs`. Both decide
//! what is refused, and name options as the user types them. Start at [`Asked::parse`].

mod attach;
mod read;

use super::table::Detail;
use speedwell_report::Format;
use std::time::Duration;

/// A command line.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// `--help`.
    Help,
    /// Everything else.
    Measure(Box<Request>),
}

/// What is measured, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The codes in the order typed.
    pub codes: Vec<Piece>,
    /// What a sample is.
    pub sample: Sample,
    /// `-s`.
    pub samples: u32,
    /// `-w`: samples that do not count.
    pub warmup: u32,
    /// `-c`.
    pub workers: u32,
    /// `--cv`: until samples vary by no more than this share of their mean.
    pub until: Option<Until>,
    /// `-q`.
    pub squeeze: Option<Squeeze>,
    /// `-r`; what it is without depends on the number of samples: see [`Request::detail`].
    pub report: Option<Detail>,
    /// `-v`.
    pub verbose: bool,
    /// `-i`: a process for every code.
    pub isolated: bool,
    /// `-pa`, as typed.
    pub paths: Vec<String>,
    /// `--order`.
    pub order: Order,
    /// `--subtract-empty`.
    pub subtracts_empty: bool,
    /// `--format`.
    pub format: Format,
}

/// One code with what belongs to it, as typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// What is iterated.
    pub code: String,
    /// `--init` or `--init_all`.
    pub init: Option<String>,
    /// `--init_runner` or `--init_runner_all`.
    pub init_runner: Option<String>,
    /// `--done` or `--done_all`.
    pub done: Option<String>,
    /// `--label`.
    pub label: Option<String>,
}

/// What a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// `-d`: as many iterations as there are in so long.
    Window(Duration),
    /// `-l`: the time for so many iterations.
    Loop(u64),
}

/// When samples are steady enough, and how long that is waited for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Until {
    /// `--cv`.
    pub variation: f64,
    /// `--max-samples`.
    pub most_samples: u32,
    /// `--max-time`.
    pub most_time: Option<Duration>,
}

/// How the best number of workers is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Squeeze {
    /// `--min`.
    pub least: u32,
    /// `--step`.
    pub step: u32,
    /// `--max`.
    pub most: u32,
    /// `-t`: so many more workers without more throughput end the search.
    pub threshold: u32,
}

/// In which order codes take their samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One sample of each code, then one of each in the opposite order, and so on: what changes slowly falls on all.
    Blocks,
    /// One sample of each code in the order typed, again and again.
    Alternate,
    /// All at the same time, as the original does.
    Parallel,
}

impl Asked {
    /// Reads the words of a command line.
    ///
    /// # Errors
    /// What cannot be understood or done, in words for the user.
    pub fn parse(words: &[String]) -> Result<Asked, String> {
        read::read(words)
    }
}

impl Request {
    /// Which report is shown: from ten samples on statistics of them.
    pub fn detail(&self) -> Detail {
        let usual = if self.samples < 10 {
            Detail::Basic
        } else {
            Detail::Extended
        };
        self.report.unwrap_or(usual)
    }
}

#[cfg(test)]
mod tests;
