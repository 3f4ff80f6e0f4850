//! Sends a machine the files that a session needs. The files are written to a directly accessible
//! folder or sent over a connection. In the second case, this program is sent first; once started
//! on the machine, it receives everything else.

use super::manifest::link_program;
use super::shard_request::PROGRAM_PATH;
use crate::machines::bundle::FileBundle;
use crate::machines::detached::SHARD_SUBCOMMAND;
use crate::machines::{FleetEngine, FleetMachine, content_store, program};
use anyhow::{Context, ensure};
use speedwell_adapters::own_program;
use speedwell_config::fleet::{EngineKind, FleetFile};
use speedwell_engine::EventListener;
use speedwell_machine::worker::WorkerGreeting;
use speedwell_model::SessionEvent;
use std::io;
use std::path::{Path, PathBuf};

/// Whether the fleet folder is directly accessible from this machine.
pub(crate) fn is_shared(file: &FleetFile) -> bool {
    file.folder.is_some() || file.engine != EngineKind::Ssh
}

const MAX_NAMED_FILES: usize = 5;

/// Warns about files that cannot be sent.
pub(crate) fn warn_of_left_out(
    bundle: &FileBundle,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<()> {
    let skipped = bundle.skipped_files();
    for reason in skipped.iter().take(MAX_NAMED_FILES) {
        listener.observe(&SessionEvent::Warning(&format!("not sent: {reason}")))?;
    }
    if skipped.len() > MAX_NAMED_FILES {
        let others = skipped.len() - MAX_NAMED_FILES;
        listener.observe(&SessionEvent::Warning(&format!("files not sent: {others} more")))?;
    }
    Ok(())
}

/// Reports the size of the files that are being sent to a machine.
///
/// # Errors
/// Fails if the listener fails.
pub(crate) fn note_sending(
    bundle: &FileBundle,
    machine: &str,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<()> {
    let folders = bundle.folder_size();
    let sentence = format!("sending to {machine}: {folders}, and the programs");
    listener.observe(&SessionEvent::Note(&sentence))
}

/// Writes everything to a directly accessible folder. Returns the folders of the session and the
/// bundle.
///
/// # Errors
/// Fails if the folder cannot be written.
pub(crate) fn send_to_folder(
    bundle: &FileBundle,
    session: &str,
    machine: &FleetMachine,
) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (folder, laid_out) = content_store::lay_out_locally(bundle, session, &machine.folder)?;
    link_session_program(machine, &folder, &laid_out)?;
    Ok((folder, laid_out))
}

/// Receiving end of [`send_over_connection`]: reads from stdin and answers on stdout.
///
/// # Errors
/// Fails if the connection breaks.
pub fn receive_bundle(folder: &Path) -> anyhow::Result<()> {
    let (input, output) = (io::stdin(), io::stdout());
    let program = std::env::current_exe().context("cannot find this program")?;
    let link_received = |session: &Path, bundle: &Path| {
        // A program inside the fleet folder was sent by the coordinator. Any other program was
        // configured for this machine.
        if program.starts_with(folder.canonicalize()?) {
            link_program(session, bundle)
        } else {
            link_configured_program(&program, session)
        }
    };
    WorkerGreeting::send()?;
    content_store::receive_bundle(folder, &mut input.lock(), &mut output.lock(), &link_received)
}

/// Sends everything over a connection. Returns the remote folders of the session and the bundle.
///
/// # Errors
/// Fails if the machine cannot be reached or rejects the bundle.
pub(crate) fn send_over_connection(
    engine: &mut FleetEngine,
    bundle: &FileBundle,
    session: &str,
    machine: &FleetMachine,
) -> anyhow::Result<(PathBuf, PathBuf)> {
    let folder = machine.folder.to_string_lossy().into_owned();
    let sent_program = program::send_program(engine, machine, &own_program())?;
    let program = sent_program.to_string_lossy();
    let arguments = [SHARD_SUBCOMMAND, "--receive", &folder];
    let connection = engine.start_worker(&machine.name, &program, &arguments)?;
    let result = connection
        .use_streams(|writer, reader| content_store::send_bundle(bundle, session, writer, reader));
    connection.finish(result)
}

/// Links the program that the machine starts in a session. The program configured for the machine
/// takes precedence over the program in the bundle.
fn link_session_program(
    machine: &FleetMachine,
    folder: &Path,
    bundle: &Path,
) -> anyhow::Result<()> {
    match &machine.binary {
        Some(binary) => link_configured_program(binary, folder),
        None => link_program(folder, bundle),
    }
}

fn link_configured_program(program: &Path, folder: &Path) -> anyhow::Result<()> {
    let link = folder.join(PROGRAM_PATH);
    let exists = link.exists();
    ensure!(
        !exists || link.canonicalize().ok() == program.canonicalize().ok(),
        "machines that share a folder must use the same program\nhint: give the machine with \
         'binary' its own 'folder'"
    );
    if !exists {
        std::os::unix::fs::symlink(program, &link)
            .with_context(|| format!("cannot make '{}'", link.display()))?;
    }
    Ok(())
}
