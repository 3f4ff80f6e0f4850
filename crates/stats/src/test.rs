//! Tests of two groups of values, one file each.
//!
//! A test decides whether two groups differ by more than chance allows; it must not decide what to
//! do about it. Start at [`stratified`], the one for randomised blocks; [`mod@mann_whitney`]
//! and [`mod@welch`] are for data without blocks.

pub mod mann_whitney;
pub mod stratified;
pub mod welch;

pub use mann_whitney::{MannWhitney, Method, mann_whitney};
pub use stratified::{StratifiedError, StratifiedRank, Tails, stratified_rank};
pub use welch::{Welch, WelchError, welch};
