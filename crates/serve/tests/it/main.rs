//! Tests of the server as clients see it: raw bytes to a real server on 127.0.0.1.

mod assets;
mod bodies;
mod cross_site;
mod events;
mod headers;
mod hosts;
mod lengths;
mod listening;
mod logins;
mod served;
mod slow;
mod stopping;
mod tls;
