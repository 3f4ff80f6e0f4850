//! What other programs print, read into plain figures.
//!
//! Decides the meaning of their words, units and names, for files that are imported and for
//! programs that are measured alike. It must not know where the bytes came from or what becomes of
//! the figures.

pub mod google_benchmark;
pub mod json;
