//! What happens while a plan is executed, told to whoever wants to know.
//!
//! The runner knows neither the store nor the terminal: it tells its observers.

use super::{Failure, Metric, Run};

/// One thing that happened during a session.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// So many of all benchmark files have told their cases.
    Described {
        /// How many have.
        done: usize,
        /// How many there are.
        all: usize,
    },
    /// A benchmark file was planned.
    Planned {
        /// Its name.
        benchmark: &'a str,
        /// Its number of cases; `None` if it could not be read.
        cases: Option<usize>,
    },
    /// A whole sentence that a reader of the figures should know.
    Warning(&'a str),
    /// A sentence that says how busy the machine is with other things, before anything is measured.
    Busy(&'a str),
    /// What is being done, beside the runs of a plan.
    Note(&'a str),
    /// Measuring begins; `runs` is the largest number of runs the plan may need.
    Started {
        /// Upper bound of the number of runs.
        runs: usize,
        /// Number of cases.
        cases: usize,
        /// How many of the runs an earlier, interrupted session has done already.
        done: usize,
    },
    /// A process is about to be started.
    RunStarted {
        /// Position in the plan.
        slot: u32,
        /// Case id, or the benchmark's name when the case is known only afterwards.
        label: &'a str,
        /// The variant's name.
        variant: &'a str,
    },
    /// A metric was reported for the first time in this session.
    Declared(&'a Metric),
    /// A process ended with results. A process that executes several cases gives several.
    RunFinished(&'a Run),
    /// A step gave nothing.
    Failed(&'a Failure),
    /// No more runs of this case are needed; `saved` of the planned ones are left out.
    CaseDecided {
        /// Case id.
        label: &'a str,
        /// Runs that need not be executed.
        saved: usize,
    },
    /// A number of workers was visited in a search.
    Visited {
        /// The number.
        level: u32,
        /// Iterations per second.
        per_s: f64,
    },
    /// A slot is over, whatever came of it: it will not be executed again on resuming.
    SlotDone(u32),
    /// The last event of a session.
    Finished {
        /// Whether the user ended it early.
        interrupted: bool,
    },
}

/// Something that follows a session: the store, the progress line, a row writer.
pub trait Observer {
    /// Takes note of an event.
    ///
    /// # Errors
    /// An observer that cannot keep what it is told (disk full) ends the session.
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()>;
}
