//! Descriptions of one group of values: centre, spread, shape and what stands out.
//!
//! Decides which textbook definition each word means here; it must not compare groups. Functions
//! answer NaN where a quantity is undefined (R's NA), so that a table can show the gap. Values must
//! not be NaN themselves. Start at [`Summary`].

mod moments;
mod order;
mod summary;

pub use moments::{
    coefficient_of_variation, lag1_autocorrelation, mean, skewness, standard_deviation, variance,
};
pub use order::{NORMAL_CONSISTENCY, mad, median, outliers, quantile};
pub use summary::Summary;
