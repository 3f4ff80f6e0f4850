//! Serves web pages for a store, and an API for programs. Each page is a document of `report`
//! inside a layout. The address of a page holds all of its state.
//!
//! This module decides which pages exist and where their links lead. It is independent of options
//! and sockets. For work that needs a repository or command-line options, it calls back into the
//! command-line program ([`CommandLookups`]). Start with the table in `routes.rs`, then
//! [`router`]. `site` holds the state.

mod access;
mod address;
mod api;
mod dispatch;
mod login;
mod lookups;
mod page;
mod results;
mod routes;
mod site;

pub use access::{AccessRules, CallerIdentity, RequiredPermission, SiteAccess};
pub use address::encode_segment;
pub use dispatch::router;
pub use lookups::{
    CommandLookups, ComparisonOption, ComparisonSource, GateResult, PlanSummary, TrendQuery,
};
pub use site::{SiteState, project_name};
