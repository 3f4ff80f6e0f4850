//! Builds the web pages, one file per page. A page is a document with links and forms.
//!
//! A page calls the same functions as the corresponding command and computes nothing itself. The
//! table in `routes.rs` lists all pages. Start at [`content`].

pub mod alerts;
pub mod benchmarks;
pub mod branch;
pub mod charts;
pub mod compare;
pub mod content;
pub mod live;
pub mod machines;
pub mod overview;
pub mod project;
pub mod pull;
pub mod revision;
pub mod search;
pub mod session;
pub mod sessions;
pub mod settings;
pub mod trend;
