//! How connections are made, used and given up.

use super::parse;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Connection options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connections")]
pub struct ConnectionArgs {
    /// Open a new connection for every request
    #[arg(long, conflicts_with_all = ["requests_per_connection", "pipeline", "streams"])]
    pub no_keepalive: bool,
    /// Concurrent requests on one HTTP/2 or HTTP/3 connection [default: 1]
    #[arg(long, value_name = "N", value_parser = parse::count, requires = "multiplexed")]
    pub streams: Option<u32>,
    /// Requests pipelined on one HTTP/1.1 connection [default: 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = parse::count,
        conflicts_with_all = ["multiplexed", "http10"]
    )]
    pub pipeline: Option<u32>,
    /// Close connections after N requests
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub requests_per_connection: Option<u32>,
    /// Close connections after this age
    #[arg(long, value_name = "DUR", value_parser = parse::duration)]
    pub connection_lifetime: Option<Duration>,
    /// With --rate: the most connections that may be opened [default: 1000]
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub max_connections: Option<u32>,
    /// Time limit of a request; 0 for none [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = parse::duration_or_none)]
    pub timeout: Option<Duration>,
    /// Time limit for connecting, TLS included [default: as --timeout]
    #[arg(long, value_name = "DUR", value_parser = parse::duration)]
    pub connect_timeout: Option<Duration>,
    /// Time limit until the first byte of an answer
    #[arg(long, value_name = "DUR", value_parser = parse::duration)]
    pub first_byte_timeout: Option<Duration>,
    /// Retry a request when the server closed its idle connection at that moment
    #[arg(long)]
    pub retry_stale_keepalive: bool,
    /// Connect to this Unix domain socket
    #[arg(long, value_name = "PATH", conflicts_with_all = ["connect_to", "resolve", "bind", "proxy"])]
    pub unix_socket: Option<PathBuf>,
    /// Connect to HOST2:PORT2 instead of HOST1:PORT1, either of which may be empty (repeatable)
    #[arg(long, value_name = "HOST1:PORT1:HOST2:PORT2")]
    pub connect_to: Vec<String>,
    /// Resolve a host to these addresses instead of using DNS (repeatable)
    #[arg(long, value_name = "HOST:PORT:ADDRESS[,ADDRESS...]")]
    pub resolve: Vec<String>,
    /// Connect from this local address
    #[arg(long, alias = "interface", value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// Send requests through this proxy; without TLS
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
}
