//! Manages experiments on several machines from outside the process that measures: shows which
//! roles run where and whether they are being measured, waits for the end, cancels, and cleans up.
//! Start at [`PlacedSession::find`].

use crate::fleet::detached::clean_machines;
use anyhow::{Context, Result, ensure};
use speedwell_fleet::clean::Cleaned;
use speedwell_fleet::{Engine, FleetMachine, MachineState};
use speedwell_harness::plan::Plan;
use speedwell_model::{PlacedMachine, Placement, State};
use speedwell_process as process;
use speedwell_process::Identity;
use speedwell_results::store::Store;
use speedwell_suite::fleet::FleetFile;
use std::thread;
use std::time::{Duration, Instant};

/// Poll interval while waiting for a session to end.
const LOOK: Duration = Duration::from_millis(100);
/// How long a session may take to end, including what runs on its machines.
const GRACE: Duration = Duration::from_secs(60);

/// Which process measures a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// A process on this machine, with its ID.
    Here(i32),
    /// A process on another machine, as far as the store knows.
    Elsewhere,
    /// None, and the plan is not finished.
    Interrupted,
    /// None: the session is complete.
    Complete,
}

/// A role of an experiment on its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartStatus {
    /// `target`, `load`, or the name of a service.
    pub part: String,
    /// Name of its machine.
    pub machine: String,
    /// Address at which other machines reach it.
    pub address: String,
    /// The engine's status of the machine, if any.
    pub said: Option<String>,
}

/// A session whose roles are placed on machines.
#[derive(Debug)]
pub struct PlacedSession {
    number: i64,
    placement: Placement,
    file: FleetFile,
    /// Number of planned runs.
    pub planned: usize,
}

impl PlacedSession {
    /// Finds the session with this number; `None` if its roles are not placed on machines.
    ///
    /// # Errors
    /// Fails if the session or its fleet file cannot be read.
    pub fn find(store: &Store, number: i64) -> Result<Option<PlacedSession>> {
        let Some(text) = store.plan(number)? else {
            return Ok(None);
        };
        let plan: Plan = serde_json::from_str(&text)
            .with_context(|| format!("the plan of session @{number} cannot be read"))?;
        let planned = plan.slots().len();
        let placement = plan.design.experiment.and_then(|own| own.placement);
        let Some(placement) = placement else {
            return Ok(None);
        };
        Ok(Some(PlacedSession {
            number,
            file: FleetFile::read(&placement.fleet)?,
            placement: *placement,
            planned,
        }))
    }

    /// Determines which process measures it now.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn measured(&self, store: &Store) -> Result<Measured> {
        match store.state(self.number)? {
            State::Running => {}
            State::Complete => return Ok(Measured::Complete),
            _ => return Ok(Measured::Interrupted),
        }
        let recorder = store.recorder(self.number)?;
        Ok(match recorder.as_ref().map(Identity::has_ended) {
            Some(Some(true)) => Measured::Interrupted,
            Some(Some(false)) => Measured::Here(recorder.map_or(0, |own| own.pid)),
            Some(None) | None => Measured::Elsewhere,
        })
    }

    /// Lists the roles, with the engine's status of their machines.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn parts(&self) -> Result<Vec<PartStatus>> {
        let mut engine = Engine::of_file(&self.file);
        let known = engine.machines()?;
        let job = match &self.placement.allocation {
            Some(allocation) => engine.allocated(allocation)?,
            None => None,
        };
        let part = |name: &str, machine: &PlacedMachine| PartStatus {
            part: name.to_owned(),
            machine: machine.name.clone(),
            address: machine.address.to_string(),
            said: unfit(&known, &machine.name).or_else(|| job.clone()),
        };
        let placement = &self.placement;
        let mut parts = vec![part("target", placement.of_target())];
        let services = placement.services.iter();
        parts.extend(services.map(|(name, at)| part(name, &placement.machines[*at])));
        let load = placement.load.iter();
        parts.extend(load.map(|at| part("load", &placement.machines[*at])));
        Ok(parts)
    }

    /// Waits until the measurement has ended or the user interrupts.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn wait(&self, store: &Store) -> Result<Measured> {
        process::on_interrupt()?;
        let measured = loop {
            let measured = self.measured(store)?;
            let goes_on = matches!(measured, Measured::Here(_) | Measured::Elsewhere);
            if !goes_on || process::interrupted() {
                break measured;
            }
            thread::sleep(LOOK);
        };
        process::forget_interrupt();
        Ok(measured)
    }

    /// Ends the session as Ctrl-C would, and releases its machines.
    ///
    /// # Errors
    /// Fails if it has ended already, if another machine measures it and it holds no allocation, or
    /// if it does not end in time.
    pub fn cancel(&self, store: &Store) -> Result<()> {
        let measured = self.measured(store)?;
        if let Measured::Here(process) = measured {
            if let Some(recorder) = store.recorder(self.number)? {
                recorder.interrupt()?;
            }
            let begin = Instant::now();
            while self.measured(store)? == measured {
                ensure!(
                    begin.elapsed() < GRACE,
                    "session @{} does not end; the process that measures it is {process}",
                    self.number
                );
                thread::sleep(LOOK);
            }
        }
        let was_held = match &self.placement.allocation {
            Some(allocation) => Engine::of_file(&self.file).release(allocation)?,
            None => false,
        };
        let number = self.number;
        ensure!(
            was_held || measured != Measured::Elsewhere,
            "session @{number} is measured by a process of another machine\nhint: end it there, with Ctrl-C"
        );
        ensure!(
            was_held || matches!(measured, Measured::Here(_)),
            "session @{number} has no machines any more: there is nothing to cancel"
        );
        Ok(())
    }

    /// Removes the session's files from its machines; returns what was removed, by machine.
    ///
    /// # Errors
    /// Fails if it is still being measured or a machine cannot be reached.
    pub fn clean(&self, store: &Store) -> Result<Vec<(String, Cleaned)>> {
        let number = self.number;
        let measured = self.measured(store)?;
        ensure!(
            matches!(measured, Measured::Interrupted | Measured::Complete),
            "session @{number} is still being measured\nhint: 'speedwell fleet collect @{number}' waits for its end, \
             'speedwell fleet cancel @{number}' ends it"
        );
        let mut engine = Engine::of_file(&self.file);
        let known = engine.machines()?;
        let own = self.placement.machines.iter();
        let own = own.filter_map(|own| known.iter().find(|known| known.name == own.name));
        let session = self.placement.session();
        let session = session.context("where its files are is not known")?;
        clean_machines(&mut engine, own.cloned(), Some(session), &self.file)
    }
}

fn unfit(known: &[FleetMachine], name: &str) -> Option<String> {
    let Some(machine) = known.iter().find(|known| known.name == name) else {
        return Some("it is not in the fleet any more".to_owned());
    };
    match &machine.state {
        MachineState::Unfit(why) => Some(why.clone()),
        MachineState::Free | MachineState::Busy => None,
    }
}
