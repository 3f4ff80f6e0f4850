//! What is executed around the measured code, and what pieces of code are called.

use super::parse;
use clap::Args;
use std::path::PathBuf;

/// Code options. Each hook is given once for all pieces of code, or once for each, in their order.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Code")]
pub struct CodeArgs {
    /// Execute once before the workers start; its value is the shared value
    /// (once = for all codes; N times = one each)
    #[arg(long, value_name = "CODE", allow_hyphen_values = true)]
    pub init: Vec<String>,
    /// Execute once in every worker; its value is the worker's state
    #[arg(
        long,
        visible_alias = "init-runner",
        value_name = "CODE",
        allow_hyphen_values = true
    )]
    pub init_worker: Vec<String>,
    /// With 'sh': execute this before every execution of the command, untimed
    #[arg(long, value_name = "CODE", allow_hyphen_values = true)]
    pub prepare: Vec<String>,
    /// Execute once after the workers have ended
    #[arg(long, value_name = "CODE", allow_hyphen_values = true)]
    pub done: Vec<String>,
    /// Name of a snippet in tables [default: its text]
    #[arg(long, visible_alias = "label", value_name = "NAME")]
    pub name: Vec<String>,
    /// Where modules, headers or classes are found (repeatable)
    #[arg(long, visible_alias = "pa", value_name = "FOLDER")]
    pub path: Vec<PathBuf>,
    /// Erlang, Elixir: measure in a cluster of N connected nodes on this machine
    #[arg(long, value_name = "N", value_parser = parse::count, conflicts_with = "node")]
    pub nodes: Option<u32>,
    /// Erlang, Elixir: measure on a running node
    #[arg(long, value_name = "NAME@HOST")]
    pub node: Option<String>,
    /// The cookie of that node [default: that of the user]
    #[arg(long, value_name = "TEXT", requires = "node")]
    pub node_cookie: Option<String>,
}
