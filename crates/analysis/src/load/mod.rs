//! What a load showed, and how far its figures may be trusted.
//!
//! Decides which times are told and which are refused, and what a reader must be warned of. It formats
//! nothing. Start at [`of`] and [`LoadFindings`]; [`gate`] holds figures against limits.
//!
//! Times since sending (service) and times since the request was due (response) are never put
//! together. A closed load has no response time: its clients send late when the server is slow, and
//! so leave out the waits that users would have had (coordinated omission, G. Tene 2013).

mod checks;
mod findings;
pub mod gate;
mod halves;
mod levels;
mod rates;
mod times;
mod trust;

pub use checks::{Remark, Weight};
pub use findings::{Concurrency, Generator, LoadFindings, of};
pub use halves::{Course, Halves};
pub use levels::{Levels, Pass, levels, next};
pub use rates::{Missed, NextRate, RateAnswer, RateRules, RateTry, Rates, next_rate, rates};
pub use times::{Group, PERCENTILES_PPM, Quantity, Refusal, Served, Spread, Told};
