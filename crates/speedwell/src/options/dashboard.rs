//! Defines the options of the dashboard: address, access and store.

use super::DatabaseArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Format of the request log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// No log
    Off,
    /// Plain text
    Text,
    /// JSON objects
    Json,
}

/// Options of the dashboard.
#[derive(Debug, Clone, Default, Args)]
pub struct DashboardArgs {
    /// Port to listen on [default: first free one from 7600 to 7609]
    ///
    /// Only this machine can reach the server, unless --bind is given.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Open the dashboard in a browser
    #[arg(long)]
    pub open: bool,
    /// Listen on this address: ADDRESS:PORT or unix:PATH
    #[arg(long, value_name = "WHERE", conflicts_with = "port", help_heading = "Network")]
    pub bind: Option<String>,
    /// Server certificate with its chain, in PEM format
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "Network")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM format
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Network")]
    pub key: Option<PathBuf>,
    /// URL at which other machines reach the server
    #[arg(long, value_name = "URL", help_heading = "Network")]
    pub public_url: Option<String>,
    /// Trust forwarded headers from this TLS-terminating proxy
    ///
    /// ADDRESS is the address of the proxy, or 'unix' for a proxy that connects to a Unix socket.
    #[arg(long, value_name = "ADDRESS", help_heading = "Network")]
    pub behind_proxy: Option<String>,
    /// Allow N concurrent connections per client address [default: 16]
    ///
    /// Logged-in clients may open 128 more.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Network")]
    pub connections_per_address: Option<u16>,
    /// Require the startup key for read access, too
    #[arg(long, help_heading = "Network")]
    pub private: bool,
    /// Log requests to stderr [default: off, or text if public]
    ///
    /// By default, requests are logged as text if other machines can reach the server.
    #[arg(long, value_name = "FORM", help_heading = "Network")]
    pub log: Option<LogFormat>,
    #[command(flatten)]
    pub store: DatabaseArgs,
}
