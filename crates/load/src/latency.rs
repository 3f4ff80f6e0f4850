//! How long requests took, and what may be said about it.
//!
//! Every quantity has a type of its own, so the time since a request was sent and the time since it
//! was due cannot be added to one histogram, and a closed load has no response time to ask for.
//! What a histogram cannot hold is counted beside it. Start reading at [`Distribution`], then
//! [`ClosedLatency`] and [`OpenLatency`], which record, then [`OpenVerdict`], which judges.

mod closed;
mod distribution;
mod log;
mod open;
mod outcome;
mod quantile;
mod range;
mod stored;
mod values;
mod verdict;

pub use closed::{ClosedLatency, ServiceTimes, Times};
pub use distribution::{
    Connect, Distribution, FirstByte, Kind, Lag, OwnLag, Punctual, Response, Service,
};
pub use log::{LogError, LogRow, Logged, read_log, write_log};
pub use open::{Freed, Intended, OpenLatency, OpenTimes};
pub use outcome::{ByOutcome, Outcome, Timed};
pub use quantile::{AB_PERCENTS, Bin, Quantile, Served, every_percent, percentage_served};
pub use range::{bounds_agree, is_range_too_wide};
pub use values::{HIGHEST_NS, Values};
pub use verdict::{
    Achieved, LEAST_ACHIEVED, LEAST_CONCURRENCY, OpenVerdict, effective_concurrency,
    is_concurrency_short,
};
