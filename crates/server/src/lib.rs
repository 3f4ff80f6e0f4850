//! Serves the results of a store to people and programs, and sends results to other servers.
//!
//! - [`dashboard`] decides which pages and API routes exist. Each page is a document of `report`.
//! - [`http`] is the HTTP server below it: hosts, TLS, limits and tokens, for any router.
//! - [`clients`] send sessions to a Speedwell server, and comments and statuses to a forge.

pub mod clients;
#[cfg(feature = "serve")]
pub mod dashboard;
#[cfg(feature = "serve")]
pub mod http;
