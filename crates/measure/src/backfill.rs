//! Fills gaps in the history: builds and measures revisions one after the other, storing each
//! result at once.
//!
//! Decides which revisions to measure, from coarse to fine and never depending on a value, and
//! which to skip. `revisions` decides how a revision is built. Start at [`backfill`].

use super::{Listener, MeasureRequest, Plans, RevisionRequest, SessionRequest};
use crate::{header, history, measure, revisions};
use anyhow::{Context, Result, bail, ensure};
use speedwell_analysis as analysis;
use speedwell_environment::Git;
use speedwell_harness::plan::Plan;
use speedwell_model::{
    Cause, Event, Failure, Metric, Observer, OriginRequest, Purpose, Revision, State, Step,
    Variant, quote, short_revision,
};
use speedwell_process::{adopt_orphans, forget_interrupt, interrupted, on_interrupt};
use speedwell_results::store::Store;
use speedwell_runner::worktree::{self, Checkout};
use std::collections::{BTreeSet, BinaryHeap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Timeout for git to list a line.
const LISTING: Duration = Duration::from_secs(120);

/// Options for filling a line of revisions with points.
#[derive(Debug, Clone, Default)]
pub struct BackfillRequest {
    /// `A..B`, both ends included.
    pub range: String,
    /// Number of revisions that should have points, including those that already have some.
    pub points: usize,
    /// Total time limit, including builds.
    pub budget: Option<Duration>,
    /// Program to build from each revision, relative to the current folder.
    pub program: Option<PathBuf>,
    /// What to measure, without variants.
    pub measuring: MeasureRequest,
}

/// Outcome for one revision of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Measured in this session, with this number of failures.
    Measured(i64, usize),
    /// Already had a point.
    Known,
    /// Could not be built or queried for its benchmarks, for this reason.
    Failed(String),
    /// Failed earlier, in this session.
    FailedBefore(i64),
}

/// Result of a backfill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backfilled {
    /// The revisions considered, oldest first.
    pub revisions: Vec<(Revision, Outcome)>,
    /// Number of revisions on the line.
    pub line: usize,
    /// Why it ended before all points were there.
    pub early: Option<Early>,
}

/// Why there are fewer points than requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Early {
    /// The user interrupted.
    Interrupted,
    /// The time limit was reached.
    Budget,
    /// The line has no more revisions.
    Line,
}

impl Backfilled {
    /// Number of revisions with points.
    pub fn points(&self) -> usize {
        let has_points =
            |outcome: &Outcome| matches!(outcome, Outcome::Measured(..) | Outcome::Known);
        self.revisions
            .iter()
            .filter(|(_, outcome)| has_points(outcome))
            .count()
    }
}

/// Measures revisions of the line until enough of them have points.
///
/// # Errors
/// Fails if the range is invalid, the newest revision does not have the targets, or the store
/// cannot be written.
pub fn backfill(
    request: &BackfillRequest,
    session: &SessionRequest,
    store: &mut Store,
    listener: &mut Listener<'_>,
) -> Result<Backfilled> {
    adopt_orphans();
    on_interrupt()?;
    let begin = Instant::now();
    let line = line(&request.range)?;
    let newest = line.last().context("a line has an end")?;
    let plans = plans(request, &newest.id, listener)
        .context("the newest revision of a range has to be measurable")?;
    let mut filling = Filling {
        known: known(&plans.plan, session, store)?,
        failed: store.failed_backfills()?,
        newest: plans.plan,
        request,
        session,
        store,
        listener,
    };
    let mut found: Vec<(usize, Outcome)> = Vec::new();
    let mut early = Some(Early::Line);
    let mut points = 0;
    for place in coarse_to_fine(line.len()) {
        let is_late = request
            .budget
            .is_some_and(|budget| begin.elapsed() > budget);
        if points == request.points || is_late {
            early = is_late
                .then_some(Early::Budget)
                .filter(|_| points < request.points);
            break;
        }
        filling.say(&line[place], points)?;
        let Some(outcome) = filling.outcome(&line[place])? else {
            early = Some(Early::Interrupted);
            break;
        };
        points += usize::from(matches!(outcome, Outcome::Measured(..) | Outcome::Known));
        found.push((place, outcome));
    }
    forget_interrupt();
    found.sort_by_key(|(place, _)| *place);
    Ok(Backfilled {
        line: line.len(),
        early: early.filter(|_| points < request.points),
        revisions: found
            .into_iter()
            .map(|(place, outcome)| (line[place].clone(), outcome))
            .collect(),
    })
}

/// Lists the revisions of a range along first parents, oldest first.
fn line(range: &str) -> Result<Vec<Revision>> {
    let (old, new) = range
        .split_once("..")
        .filter(|(old, new)| !old.is_empty() && !new.starts_with('.'))
        .with_context(|| {
            format!("'{range}' is not of the form A..B\nhint: v1.4..HEAD, main~50..main")
        })?;
    let new = if new.is_empty() { "HEAD" } else { new };
    let here = std::env::current_dir()?;
    let checkout = Checkout::find(&here)?;
    let commit = |name: &str| {
        revisions::commit(&checkout, name).with_context(|| format!("in the range '{range}'"))
    };
    let (first, last) = (commit(old)?, commit(new)?);
    let git = Git::at(&here, LISTING);
    let first = git
        .commit(&first.id)
        .context("git cannot show the oldest revision")?;
    let later = git
        .line(&last.id, Some(&first.id))
        .context("git cannot list the commits")?;
    let follows = match later.first() {
        Some(next) => next.parents.first() == Some(&first.id),
        None => first.id == last.id,
    };
    if !follows {
        bail!(
            "'{old}' is not on the line of first parents that leads to '{new}'\nhint: git log --first-parent {new} lists it; \
             the older revision comes first"
        );
    }
    Ok([vec![first], later].concat())
}

/// Returns the indexes of a line of `count` revisions in measuring order: both ends, newest first,
/// then repeatedly the middle of the widest gap, preferring newer ones. The line is thus covered
/// evenly wherever the sequence is cut off, and requesting more points extends it.
fn coarse_to_fine(count: usize) -> Vec<usize> {
    let Some(last) = count.checked_sub(1) else {
        return Vec::new();
    };
    let mut places = vec![last, 0];
    places.dedup();
    // Ordered by width, then by the newer end.
    let mut gaps = BinaryHeap::from([(last, last)]);
    while let Some((width, high)) = gaps.pop() {
        if width < 2 {
            break;
        }
        let upper = width / 2;
        places.push(high - upper);
        gaps.extend([(upper, high), (width - upper, high - upper)]);
    }
    places
}

/// Plans to measure one revision alone.
fn plans(request: &BackfillRequest, revision: &str, listener: &mut Listener<'_>) -> Result<Plans> {
    let mut measuring = request.measuring.clone();
    measuring.variants.given = vec![Variant::plain("default")];
    measuring.variants.revisions = vec![RevisionRequest {
        variant: 0,
        typed: revision.to_owned(),
        program: request.program.clone(),
        names_variant: true,
    }];
    let mut plans = Plans::read(&measuring, listener)?;
    ensure!(!plans.plan.jobs.is_empty(), "there is nothing to measure");
    plans.plan.design.purpose = Purpose::Backfill;
    Ok(plans)
}

/// IDs of the revisions with a point of one of these cases on this machine: instruction counts if
/// the plan counts, times otherwise.
fn known(plan: &Plan, session: &SessionRequest, store: &mut Store) -> Result<BTreeSet<String>> {
    history::summarise(store, usize::MAX)?;
    let machine = analysis::machine(&session.environment(&[]), session.origin().as_ref());
    let cases: BTreeSet<&str> = plan.jobs.iter().map(|job| &*job.label).collect();
    let measured = store.measured_on(&machine.id)?.into_iter();
    let counts = plan.design.counting.is_some();
    let is_wanted = |case: &str, metric: &str| {
        cases.contains(case) && (metric == Metric::INSTRUCTIONS) == counts
    };
    Ok(measured
        .filter(|[case, metric, _]| is_wanted(case, metric))
        .map(|[_, _, revision]| revision)
        .collect())
}

struct Filling<'a, 'l> {
    known: BTreeSet<String>,
    /// Earlier failures: revision ID, build command and session.
    failed: Vec<(String, String, i64)>,
    /// Plan of the newest revision, stored in place of a plan for revisions that have none.
    newest: Plan,
    request: &'a BackfillRequest,
    session: &'a SessionRequest,
    store: &'a mut Store,
    listener: &'a mut Listener<'l>,
}

impl Filling<'_, '_> {
    fn say(&mut self, revision: &Revision, points: usize) -> Result<()> {
        let subject = revision.subject.as_deref().unwrap_or_default();
        let sentence = format!(
            "{} of {} points; {} {subject}",
            points,
            self.request.points,
            short_revision(&revision.id)
        );
        self.listener.observe(&Event::Note(&sentence))
    }

    /// Measures a revision if necessary; `None` if the user interrupted.
    fn outcome(&mut self, revision: &Revision) -> Result<Option<Outcome>> {
        if self.known.contains(&revision.id) {
            return Ok(Some(Outcome::Known));
        }
        let command = self.build_command();
        let before =
            (self.failed.iter()).find(|(id, build, _)| *id == revision.id && *build == command);
        if let Some((_, _, number)) = before {
            return Ok(Some(Outcome::FailedBefore(*number)));
        }
        if interrupted() {
            return Ok(None);
        }
        let plans = match plans(self.request, &revision.id, self.listener) {
            Ok(plans) => plans,
            Err(_) if interrupted() => return Ok(None),
            Err(error) => {
                let said = format!("{error:#}");
                self.note_failure(revision, &said)?;
                return Ok(Some(Outcome::Failed(said)));
            }
        };
        let used = plans.plan.variants[0].worktree.clone();
        let request = self.session_of(revision);
        let measured = measure(plans, &request, self.store, self.listener)?;
        if let Some(used) = used {
            worktree::release(&used);
        }
        measured.ended?;
        let found = measured.session;
        Ok((found.state == State::Complete)
            .then(|| Outcome::Measured(found.number.unwrap_or_default(), found.failures.len())))
    }

    /// Session options for a revision, whichever is checked out.
    fn session_of(&self, revision: &Revision) -> SessionRequest {
        let origin = self.session.origin.clone().map(|own| OriginRequest {
            revision: Some(revision.id.clone()),
            ..own
        });
        SessionRequest {
            origin,
            ..self.session.clone()
        }
    }

    /// The build command, by which repeated failures are recognized.
    fn build_command(&self) -> String {
        let own = self.newest.variants[0].worktree.as_ref();
        let build = own.and_then(|own| own.build.as_ref());
        build.map(|build| build.command.clone()).unwrap_or_default()
    }

    /// Records that a revision could not be measured, as a session without runs.
    fn note_failure(&mut self, revision: &Revision, said: &str) -> Result<()> {
        let mut plan = self.newest.clone();
        let variant = &mut plan.variants[0];
        variant.name = short_revision(&revision.id).to_owned();
        plan.design.baseline.clone_from(&variant.name);
        if let Some(own) = &mut variant.worktree {
            own.revision.clone_from(&revision.id);
            own.typed.clone_from(&revision.id);
        }
        let command = self.build_command();
        let (reason, output) = said.split_once('\n').unwrap_or((said, ""));
        let failure = Failure {
            step: Step::Build,
            benchmark: plan.jobs[0].source.name.clone(),
            case: None,
            variant: Some(plan.variants[0].name.clone()),
            slot: None,
            cause: Cause::Invalid {
                reason: reason.to_owned(),
            },
            stderr_tail: output.to_owned(),
            replay: format!(
                "git checkout --detach {} && sh -c {}",
                revision.id,
                quote(&command)
            ),
        };
        let request = self.session_of(revision);
        let header = header(&plan, Default::default(), &request);
        let mut recorder = self.store.begin(&header, &serde_json::to_string(&plan)?)?;
        recorder.observe(&Event::Failed(&failure))?;
        recorder.observe(&Event::Finished { interrupted: false })?;
        let note = format!(
            "{} cannot be measured: passed over",
            short_revision(&revision.id)
        );
        self.listener.observe(&Event::Note(&note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_filled_from_coarse_to_fine_and_every_place_comes_once() {
        assert_eq!(coarse_to_fine(9), [8, 0, 4, 6, 2, 7, 5, 3, 1]);
        assert_eq!(coarse_to_fine(0), [0; 0]);
        assert_eq!(coarse_to_fine(1), [0]);
        assert_eq!(coarse_to_fine(2), [1, 0]);
        for count in 1..200 {
            let places = coarse_to_fine(count);
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            // However early it ends, no gap is more than twice as wide as another, except for
            // rounding.
            for known in 2..count {
                let mut seen = places[..known].to_vec();
                seen.sort_unstable();
                let gaps = seen.windows(2).map(|pair| pair[1] - pair[0]);
                let (least, most) = (gaps.clone().min().unwrap(), gaps.max().unwrap());
                assert!(most <= 2 * least + 1, "{count} {seen:?}");
            }
        }
    }
}
