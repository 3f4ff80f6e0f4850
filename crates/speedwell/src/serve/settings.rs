//! Implements the commands for what a server stores: `speedwell serve token` manages the tokens
//! that grant permissions, `serve project` creates and lists projects, `forge` sets the repository
//! whose pull requests get comments, `backup` writes all projects to one file, `restore` reads such
//! a file back into a database file or into PostgreSQL, and `prune` deletes sessions that the
//! retention rules no longer keep.

use crate::history::project::store_points;
use crate::options::{DatabaseArgs, OutputArgs, parse};
use crate::serve::{forge, lookups};
use crate::status::{self, CommandStatus};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use speedwell_machine::process::{ScratchFolder, unix_time_ms};
use speedwell_model::stored::{AuditEntry, SessionOverview, StoredToken, TokenScope};
use speedwell_report::{self as report, ServedProject, format_count, list_served_projects};
use speedwell_server::dashboard::project_name;
use speedwell_server::http::token::AccessToken;
use speedwell_store::{
    BackupLines, ForgeSetting, RestoreSummary, RetentionRules, SessionFilter, Store, StoredProject,
    end_backup, sibling_path, write_backup_header,
};
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

/// Subcommands for the settings of a server.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// Create, list and revoke tokens of a server
    #[command(subcommand)]
    Token(TokenCommand),
    /// Create projects on a server, and control who may read them
    #[command(subcommand)]
    Project(ProjectCommand),
    /// Let the server comment on pull requests when their sessions are pushed
    ///
    /// Each session of a pull request is compared with a session of its base revision from the same machine. If a session
    /// has several variants, these are compared instead. A single comment is kept up to date, and the commit status
    /// 'speedwell/CHECK' is set.
    #[command(subcommand)]
    Forge(ForgeCommand),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Prune(PruneArgs),
}

/// Runs the subcommand.
///
/// # Errors
/// Fails if the store cannot be read or written, or an argument is not valid.
pub fn run(command: &ServeCommand) -> Result<CommandStatus> {
    match command {
        ServeCommand::Token(TokenCommand::Add(args)) => add_token(args),
        ServeCommand::Token(TokenCommand::List(args)) => list_tokens(args),
        ServeCommand::Token(TokenCommand::Revoke(args)) => revoke_token(args),
        ServeCommand::Project(ProjectCommand::Add(args)) => add_project(args),
        ServeCommand::Project(ProjectCommand::List(args)) => list_projects(args),
        ServeCommand::Forge(ForgeCommand::Set(args)) => set_forge(args),
        ServeCommand::Forge(ForgeCommand::Show(args)) => show_forge(args),
        ServeCommand::Forge(ForgeCommand::Remove(args)) => remove_forge(args),
        ServeCommand::Backup(args) => back_up(args),
        ServeCommand::Restore(args) => restore_backup(args),
        ServeCommand::Prune(args) => prune(args),
    }
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    Add(AddTokenArgs),
    /// List the tokens, without their secrets
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Create a token; it is printed once and never stored
#[derive(Debug, Args)]
pub struct AddTokenArgs {
    /// Name of the token
    #[arg(value_name = "NAME")]
    name: String,
    /// Allowed actions: read, push, triage, admin (repeatable)
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',', value_parser = parse::choice(SCOPES))]
    scope: Vec<TokenScope>,
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
pub struct RevokeArgs {
    /// Id or name of the token
    #[arg(value_name = "TOKEN")]
    token: String,
    #[command(flatten)]
    store: DatabaseArgs,
}

/// Permissions: their names, help and values.
const SCOPES: [parse::Choice<TokenScope>; 4] = [
    ("read", "Read", TokenScope::Read),
    ("push", "Push, and read what was pushed", TokenScope::Push),
    ("triage", "Triage changes, and read", TokenScope::Triage),
    ("admin", "Everything", TokenScope::Admin),
];

fn lifetime(text: &str) -> Result<Duration, String> {
    parse_days(text, 1, "365d")
}

fn add_token(args: &AddTokenArgs) -> Result<CommandStatus> {
    ensure!(!args.name.trim().is_empty(), "the name of the token is empty");
    let path = args.store.database_path()?;
    let mut store = Store::open(&path)?;
    let mut scopes: Vec<TokenScope> = Vec::new();
    for scope in &args.scope {
        if !scopes.contains(scope) {
            scopes.push(*scope);
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

fn list_tokens(args: &ListArgs) -> Result<CommandStatus> {
    let store = Store::open_to_read(&args.store.database_path()?)?;
    args.output.print_document(&report::list_tokens(&store.list_tokens()?, unix_time_ms()))?;
    Ok(CommandStatus::DONE)
}

fn revoke_token(args: &RevokeArgs) -> Result<CommandStatus> {
    let mut store = Store::open(&args.store.database_path()?)?;
    for id in store.revoke_tokens(&args.token, unix_time_ms())? {
        record_action(&mut store, "token revoke", &id)?;
        status::print_note(&format!("revoked the token {id}"));
    }
    Ok(CommandStatus::DONE)
}

#[derive(Debug, Subcommand)]
pub enum ProjectCommand {
    Add(AddProjectArgs),
    /// List the projects
    List(ListArgs),
}

/// Create a project, or change who may read it
#[derive(Debug, Args)]
pub struct AddProjectArgs {
    /// Name: up to 64 lowercase letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Let everyone who can reach the server read it
    #[arg(long)]
    public: bool,
    #[command(flatten)]
    store: DatabaseArgs,
}

/// Output and database of a list.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: DatabaseArgs,
}

/// Returns the project called `name`; creates the project if necessary. `name` may be the name that
/// the first project has in URLs.
///
/// # Errors
/// Fails if the name is not valid, or the store cannot be written.
fn ensure_project(store: &mut Store, path: &Path, name: &str) -> Result<StoredProject> {
    if name != project_name(path) {
        return store.add_project(name);
    }
    store.find_project("")?.context("the store has no first project")
}

fn add_project(args: &AddProjectArgs) -> Result<CommandStatus> {
    let path = args.store.database_path()?;
    let mut store = Store::open(&path)?;
    let project = ensure_project(&mut store, &path, &args.name)?;
    store.set_project_visibility(&project.name, args.public)?;
    record_action(&mut store, "project add", &args.name)?;
    let readers = if args.public { "by everyone" } else { "with a token" };
    status::print_note(&format!("project '{}' is readable {readers}", args.name));
    Ok(CommandStatus::DONE)
}

fn list_projects(args: &ListArgs) -> Result<CommandStatus> {
    let path = args.store.database_path()?;
    let store = Store::open_to_read(&path)?;
    let mut projects = Vec::new();
    for project in store.list_projects()? {
        let project_path = store.project_path(&project)?;
        let project_store = Store::open_to_read(&project_path)?;
        let name = if project.number == 1 { project_name(&path) } else { project.name };
        projects.push(ServedProject {
            name,
            is_public: project.is_public,
            sessions: project_store.count_sessions(&SessionFilter::default())?,
            bytes: std::fs::metadata(&project_path).ok().map(|metadata| metadata.len()),
            forge: project_store.forge_setting()?.map(|forge| forge.repository),
        });
    }
    args.output.print_document(&list_served_projects(&projects))?;
    Ok(CommandStatus::DONE)
}

/// Adds an action of the server's command line to the audit log.
fn record_action(store: &mut Store, action: &str, subject: &str) -> Result<()> {
    store.append_audit(&AuditEntry {
        at_unix_ms: unix_time_ms(),
        actor: "command line".into(),
        action: action.to_owned(),
        subject: Some(subject.to_owned()),
        result: "done".into(),
        ..AuditEntry::default()
    })
}

#[derive(Debug, Subcommand)]
pub enum ForgeCommand {
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
pub struct SetArgs {
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
pub struct ShowArgs {
    /// Project name [default: the first]
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    #[command(flatten)]
    store: DatabaseArgs,
}

impl ShowArgs {
    /// Opens the project's store, and the store of the first project, which holds the audit log.
    fn open_stores(&self) -> Result<(Store, Store)> {
        let path = self.store.database_path()?;
        // The first project can also be selected by the name that it has in URLs.
        let first_project = project_name(&path);
        let name = self.project.as_deref().filter(|name| *name != first_project);
        Ok((open_project_store(&path, name)?, Store::open(&path)?))
    }
}

/// Sets the repository.
///
/// # Errors
/// Fails if the repository is not valid, or the store cannot be written.
fn set_forge(args: &SetArgs) -> Result<CommandStatus> {
    forge::parse_pull_request(&args.repository, "1")?;
    ensure!(!args.check.trim().is_empty(), "the name of the check is empty");
    let file = absolute(&args.token_file)?;
    match forge::read_token(&file) {
        Err(error) if file.exists() => return Err(error),
        Err(_) => status::print_warning(&format!(
            "'{}' does not exist yet: the server cannot comment until it can read this file.",
            file.display()
        )),
        Ok(_) => {}
    }
    let option_values = [("fail-on", &args.fail_on), ("threshold", &args.threshold)];
    let given = |(name, value): (&str, &Option<String>)| Some((name.to_owned(), value.clone()?));
    let token_file = file.to_str().context("the path of the token file is not valid UTF-8")?;
    let setting = ForgeSetting {
        repository: args.repository.clone(),
        token_file: token_file.to_owned(),
        check: args.check.clone(),
        options: option_values.into_iter().filter_map(given).collect(),
    };
    lookups::parse_comparison(&forge::options_of(&setting))?;
    let (mut project_store, mut first_store) = args.project.open_stores()?;
    project_store.set_forge(Some(&setting))?;
    record_action(&mut first_store, "forge set", &setting.repository)?;
    status::print_note(&format!(
        "the server comments on pull requests of {} when their sessions are pushed",
        setting.repository
    ));
    Ok(CommandStatus::DONE)
}

/// Shows the repository.
///
/// # Errors
/// Fails if the store cannot be opened.
fn show_forge(args: &ShowArgs) -> Result<CommandStatus> {
    let (project_store, _) = args.open_stores()?;
    let Some(setting) = project_store.forge_setting()? else {
        status::print_note("the server does not comment on pull requests of this project");
        return Ok(CommandStatus::NEGATIVE);
    };
    status::write_stdout(serde_json::to_string_pretty(&setting)? + "\n")?;
    Ok(CommandStatus::DONE)
}

/// Stops commenting.
///
/// # Errors
/// Fails if no repository is set, or the store cannot be written.
fn remove_forge(args: &ShowArgs) -> Result<CommandStatus> {
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

/// Back up all projects, token digests and settings to a file
///
/// The file is JSON Lines. 'speedwell serve restore' reads it into a database file or into PostgreSQL, no matter which
/// of the two the sessions came from. The file is a consistent snapshot of each project, even if the server is running meanwhile. Sessions that
/// are being measured on this machine are left out; a session whose process was killed is written as interrupted.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// File to create; it must not exist yet
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    store: DatabaseArgs,
}

/// Restore a file written by 'speedwell serve backup'
///
/// Existing sessions are not changed, and deleted ones are not restored. The whole file is checked before anything is
/// written.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Backup file to read
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    store: DatabaseArgs,
}

/// Writes a backup.
///
/// # Errors
/// Fails if the store cannot be read, or the file cannot be written.
fn back_up(args: &BackupArgs) -> Result<CommandStatus> {
    let store = Store::open_to_read(&args.store.database_path()?)?;
    let displayed_file = args.file.display();
    // Never overwrite an earlier backup. Write to another name first: a partial backup must not be
    // mistaken for a complete backup.
    ensure!(!args.file.exists(), "'{displayed_file}' already exists\nhint: name another file");
    let partial_file = args.file.with_extension("part");
    let file = File::create(&partial_file)
        .with_context(|| format!("cannot write '{}'", partial_file.display()))?;
    let mut out = BufWriter::new(file);
    write_backup_header(&mut out, unix_time_ms())?;
    let mut sessions = 0;
    let projects = store.list_projects()?;
    for project in &projects {
        let header = (project.name.as_str(), project.is_public);
        sessions += match project.number {
            1 => store.write_backup(header, &mut out)?,
            _ => Store::open_to_read(&store.project_path(project)?)?
                .write_backup(header, &mut out)?,
        };
    }
    end_backup(&mut out, (projects.len(), sessions))?;
    out.flush()?;
    out.get_ref().sync_all()?;
    std::fs::rename(&partial_file, &args.file)
        .with_context(|| format!("cannot write '{displayed_file}'"))?;
    let project_count = format_count(projects.len(), "project", "projects");
    let session_count = format_count(sessions, "session", "sessions");
    status::print_note(&format!("wrote {session_count} of {project_count} to '{displayed_file}'"));
    Ok(CommandStatus::DONE)
}

/// Restores a backup, after checking all of it.
///
/// # Errors
/// Fails if the file is not a valid backup, or the store cannot be written.
fn restore_backup(args: &RestoreArgs) -> Result<CommandStatus> {
    let displayed_file = args.file.display();
    let context = || format!("cannot restore '{displayed_file}'");
    let scratch = ScratchFolder::new()?;
    let mut file = open_seekable(&args.file, &scratch)
        .with_context(|| format!("cannot read '{displayed_file}'"))?;
    BackupLines::new(BufReader::new(&file))
        .and_then(BackupLines::validate)
        .with_context(context)?;
    file.rewind()?;
    let lines = BackupLines::new(BufReader::new(&file)).with_context(context)?;
    let path = args.store.database_path()?;
    let is_new = Store::server_address(&path).is_none() && !path.exists();
    let result = restore_all(&path, lines);
    if is_new && result.is_err() {
        remove_store(&path);
    }
    let totals = result.with_context(context)?;
    let format_sessions = |number| format_count(number, "session", "sessions");
    let mut message = format!("restored {}", format_sessions(totals.sessions));
    if totals.known > 0 {
        message += &format!("; already present: {}", format_sessions(totals.known));
    }
    if totals.deleted > 0 {
        message +=
            &format!("; not restored, because deleted here: {}", format_sessions(totals.deleted));
    }
    status::print_note(&message);
    Ok(CommandStatus::DONE)
}

/// Opens a file that will be read twice. Input from a pipe is copied to a file first.
fn open_seekable(path: &Path, scratch: &ScratchFolder) -> std::io::Result<File> {
    let mut file = File::open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let mut options = File::options();
    let mut copy = options.read(true).write(true).create_new(true).open(scratch.path("backup"))?;
    std::io::copy(&mut file, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

fn restore_all(path: &Path, mut lines: BackupLines<BufReader<&File>>) -> Result<RestoreSummary> {
    let mut first_store = Store::open(path)?;
    let mut totals = RestoreSummary::default();
    while let Some((name, is_public)) = lines.next_project()? {
        let summary = match name.as_str() {
            "" => restore_project(&mut first_store, &mut lines)?,
            name => {
                let project: StoredProject = first_store.add_project(name)?;
                first_store.set_project_visibility(name, is_public)?;
                let mut store = Store::open(&first_store.project_path(&project)?)?;
                restore_project(&mut store, &mut lines)?
            }
        };
        totals.sessions += summary.sessions;
        totals.known += summary.known;
        totals.deleted += summary.deleted;
    }
    Ok(totals)
}

/// Removes the store files that this restore created. Ignores failures: the error of the restore
/// explains why a partial store remains.
fn remove_store(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(sibling_path(path, suffix));
    }
    let _ = std::fs::remove_dir_all(Store::projects_folder(path));
}

/// Restores one project and computes the history points of its sessions.
fn restore_project(
    store: &mut Store,
    lines: &mut BackupLines<BufReader<&File>>,
) -> Result<RestoreSummary> {
    let summary = store.restore_project(lines)?;
    for number in store.find_sessions_without_points()? {
        store_points(store, number)?;
    }
    Ok(summary)
}

/// Opens the store of the named project, or the store of the first project if no name is given.
///
/// # Errors
/// Fails if there is no such project.
fn open_project_store(path: &Path, name: Option<&str>) -> Result<Store> {
    let first_store = Store::open(path)?;
    let Some(name) = name else { return Ok(first_store) };
    let project = first_store.find_project(name)?.with_context(|| {
        format!("unknown project '{name}'\nhint: 'speedwell serve project list' shows all projects")
    })?;
    Store::open(&first_store.project_path(&project)?)
}

/// How long a deletion can be undone.
const UNDELETE_PERIOD: Duration = Duration::from_secs(7 * 86_400);

/// Delete old sessions that failed or belong to branches
///
/// Nothing is deleted automatically. Tagged sessions, sessions of the main branch and sessions that confirm a change
/// are always kept. The store remembers deleted sessions and refuses later pushes of them; a deletion can be undone for
/// 7 days.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell serve prune --failed 90d --branches 30d --dry-run
  speedwell serve prune --project core --failed 90d --main main,release
  speedwell serve prune --undelete 019731f2-...")]
pub struct PruneArgs {
    /// Project name [default: the first]
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Delete interrupted and empty sessions older than this
    #[arg(long, value_name = "TIME", value_parser = age)]
    failed: Option<Duration>,
    /// Delete sessions of branches other than --main, older than this
    #[arg(long, value_name = "TIME", value_parser = age)]
    branches: Option<Duration>,
    /// Branches whose sessions are always kept
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = ["main", "master"])]
    main: Vec<String>,
    /// List what would be deleted, without deleting it
    #[arg(long)]
    dry_run: bool,
    /// Undo the deletion of this session
    #[arg(long, value_name = "ID", conflicts_with_all = ["failed", "branches", "dry_run"])]
    undelete: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: DatabaseArgs,
}

fn age(text: &str) -> Result<Duration, String> {
    parse_days(text, 0, "90d")
}

/// Parses a number of days, at least `least`, or any other duration.
fn parse_days(text: &str, least: u32, example: &str) -> Result<Duration, String> {
    match text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok()) {
        Some(days) if days >= least => Ok(Duration::from_secs(u64::from(days) * 86_400)),
        _ => parse::duration(text)
            .map_err(|error| format!("{error}, or a number of days such as {example}")),
    }
}

/// Deletes sessions, or undoes a deletion.
///
/// # Errors
/// Fails if the store cannot be written, or there is no such session.
fn prune(args: &PruneArgs) -> Result<CommandStatus> {
    let mut store = open_project_store(&args.store.database_path()?, args.project.as_deref())?;
    if let Some(id) = &args.undelete {
        let number = store.restore_deleted(id)?;
        status::print_note(&format!("restored session '{id}' as @{number}"));
        return Ok(CommandStatus::DONE);
    }
    ensure!(
        args.failed.is_some() || args.branches.is_some(),
        "no sessions selected to delete\nhint: use --failed 90d or --branches 30d; --dry-run lists the sessions"
    );
    let now = unix_time_ms();
    let cutoff = |age: Option<Duration>| age.map(|age| now - age.as_millis() as i64);
    let rules = RetentionRules {
        failed_since: cutoff(args.failed),
        branches_since: cutoff(args.branches),
        main: &args.main,
    };
    let expired = store.expired_sessions(&rules)?;
    if args.dry_run {
        let sessions: Vec<SessionOverview> =
            expired.iter().map(|(session, _)| session.clone()).collect();
        let page = report::SessionsPage {
            sessions: &sessions,
            number: 1,
            all: sessions.len(),
            is_chosen: true,
        };
        args.output.print_document(&report::list_sessions(&page))?;
        return Ok(CommandStatus::DONE);
    }
    for (session, reason) in &expired {
        store.delete_session(session.number, "command line", reason, now)?;
    }
    let purged = store.purge_deleted_before(now - UNDELETE_PERIOD.as_millis() as i64)?;
    status::print_note(&format!("deleted {}", format_count(expired.len(), "session", "sessions")));
    if purged > 0 {
        status::print_note(&format!("{purged} earlier deletions can no longer be undone"));
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
