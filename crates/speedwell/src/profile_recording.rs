//! Records the profiles of an experiment after measuring, with an extra run per case and variant.
//!
//! The analysis selects the cases, and `engine/execution/experiment` records a run. Start at
//! [`record_profiles`].

use crate::options::MeasureTask;
use anyhow::Context;
use speedwell_adapters::experiment::{self as adapters, ProfileRequest};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{RunContext, own_program};
use speedwell_analysis::experiment::{
    WantedProfile, analyze_experiment, recorded_requests, wanted_profiles,
};
use speedwell_engine::execution::SessionEnd;
use speedwell_engine::{EventListener, emit_warning};
use speedwell_machine::process::is_interrupt_requested;
use speedwell_model::assignment::{ProfilingOptions, ProfilingTool};
use speedwell_model::experiment::{ExperimentDesign, GroupKind, ProfileCondition, ProfilePlan};
use speedwell_model::{Case, ProfileRecording, Session, SessionEvent};
use speedwell_store::Store;

/// Records the profiles that the definition file requests, and stores them with the session. With
/// `--profile`, ignores the file's conditions and profiles all cases except those of benchmark
/// files. For each profile that cannot be recorded, stores the reason.
///
/// # Errors
/// Fails if the store cannot be accessed.
pub fn record_profiles(
    plan: &SessionPlan,
    session: &mut Session,
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<SessionEnd> {
    let Some(experiment) = plan.experiment()? else { return Ok(SessionEnd::Complete) };
    let Some(profile) = requested_profile(&experiment, task.profile) else {
        return Ok(SessionEnd::Complete);
    };
    let mut progress = task.progress_display();
    if let Some(sentence) = files_warning(&experiment).filter(|_| task.profile) {
        emit_warning(&mut progress, &sentence)?;
    }
    let analysis = analyze_experiment(session, &experiment, &task.settings);
    let wanted_profiles_of_session = wanted_profiles(&analysis, &experiment, &profile);
    let number = session.number.context("the measured session has no number")?;
    let (mut recordings, mut session_end): (Vec<ProfileRecording>, _) =
        (Vec::new(), SessionEnd::Complete);
    let sides = wanted_profiles_of_session
        .iter()
        .flat_map(|wanted| [(wanted, &wanted.pair.0), (wanted, &wanted.pair.1)]);
    for (wanted, variant) in sides {
        let is_recorded = |recording: &ProfileRecording| {
            recording.case == wanted.case && recording.variant == *variant
        };
        if recordings.iter().any(is_recorded) {
            continue;
        }
        let baseline = work_baseline(&wanted_profiles_of_session, &wanted.case);
        let profile_request = ProfileRequest {
            profiling: ProfilingOptions {
                tool: profile.tool.unwrap_or(ProfilingTool::Auto),
                after_warmup: profile.after_warmup,
            },
            requests: recorded_requests(session, &wanted.case, baseline),
        };
        let recording = record_case(plan, wanted, variant, &profile_request, &mut progress)?;
        if recording.is_none() && is_interrupt_requested() {
            session_end = SessionEnd::Interrupted;
            break;
        }
        let Some(recording) = recording else { continue };
        store.store_profile(number, &recording)?;
        recordings.push(recording);
    }
    session.profiles = store.load_session_without_runs(number)?.profiles;
    Ok(session_end)
}

/// Returns how to record profiles, or `None` if no profiles are requested.
fn requested_profile(experiment: &ExperimentDesign, is_requested: bool) -> Option<ProfilePlan> {
    let configured = experiment.profile.clone();
    if !is_requested {
        return configured.filter(|profile| profile.tool.is_some());
    }
    let profile = configured.unwrap_or_else(|| {
        let compare = &experiment.compare;
        let is_baseline_pair = |(baseline, _): &(String, String)| *baseline == compare.baseline;
        ProfilePlan {
            when: ProfileCondition::Always,
            tool: None,
            after_warmup: true,
            pairs: compare.all_pairs().into_iter().rfind(is_baseline_pair).into_iter().collect(),
        }
    });
    Some(ProfilePlan { when: ProfileCondition::Always, ..profile })
}

/// Returns a warning if there are benchmark files. Their harnesses choose the amount of work by
/// time, so two recordings would not cover the same work.
fn files_warning(experiment: &ExperimentDesign) -> Option<String> {
    let mut groups = experiment.groups.iter();
    let group = groups.find(|group| group.kind == GroupKind::Function)?;
    Some(format!(
        "'{}' is not profiled: runs of benchmark files do different amounts of work.",
        group.name
    ))
}

/// Returns the variant that determines, by its timed runs, how much work to record for a case. All
/// pairs of the case share this amount, because a variant in two pairs is recorded only once.
fn work_baseline<'a>(wanted: &'a [WantedProfile], case: &Case) -> &'a str {
    wanted.iter().find(|profile| profile.case == *case).map_or("", |profile| &profile.pair.0)
}

/// Records a profile of a case and variant. Returns `None` if the case was not measured or the user
/// interrupts.
fn record_case(
    plan: &SessionPlan,
    wanted: &WantedProfile,
    variant: &str,
    request: &ProfileRequest,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<Option<ProfileRecording>> {
    let is_wanted_case = |case: &Option<_>| case.as_ref() == Some(&wanted.case);
    let job_index = plan.jobs.iter().position(|job| is_wanted_case(&job.case));
    let variant = plan.variants.iter().find(|candidate| candidate.name == variant);
    let slot = plan.slots().into_iter().find(|slot| Some(slot.job) == job_index);
    let (Some(job_index), Some(variant), Some(slot)) = (job_index, variant, slot) else {
        return Ok(None);
    };
    let job = &plan.jobs[job_index];
    listener.observe(&SessionEvent::Note(&format!(
        "recording a profile: {}, {}",
        wanted.case.id(),
        variant.name
    )))?;
    let context = RunContext {
        program: own_program(),
        seed: slot.seed(plan.design.seed),
        ..plan.run_context(job, variant, slot.index)
    };
    let profile = adapters::record_profile(&context, request);
    Ok(profile.map(|profile| ProfileRecording {
        case: wanted.case.clone(),
        variant: variant.name.clone(),
        profile,
    }))
}
