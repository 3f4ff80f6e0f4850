//! Tests of the server as clients see it: raw bytes to a real server on 127.0.0.1.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may panic, its helper functions too"
)]

mod assets;
mod bodies;
mod cross_site;
mod curl;
mod dashboard;
mod events;
mod fake_forge;
mod forge;
mod headers;
mod hosts;
mod lengths;
mod listening;
mod logins;
mod served;
mod site;
mod slow;
mod stopping;
mod tls;
