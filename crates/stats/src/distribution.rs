//! Distribution functions that equal R's to 1e-11 relative in both tails.
//!
//! Decides nothing; the tests and intervals elsewhere ask it for tail areas and quantiles. It must
//! not know any test. Own code, because `statrs` 0.19 misses R's values in the tenth digit or
//! earlier (see `docs/why/statistics.md`). Start at [`student_t`].

pub mod binomial;
pub mod normal;
pub mod student_t;

pub(crate) mod solve;
