//! HTTP/2: each rule as a scenario, random traffic, and other implementations as the peer.

mod flow;
mod frames;
mod hpack;
mod nghttpd;
pub mod noise;
mod peer;
mod requests;
mod responses;
mod rules;
mod server;
