//! Measures a session according to its plan, and stores every result immediately. Start at
//! [`measure_session`].

use speedwell_adapters as adapters;
use speedwell_analysis::layout_spreads;
use speedwell_engine::execution::{ExecuteOptions, execute};
use speedwell_engine::{
    AnalysisStoppingRule, EventListener, MeasuredSession, PreparedPlan, SessionRequest, check_plan,
    layout, prepare_measurement, session_header,
};
use speedwell_machine::process;
use speedwell_model::{Metric, Session, SessionEvent, SessionObserver};
use speedwell_remote::fleet::{FleetRequest, measure_on_fleet};
use speedwell_remote::roles;
use speedwell_store::Store;
use std::time::Duration;

/// Executes the plan on the machines of `fleet` or, without a fleet, on this machine. Stores every
/// result immediately, and finally reads the session from the store.
///
/// # Errors
/// Fails if the plan does not pass the checks, the store cannot be read, or the session cannot be
/// started. A failing benchmark is not an error.
pub fn measure_session(
    mut plans: PreparedPlan,
    request: &SessionRequest,
    fleet: Option<&FleetRequest>,
    store: &mut Store,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<MeasuredSession> {
    check_plan(&mut plans)?;
    if let Some(fleet) = fleet {
        return measure_on_fleet(plans, fleet, request, store, listener);
    }
    prepare_measurement(&plans, request, listener)?;
    execute_session(plans, request, store, listener)
}

/// Does the same as [`measure_session`], but leaves the checks and warnings before measuring to the
/// caller.
///
/// # Errors
/// See [`measure_session`].
pub fn execute_session(
    plans: PreparedPlan,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<MeasuredSession> {
    let PreparedPlan { mut plan, suite, resumed, held: mut lease } = plans;
    let is_resumed = resumed.is_some();
    let mut options = ExecuteOptions {
        fail_fast: request.fail_fast,
        time_budget: plan.sampling.budget_ms.map(Duration::from_millis),
        ..ExecuteOptions::default()
    };
    let mut recorder = match resumed {
        Some(earlier) => {
            (options.completed_slots, options.previous_runs) =
                (earlier.completed_slots, earlier.runs);
            options.empty_slots = earlier.empty_slots;
            options.failed_slots = earlier.failed_slots;
            store.resume_recording(earlier.number)?
        }
        None => store.begin_recording(
            &session_header(&plan, suite, request),
            &serde_json::to_string(&plan)?,
        )?,
    };
    let number = recorder.number();
    if let Some(url) = &request.push {
        recorder.queue_upload(url, process::unix_time_ms())?;
    }
    let mut stopping_rule = AnalysisStoppingRule::new(&plan, &request.settings);
    let mut reacquired = Ok(());
    let placement = (plan.design.experiment.as_mut()).and_then(|file| file.placement.as_mut());
    if let Some(placement) = placement.filter(|_| is_resumed) {
        // Acquire the machines only here: `resume_recording` has made sure that no other process
        // measures this session.
        let machines = roles::reacquire_machines(placement, listener);
        reacquired = machines.map(|machines| lease = Some(Box::new(machines)));
    }
    let ended = reacquired
        .and_then(|()| execute(&plan, options, &mut stopping_rule, &mut [&mut recorder, listener]));
    drop(lease);
    if ended.is_err() {
        // After an error such as a full disk, record an interrupt, so that the results are kept. If
        // that fails, the end of this process has the same effect.
        let end = SessionEvent::Finished { interrupted: true };
        let _ = recorder.observe(&end);
        let _ = listener.observe(&end);
    }
    drop(recorder);
    adapters::remove_builds();
    process::clear_interrupt();
    let stored = store.load_measured(number)?;
    store_spreads(&stored.0, store)?;
    Ok(MeasuredSession {
        advice: layout::suggest_runs_per_build(&stored.0),
        ..MeasuredSession::new(stored, ended, plan.slots().len())
    })
}

/// Stores how much the session's builds differ. The analysis of later sessions with one build uses
/// this.
///
/// # Errors
/// Fails if the store cannot be accessed.
fn store_spreads(session: &Session, store: &mut Store) -> anyhow::Result<()> {
    let (Some(number), true) = (session.number, session.design.shares_builds()) else {
        return Ok(());
    };
    let metrics: Vec<&Metric> = session.metrics.iter().collect();
    let spreads = store.with_session_by_cases(number, |stored| {
        let mut spreads = Vec::new();
        stored.for_each_part(&mut |part| spreads.extend(layout_spreads(part, &metrics)))?;
        Ok(spreads)
    })?;
    for spread in spreads {
        let values = (spread.components.groups, spread.components.between);
        store.store_layout_spread(number, (&spread.case, &spread.metric), values)?;
    }
    Ok(())
}
