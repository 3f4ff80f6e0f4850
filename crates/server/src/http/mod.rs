//! Provides a safe HTTP server around an [`axum::Router`].
//!
//! The router handles requests; this module enforces access and limits. It protects the router
//! against slow and endless requests, too many connections, decompression bombs, foreign host
//! names, and requests from other sites' pages. It knows nothing about the content.
//!
//! ```
//! use axum::{Router, routing::get};
//! use speedwell_server::http::{BoundAddress, ListenAddress, RequestLog, ServerOptions, HttpServer};
//! use std::io::{Read, Write};
//!
//! let router = Router::new().route("/", get(|| async { "hello" }));
//! let options = ServerOptions {
//!     listen: vec![ListenAddress::Loopback { first: 0, last: 0 }],
//!     log: RequestLog::stderr(),
//!     ..ServerOptions::default()
//! };
//! let server = HttpServer::bind(options, router)?;
//! let stopper = server.stopper();
//! let BoundAddress::Tcp(address) = server.addresses()[0].clone() else { unreachable!() };
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
//! | where a server listens, and where it refuses to | [`listen`] |
//! | limits of requests and connections | [`ServerLimits`] |
//! | the client of a request, in a handler | `Extension<`[`ClientInfo`]`>` |
//! | blocking work | [`blocking::BlockingPool`] |
//! | event streams | [`events::EventHub`] |
//! | style sheets, scripts, pictures | [`assets::AssetTable`] |
//! | unchanged responses | [`assets::with_etag`] |
//! | authentication of programs and people | [`token`], [`cookie`] |
//!
//! Start reading at [`HttpServer`]; `pipeline` holds the checks that every request passes.

pub mod assets;
pub mod blocking;
mod body;
mod client;
mod compression;
mod connection;
pub mod cookie;
pub mod events;
mod http_error;
pub mod listen;
mod log;
mod options;
mod pipeline;
mod server;
pub mod token;

pub use client::{AllowedHosts, ClientInfo, TrustedProxy};
pub(crate) use http_error::accepts;
pub use http_error::{Error, HttpError};
pub use listen::{BoundAddress, ListenAddress};
pub use log::RequestLog;
pub use options::{ServerLimits, ServerOptions, ServerStopper, TlsIdentity};
pub use pipeline::CONTENT_SECURITY;
pub use server::HttpServer;

use hyper::body::{Bytes, Frame};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

/// What polling a body for its next frame yields.
type FramePoll<E> = Poll<Option<Result<Frame<Bytes>, E>>>;

/// Locks a mutex. Ignores poisoning, because no holder leaves the data half updated.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
