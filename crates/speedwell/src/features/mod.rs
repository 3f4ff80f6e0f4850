//! Optional features: each is a folder with its options, its command and what it measures. Their
//! analysis and their reports are in the files of the same name in `analysis` and `report`.

pub mod backfill;
pub mod bisect;
pub mod confirm;
pub mod iterations;
pub mod push;
pub mod tune;
pub mod warmup;
