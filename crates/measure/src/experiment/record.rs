//! Profiles of an experiment: extra runs after measuring, one per requested case and variant.
//!
//! Decides what to record if more is requested than the file says. The analysis selects the cases;
//! `runner/experiment` records a run. Start at [`record_profiles`].

use crate::{EventListener, emit_warning};
use anyhow::Context;
use speedwell_analysis::AnalysisSettings;
use speedwell_analysis::experiment::{
    WantedProfile, analyze_experiment, recorded_requests, wanted_profiles,
};
use speedwell_harness::experiment::{self as harness, ProfileRequest};
use speedwell_harness::plan::SessionPlan;
use speedwell_harness::{RunContext, RunLayout, own_program};
use speedwell_model::assignment::{ProfilingOptions, ProfilingTool};
use speedwell_model::{Case, ProfileRecording, Session, SessionEvent};
use speedwell_process::is_interrupt_requested;
use speedwell_results::store::Store;
use speedwell_runner::SessionEnd;
use speedwell_suite::experiment::{
    Experiment, GroupKind, ProfileCondition, ProfilePlan, ProfilerChoice,
};
use std::time::Duration;

/// Records what the file asks for, or everything possible if `is_requested`, and stores it with the
/// session. What cannot be recorded is stored with the reason.
///
/// # Errors
/// Fails if the store cannot be accessed.
pub fn record_profiles(
    plan: &SessionPlan,
    session: &mut Session,
    settings: &AnalysisSettings,
    is_requested: bool,
    store: &mut Store,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<SessionEnd> {
    let Some(experiment) = plan.experiment()? else {
        return Ok(SessionEnd::Complete);
    };
    let Some(profile) = requested_profile(&experiment, is_requested) else {
        return Ok(SessionEnd::Complete);
    };
    if let Some(sentence) = files_warning(&experiment).filter(|_| is_requested) {
        emit_warning(listener, &sentence)?;
    }
    let found = analyze_experiment(session, &experiment, settings);
    let wanted = wanted_profiles(&found, &experiment, &profile);
    let number = session.number.context("a measured session is stored")?;
    let (mut done, mut ended): (Vec<ProfileRecording>, _) = (Vec::new(), SessionEnd::Complete);
    for (one, variant) in profile_sides(&wanted) {
        let is_known =
            |known: &ProfileRecording| known.case == one.case && known.variant == *variant;
        if done.iter().any(is_known) {
            continue;
        }
        let order = ProfileRequest {
            profiling: profiling_options(&profile),
            requests: recorded_requests(session, &one.case, work_baseline(&wanted, &one.case)),
        };
        let recording = record_case(plan, &experiment, one, variant, &order, listener)?;
        if recording.is_none() && is_interrupt_requested() {
            ended = SessionEnd::Interrupted;
            break;
        }
        let Some(recording) = recording else {
            continue;
        };
        store.store_profile(number, &recording)?;
        done.push(recording);
    }
    session.profiles = store.load_session_without_runs(number)?.profiles;
    Ok(ended)
}

/// How to take profiles, if at all.
fn requested_profile(experiment: &Experiment, is_requested: bool) -> Option<ProfilePlan> {
    let said = experiment.profile.clone();
    if !is_requested {
        return said.filter(|profile| profile.tool != ProfilerChoice::None);
    }
    let compare = &experiment.compare;
    let last = compare
        .all_pairs()
        .into_iter()
        .rfind(|(baseline, _)| *baseline == compare.baseline);
    let usual = ProfilePlan {
        when: ProfileCondition::Always,
        tool: ProfilerChoice::Auto,
        after_warmup: true,
        pairs: last.into_iter().collect(),
    };
    Some(match said {
        None => usual,
        Some(said) => ProfilePlan {
            when: ProfileCondition::Always,
            tool: match said.tool {
                ProfilerChoice::None => ProfilerChoice::Auto,
                tool => tool,
            },
            ..said
        },
    })
}

fn profiling_options(profile: &ProfilePlan) -> ProfilingOptions {
    ProfilingOptions {
        tool: match profile.tool {
            ProfilerChoice::Auto | ProfilerChoice::None => ProfilingTool::Auto,
            ProfilerChoice::Perf => ProfilingTool::Perf,
            ProfilerChoice::CpuProf => ProfilingTool::V8,
        },
        after_warmup: profile.after_warmup,
    }
}

/// A warning: harnesses of benchmark files choose the amount of work by time, so two recordings
/// would not cover the same work.
fn files_warning(experiment: &Experiment) -> Option<String> {
    let mut groups = experiment.groups.iter();
    let group = groups.find(|group| group.kind == GroupKind::Function)?;
    Some(format!(
        "'{}' is not profiled: runs of benchmark files do different amounts of work.",
        group.name
    ))
}

/// Both sides of every requested profile.
fn profile_sides(wanted: &[WantedProfile]) -> impl Iterator<Item = (&WantedProfile, &String)> {
    wanted
        .iter()
        .flat_map(|one| [(one, &one.pair.0), (one, &one.pair.1)])
}

/// The variant whose timed runs determine how much work to record for a case. It is the same for
/// all pairs of the case, because a variant in two pairs is recorded once.
fn work_baseline<'a>(wanted: &'a [WantedProfile], case: &Case) -> &'a str {
    let first = wanted.iter().find(|one| one.case == *case);
    first.map_or("", |one| &one.pair.0)
}

/// Records a case under a variant; `None` if the case was not measured or the user interrupts.
fn record_case(
    plan: &SessionPlan,
    experiment: &Experiment,
    wanted: &WantedProfile,
    variant: &str,
    order: &ProfileRequest,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<Option<ProfileRecording>> {
    let is_meant = |case: &Option<_>| case.as_ref() == Some(&wanted.case);
    let at = plan.jobs.iter().position(|job| is_meant(&job.case));
    let variant = plan.variants.iter().find(|known| known.name == variant);
    let slot = plan.slots().into_iter().find(|slot| Some(slot.job) == at);
    let (Some(at), Some(variant), Some(slot)) = (at, variant, slot) else {
        return Ok(None);
    };
    listener.observe(&SessionEvent::Note(&format!(
        "recording a profile: {}, {}",
        wanted.case.id(),
        variant.name
    )))?;
    let setting = RunContext {
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
        requested: plan.sampling.asked,
        is_series: false,
        pin: plan.pin.as_ref(),
        layout: RunLayout::default(),
        experiment: Some(experiment),
        kept: None,
    };
    let profile = harness::record_profile(&plan.jobs[at], &setting, order);
    Ok(profile.map(|profile| ProfileRecording {
        case: wanted.case.clone(),
        variant: variant.name.clone(),
        profile,
    }))
}
