//! Services that several runs share: separate processes of this program run those of the session
//! and those of a block.
//!
//! Decides when they start and stop; `measure/roles` decides what they do. Start at
//! [`KeptServices::ready`].

use crate::{Message, own_program};
use speedwell_model::assignment::{Assignment, BackingService, Blank, Keeping, Scope};
use speedwell_model::performed::{Performed, Stage, StageFailure};
use speedwell_process::{Channel, Conversation, Next, Service, Spec, interrupted};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Hidden command that runs shared services.
pub const COMMAND: &str = "keep-services";

/// Longer than any session.
const LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Time limit for stopping all services.
const GRACE: Duration = Duration::from_secs(120);
/// Interval for checking whether the user has interrupted.
const PULSE: Duration = Duration::from_millis(100);
/// How much later than its consequences the end of a service may be reported.
const LATER: Duration = Duration::from_millis(300);
/// Lines of stderr kept with a failure.
const TAIL_LINES: usize = 20;

/// Running services that several runs share. Dropping this stops them.
#[derive(Debug, Default)]
pub struct KeptServices {
    of_session: Mutex<Option<Keeper>>,
    of_block: Mutex<Option<Keeper>>,
}

impl KeptServices {
    /// Makes sure that the shared services of a run are ready, and adds their addresses to the
    /// assignment. Services of a block are restarted for each (case, block).
    ///
    /// # Errors
    /// The stage that failed.
    pub(super) fn ready(
        &self,
        assignment: &mut Assignment,
        block: (usize, u32),
    ) -> Result<(), StageFailure> {
        for (scope, slot, block) in [
            (Scope::Session, &self.of_session, None),
            (Scope::Block, &self.of_block, Some(block)),
        ] {
            let is_own = |service: &BackingService| service.scope == scope;
            let (services, others) = assignment.services.drain(..).partition(is_own);
            assignment.services = others;
            let keeping = Keeping {
                services,
                kept: assignment.kept.clone(),
                ports: assignment.ports,
                placement: assignment.placement.clone(),
            };
            if keeping.services.is_empty() {
                continue;
            }
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            let is_it = |keeper: &Keeper| {
                keeper.block == block && keeper.keeping == keeping && !keeper.service.has_ended()
            };
            let keeper = match slot.take_if(|keeper| is_it(keeper)) {
                Some(keeper) => keeper,
                None => {
                    // Stopped first: two instances could conflict.
                    *slot = None;
                    Keeper::start(keeping, block)?
                }
            };
            assignment.kept.extend_from_slice(&keeper.places);
            *slot = Some(keeper);
        }
        Ok(())
    }

    /// Returns why a service has become unusable, if it has. After a failed run, waits briefly,
    /// since the end of a service may be reported later than its consequences.
    pub(super) fn lost(&self, has_failed: bool) -> Option<StageFailure> {
        let within = if has_failed { LATER } else { Duration::ZERO };
        [&self.of_session, &self.of_block]
            .into_iter()
            .find_map(|slot| {
                let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
                let lost = slot.as_ref()?.lost(within)?;
                *slot = None;
                Some(lost)
            })
    }

    /// Stops the services of the current block. Returns their notes and failure.
    pub fn end_block(&self) -> Performed {
        end(&self.of_block)
    }

    /// Stops all services. Returns their notes and the first failure.
    pub fn end(&self) -> Performed {
        let mut ended = end(&self.of_block);
        let last = end(&self.of_session);
        ended.notes.extend(last.notes);
        ended.failure = ended.failure.or(last.failure);
        ended
    }
}

fn end(slot: &Mutex<Option<Keeper>>) -> Performed {
    let keeper = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    keeper.map_or_else(Performed::default, Keeper::end)
}

/// Process that runs shared services. Dropping it stops them.
#[derive(Debug)]
struct Keeper {
    keeping: Keeping,
    block: Option<(usize, u32)>,
    service: Service,
    heard: Receiver<Message>,
    /// Addresses of its services.
    places: Vec<Blank>,
}

impl Keeper {
    fn start(keeping: Keeping, block: Option<(usize, u32)>) -> Result<Keeper, StageFailure> {
        let failed = |reason: String| StageFailure {
            stage: Stage::Start,
            reason,
            stderr_tail: String::new(),
        };
        let mut spec = Spec {
            channel: Channel::Harness,
            limit: LIFE,
            ..Spec::new(own_program()).args([COMMAND])
        };
        spec.shutdown.grace = GRACE;
        let text = serde_json::to_string(&keeping).map_err(|error| failed(error.to_string()))?;
        let order = Message::new("keep").with("id", 2).with("services", text);
        let (sender, heard) = mpsc::channel();
        let hearing = Hearing {
            opening: order.to_string().into_bytes(),
            heard: sender,
        };
        let service = Service::conversing(spec, hearing)
            .map_err(|error| failed(format!("what keeps services cannot be started: {error}")))?;
        let mut keeper = Keeper {
            keeping,
            block,
            service,
            heard,
            places: Vec::new(),
        };
        loop {
            match keeper.heard.recv_timeout(PULSE) {
                Ok(said) if said.verb == "ready" => {
                    let places = said.get("places").unwrap_or_default();
                    keeper.places = serde_json::from_str(&places)
                        .map_err(|error| failed(format!("where services are: {error}")))?;
                    return Ok(keeper);
                }
                Ok(said) => return Err(failure_of(&said).unwrap_or_else(|| keeper.silent())),
                Err(RecvTimeoutError::Timeout) if !interrupted() => {}
                Err(RecvTimeoutError::Timeout) => return Err(failed("interrupted".to_owned())),
                Err(RecvTimeoutError::Disconnected) => return Err(keeper.silent()),
            }
        }
    }

    /// Returns why its services have become unusable, if that is reported within this time.
    fn lost(&self, within: Duration) -> Option<StageFailure> {
        match self.heard.recv_timeout(within) {
            Ok(said) => failure_of(&said),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(StageFailure {
                stage: Stage::Alive,
                reason: "what keeps services has ended".to_owned(),
                stderr_tail: String::new(),
            }),
        }
    }

    /// Builds the failure of a process that ended without a report.
    fn silent(self) -> StageFailure {
        let outcome = self.service.stop();
        let (how, stderr_tail) = match outcome {
            Ok(outcome) => (
                outcome.ended.to_string(),
                outcome.stderr.last_lines(TAIL_LINES),
            ),
            Err(error) => (error.to_string(), String::new()),
        };
        StageFailure {
            stage: Stage::Start,
            reason: format!("what keeps services ended: {how}"),
            stderr_tail,
        }
    }

    fn end(self) -> Performed {
        let outcome = self.service.stop();
        let said = self.heard.try_iter().find(|said| said.verb == "ended");
        let performed = said.and_then(|said| serde_json::from_str(&said.get("json")?).ok());
        performed.unwrap_or_else(|| Performed {
            failure: Some(StageFailure {
                stage: Stage::Stop,
                reason: match outcome {
                    Ok(outcome) => {
                        format!("what keeps services did not end well: {}", outcome.ended)
                    }
                    Err(error) => format!("the end of services cannot be waited for: {error}"),
                },
                stderr_tail: String::new(),
            }),
            ..Performed::default()
        })
    }
}

/// Extracts the failure from the process's final report.
fn failure_of(said: &Message) -> Option<StageFailure> {
    let performed: Performed = serde_json::from_str(&said.get("json")?).ok()?;
    performed.failure
}

/// Sends the assignment, and forwards received messages.
struct Hearing {
    opening: Vec<u8>,
    heard: Sender<Message>,
}

impl Conversation for Hearing {
    fn opening(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.opening)
    }

    fn received(&mut self, line: &[u8]) -> Next {
        if let Some(message) = Message::parse(line) {
            // If nobody listens, the process is about to be stopped.
            let _ = self.heard.send(message);
        }
        Next::Wait
    }
}
