//! Options of the dashboard: address, access and store.

use super::DatabaseArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Format of the request log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogName {
    /// Not at all
    Off,
    /// As words
    Text,
    /// As JSON objects
    Json,
}

/// Options of the dashboard.
#[derive(Debug, Clone, Default, Args)]
pub struct DashboardArgs {
    /// The port [default: the first free one from 7600 to 7609]
    ///
    /// The server is reached from this machine only, unless --bind says otherwise.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Open the dashboard in a browser
    #[arg(long)]
    pub open: bool,
    /// Listen elsewhere: ADDRESS:PORT, or unix:PATH
    #[arg(
        long,
        value_name = "WHERE",
        conflicts_with = "port",
        help_heading = "For others"
    )]
    pub bind: Option<String>,
    /// The certificate of the server, with its chain, in PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "key",
        help_heading = "For others"
    )]
    pub cert: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "cert",
        help_heading = "For others"
    )]
    pub key: Option<PathBuf>,
    /// The address by which others reach the server
    #[arg(long, value_name = "URL", help_heading = "For others")]
    pub public_url: Option<String>,
    /// Trust forwarded headers from this TLS-terminating proxy
    ///
    /// ADDRESS is that of the proxy, or 'unix' behind a socket.
    #[arg(long, value_name = "ADDRESS", help_heading = "For others")]
    pub behind_proxy: Option<String>,
    /// Allow N connections from one address at a time [default: 16]
    ///
    /// Clients that log in have 128 more.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "For others")]
    pub connections_per_address: Option<u16>,
    /// Require the startup key for read access, too
    #[arg(long, help_heading = "For others")]
    pub private: bool,
    /// Log each request on stderr [default: off; text for others]
    ///
    /// By default, requests are logged as text where others than this machine can reach the server.
    #[arg(long, value_name = "FORM", help_heading = "For others")]
    pub log: Option<LogName>,
    #[command(flatten)]
    pub store: DatabaseArgs,
}

impl DashboardArgs {
    /// Returns the first and last port to try; 0 stands for any free port.
    pub fn port_range(&self) -> (u16, u16) {
        self.port.map_or((7600, 7609), |port| (port, port))
    }
}
