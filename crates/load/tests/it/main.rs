//! Tests of the parts together, against figures that do not come from the code.

mod books;
mod latency;
mod pace;
mod stall;
