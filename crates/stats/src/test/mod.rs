//! Tests of groups of values, one file each.
//!
//! A test decides whether groups differ by more than chance allows; it must not decide what to
//! do about it. Start at [`stratified`], the one for randomised blocks; [`mod@signed_rank`] is for pairs,
//! [`mod@mann_whitney`] and [`mod@welch`] are for data without blocks, [`fisher`] is for counts, and
//! [`mod@welch_anova`] is for more than two groups.

pub mod fisher;
pub mod mann_whitney;
pub mod signed_rank;
pub mod stratified;
pub mod welch;
pub mod welch_anova;

pub use fisher::fisher_exact;
pub use mann_whitney::{MannWhitney, Method, mann_whitney};
pub use signed_rank::{SignedRank, SignedRankError, signed_rank};
pub use stratified::{StratifiedError, StratifiedRank, Tails, stratified_rank};
pub use welch::{Welch, WelchError, welch};
pub use welch_anova::{WelchAnova, welch_anova};
