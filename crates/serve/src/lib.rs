//! A safe HTTP server around an [`axum::Router`].
//!
//! A router says what is answered. This crate says to whom, how much a request may take, and what happens to those who
//! misbehave: slow and endless requests, too many connections, packed bombs, other names for this server,
//! pages of other sites. It knows nothing of what is served.
//!
//! ```
//! use axum::{Router, routing::get};
//! use speedwell_serve::{Address, Listen, Log, Options, Server};
//! use std::io::{Read, Write};
//!
//! let router = Router::new().route("/", get(|| async { "hello" }));
//! let options = Options {
//!     listen: vec![Listen::Loopback { first: 0, last: 0 }],
//!     log: Log::stderr(),
//!     ..Options::default()
//! };
//! let server = Server::bind(options, router)?;
//! let stopper = server.stopper();
//! let Address::Tcp(address) = server.addresses()[0].clone() else { unreachable!() };
//! let serving = std::thread::spawn(move || server.run());
//!
//! let mut client = std::net::TcpStream::connect(address)?;
//! write!(client, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"));
//!
//! stopper.stop();
//! serving.join().expect("the server does not panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | for | see |
//! |---|---|
//! | where it listens, and where it refuses to | [`listen`] |
//! | what requests may take | [`Limits`] |
//! | who sent a request, in a handler | `Extension<`[`Client`]`>` |
//! | work that blocks | [`blocking::Pool`] |
//! | streams of events | [`events::Hub`] |
//! | style sheets, scripts, pictures | [`assets::Assets`] |
//! | answers that have not changed | [`etag::unless_known`] |
//! | programs and people that log in | [`token`], [`cookie`], [`failures`] |
//!
//! Start reading at [`Server`]; what every request goes through stands in `gate`.

pub mod assets;
pub mod blocking;
mod body;
mod client;
mod compression;
mod connection;
pub mod cookie;
mod cross_site;
mod error;
pub mod etag;
pub mod events;
pub mod failures;
mod gate;
mod headers;
mod hosts;
mod line;
pub mod listen;
mod log;
mod options;
mod refusal;
mod room;
mod server;
pub mod shares;
mod stopper;
mod tls;
pub mod token;
mod unpack;

pub use client::{Client, Proxy};
pub use error::Error;
pub use headers::CONTENT_SECURITY;
pub use hosts::Hosts;
pub use listen::{Address, Listen};
pub use log::Log;
pub use options::{Limits, Options};
pub use refusal::{Refusal, Render};
pub use server::Server;
pub use stopper::Stopper;
pub use tls::Tls;
