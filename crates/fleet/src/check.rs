//! What a machine says of itself when it is asked whether it is fit to measure: who it is, how its clock runs, what may spoil
//! figures there, and its pulse. Start at [`ask`]; the other end is [`answer`].

use crate::clock::{self, Offset};
use crate::{Engine, FleetMachine, Identity};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use speedwell_model::Pulse;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

/// The hidden command that [`answer`]s.
pub const COMMAND: &str = "perform-check";

/// What a machine says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Which it is.
    pub identity: Identity,
    /// The version of the program that answers.
    pub version: String,
    /// What was looked at there.
    pub checks: Vec<MachineCheck>,
    /// What it took for work that is always the same.
    pub pulse: Pulse,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCheck {
    /// What it is.
    pub name: String,
    /// Whether figures suffer from it: it makes the machine unfit.
    pub is_problem: bool,
    /// Whether it is to be known.
    pub is_warning: bool,
    /// What was found.
    pub found: String,
    /// What to do about it; empty where nothing is to be done.
    pub remedy: String,
}

/// Asks a machine, whose `program` there is ours.
///
/// # Errors
/// It cannot be reached, or the program does not run there.
pub fn ask(
    engine: &mut Engine,
    machine: &FleetMachine,
    program: &Path,
) -> Result<(Offset, Checked)> {
    let mut line = engine.reach(&machine.name, &[&program.to_string_lossy(), COMMAND])?;
    let (to, from, complaint) = (line.stdin.take(), line.stdout.take(), line.stderr.take());
    let (Some(mut to), Some(from)) = (to, from) else {
        bail!("the line has no ends");
    };
    let mut from = BufReader::new(from);
    let asked = clock::ask(&mut to, &mut from).and_then(|offset| {
        to.write_all(b"check\n")?;
        let mut answer = String::new();
        from.read_line(&mut answer)?;
        ensure!(!answer.is_empty(), "the line ended");
        let checked = serde_json::from_str(&answer).context("the answer has no meaning")?;
        Ok((offset, checked))
    });
    drop((to, from));
    let mut said = String::new();
    if let Some(mut complaint) = complaint {
        let _ = complaint.read_to_string(&mut said);
    }
    let status = line.wait()?;
    let said = said
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .unwrap_or_default();
    match asked {
        Err(error) if said.is_empty() => Err(error.context(format!("the program ended: {status}"))),
        Err(_) => bail!(
            "the program does not run there: {said}\nhint: binary = \"/path\" in the machine's table names one that does"
        ),
        asked => asked,
    }
}

/// Answers at the machine's end: the time as often as it is asked, then what `look` finds.
///
/// # Errors
/// The line fails.
pub fn answer(
    from: &mut impl BufRead,
    to: &mut impl Write,
    look: impl FnOnce() -> Checked,
) -> Result<()> {
    let wish = clock::answer(from, to)?;
    ensure!(
        wish.trim_end() == "check",
        "'{}' is not known",
        wish.trim_end()
    );
    writeln!(to, "{}", serde_json::to_string(&look())?)?;
    to.flush()?;
    Ok(())
}
