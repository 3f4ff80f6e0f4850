//! Optional features. Each folder contains the options, command and measurement of one feature. Its
//! analysis and report are in files of the same name in `analysis` and `report`.

pub mod backfill;
pub mod bisect;
pub mod confirm;
pub mod iterations;
pub mod push;
pub mod tune;
pub mod warmup;
