//! Clients of other servers. [`push`] sends sessions to a Speedwell server; [`forge`] keeps the
//! comment and status of a pull request up to date.

mod agent;
pub mod forge;
pub mod push;

pub use agent::SecretToken;
