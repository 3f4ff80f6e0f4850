//! Turns a request to measure into a plan.

use super::{
    EventListener, MeasureRequest, PlanRequest, PreparedPlan, experiment, measured_code, pairs,
    revisions, shared_emitter,
};
use speedwell_adapters::SourceKind;
use speedwell_adapters::discover::{self, BenchmarkSelection, ComparisonSide};
use speedwell_adapters::plan::SessionPlan;
use speedwell_config::LazyDefinition;
use speedwell_machine::process;
use speedwell_model::{DefinitionFile, RunOrder, Variant};
use std::sync::Arc;

impl PreparedPlan {
    /// Reads the targets and plans their execution.
    ///
    /// # Errors
    /// Fails if a target, a parameter value or a variant is unknown.
    pub fn read(
        request: &MeasureRequest,
        listener: &mut EventListener<'_>,
    ) -> anyhow::Result<PreparedPlan> {
        process::adopt_orphans();
        process::install_handlers()?;
        let directory = std::env::current_dir()?;
        if let Some(file) = discover::find_experiment(&request.targets, &directory)? {
            return experiment::plan_experiment(&file, request, listener);
        }
        if request.plan.order == RunOrder::Paired {
            pairs::check_targets(&request.targets, &directory)?;
        }
        let has_revisions = !request.variants.revisions.is_empty();
        let mut resolved = request.variants.clone();
        let sources = if has_revisions {
            resolved = revisions::check_out_revisions(&request.variants, listener)?;
            revisions::find_sources(&request.targets, &directory, &resolved.given)?
        } else {
            discover::find_all_sources(&request.targets, &directory)?
        };
        let declared = if resolved.given.is_empty() {
            discover::declared_variants(&sources)?
        } else {
            Vec::new()
        };
        let mut variants = resolved.build_variants(declared)?;
        let (emit, selection) = (shared_emitter(listener), &request.selection);
        let mut suite = if has_revisions {
            revisions::discover_benchmarks(sources, &variants, selection, &emit)?
        } else {
            discover::discover_benchmarks(sources, selection, &variants[0], &emit)?
        };
        measured_code::record_benchmarks(&mut variants, &mut suite, selection, &emit)?;
        suite.warnings.extend(measured_code::identical_warnings(&variants, &suite.jobs));
        Ok(PreparedPlan::new(request.plan.build_plan(variants, &suite), suite))
    }

    /// Creates a plan that compares programs with each other. If a side selects its benchmarks with
    /// a pattern, `word` replaces the matching text in their names.
    ///
    /// # Errors
    /// Fails if a program cannot be queried, or the programs have no benchmark in common.
    pub fn plan_sides(
        sides: &[ComparisonSide],
        word: Option<&str>,
        selection: &BenchmarkSelection,
        request: &PlanRequest,
    ) -> anyhow::Result<PreparedPlan> {
        process::adopt_orphans();
        process::install_handlers()?;
        let mut suite = discover::common_benchmarks(sides, word, selection)?;
        let mut variants: Vec<Variant> = sides.iter().map(|side| side.variant.clone()).collect();
        if word.is_none() {
            // Without a pattern, both sides should do the same work. Benchmarks that a pattern
            // selects are different on purpose.
            for (variant, side) in variants.iter_mut().zip(sides) {
                variant.work = side.fingerprint_work(&suite.jobs);
            }
        }
        suite.warnings.extend(measured_code::identical_warnings(&variants, &suite.jobs));
        Ok(PreparedPlan::new(request.build_plan(variants, &suite), suite))
    }
}

/// Gives jobs the text that their definition file had at the start of the session. A plan written
/// by an earlier version of Speedwell lacks the text; in that case, this function reads each file
/// once.
///
/// # Errors
/// Fails if a definition file that the plan does not contain cannot be read.
pub fn attach_definitions(plan: &mut SessionPlan) -> anyhow::Result<()> {
    let to_definition = |source: DefinitionFile| Arc::new(LazyDefinition::new(source));
    let mut definitions: Vec<Arc<LazyDefinition>> =
        plan.design.definitions.iter().cloned().map(to_definition).collect();
    let loads = plan.jobs.iter_mut().map(|job| &mut job.source);
    for source in loads.filter(|source| source.kind == SourceKind::Load) {
        let stored =
            definitions.iter().find(|definition| definition.source().file == source.file).cloned();
        let definition = match stored {
            Some(definition) => definition,
            None => {
                definitions.push(to_definition(speedwell_config::read_source(&source.file, &[])?));
                definitions[definitions.len() - 1].clone()
            }
        };
        source.definition = Some(definition);
    }
    Ok(())
}
