//! Properties of charts that viewers rely on, checked on the real output.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test says what is wrong by stopping there"
)]

mod accessible;
mod charts;
mod drawing;
mod golden;
mod hard_data;
mod labels;
mod marks;
mod on_page;
mod picture;
mod positions;
mod trends;
