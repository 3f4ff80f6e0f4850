//! Implements `speedwell serve token`, which manages the tokens that grant permissions on a server.

use super::project::{ListArgs, ensure_project, record_action};
use crate::options::{DatabaseArgs, parse};
use crate::{CommandStatus, status};
use anyhow::ensure;
use clap::{Args, Subcommand, ValueEnum};
use speedwell_machine::process::unix_time_ms;
use speedwell_model::stored::{StoredToken, TokenScope};
use speedwell_report as report;
use speedwell_server::http::token::AccessToken;
use speedwell_store::Store;
use std::time::Duration;

/// Create, list and revoke tokens of a server
#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    Add(AddArgs),
    /// List the tokens, without their secrets
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Create a token; it is printed once and never stored
#[derive(Debug, Args)]
struct AddArgs {
    /// Name of the token
    #[arg(value_name = "NAME")]
    name: String,
    /// Allowed actions: read, push, triage, admin (repeatable)
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',')]
    scope: Vec<ScopeName>,
    /// Only for this project, created if needed [default: all]
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Allow pushes only for this branch (repeatable) [default: all]
    #[arg(long, value_name = "NAME")]
    branch: Vec<String>,
    /// Allow pushes only for this machine (repeatable) [default: all]
    #[arg(long, value_name = "NAME")]
    machine: Vec<String>,
    /// Lifetime, such as 365d or 12h [default: until revoked]
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    expires: Option<Duration>,
    #[command(flatten)]
    store: DatabaseArgs,
}

/// Revoke a token, and all logins with it
#[derive(Debug, Args)]
struct RevokeArgs {
    /// Id or name of the token
    #[arg(value_name = "TOKEN")]
    token: String,
    #[command(flatten)]
    store: DatabaseArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeName {
    /// Read
    Read,
    /// Push, and read what was pushed
    Push,
    /// Triage changes, and read
    Triage,
    /// Everything
    Admin,
}

impl From<ScopeName> for TokenScope {
    fn from(name: ScopeName) -> TokenScope {
        match name {
            ScopeName::Read => TokenScope::Read,
            ScopeName::Push => TokenScope::Push,
            ScopeName::Triage => TokenScope::Triage,
            ScopeName::Admin => TokenScope::Admin,
        }
    }
}

/// Parses a number of days, or any other duration.
fn lifetime(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match days {
        Some(days) if days > 0 => Ok(Duration::from_secs(u64::from(days) * 86_400)),
        _ => parse::duration(text)
            .map_err(|error| format!("{error}, or a number of days such as 365d")),
    }
}

/// Runs the subcommand.
///
/// # Errors
/// Fails if the store cannot be written, or there is no such token.
pub fn run(args: &TokenArgs) -> anyhow::Result<CommandStatus> {
    match &args.command {
        TokenCommand::Add(args) => add_token(args),
        TokenCommand::List(args) => list_tokens(args),
        TokenCommand::Revoke(args) => revoke_token(args),
    }
}

fn add_token(args: &AddArgs) -> anyhow::Result<CommandStatus> {
    ensure!(!args.name.trim().is_empty(), "the name of the token is empty");
    let path = args.store.database_path()?;
    let mut store = Store::open(&path)?;
    let mut scopes: Vec<TokenScope> = Vec::new();
    for scope in args.scope.iter().map(|name| TokenScope::from(*name)) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    if let Some(project) = &args.project {
        ensure_project(&mut store, &path, project)?;
    }
    let token = AccessToken::new()?;
    let now = unix_time_ms();
    let restriction = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
    store.add_token(&StoredToken {
        id: token.id().to_owned(),
        digest: token.digest().as_bytes().to_vec(),
        name: args.name.clone(),
        scopes,
        project: args.project.clone(),
        branches: restriction(&args.branch),
        machines: restriction(&args.machine),
        created_unix_ms: now,
        expires_unix_ms: args.expires.map(|duration| now + duration.as_millis() as i64),
        used_unix_ms: None,
        revoked_unix_ms: None,
    })?;
    record_action(&mut store, "token add", token.id())?;
    status::write_stdout(format!("{}\n", token.expose()))?;
    status::print_note("the token is shown only once; anyone who has it can use it");
    Ok(CommandStatus::DONE)
}

fn list_tokens(args: &ListArgs) -> anyhow::Result<CommandStatus> {
    let store = Store::open_to_read(&args.store.database_path()?)?;
    args.output.print_document(&report::list_tokens(&store.list_tokens()?, unix_time_ms()))?;
    Ok(CommandStatus::DONE)
}

fn revoke_token(args: &RevokeArgs) -> anyhow::Result<CommandStatus> {
    let mut store = Store::open(&args.store.database_path()?)?;
    for id in store.revoke_tokens(&args.token, unix_time_ms())? {
        record_action(&mut store, "token revoke", &id)?;
        status::print_note(&format!("revoked the token {id}"));
    }
    Ok(CommandStatus::DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lives_for_days_or_any_duration() {
        assert_eq!(lifetime("2d"), Ok(Duration::from_secs(172_800)));
        assert_eq!(lifetime("12h"), Ok(Duration::from_secs(43_200)));
        for invalid in ["0d", "d", "-1d", "1w", ""] {
            assert!(lifetime(invalid).unwrap_err().contains("365d"), "{invalid}");
        }
    }
}
