//! Where the dashboard is served, and of which store.

use super::DatabaseArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// How requests are logged.
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
    /// The port on this machine's own addresses [default: the first free one from 7600 to 7609]
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
    /// The address of a proxy that has TLS and is believed when it says who asks; 'unix' behind a socket
    #[arg(long, value_name = "ADDRESS", help_heading = "For others")]
    pub behind_proxy: Option<String>,
    /// Connections from one address at a time [default: 16]; 128 more for those that log in
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "For others")]
    pub connections_per_address: Option<u16>,
    /// Ask for the key of the start also where something is only read
    #[arg(long, help_heading = "For others")]
    pub private: bool,
    /// One line for each request on stderr [default: text where others come in, else off]
    #[arg(long, value_name = "FORM", help_heading = "For others")]
    pub log: Option<LogName>,
    #[command(flatten)]
    pub store: DatabaseArgs,
}

impl DashboardArgs {
    /// The ports that are tried, from the first to the last; 0 is any free one.
    pub fn ports(&self) -> (u16, u16) {
        self.port.map_or((7600, 7609), |port| (port, port))
    }
}
