//! Serves web pages for a store. Each page is a document of `report` inside a layout. The address
//! of a page holds all of its state.
//!
//! This module decides which pages exist and where their links lead. It is independent of options
//! and sockets. For work that needs a repository or command-line options, it calls back into the
//! command-line program ([`CommandLookups`]). Start with [`router`], then `page/mod.rs`.

mod access;
mod address;
mod api;
mod forms;
mod handler;
mod layout;
mod link;
mod live;
mod lookups;
mod operation;
mod page;
mod page_error;
mod project;
mod query;
mod site;

pub use access::{AccessRules, CallerIdentity, RequiredPermission, SiteAccess};
pub use api::router as api;
pub use handler::router;
pub use layout::asset_files;
pub use lookups::{CommandLookups, ComparisonSource, GateResult, PlanSummary, TrendQuery};
pub use site::{SiteState, project_name};
