//! Implements the endpoints of the HTTP API for programs, below `/api/v1/`. Programs upload
//! sessions and read results.
//!
//! The table in `routes.rs` defines the endpoints and their permissions. Version 1 of the API is
//! only ever extended. Responses are JSON (a session is JSON Lines), and so are errors.

mod check;
pub mod data;
pub mod openapi;
pub mod sessions;
