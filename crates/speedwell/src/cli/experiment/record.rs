//! Profiles of an experiment: extra runs after measuring, one for each case and variant that is wanted.
//!
//! It decides which words typed take the place of what the file says. Which cases are meant is known to the analysis,
//! how a run is recorded to `runner/experiment`. Start at [`record`].

use crate::analysis::Settings;
use crate::analysis::experiment::{WantedProfile, of, requests_of, wanted_profiles};
use crate::cli::options::RunArgs;
use crate::cli::{Status, status};
use crate::definition::experiment::{Experiment, Kind, Profile, Tool, When};
use crate::harness::experiment::{self as harness, ProfileOrder};
use crate::harness::{Setting, own_program};
use crate::model::assignment::{Profiling, ProfilingTool};
use crate::model::{Case, Recording, Session};
use crate::plan::Plan;
use crate::process::interrupted;
use crate::store::Store;
use anyhow::Context;
use std::time::Duration;

/// Records what the file asks for, or `--profile`, and keeps it with the session. What cannot be recorded is kept
/// with its reason.
///
/// # Errors
/// The store fails.
pub fn record(
    plan: &Plan,
    session: &mut Session,
    settings: &Settings,
    store: &mut Store,
    args: &RunArgs,
) -> anyhow::Result<Status> {
    let Some(experiment) = plan.experiment()? else {
        return Ok(Status::DONE);
    };
    let Some(profile) = asked(&experiment, args.profile) else {
        return Ok(Status::DONE);
    };
    warn_of_files(&experiment, args);
    let found = of(session, &experiment, settings);
    let wanted = wanted_profiles(&found, &experiment, &profile);
    let number = session.number.context("a measured session is stored")?;
    let mut ended = Status::DONE;
    let mut done: Vec<Recording> = Vec::new();
    for (one, variant) in sides(&wanted) {
        let is_known = |known: &Recording| known.case == one.case && known.variant == *variant;
        if done.iter().any(is_known) {
            continue;
        }
        let order = ProfileOrder {
            profiling: profiling(&profile),
            requests: requests_of(session, &one.case, baseline_of(&wanted, &one.case)),
        };
        let Some(recording) = recorded(plan, &experiment, one, variant, &order, args) else {
            if interrupted() {
                ended = Status::INTERRUPTED;
                break;
            }
            continue;
        };
        store.keep_profile(number, &recording)?;
        done.push(recording);
    }
    session.profiles = store.session(number)?.profiles;
    Ok(ended)
}

/// How profiles are taken, if they are.
fn asked(experiment: &Experiment, is_typed: bool) -> Option<Profile> {
    let said = experiment.profile.clone();
    if !is_typed {
        return said.filter(|profile| profile.tool != Tool::None);
    }
    let compare = &experiment.compare;
    let last = compare
        .all_pairs()
        .into_iter()
        .rfind(|(baseline, _)| *baseline == compare.baseline);
    let usual = Profile {
        when: When::Always,
        tool: Tool::Auto,
        after_warmup: true,
        pairs: last.into_iter().collect(),
    };
    Some(match said {
        None => usual,
        Some(said) => Profile {
            when: When::Always,
            tool: match said.tool {
                Tool::None => Tool::Auto,
                tool => tool,
            },
            ..said
        },
    })
}

fn profiling(profile: &Profile) -> Profiling {
    Profiling {
        tool: match profile.tool {
            Tool::Auto | Tool::None => ProfilingTool::Auto,
            Tool::Perf => ProfilingTool::Perf,
            Tool::CpuProf => ProfilingTool::V8,
        },
        after_warmup: profile.after_warmup,
    }
}

/// Harnesses of benchmark files decide by time how much they do, so two recordings would not be of the same work.
fn warn_of_files(experiment: &Experiment, args: &RunArgs) {
    let files = experiment
        .groups
        .iter()
        .find(|group| group.kind == Kind::Function);
    if let Some(group) = files.filter(|_| args.profile) {
        status::warn(&format!(
            "'{}' consists of benchmark files, whose runs do not do the same work: they are not profiled.",
            group.name
        ));
    }
}

/// Every side of what is wanted.
fn sides(wanted: &[WantedProfile]) -> impl Iterator<Item = (&WantedProfile, &String)> {
    wanted
        .iter()
        .flat_map(|one| [(one, &one.pair.0), (one, &one.pair.1)])
}

/// By whose timed runs the work of a case is chosen. One decides for all pairs of it: a variant in two of them is
/// recorded once.
fn baseline_of<'a>(wanted: &'a [WantedProfile], case: &Case) -> &'a str {
    let first = wanted.iter().find(|one| one.case == *case);
    first.map_or("", |one| &one.pair.0)
}

/// Records a case under a variant; `None` if the case was not among those measured, or the user wants to stop.
fn recorded(
    plan: &Plan,
    experiment: &Experiment,
    wanted: &WantedProfile,
    variant: &str,
    order: &ProfileOrder,
    args: &RunArgs,
) -> Option<Recording> {
    let is_meant = |case: &Option<_>| case.as_ref() == Some(&wanted.case);
    let at = plan.jobs.iter().position(|job| is_meant(&job.case))?;
    let variant = plan.variants.iter().find(|known| known.name == variant)?;
    let slot = plan.slots().into_iter().find(|slot| slot.job == at)?;
    if args.output.progress() {
        let case = wanted.case.id();
        status::note(&format!(
            "recording where the time goes: {case}, {}",
            variant.name
        ));
    }
    let setting = Setting {
        variant,
        program: own_program(),
        slot: slot.index,
        ordinal: 0,
        seed: slot.seed(plan.design.seed),
        limit: Duration::from_millis(plan.sampling.timeout_ms),
        samples: plan.sampling.samples,
        pin: plan.pin.as_ref(),
        experiment: Some(experiment),
    };
    let profile = harness::record(&plan.jobs[at], &setting, order)?;
    Some(Recording {
        case: wanted.case.clone(),
        variant: variant.name.clone(),
        profile,
    })
}
