//! Implements `speedwell serve backup`, which writes all projects of a server to one file, and
//! `speedwell serve restore`, which reads such a file back into a database file or into PostgreSQL.

use crate::history::project;
use crate::options::DatabaseArgs;
use crate::{CommandStatus, status};
use anyhow::{Context, ensure};
use clap::Args;
use speedwell_machine::process::{ScratchFolder, unix_time_ms};
use speedwell_report::format_count;
use speedwell_store::{
    BackupLines, RestoreSummary, Store, StoredProject, end_backup, write_backup_header,
};
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

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
pub fn back_up(args: &BackupArgs) -> anyhow::Result<CommandStatus> {
    let path = args.store.database_path()?;
    let store = Store::open_to_read(&path)?;
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
pub fn restore_backup(args: &RestoreArgs) -> anyhow::Result<CommandStatus> {
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

fn restore_all(
    path: &Path,
    mut lines: BackupLines<BufReader<&File>>,
) -> anyhow::Result<RestoreSummary> {
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
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(name);
    }
    let _ = std::fs::remove_dir_all(Store::projects_folder(path));
}

/// Restores one project and computes the history points of its sessions.
fn restore_project(
    store: &mut Store,
    lines: &mut BackupLines<BufReader<&File>>,
) -> anyhow::Result<RestoreSummary> {
    let summary = store.restore_project(lines)?;
    for number in store.find_sessions_without_points()? {
        project::store_points(store, number)?;
    }
    Ok(summary)
}

/// Opens the store of the named project, or the store of the first project if no name is given.
///
/// # Errors
/// Fails if there is no such project.
pub fn open_project_store(path: &Path, name: Option<&str>) -> anyhow::Result<Store> {
    let first_store = Store::open(path)?;
    let Some(name) = name else {
        return Ok(first_store);
    };
    let project = first_store.find_project(name)?.with_context(|| {
        format!("unknown project '{name}'\nhint: 'speedwell serve project list' shows all projects")
    })?;
    Store::open(&first_store.project_path(&project)?)
}
