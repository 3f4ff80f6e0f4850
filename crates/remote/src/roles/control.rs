//! Manages experiments on several machines from outside the measuring process. Shows which roles
//! run where and whether they are being measured, waits for the end, cancels, and cleans up. Start
//! at [`PlacedSession::find`].

use crate::fleet::clean_machines;
use crate::machines::clean::CleanSummary;
use crate::machines::{FleetEngine, FleetMachine, MachineState};
use anyhow::{Context, Result, ensure};
use speedwell_adapters::plan::SessionPlan;
use speedwell_config::fleet::FleetFile;
use speedwell_machine::process::{self, ProcessIdentity};
use speedwell_model::{MachinePlacement, PlacedMachine, SessionState};
use speedwell_store::Store;
use std::thread;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a session may take to end on all its machines.
const END_GRACE: Duration = Duration::from_secs(60);

/// Which process measures a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuringProcess {
    /// A process on this machine, with this ID.
    Here(i32),
    /// A process on another machine, as far as the store knows.
    Elsewhere,
    /// No process, although the plan is not finished.
    Interrupted,
    /// No process, because the session is complete.
    Complete,
}

/// A role of an experiment on its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleStatus {
    /// `target`, `load`, or the name of a service.
    pub role: String,
    /// Name of the machine on which the role runs.
    pub machine: String,
    /// Address at which other machines reach this machine.
    pub address: String,
    /// What the engine reports about the machine, if anything.
    pub engine_status: Option<String>,
}

/// A session whose roles are placed on machines.
#[derive(Debug)]
pub struct PlacedSession {
    number: i64,
    placement: MachinePlacement,
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
        let Some(text) = store.session_plan(number)? else {
            return Ok(None);
        };
        let plan: SessionPlan = serde_json::from_str(&text)
            .with_context(|| format!("cannot read the plan of session @{number}"))?;
        let planned = plan.slots().len();
        let placement = plan.design.experiment.and_then(|experiment| experiment.placement);
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

    /// Determines which process measures the session now.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn measuring_process(&self, store: &Store) -> Result<MeasuringProcess> {
        match store.session_state(self.number)? {
            SessionState::Running => {}
            SessionState::Complete => return Ok(MeasuringProcess::Complete),
            _ => return Ok(MeasuringProcess::Interrupted),
        }
        let recorder = store.recording_process(self.number)?;
        let has_ended = recorder.as_ref().and_then(ProcessIdentity::has_ended);
        Ok(match (recorder, has_ended) {
            (_, Some(true)) => MeasuringProcess::Interrupted,
            (Some(recorder), Some(false)) => MeasuringProcess::Here(recorder.pid),
            _ => MeasuringProcess::Elsewhere,
        })
    }

    /// Lists the roles and what the engine reports about their machines.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn role_statuses(&self) -> Result<Vec<RoleStatus>> {
        let mut engine = FleetEngine::from_file(&self.file);
        let fleet_machines = engine.list_machines()?;
        let job = match &self.placement.allocation {
            Some(allocation) => engine.describe_allocation(allocation)?,
            None => None,
        };
        let status = |name: &str, machine: &PlacedMachine| RoleStatus {
            role: name.to_owned(),
            machine: machine.name.clone(),
            address: machine.address.to_string(),
            engine_status: unavailable_reason(&fleet_machines, &machine.name)
                .or_else(|| job.clone()),
        };
        let placement = &self.placement;
        let mut statuses = vec![status("target", placement.of_target())];
        let services = placement.services.iter();
        statuses.extend(services.map(|(name, index)| status(name, &placement.machines[*index])));
        let load = placement.load.iter();
        statuses.extend(load.map(|index| status("load", &placement.machines[*index])));
        Ok(statuses)
    }

    /// Waits until the measurement has ended or the user interrupts.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn wait(&self, store: &Store) -> Result<MeasuringProcess> {
        process::install_handlers()?;
        let process = loop {
            let process = self.measuring_process(store)?;
            let is_running =
                matches!(process, MeasuringProcess::Here(_) | MeasuringProcess::Elsewhere);
            if !is_running || process::is_interrupt_requested() {
                break process;
            }
            thread::sleep(POLL_INTERVAL);
        };
        process::clear_interrupt();
        Ok(process)
    }

    /// Ends the session as Ctrl-C would, and releases its machines.
    ///
    /// # Errors
    /// Fails if the session does not end in time. A session that holds no allocation cannot be
    /// cancelled if it has ended or if a process on another machine measures it.
    pub fn cancel(&self, store: &Store) -> Result<()> {
        let measuring = self.measuring_process(store)?;
        if let MeasuringProcess::Here(process) = measuring {
            if let Some(recorder) = store.recording_process(self.number)? {
                recorder.interrupt()?;
            }
            let begin = Instant::now();
            while self.measuring_process(store)? == measuring {
                ensure!(
                    begin.elapsed() < END_GRACE,
                    "session @{} has not ended in time; process {process} is still measuring it",
                    self.number
                );
                thread::sleep(POLL_INTERVAL);
            }
        }
        let mut engine = FleetEngine::from_file(&self.file);
        let allocation = self.placement.allocation.as_ref();
        let released = allocation.map(|allocation| engine.release_allocation(allocation));
        let was_allocated = released.transpose()?.unwrap_or(false);
        let number = self.number;
        ensure!(
            was_allocated || measuring != MeasuringProcess::Elsewhere,
            "session @{number} is measured by a process on another machine\nhint: end it there, with Ctrl-C"
        );
        ensure!(
            was_allocated || matches!(measuring, MeasuringProcess::Here(_)),
            "session @{number} no longer holds machines: nothing to cancel"
        );
        Ok(())
    }

    /// Removes the session's files from its machines. Returns a summary per machine.
    ///
    /// # Errors
    /// Fails if the session is still being measured or a machine cannot be reached.
    pub fn clean(&self, store: &Store) -> Result<Vec<(String, CleanSummary)>> {
        let number = self.number;
        let measuring = self.measuring_process(store)?;
        ensure!(
            matches!(measuring, MeasuringProcess::Interrupted | MeasuringProcess::Complete),
            "session @{number} is still being measured\nhint: 'speedwell fleet collect @{number}' waits for its end, \
             'speedwell fleet cancel @{number}' ends it"
        );
        let mut engine = FleetEngine::from_file(&self.file);
        let fleet_machines = engine.known_machines()?;
        let session_machines =
            self.placement.machines.iter().filter_map(|placed| {
                fleet_machines.iter().find(|machine| machine.name == placed.name)
            });
        let session = (self.placement.session())
            .context("the location of the session's files on its machines is unknown")?;
        clean_machines(&mut engine, session_machines.cloned(), Some(session), &self.file)
    }
}

fn unavailable_reason(machines: &[FleetMachine], name: &str) -> Option<String> {
    let machine = machines.iter().find(|machine| machine.name == name);
    match machine.map(|machine| &machine.state) {
        None => Some("it has left the fleet".to_owned()),
        Some(MachineState::Unfit(reason)) => Some(reason.clone()),
        Some(MachineState::Free | MachineState::Busy) => None,
    }
}
