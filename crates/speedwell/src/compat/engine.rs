//! What the drop-ins for `run.js`, `compare.js` and `scatter.js` need from the rest of the program.
//!
//! Decides what a drop-in asks for ([`Request`]) and what it is told ([`Follower`]); how benchmarks
//! are found out about, planned and executed is behind [`Engine`], which the command line
//! implements. It must not know how results are printed.

use crate::model::{Observer, Variant};
use anyhow::Result;
use std::path::PathBuf;

/// Which driver is stood in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `run.js`.
    Run,
    /// `compare.js`.
    Compare,
    /// `scatter.js`.
    Scatter,
}

/// A benchmark script as the driver names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// `group/name.js`; `group/name` for a directory with an `index.js`.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
}

/// What is to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The driver.
    pub tool: Tool,
    /// The folder that holds the groups and `common.js`; `None` for a script outside of one.
    pub folder: Option<PathBuf>,
    /// The scripts in order. A script that stands there twice is measured twice.
    pub scripts: Vec<Script>,
    /// `--set`: parameters and texts, in the order given. A name given several times has several
    /// values.
    pub sets: Vec<(String, String)>,
    /// Runs of each case under each variant.
    pub runs: u32,
    /// `old` and `new`, or a single one without a program, which stands for `node` from `PATH`.
    pub variants: Vec<Variant>,
    /// Whether scripts are executed with `--test`, besides what `sets` says.
    pub test: bool,
    /// The processors that measured processes are bound to, in the form `0,2-4`.
    pub processors: Option<String>,
}

/// How many cases a script has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedScript {
    /// The script's name as in [`Script::name`].
    pub name: String,
    /// Its number of cases; `None` for one that could not be planned.
    pub cases: Option<usize>,
}

/// Somebody who follows the execution of a request and prints it.
///
/// The benchmark of a [`Run`](crate::model::Run) is the name that the script reported; the label
/// of [`Event::RunStarted`](crate::model::Event) begins with the name of [`Script`].
pub trait Follower: Observer {
    /// Tells, once and before the first event, what is going to be executed: one entry for each
    /// script of the request, in order.
    ///
    /// # Errors
    /// The follower cannot print.
    fn planned(&mut self, scripts: &[PlannedScript]) -> Result<()>;
}

/// The part of the program that measures.
pub trait Engine {
    /// Measures everything that `request` asks for and tells `follower` about it.
    ///
    /// A case that fails is an event; the others go on.
    ///
    /// # Errors
    /// Measuring as a whole is impossible, or the follower cannot print.
    fn execute(&mut self, request: &Request, follower: &mut dyn Follower) -> Result<()>;
}
