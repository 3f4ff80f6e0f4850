//! Implements `speedwell serve project`, which creates and lists the projects of a server.

use crate::options::{DatabaseArgs, OutputArgs};
use crate::{CommandStatus, status};
use anyhow::Context;
use clap::{Args, Subcommand};
use speedwell_machine::process::unix_time_ms;
use speedwell_model::stored::AuditEntry;
use speedwell_report::{ServedProject, list_served_projects};
use speedwell_server::dashboard::project_name;
use speedwell_store::{SessionFilter, Store, StoredProject};
use std::path::Path;

/// Create projects on a server, and control who may read them
#[derive(Debug, Args)]
pub struct ProjectArgs {
    #[command(subcommand)]
    command: ProjectCommand,
}

#[derive(Debug, Subcommand)]
enum ProjectCommand {
    Add(AddArgs),
    List(ListArgs),
}

/// Create a project, or change who may read it
#[derive(Debug, Args)]
struct AddArgs {
    /// Name: up to 64 lowercase letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Let everyone who can reach the server read it
    #[arg(long)]
    public: bool,
    #[command(flatten)]
    store: DatabaseArgs,
}

/// List the projects
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: DatabaseArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// Fails if the store cannot be written, or the name is not valid.
pub fn run(args: &ProjectArgs) -> anyhow::Result<CommandStatus> {
    match &args.command {
        ProjectCommand::Add(args) => add_project(args),
        ProjectCommand::List(args) => list_projects(args),
    }
}

/// Returns the project called `name`; creates the project if necessary. `name` may be the name that
/// the first project has in URLs.
///
/// # Errors
/// Fails if the name is not valid, or the store cannot be written.
pub fn ensure_project(store: &mut Store, path: &Path, name: &str) -> anyhow::Result<StoredProject> {
    if name != project_name(path) {
        return store.add_project(name);
    }
    store.find_project("")?.context("the store has no first project")
}

fn add_project(args: &AddArgs) -> anyhow::Result<CommandStatus> {
    let path = args.store.database_path()?;
    let mut store = Store::open(&path)?;
    let project = ensure_project(&mut store, &path, &args.name)?;
    store.set_project_visibility(&project.name, args.public)?;
    record_action(&mut store, "project add", &args.name)?;
    let readers = if args.public { "by everyone" } else { "with a token" };
    status::print_note(&format!("project '{}' is readable {readers}", args.name));
    Ok(CommandStatus::DONE)
}

fn list_projects(args: &ListArgs) -> anyhow::Result<CommandStatus> {
    let path = args.store.database_path()?;
    let store = Store::open_to_read(&path)?;
    let mut projects = Vec::new();
    for project in store.list_projects()? {
        let project_path = store.project_path(&project)?;
        let project_store = Store::open_to_read(&project_path)?;
        let name = match project.number {
            1 => project_name(&path),
            _ => project.name,
        };
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
pub fn record_action(store: &mut Store, action: &str, subject: &str) -> anyhow::Result<()> {
    store.append_audit(&AuditEntry {
        at_unix_ms: unix_time_ms(),
        actor: "command line".into(),
        action: action.to_owned(),
        subject: Some(subject.to_owned()),
        result: "done".into(),
        ..AuditEntry::default()
    })
}
