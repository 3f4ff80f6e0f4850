//! Optional features. Each folder contains options, command and measurement. Files of the same name
//! in `analysis` and `report` analyze and report.

pub mod backfill;
pub mod bisect;
pub mod confirm;
pub mod iterations;
pub mod push;
pub mod tune;
pub mod warmup;
