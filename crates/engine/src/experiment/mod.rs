//! Turns the definition file of an experiment into a plan, after checking the requirements of the
//! experiment.
//!
//! This module decides which options of a request override the file. Start at [`plan_experiment`].

mod estimate;
mod requirements;

pub use estimate::{ExperimentEstimate, estimate_from_trial, estimate_loads, measuring_time};

use super::{EventListener, MeasureRequest, PlanRequest, PreparedPlan};
use anyhow::{Context, ensure};
use speedwell_adapters::KnownAdapters;
use speedwell_adapters::discover;
use speedwell_adapters::discover::BenchmarkSelection;
use speedwell_adapters::plan::SessionPlan;
use speedwell_config::experiment::{BenchmarkGroup, Experiment, repetition_of};
use speedwell_model::{
    DefinitionFile, ParameterValue, RunCount, RunOrder, SamplingOptions, StoppingDesign, Variant,
    as_milliseconds,
};
use std::path::Path;

/// Reads and plans an experiment.
///
/// # Errors
/// Fails if the file is invalid or a requirement is not met.
pub fn plan_experiment(
    file: &Path,
    request: &MeasureRequest,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<PreparedPlan> {
    ensure!(
        request.variants.given.is_empty(),
        "'{}' declares its own variants\nhint: --variant, --old and --new are for benchmark files",
        file.display()
    );
    let mut selection = request.selection.clone();
    let target = file.to_string_lossy().into_owned();
    let directory = std::env::current_dir()?;
    let sources =
        discover::find_sources(&target, &directory, &KnownAdapters::new(&[], &directory)?)?;
    let mut definition =
        DefinitionFile { set: selection.sets.clone(), ..sources[0].definition()?.source().clone() };
    let experiment = Experiment::parse(&definition)?;
    let mut machine_lease = None;
    if !request.only_lists {
        requirements::check_requirements(&experiment, listener)?;
        if let Some(roles_on_machines) = &experiment.place {
            let place_roles = request.place_roles.context("this command cannot use a fleet")?;
            let (placement, lease) = place_roles(roles_on_machines, &experiment.root, listener)?;
            definition.placement = Some(Box::new(placement));
            machine_lease = Some(lease);
        }
    }
    divide_values(&experiment, &mut selection);
    let variants = build_variants(&experiment, request)?;
    let mut suite = discover::discover_benchmarks(sources, &selection, &variants[0], &|_| ())?;
    suite.warnings.extend(shared_processors_warning(&experiment));
    let mut plan = request.plan.build_plan(variants, &suite);
    plan.design.experiment = Some(definition);
    // In an experiment, the processor counts instructions as one metric among others, so no
    // separate tool counts them.
    plan.design.counting = None;
    apply_file_plan(&experiment, &request.plan, &mut plan);
    Ok(PreparedPlan { held: machine_lease, ..PreparedPlan::new(plan, suite) })
}

/// Returns a warning if the file divides the processors but there are too few of them.
fn shared_processors_warning(experiment: &Experiment) -> Option<String> {
    let is_shared = experiment.plan.pins.is_some() && experiment.shares.is_none();
    is_shared.then(|| {
        format!(
            "The plan divides the processors between target and load, but there are only {}: the load \
             generator takes processor time from the target.",
            experiment.cpus
        )
    })
}

/// Gives benchmark files only the parameter values of their group.
fn divide_values(experiment: &Experiment, selection: &mut BenchmarkSelection) {
    for group in &experiment.groups {
        let values: Vec<(String, String)> = group
            .parameters
            .iter()
            .flat_map(|(name, values)| {
                let value = |value: &ParameterValue| (name.clone(), value.plain());
                values.iter().map(value).collect::<Vec<_>>()
            })
            .collect();
        let file_values = group.files.iter().map(|file| (file.clone(), values.clone()));
        selection.of_files.extend(file_values);
    }
    let has_parameter = |group: &BenchmarkGroup, name: &str| {
        group.parameters.iter().any(|(parameter, _)| parameter == name)
    };
    let belongs_to_group = |name: &str| {
        let mut others = experiment.groups.iter().filter(|group| group.files.is_empty());
        others.any(|group| has_parameter(group, name))
    };
    selection.sets.retain(|(name, _)| {
        belongs_to_group(name) || experiment.params.iter().any(|(parameter, _)| parameter == name)
    });
}

/// Returns the variants, the baseline first. The control comes after the variant that it repeats.
fn build_variants(
    experiment: &Experiment,
    request: &MeasureRequest,
) -> anyhow::Result<Vec<Variant>> {
    let current_variable = |name: &str| std::env::var(name).ok();
    let mut variants = Vec::new();
    for variant in &experiment.variants {
        let harness_variant = experiment.harness_variant(&variant.name, &current_variable);
        // A variant that replaces the command has no meaning for benchmark files, which do not use
        // the command.
        let mut plain = harness_variant.unwrap_or_else(|_| Variant::plain(&variant.name));
        let extra_arguments = request.variants.arguments.iter().cloned();
        plain.arguments.splice(0..0, extra_arguments);
        variants.push(plain.clone());
        if experiment.plan.control.as_ref() == Some(&variant.name) {
            variants.push(Variant { name: repetition_of(&variant.name), ..plain });
        }
    }
    let requested = request.variants.baseline.as_ref();
    let baseline = requested.unwrap_or(&experiment.compare.baseline);
    let position = variants
        .iter()
        .position(|variant| variant.name == *baseline)
        .with_context(|| format!("no variant is named '{baseline}'"))?;
    variants[..=position].rotate_right(1);
    Ok(variants)
}

/// Applies the file's plan settings, except those that the request overrides.
fn apply_file_plan(experiment: &Experiment, request: &PlanRequest, plan: &mut SessionPlan) {
    let file_plan = &experiment.plan;
    let sampling = &request.sampling;
    if sampling.runs.is_none()
        && let Some(runs) = file_plan.runs
    {
        plan.sampling.runs = RunCount::Fixed(runs);
        plan.design.stopping = StoppingDesign::Fixed { runs };
    }
    plan.sampling = SamplingOptions {
        precision: sampling.precision.or(file_plan.precision),
        timeout_ms: as_milliseconds(file_plan.timeout),
        budget_ms: plan
            .sampling
            .budget_ms
            .or(file_plan.budget.filter(|_| sampling.runs.is_none()).map(as_milliseconds)),
        ..plan.sampling.clone()
    };
    if request.order == RunOrder::Blocks {
        plan.design.order = match file_plan.order {
            RunOrder::Alternate => RunOrder::Alternate,
            _ => RunOrder::Blocks,
        };
    }
    plan.design.threshold = plan.design.threshold.or(experiment.compare.threshold);
    if let StoppingDesign::Sequential { alpha, delta, .. } = &mut plan.design.stopping {
        if request.confidence.is_none() {
            *alpha = 1.0 - experiment.compare.confidence;
        }
        if let Some(threshold) = plan.design.threshold {
            *delta = threshold;
        }
    }
}
