//! Clients of other servers: [`push`] sends sessions to a Speedwell server, and [`forge`] keeps the
//! comment and status of a pull request up to date.

pub mod forge;
pub mod push;
