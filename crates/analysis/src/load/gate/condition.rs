//! A condition as data: which figure, which side of which limit is bad.

use super::reader::{self, ConditionError};
use crate::load::Quantity;
use std::fmt;
use std::str::FromStr;

/// What must not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The figure.
    pub figure: Figure,
    /// On which side of the limit it is bad.
    pub operator: Operator,
    /// The limit: nanoseconds, requests per second, a share of 1, or a count.
    pub limit: f64,
    /// As it was written.
    pub text: String,
}

/// A figure of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Good answers per second.
    Throughput,
    /// Failed requests as a share of all.
    ErrorShare,
    /// Failed requests.
    ErrorCount,
    /// Good answers as a share of all requests.
    OkShare,
    /// Good answers.
    OkCount,
    /// A time, of the quantity named or of that by which the load is judged.
    Time(Option<Quantity>, Statistic),
}

/// Which time out of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// The one that a share does not exceed.
    Quantile {
        /// The share, in millionths.
        ppm: u32,
    },
    /// The mean.
    Mean,
    /// The longest.
    Greatest,
}

/// On which side of the limit it is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

impl Operator {
    /// Whether a figure is on the bad side.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Operator::Below => value < limit,
            Operator::AtMost => value <= limit,
            Operator::Above => value > limit,
            Operator::AtLeast => value >= limit,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Condition, ConditionError> {
        reader::read(text)
    }
}
