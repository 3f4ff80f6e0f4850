//! Puts what a session needs on a machine: into a folder that is seen from here, or over a line.
//!
//! Over a line the program goes first, by a constant script; everything else it takes by itself.

use super::contents::link_program;
use super::order::PROGRAM;
use anyhow::{Context, ensure};
use speedwell_fleet::bundle::Bundle;
use speedwell_fleet::{Engine, FleetMachine, depot};
use speedwell_suite::fleet::{EngineKind, FleetFile};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};

/// Takes a program of the name `$2` and `$3` bytes into the folder `$1`, unless it is there.
const TAKE_PROGRAM: &str = r#"umask 077 && mkdir -p "$1/bin" && cd "$1/bin" || exit
[ -x "$2" ] || { echo send; head -c "$3" > "$2.$$" && chmod 700 "$2.$$" && mv "$2.$$" "$2" || exit; }
echo there"#;

/// Whether this machine sees the folder of the others.
pub(super) fn is_shared(file: &FleetFile) -> bool {
    file.folder.is_some() || file.engine != EngineKind::Ssh
}

/// Lays everything out in a folder that is seen from here; gives the folders of the session and the bundle.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn here(
    bundle: &Bundle,
    session: &str,
    machine: &FleetMachine,
) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (folder, laid_out) = depot::lay_out_here(bundle, session, &machine.folder)?;
    set_program(machine, &folder, &laid_out)?;
    Ok((folder, laid_out))
}

/// The other end of [`there`]: takes what comes over the input of this process, and answers over its output.
///
/// # Errors
/// The line is cut.
pub fn receive(folder: &Path) -> anyhow::Result<()> {
    let (input, output) = (io::stdin(), io::stdout());
    let own = std::env::current_exe().context("cannot find this program")?;
    let then = |session: &Path, bundle: &Path| {
        // A program that was sent lies in our folder; another one is that which the fleet names for this machine.
        let folder = folder.canonicalize()?;
        if own.starts_with(folder) {
            link_program(session, bundle)
        } else {
            link_other(&own, session)
        }
    };
    depot::receive(folder, &mut input.lock(), &mut output.lock(), &then)
}

/// Sends everything over a line; gives the folders of the session and the bundle there.
///
/// # Errors
/// The machine cannot be reached, or refuses.
pub(super) fn there(
    engine: &mut Engine,
    bundle: &Bundle,
    session: &str,
    machine: &FleetMachine,
) -> anyhow::Result<(PathBuf, PathBuf)> {
    let folder = machine.folder.to_string_lossy().into_owned();
    let program = match &machine.binary {
        Some(binary) => binary.to_string_lossy().into_owned(),
        None => send_program(engine, bundle, machine, &folder)?,
    };
    let words = [program.as_str(), "perform-parcel", "--receive", &folder];
    let mut line = Line::open(engine, machine, &words)?;
    let sent = depot::send(bundle, session, &mut line.to, &mut line.from);
    line.close(sent)
}

fn send_program(
    engine: &mut Engine,
    bundle: &Bundle,
    machine: &FleetMachine,
    folder: &str,
) -> anyhow::Result<String> {
    let own = bundle.entries().iter().find(|entry| entry.path == PROGRAM);
    let own = own.context("the bundle has no program")?;
    let bytes = own.bytes.to_string();
    let words = ["sh", "-c", TAKE_PROGRAM, "sh", folder, &own.sha256, &bytes];
    let mut line = Line::open(engine, machine, &words)?;
    let mut take = || -> anyhow::Result<()> {
        let mut answer = String::new();
        line.from.read_line(&mut answer)?;
        if answer == "send\n" {
            io::copy(&mut bundle.open(&own.sha256)?, &mut line.to)?;
            line.to.flush()?;
            answer.clear();
            line.from.read_line(&mut answer)?;
        }
        ensure!(answer == "there\n", "it does not take the program");
        Ok(())
    };
    let taken = take();
    line.close(taken)?;
    Ok(format!("{folder}/bin/{}", own.sha256))
}

/// What a machine starts in a session: the program that its fleet names, or that of the bundle.
fn set_program(machine: &FleetMachine, folder: &Path, bundle: &Path) -> anyhow::Result<()> {
    match &machine.binary {
        Some(binary) => link_other(binary, folder),
        None => link_program(folder, bundle),
    }
}

fn link_other(program: &Path, folder: &Path) -> anyhow::Result<()> {
    let place = folder.join(PROGRAM);
    let is_there = place.exists();
    ensure!(
        !is_there || place.canonicalize().ok() == program.canonicalize().ok(),
        "machines that share a folder use one program\nhint: give the one with 'binary' a 'folder' of its own"
    );
    if !is_there {
        std::os::unix::fs::symlink(program, &place)
            .with_context(|| format!("cannot make '{}'", place.display()))?;
    }
    Ok(())
}

/// A line that is open.
struct Line {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Line {
    fn open(engine: &mut Engine, machine: &FleetMachine, words: &[&str]) -> anyhow::Result<Line> {
        let mut child = engine.reach(&machine.name, words)?;
        let ends = child.stdin.take().zip(child.stdout.take());
        let (to, from) = ends.context("the line has no ends")?;
        Ok(Line {
            child,
            to,
            from: BufReader::new(from),
        })
    }

    /// Closes the line. What went wrong at the other end says why something went wrong here.
    fn close<T>(self, done: anyhow::Result<T>) -> anyhow::Result<T> {
        let Line { child, to, .. } = self;
        drop(to);
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().rfind(|line| !line.trim().is_empty());
        done.with_context(|| said.unwrap_or("the line is cut").to_owned())
    }
}
