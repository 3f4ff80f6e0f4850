//! `speedwell serve token`: permissions on a server.

use super::project::{ensure_project, record_action};
use crate::options::{DatabaseArgs, OutputArgs, parse};
use crate::{CommandStatus, status};
use anyhow::ensure;
use clap::{Args, Subcommand, ValueEnum};
use speedwell_process::unix_time_ms;
use speedwell_report as report;
use speedwell_results::store::{Store, StoredToken, TokenScope};
use speedwell_serve::token::AccessToken;
use std::time::Duration;

/// Make, list and revoke the tokens of a server
#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    Add(AddArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Make a token; it is printed once and stored nowhere
#[derive(Debug, Args)]
struct AddArgs {
    /// What people call it
    #[arg(value_name = "NAME")]
    name: String,
    /// What it allows: read, push, judge, admin (repeatable)
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',')]
    scope: Vec<ScopeName>,
    /// Only in this project, which is made if needed [default: all]
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only push sessions of this branch (repeatable) [default: all]
    #[arg(long, value_name = "NAME")]
    branch: Vec<String>,
    /// Only push sessions of this machine (repeatable) [default: all]
    #[arg(long, value_name = "NAME")]
    machine: Vec<String>,
    /// For how long, such as 365d or 12h [default: until it is revoked]
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    expires: Option<Duration>,
    #[command(flatten)]
    store: DatabaseArgs,
}

/// Show the tokens, of which nothing shown is secret
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: DatabaseArgs,
}

/// End a token, and all logins with it
#[derive(Debug, Args)]
struct RevokeArgs {
    /// Its id or its name
    #[arg(value_name = "TOKEN")]
    token: String,
    #[command(flatten)]
    store: DatabaseArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeName {
    /// To read
    Read,
    /// To push, and to read what was pushed
    Push,
    /// To judge changes, and to read
    Judge,
    /// Everything
    Admin,
}

impl From<ScopeName> for TokenScope {
    fn from(name: ScopeName) -> TokenScope {
        match name {
            ScopeName::Read => TokenScope::Read,
            ScopeName::Push => TokenScope::Push,
            ScopeName::Judge => TokenScope::Judge,
            ScopeName::Admin => TokenScope::Admin,
        }
    }
}

/// Parses a number of days, or any other duration.
fn lifetime(text: &str) -> Result<Duration, String> {
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u32>().ok());
    match days {
        Some(days) if days > 0 => Ok(Duration::from_secs(u64::from(days) * 86_400)),
        _ => {
            parse::duration(text).map_err(|why| format!("{why}, nor a number of days such as 365d"))
        }
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
    ensure!(!args.name.trim().is_empty(), "a token needs a name");
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
    let some = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
    store.add_token(&StoredToken {
        id: token.id().to_owned(),
        digest: token.digest().as_bytes().to_vec(),
        name: args.name.clone(),
        scopes,
        project: args.project.clone(),
        branches: some(&args.branch),
        machines: some(&args.machine),
        created_unix_ms: now,
        expires_unix_ms: args.expires.map(|lasts| now + lasts.as_millis() as i64),
        used_unix_ms: None,
        revoked_unix_ms: None,
    })?;
    record_action(&mut store, "token add", token.id())?;
    status::write_stdout(format!("{}\n", token.expose()))?;
    status::print_note(
        "this is the only time that the token is shown; who has it may do what it allows",
    );
    Ok(CommandStatus::DONE)
}

fn list_tokens(args: &ListArgs) -> anyhow::Result<CommandStatus> {
    let store = Store::open_to_read(&args.store.database_path()?)?;
    args.output
        .print_document(&report::list_tokens(&store.list_tokens()?, unix_time_ms()))?;
    Ok(CommandStatus::DONE)
}

fn revoke_token(args: &RevokeArgs) -> anyhow::Result<CommandStatus> {
    let mut store = Store::open(&args.store.database_path()?)?;
    for id in store.revoke_tokens(&args.token, unix_time_ms())? {
        record_action(&mut store, "token revoke", &id)?;
        status::print_note(&format!("the token {id} is revoked"));
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
        for wrong in ["0d", "d", "-1d", "1w", ""] {
            assert!(lifetime(wrong).unwrap_err().contains("365d"), "{wrong}");
        }
    }
}
