//! Collects what a machine needs to measure its part of a plan, and sends it: benchmark files,
//! programs outside the system folders, this program, and the plan. Paths in the plan are rewritten
//! for the bundle.
//!
//! The files are written to a directly accessible folder or sent over a connection. In the second
//! case, this program is sent first; once started on the machine, it receives everything else.

use super::attempt::{BUNDLE_PLACEHOLDER, PLAN_PATH, PROGRAM_PATH};
use crate::machines::bundle::{BundleSource, FileBundle};
use crate::machines::{FleetEngine, FleetMachine, SHARD_SUBCOMMAND, content_store};
use anyhow::{Context, Result, ensure};
use speedwell_adapters::plan::{RelocationMap, SessionPlan};
use speedwell_adapters::{SourceKind, own_program};
use speedwell_config::fleet::{EngineKind, FleetFile};
use speedwell_config::project;
use speedwell_engine::EventListener;
use speedwell_machine::worker::WorkerGreeting;
use speedwell_model::{RunOrder, SessionEvent, SessionPurpose};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Folders that every machine provides.
const SYSTEM_FOLDERS: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix"];

/// Rejects plans that cannot be measured on other machines, before anything is sent.
///
/// # Errors
/// Fails with a message that names the obstacle and a remedy.
pub fn check_sendable(plan: &SessionPlan) -> Result<()> {
    ensure!(
        plan.design.experiment.is_none()
            && !plan.jobs.iter().any(|job| job.source.kind == SourceKind::Load),
        "--machines supports only benchmark files and snippets\nhint: leave out --machines; an experiment \
         assigns machines to its parts with [place]"
    );
    ensure!(
        !plan.variants.iter().any(|variant| variant.worktree.is_some()),
        "--machines cannot send revisions that are built here\nhint: name the programs built from them \
         with --old and --new"
    );
    ensure!(
        plan.design.counting.is_none(),
        "--machines distributes time measurements, but instruction counts are the same on every machine\nhint: \
         leave out --machines"
    );
    ensure!(
        plan.design.purpose == SessionPurpose::Measured && !plan.is_search && !plan.shared,
        "--machines needs a fixed plan, but this session chooses each measurement based on earlier results\n\
         hint: leave out --machines"
    );
    ensure!(
        plan.design.order != RunOrder::Paired || plan.pin.is_none(),
        "--machines with --order paired cannot be combined with --pin: the processors of other machines are \
         not known\nhint: leave out --pin"
    );
    Ok(())
}

/// Gathers everything that the plan needs.
///
/// # Errors
/// Fails if a file is missing or the files are too large.
pub fn gather_bundle(plan: &SessionPlan) -> Result<FileBundle> {
    let (mut sources, mut prefixes) = map_folders(plan_folders(plan))?;
    let sent_folders = sources.clone();
    for (index, from) in plan_programs(plan).into_iter().enumerate() {
        let is_sent = sent_folders.iter().any(|source| {
            matches!(source, BundleSource::Folder { from: folder, .. } if from.starts_with(folder))
        });
        if is_sent && !is_ignored(&from) {
            continue;
        }
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let to = format!("programs/{index}/{name}");
        prefixes.push((from.clone(), Path::new(BUNDLE_PLACEHOLDER).join(&to)));
        sources.push(BundleSource::Program { from, to });
    }
    let relocated = plan.relocated(&RelocationMap::new(prefixes));
    sources.push(BundleSource::Text {
        text: serde_json::to_string(&relocated)?,
        to: PLAN_PATH.to_owned(),
    });
    sources.push(BundleSource::Program {
        from: content_store::program_to_send(&own_program()),
        to: PROGRAM_PATH.to_owned(),
    });
    FileBundle::gather(&sources)
}

/// A local path and its counterpart on the machine.
type FolderPair = (PathBuf, PathBuf);

/// Returns what to send, and each folder with its path on the machine.
fn map_folders(folders: PlanFolders) -> Result<(Vec<BundleSource>, Vec<FolderPair>)> {
    let sent_folders = outermost_folders(folders.sent);
    let (mut sources, mut prefixes) = (Vec::new(), Vec::new());
    for (index, root) in outermost_folders(folders.named).into_iter().enumerate() {
        let target = format!("files/{index}");
        for folder in sent_folders.iter().filter(|sent_folder| sent_folder.starts_with(&root)) {
            let inside = (folder.strip_prefix(&root)?.to_str())
                .with_context(|| format!("the name of '{}' is not UTF-8", folder.display()))?;
            let to = match inside {
                "" => target.clone(),
                inside => format!("{target}/{inside}"),
            };
            sources.push(BundleSource::Folder { from: folder.clone(), to });
        }
        prefixes.push((root, Path::new(BUNDLE_PLACEHOLDER).join(&target)));
    }
    Ok((sources, prefixes))
}

/// Folders that a plan refers to.
#[derive(Debug, Default)]
struct PlanFolders {
    /// Folders to send: projects, and folders of files that belong to no project.
    sent: BTreeSet<PathBuf>,
    /// All folders named in the plan, whose paths are rewritten for the machine. Some of these
    /// folders, such as the folder that contains all groups of benchmarks, also contain files that
    /// are not sent.
    named: BTreeSet<PathBuf>,
}

impl PlanFolders {
    /// Adds the folders of a benchmark file. The folder to send is that of the file's project, or
    /// the file's own folder if it belongs to no project. `named` lists other folders of the plan
    /// that may contain the file.
    fn add_file(&mut self, file: &Path, named: [&Path; 2]) {
        if let Some(folder) = file.parent() {
            self.add_folder(project::project_root(folder).unwrap_or(folder).to_owned());
        }
        let contains = |folder: &&Path| file.starts_with(folder) && *folder != Path::new("/");
        self.named.extend(named.into_iter().filter(contains).map(Path::to_owned));
    }

    fn add_folder(&mut self, sent: PathBuf) {
        if sent.is_dir() {
            self.named.insert(sent.clone());
            self.sent.insert(sent);
        }
    }
}

/// Returns the folders with benchmark files and their dependencies.
fn plan_folders(plan: &SessionPlan) -> PlanFolders {
    let mut folders = PlanFolders::default();
    let sides = plan.jobs.iter().flat_map(|job| &job.sides).map(|(_, side)| side);
    for job in plan.jobs.iter().chain(sides) {
        let source = &job.source;
        if matches!(source.kind, SourceKind::Snippet(_)) {
            let snippet = job.snippet.iter();
            let variant_snippets =
                plan.variants.iter().filter_map(|variant| variant.snippet.as_ref());
            for path in snippet.chain(variant_snippets).flat_map(|snippet_code| &snippet_code.paths)
            {
                folders.add_folder(path.clone());
            }
        } else {
            folders.add_file(&source.file, [&source.root, &source.directory]);
        }
    }
    folders
}

/// Drops each folder that lies inside another folder of the set.
fn outermost_folders(folders: BTreeSet<PathBuf>) -> Vec<PathBuf> {
    // A folder is followed by everything below it.
    let mut outermost: Vec<PathBuf> = folders.into_iter().collect();
    outermost.dedup_by(|folder, outer| folder.starts_with(outer));
    outermost
}

/// Returns the programs that the plan names by an absolute path outside the system folders. A name
/// without a path refers to a program installed on the machine.
fn plan_programs(plan: &SessionPlan) -> BTreeSet<PathBuf> {
    let is_user_program = |path: &Path| {
        path.is_absolute()
            && path.is_file()
            && !SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder))
    };
    let variants = plan.variants.iter();
    let programs = variants.flat_map(|variant| [&variant.program, &variant.artifact]).flatten();
    programs.filter(|path| is_user_program(path)).cloned().collect()
}

/// Whether git ignores the program, as is usual for build output.
fn is_ignored(program: &Path) -> bool {
    let mut git = std::process::Command::new("git");
    git.arg("-C").arg(program.parent().unwrap_or(Path::new("/")));
    let output = git.args(["check-ignore", "-q"]).arg(program).output();
    output.is_ok_and(|output| output.status.success())
}

/// Links the bundle's program into the session's folder. Engines start the program there.
///
/// # Errors
/// Fails if the link cannot be created.
fn link_program(session: &Path, bundle: &Path) -> Result<()> {
    let (from, to) = (bundle.join(PROGRAM_PATH), session.join(PROGRAM_PATH));
    if to.exists() {
        return Ok(());
    }
    let result = fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop));
    result.with_context(|| format!("cannot make '{}'", to.display()))
}

/// Whether the fleet folder is directly accessible from this machine.
pub(crate) fn is_shared(file: &FleetFile) -> bool {
    file.folder.is_some() || file.engine != EngineKind::Ssh
}

const MAX_NAMED_FILES: usize = 5;

/// Warns about files that cannot be sent.
pub(crate) fn warn_of_left_out(
    bundle: &FileBundle,
    listener: &mut EventListener<'_>,
) -> Result<()> {
    let skipped = &bundle.skipped_files;
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
) -> Result<()> {
    let sentence = format!("sending to {machine}: {}, and the programs", bundle.folder_size);
    listener.observe(&SessionEvent::Note(&sentence))
}

/// Writes everything to a directly accessible folder, or sends it over a connection. Returns the
/// folders of the session and the bundle on the machine.
///
/// # Errors
/// Fails if the folder cannot be written, the machine cannot be reached, or it rejects the bundle.
pub(crate) fn send_bundle(
    engine: &mut FleetEngine,
    file: &FleetFile,
    bundle: &FileBundle,
    session: &str,
    machine: &FleetMachine,
) -> Result<(PathBuf, PathBuf)> {
    if is_shared(file) {
        let (folder, laid_out) = content_store::lay_out_locally(bundle, session, &machine.folder)?;
        // The program configured for the machine takes precedence over the program in the bundle.
        match &machine.binary {
            Some(binary) => link_configured_program(binary, &folder)?,
            None => link_program(&folder, &laid_out)?,
        }
        return Ok((folder, laid_out));
    }
    let folder = machine.folder.to_string_lossy();
    let program_file = content_store::program_to_send(&own_program());
    let sent_program = content_store::send_program(engine, machine, &program_file)?;
    let program = sent_program.to_string_lossy();
    let arguments = [SHARD_SUBCOMMAND, "--receive", &folder];
    let connection = engine.start_worker(&machine.name, &program, &arguments)?;
    let result = connection
        .use_streams(|writer, reader| content_store::send_bundle(bundle, session, writer, reader));
    connection.finish(result)
}

/// Receiving end of `send_bundle` over a connection: reads from stdin and answers on stdout.
///
/// # Errors
/// Fails if the connection breaks.
pub fn receive_bundle(folder: &Path) -> Result<()> {
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

fn link_configured_program(program: &Path, folder: &Path) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the folders that are sent for `file`, each with its place on the machine.
    fn sent_paths(folder: &Path, file: &str, root: &str, directory: &str) -> Vec<(String, String)> {
        let mut folders = PlanFolders::default();
        let (root, directory) = (folder.join(root), folder.join(directory));
        folders.add_file(&folder.join(file), [&root, &directory]);
        let (wanted, prefixes) = map_folders(folders).unwrap();
        // On the machine, the path of the file lies inside a folder that is sent.
        let moved = RelocationMap::new(prefixes).map_path(&folder.join(file));
        assert!(moved.starts_with(Path::new(BUNDLE_PLACEHOLDER).join("files/0")), "{moved:?}");
        let folders = wanted.into_iter().filter_map(|one| match one {
            BundleSource::Folder { from, to } => {
                assert!(moved.starts_with(Path::new(BUNDLE_PLACEHOLDER).join(&to)), "{moved:?}");
                let from = from.strip_prefix(folder).unwrap().to_str().unwrap();
                Some((from.to_owned(), to))
            }
            _ => None,
        });
        folders.collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(from, to): &(&str, &str)| ((*from).to_owned(), (*to).to_owned());
        expected.iter().map(owned).collect()
    }

    #[test]
    fn a_file_is_sent_with_its_folder_or_its_enclosing_project() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir_all(folder.join("around/bench/inner")).unwrap();
        // Groups are named after the folder, so the file's root is the parent folder.
        let alone = sent_paths(folder, "around/bench/b.js", "around", "around/bench");
        assert_eq!(alone, pairs(&[("around/bench", "files/0/bench")]));
        let alone = sent_paths(folder, "around/bench/b.js", "around/bench", "around/bench");
        assert_eq!(alone, pairs(&[("around/bench", "files/0")]));
        fs::write(folder.join("around/speedwell.toml"), "").unwrap();
        let in_project =
            sent_paths(folder, "around/bench/inner/b.js", "around/bench", "around/bench");
        assert_eq!(in_project, pairs(&[("around", "files/0")]));
        fs::create_dir(folder.join("around/bench/.git")).unwrap();
        let nearest = sent_paths(folder, "around/bench/inner/b.js", "around/bench", "around");
        assert_eq!(nearest, pairs(&[("around/bench", "files/0/bench")]));
    }
}
