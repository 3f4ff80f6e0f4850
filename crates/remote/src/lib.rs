//! Measures on other machines.
//!
//! - [`machines`] lists the machines of a fleet, reaches them, and sends them what they need.
//! - [`fleet`] divides the plan of a session among machines and merges their results.
//! - [`roles`] runs the roles of an experiment, such as target and load, on different machines.
//! - [`load`] sends one HTTP load from several machines.

pub mod fleet;
pub mod load;
pub mod machines;
pub mod roles;
