//! Provides statistics for comparing repeated measurements: descriptive statistics, tests,
//! intervals, sequential designs and corrections for many comparisons.
//!
//! Everything is a pure function over slices: no I/O, no clock, and no random numbers except from a
//! seed that the caller provides. The crate is independent of where values come from and how
//! results are shown. Start reading at [`test::stratified`], the default test, then [`sequential`].
//!
//! ```
//! use speedwell_stats::{BlockObservation, test::stratified_rank};
//!
//! // Four blocks, each with two runs of either side; the candidate takes about 3% longer.
//! let seconds = [1.00, 1.03, 1.01, 1.04, 1.02, 1.05, 1.00, 1.04];
//! let observations: Vec<BlockObservation> = (0..16)
//!     .map(|run| {
//!         let value = seconds[run as usize % 8] + f64::from(run / 4) * 0.001;
//!         match run % 2 {
//!             0 => BlockObservation::baseline(value, run / 4),
//!             _ => BlockObservation::candidate(value, run / 4),
//!         }
//!     })
//!     .collect();
//! let test = stratified_rank(&observations)?;
//! assert!(test.p < 0.05 && test.is_exact);
//! assert!((test.ratio() - 1.03).abs() < 0.005 && test.interval(0.95).low > 1.0);
//! # Ok::<(), speedwell_stats::test::StratifiedError>(())
//! ```

pub mod bootstrap;
pub mod changepoint;
pub mod describe;
pub mod distribution;
pub mod effect;
pub mod interval;
pub mod posterior;
pub mod rate_search;
pub mod saturation_search;
pub mod sequential;
pub mod test;
pub mod trend;
pub mod usl;
pub mod variance;

pub use interval::Interval;
pub use test::stratified::{BlockObservation, BlockSide};
