//! Profiles of an experiment: extra runs after measuring, one per requested case and variant.
//!
//! Decides what to record if more is requested than the file says. The analysis selects the cases;
//! `runner/experiment` records a run. Start at [`record`].

use crate::{Listener, warn};
use anyhow::Context;
use speedwell_analysis::Settings;
use speedwell_analysis::experiment::{WantedProfile, analyse, requests_of, wanted_profiles};
use speedwell_harness::experiment::{self as harness, ProfileOrder};
use speedwell_harness::plan::Plan;
use speedwell_harness::{RunLayout, Setting, own_program};
use speedwell_model::assignment::{Profiling, ProfilingTool};
use speedwell_model::{Case, Event, Recording, Session};
use speedwell_process::interrupted;
use speedwell_results::store::Store;
use speedwell_runner::Ended;
use speedwell_suite::experiment::{Experiment, Kind, Profile, Tool, When};
use std::time::Duration;

/// Records what the file asks for, or everything possible if `is_requested`, and stores it with the
/// session. What cannot be recorded is stored with the reason.
///
/// # Errors
/// Fails if the store fails.
pub fn record(
    plan: &Plan,
    session: &mut Session,
    settings: &Settings,
    is_requested: bool,
    store: &mut Store,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Ended> {
    let Some(experiment) = plan.experiment()? else {
        return Ok(Ended::Complete);
    };
    let Some(profile) = profile_of(&experiment, is_requested) else {
        return Ok(Ended::Complete);
    };
    if let Some(sentence) = files_warning(&experiment).filter(|_| is_requested) {
        warn(listener, &sentence)?;
    }
    let found = analyse(session, &experiment, settings);
    let wanted = wanted_profiles(&found, &experiment, &profile);
    let number = session.number.context("a measured session is stored")?;
    let (mut done, mut ended): (Vec<Recording>, _) = (Vec::new(), Ended::Complete);
    for (one, variant) in sides(&wanted) {
        let is_known = |known: &Recording| known.case == one.case && known.variant == *variant;
        if done.iter().any(is_known) {
            continue;
        }
        let order = ProfileOrder {
            profiling: profiling(&profile),
            requests: requests_of(session, &one.case, baseline_of(&wanted, &one.case)),
        };
        let recording = recorded(plan, &experiment, one, variant, &order, listener)?;
        if recording.is_none() && interrupted() {
            ended = Ended::Interrupted;
            break;
        }
        let Some(recording) = recording else {
            continue;
        };
        store.keep_profile(number, &recording)?;
        done.push(recording);
    }
    session.profiles = store.session_without_runs(number)?.profiles;
    Ok(ended)
}

/// How to take profiles, if at all.
fn profile_of(experiment: &Experiment, is_requested: bool) -> Option<Profile> {
    let said = experiment.profile.clone();
    if !is_requested {
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

/// A warning: harnesses of benchmark files choose the amount of work by time, so two recordings
/// would not cover the same work.
fn files_warning(experiment: &Experiment) -> Option<String> {
    let mut groups = experiment.groups.iter();
    let group = groups.find(|group| group.kind == Kind::Function)?;
    Some(format!(
        "'{}' consists of benchmark files, whose runs do not do the same work: they are not profiled.",
        group.name
    ))
}

/// Both sides of every requested profile.
fn sides(wanted: &[WantedProfile]) -> impl Iterator<Item = (&WantedProfile, &String)> {
    wanted
        .iter()
        .flat_map(|one| [(one, &one.pair.0), (one, &one.pair.1)])
}

/// The variant whose timed runs determine how much work to record for a case. It is the same for
/// all pairs of the case, because a variant in two pairs is recorded once.
fn baseline_of<'a>(wanted: &'a [WantedProfile], case: &Case) -> &'a str {
    let first = wanted.iter().find(|one| one.case == *case);
    first.map_or("", |one| &one.pair.0)
}

/// Records a case under a variant; `None` if the case was not measured or the user interrupts.
fn recorded(
    plan: &Plan,
    experiment: &Experiment,
    wanted: &WantedProfile,
    variant: &str,
    order: &ProfileOrder,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Option<Recording>> {
    let is_meant = |case: &Option<_>| case.as_ref() == Some(&wanted.case);
    let at = plan.jobs.iter().position(|job| is_meant(&job.case));
    let variant = plan.variants.iter().find(|known| known.name == variant);
    let slot = plan.slots().into_iter().find(|slot| Some(slot.job) == at);
    let (Some(at), Some(variant), Some(slot)) = (at, variant, slot) else {
        return Ok(None);
    };
    listener.observe(&Event::Note(&format!(
        "recording where the time goes: {}, {}",
        wanted.case.id(),
        variant.name
    )))?;
    let setting = Setting {
        variant,
        program: own_program(),
        slot: slot.index,
        ordinal: 0,
        repeated: 0,
        counting: None,
        clock: Default::default(),
        seed: slot.seed(plan.design.seed),
        limit: Duration::from_millis(plan.sampling.timeout_ms),
        samples: plan.sampling.samples,
        asked: plan.sampling.asked,
        is_series: false,
        pin: plan.pin.as_ref(),
        layout: RunLayout::default(),
        experiment: Some(experiment),
        kept: None,
    };
    let profile = harness::record(&plan.jobs[at], &setting, order);
    Ok(profile.map(|profile| Recording {
        case: wanted.case.clone(),
        variant: variant.name.clone(),
        profile,
    }))
}
