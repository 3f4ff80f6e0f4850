//! Implements `speedwell serve forge`, which sets the repository whose pull requests get comments
//! from the server. Only the server's command line can change this setting, not a page or a
//! session. Start at [`run`].

use crate::options::DatabaseArgs;
use crate::serve::lookups::parse_comparison;
use crate::serve::project::{open_project_store, record_action};
use crate::{CommandStatus, status};
use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use speedwell_server::clients::SecretToken;
use speedwell_server::clients::forge::{ParsePullRequestError, PullRequestRef};
use speedwell_server::dashboard::project_name;
use speedwell_store::{ForgeSetting, Store};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf, absolute};

/// Let the server comment on pull requests when their sessions are pushed
///
/// Each session of a pull request is compared with a session of its base revision from the same machine. If a session
/// has several variants, these are compared instead. A single comment is kept up to date, and the commit status
/// 'speedwell/CHECK' is set.
#[derive(Debug, Args)]
pub struct ForgeArgs {
    #[command(subcommand)]
    command: ForgeCommand,
}

#[derive(Debug, Subcommand)]
enum ForgeCommand {
    Set(Box<SetArgs>),
    /// Show the repository; exit status 1 if none is set
    Show(ShowArgs),
    /// Stop commenting; existing comments remain
    Remove(ShowArgs),
}

/// Set the repository whose pull requests get comments
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell serve forge set github:owner/name --token-file /etc/speedwell/github.token --project core
  speedwell serve forge set gitea:https://forge.example/owner/name --token-file forge.token --fail-on worse --threshold 2%")]
struct SetArgs {
    /// Repository, e.g. github:OWNER/NAME
    ///
    /// Other forms are gitlab:GROUP/NAME and gitea:https://HOST/OWNER/NAME. A self-hosted GitHub or GitLab is written
    /// like Gitea: github:https://HOST/OWNER/NAME.
    #[arg(value_name = "REPOSITORY")]
    repository: String,
    /// File with the token, read for each comment
    ///
    /// It must be readable only by the user that runs the server.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Name of the comment and the status
    #[arg(long, value_name = "NAME", default_value = "compare")]
    check: String,
    /// When to report failure: worse, unclear [default: never]
    #[arg(long, value_name = "WHEN")]
    fail_on: Option<String>,
    /// Smallest change that matters, as for 'compare'
    #[arg(long, value_name = "PCT")]
    threshold: Option<String>,
    #[command(flatten)]
    project: ShowArgs,
}

/// Selects a project.
#[derive(Debug, Args)]
struct ShowArgs {
    /// Project name [default: the first]
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    #[command(flatten)]
    store: DatabaseArgs,
}

impl ShowArgs {
    /// Opens the project's store, and the store of the first project, which holds the audit log.
    fn open_stores(&self) -> anyhow::Result<(Store, Store)> {
        let path = self.store.database_path()?;
        // The first project can also be selected by the name that it has in URLs.
        let first_project = project_name(&path);
        let name = self.project.as_deref().filter(|name| *name != first_project);
        Ok((open_project_store(&path, name)?, Store::open(&path)?))
    }
}

/// Runs the subcommand.
///
/// # Errors
/// Fails if the store cannot be written, or the repository is not valid.
pub fn run(args: &ForgeArgs) -> anyhow::Result<CommandStatus> {
    match &args.command {
        ForgeCommand::Set(args) => set_forge(args),
        ForgeCommand::Show(args) => show_forge(args),
        ForgeCommand::Remove(args) => remove_forge(args),
    }
}

fn set_forge(args: &SetArgs) -> anyhow::Result<CommandStatus> {
    parse_pull_request(&args.repository, "1")?;
    ensure!(!args.check.trim().is_empty(), "the name of the check is empty");
    let file = absolute(&args.token_file)?;
    match read_token(&file) {
        Err(error) if file.exists() => return Err(error),
        Err(_) => status::print_warning(&format!(
            "'{}' does not exist yet: the server cannot comment until it can read this file.",
            file.display()
        )),
        Ok(_) => {}
    }
    let option_values = [("fail-on", &args.fail_on), ("threshold", &args.threshold)];
    let options: Vec<(String, String)> = option_values
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
        .collect();
    let setting = ForgeSetting {
        repository: args.repository.clone(),
        token_file: file
            .to_str()
            .context("the path of the token file is not valid UTF-8")?
            .to_owned(),
        check: args.check.clone(),
        options,
    };
    parse_comparison(&options_of(&setting))?;
    let (mut project_store, mut first_store) = args.project.open_stores()?;
    project_store.set_forge(Some(&setting))?;
    record_action(&mut first_store, "forge set", &setting.repository)?;
    status::print_note(&format!(
        "the server comments on pull requests of {} when their sessions are pushed",
        setting.repository
    ));
    Ok(CommandStatus::DONE)
}

fn show_forge(args: &ShowArgs) -> anyhow::Result<CommandStatus> {
    let (project_store, _) = args.open_stores()?;
    let Some(setting) = project_store.forge_setting()? else {
        status::print_note("the server does not comment on pull requests of this project");
        return Ok(CommandStatus::NEGATIVE);
    };
    status::write_stdout(serde_json::to_string_pretty(&setting)? + "\n")?;
    Ok(CommandStatus::DONE)
}

fn remove_forge(args: &ShowArgs) -> anyhow::Result<CommandStatus> {
    let (mut project_store, mut first_store) = args.open_stores()?;
    let Some(setting) = project_store.forge_setting()? else {
        bail!("the server does not comment on pull requests of this project");
    };
    project_store.set_forge(None)?;
    record_action(&mut first_store, "forge remove", &setting.repository)?;
    status::print_note(
        "the server no longer comments on pull requests of this project; existing comments remain",
    );
    Ok(CommandStatus::DONE)
}

/// Returns the comparison options as pairs of name and value.
pub fn options_of(setting: &ForgeSetting) -> Vec<(&str, &str)> {
    let options = setting.options.iter();
    options.map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Parses a pull request of a repository.
///
/// # Errors
/// Fails if the repository is not valid, or its server would receive the token unencrypted.
pub fn parse_pull_request(repository: &str, pull: &str) -> anyhow::Result<PullRequestRef> {
    let parsed = format!("{repository}#{pull}").parse::<PullRequestRef>();
    parsed.map_err(|error| match error {
        ParsePullRequestError::InvalidForm(_) => anyhow!(
            "cannot parse repository '{repository}'\n\
            hint: write it as github:OWNER/NAME, gitlab:GROUP/NAME or gitea:https://HOST/OWNER/NAME"
        ),
        ParsePullRequestError::Unencrypted(_) => error.into(),
    })
}

/// Reads the token from a file that is readable only by its owner.
///
/// # Errors
/// Fails if the file cannot be read, is empty, or is readable by others.
pub fn read_token(file: &Path) -> anyhow::Result<SecretToken> {
    let displayed_file = file.display();
    let metadata = fs::metadata(file)
        .with_context(|| format!("cannot read the token in '{displayed_file}'"))?;
    ensure!(
        metadata.permissions().mode() & 0o077 == 0,
        "the token in '{displayed_file}' can be read by others\nhint: chmod 600 '{displayed_file}'"
    );
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the token in '{displayed_file}'"))?;
    ensure!(!text.trim().is_empty(), "'{displayed_file}' contains no token");
    Ok(SecretToken::new(text))
}
