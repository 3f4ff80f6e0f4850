//! What a machine needs for a plan: the files of its benchmarks, programs that are not the system's, this program, and the plan
//! with its paths in the bundle.

use super::order::{PLAN, PROGRAM, ROOT};
use anyhow::{Context, ensure};
use speedwell_fleet::bundle::{Bundle, Wanted};
use speedwell_fleet::program;
use speedwell_harness::plan::{Plan, Prefixes};
use speedwell_harness::{Kind, own_program};
use speedwell_model::{Order, Purpose};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What every machine has of its own.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix"];

/// Refuses plans that cannot be measured elsewhere, before anything is sent.
///
/// # Errors
/// What stands in the way, and what to do about it.
pub fn check(plan: &Plan) -> anyhow::Result<()> {
    ensure!(
        plan.design.experiment.is_none()
            && !plan.jobs.iter().any(|job| job.source.kind == Kind::Load),
        "--on is for benchmark files and snippets\nhint: leave out --on; [place] in the file of an experiment gives its \
         parts machines of their own"
    );
    ensure!(
        !plan
            .variants
            .iter()
            .any(|variant| variant.worktree.is_some()),
        "--on cannot send revisions that are built here\nhint: give the programs that were built from them with --old \
         and --new"
    );
    ensure!(
        plan.design.counting.is_none(),
        "--on is for times, and instructions are the same on every machine\nhint: leave out --on"
    );
    ensure!(
        plan.design.purpose == Purpose::Measured && !plan.is_search && !plan.shared,
        "--on divides a plan that is fixed beforehand, and here what is measured next follows from what was\nhint: \
         leave out --on"
    );
    ensure!(
        plan.design.order != Order::Paired || plan.pin.is_none(),
        "--on cannot know the processors of other machines\nhint: leave out --pin"
    );
    Ok(())
}

/// Gathers what the plan needs.
///
/// # Errors
/// A file is missing, or there is too much.
pub fn gather(plan: &Plan) -> anyhow::Result<Bundle> {
    let folders = outermost(folders_of(plan));
    let mut prefixes: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut wanted: Vec<Wanted> = Vec::new();
    for (number, from) in folders.into_iter().enumerate() {
        let to = format!("files/{number}");
        prefixes.push((from.clone(), Path::new(ROOT).join(&to)));
        wanted.push(Wanted::Folder { from, to });
    }
    for (number, from) in programs_of(plan).into_iter().enumerate() {
        let is_sent = prefixes.iter().any(|(folder, _)| from.starts_with(folder));
        if is_sent && !is_ignored(&from, &wanted) {
            continue;
        }
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let to = format!("programs/{number}/{name}");
        prefixes.push((from.clone(), Path::new(ROOT).join(&to)));
        wanted.push(Wanted::Program { from, to });
    }
    let moved = plan.relocated(&Prefixes::new(prefixes));
    wanted.push(Wanted::Text {
        text: serde_json::to_string(&moved)?,
        to: PLAN.to_owned(),
    });
    wanted.push(Wanted::Program {
        from: program::sendable(&own_program()),
        to: PROGRAM.to_owned(),
    });
    Bundle::gather(&wanted)
}

/// The folders that hold benchmark files and what they need.
fn folders_of(plan: &Plan) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    for job in &plan.jobs {
        let source = &job.source;
        if matches!(source.kind, Kind::Snippet(_)) {
            let snippet = job.snippet.iter();
            let of_variants = plan
                .variants
                .iter()
                .filter_map(|variant| variant.snippet.as_ref());
            folders.extend(snippet.chain(of_variants).flat_map(|own| own.paths.clone()));
            continue;
        }
        folders.extend(source.file.parent().map(Path::to_owned));
        if source.file.starts_with(&source.root) {
            folders.insert(source.root.clone());
        }
        // A benchmark is started in a folder that it may read.
        let is_near = source.file.starts_with(&source.directory);
        if is_near && source.directory != Path::new("/") {
            folders.insert(source.directory.clone());
        }
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// Those that lie in no other of them.
fn outermost(folders: BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> = Vec::new();
    for folder in folders {
        if !kept.iter().any(|outer| folder.starts_with(outer)) {
            kept.push(folder);
        }
    }
    kept
}

/// Programs that are given by a path outside the system: those given by a bare word are the machine's own.
fn programs_of(plan: &Plan) -> BTreeSet<PathBuf> {
    let is_own = |path: &PathBuf| {
        path.is_absolute() && path.is_file() && !SYSTEM.iter().any(|own| path.starts_with(own))
    };
    let programs = plan
        .variants
        .iter()
        .filter_map(|variant| variant.program.clone());
    programs.filter(is_own).collect()
}

/// Whether git ignores a program in a folder that is sent, as it does what was built.
fn is_ignored(program: &Path, wanted: &[Wanted]) -> bool {
    let inside = wanted.iter().any(|one| match one {
        Wanted::Folder { from, .. } => program.starts_with(from),
        _ => false,
    });
    let asked = std::process::Command::new("git")
        .arg("-C")
        .arg(program.parent().unwrap_or(Path::new("/")))
        .args(["check-ignore", "-q"])
        .arg(program)
        .output();
    inside && asked.is_ok_and(|asked| asked.status.success())
}

/// The program of a bundle as the session's own, for engines that start it there.
///
/// # Errors
/// The disk fails.
pub fn link_program(session: &Path, bundle: &Path) -> anyhow::Result<()> {
    let (from, to) = (bundle.join(PROGRAM), session.join(PROGRAM));
    if to.exists() {
        return Ok(());
    }
    let linked = fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop));
    linked.with_context(|| format!("cannot make '{}'", to.display()))
}
