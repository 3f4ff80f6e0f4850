//! `speedwell new servers` and `speedwell new topology`: write experiments that compare HTTP
//! servers, or ways to divide a server into processes.

use super::templates::{PlaceArgs, StarterFiles};
use super::templates::{
    fill_template, program_requirement, quote_toml, requires_table, toml_array,
};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use speedwell_config::escape_text;

const TEMPLATE: &str = include_str!("templates/servers.toml");

/// Write an experiment: which HTTP server answers faster?
#[derive(Debug, Clone, Args)]
pub struct ServersArgs {
    /// Server and the command that starts it (repeatable)
    ///
    /// The port is passed as '{port}' and in the variable PORT. The first server is the baseline.
    #[arg(long = "server", value_name = "NAME=COMMAND", required = true)]
    pub servers: Vec<String>,
    /// Path to request
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub path: String,
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// Builds the file.
///
/// # Errors
/// Fails if a server is not of the form NAME=COMMAND, if there is only one server, if two servers
/// have the same name, or if the path is invalid.
pub fn server_files(args: &ServersArgs) -> Result<StarterFiles> {
    let file = args.place.definition_file("servers.toml");
    let mut servers: Vec<(String, Vec<String>)> = Vec::new();
    for text in &args.servers {
        let (name, command) = parse_server(text)?;
        let is_new = servers.iter().all(|(existing, _)| *existing != name);
        ensure!(is_new, "two servers are named '{name}'");
        servers.push((name, command));
    }
    if servers.len() < 2 {
        bail!("a single server cannot be compared\nhint: give --server NAME=COMMAND once more");
    }
    let is_path = args.path.starts_with('/') && !args.path.contains(char::is_whitespace);
    ensure!(is_path, "invalid path '{}': expected a path such as '/'", args.path);
    let requirements = servers.iter().filter_map(|(_, command)| program_requirement(command));
    let mut requirements: Vec<String> = requirements.collect();
    requirements.sort();
    requirements.dedup_by(|first, second| first.split(' ').next() == second.split(' ').next());
    let cwd = args.place.cwd_line("servers.toml")?;
    let variants: Vec<String> = servers.iter().map(variant_table).collect();
    let names: Vec<&str> = servers.iter().map(|(name, _)| name.as_str()).collect();
    let text = fill_template(
        TEMPLATE,
        &[
            ("FILE", &shell_words::quote(&file.to_string_lossy())),
            ("QUESTION", &quote_toml(&format!("Which answers faster: {}?", names.join(", ")))),
            ("REQUIRES", &requires_table(&requirements)),
            ("VARIANTS", &variants.join("\n")),
            ("CWD", cwd.as_deref().unwrap_or("# cwd = \".\"\n")),
            ("PATH", &quote_toml(&escape_text(&args.path))),
            ("FIRST", &quote_toml(names[0])),
        ],
    );
    Ok(StarterFiles { files: vec![(file.clone(), text)], target: file, ..StarterFiles::default() })
}

fn parse_server(text: &str) -> Result<(String, Vec<String>)> {
    let (name, command) = text
        .split_once('=')
        .with_context(|| format!("cannot parse server '{text}': expected NAME=COMMAND"))?;
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
    ensure!(is_name, "invalid server name '{name}'\nhint: use letters, digits, '.', '_', '-'");
    let arguments =
        shell_words::split(command).with_context(|| format!("cannot parse command '{command}'"))?;
    ensure!(!arguments.is_empty(), "the server '{name}' has no command");
    Ok((name.to_owned(), arguments))
}

/// Formats a variant as TOML. The only placeholder in a command is `{port}`; other braces are
/// literal.
fn variant_table((name, command): &(String, Vec<String>)) -> String {
    let command = toml_array(command).replace("{{port}}", "{port}");
    format!("[[variant]]\nname = {}\ncommand = {command}\n", quote_toml(name))
}

const TOPOLOGY: &str = include_str!("templates/topology.toml");
const SERVER: &str = include_str!("templates/server.js");

/// Write an experiment: six ways to split a Node.js HTTP server into processes
#[derive(Debug, Clone, Args)]
pub struct TopologyArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// Builds the definition file and `server.js`.
pub fn topology_files(args: &TopologyArgs) -> StarterFiles {
    let file = args.place.definition_file("topology.toml");
    let name = shell_words::quote(&file.to_string_lossy()).into_owned();
    let server = args.place.definition_folder("topology.toml").join("server.js");
    StarterFiles {
        files: vec![
            (file.clone(), fill_template(TOPOLOGY, &[("FILE", &name)])),
            (server, SERVER.to_owned()),
        ],
        target: file,
        // Few requests suffice for a first look at six variants.
        shortened: &["--set", "requests=500"],
        ..StarterFiles::default()
    }
}
