//! Turns a request into a plan.

use super::{
    Listener, MeasureRequest, PlanRequest, Plans, experiment, own_benchmarks, pairs, revisions,
    teller,
};
use speedwell_harness::discover::{self, Selection, Side};
use speedwell_model::{Order, Variant};
use speedwell_process as process;

impl Plans {
    /// Reads the targets and plans their execution.
    ///
    /// # Errors
    /// Fails if a target, value or variant is unknown.
    pub fn read(request: &MeasureRequest, listener: &mut Listener<'_>) -> anyhow::Result<Plans> {
        process::adopt_orphans();
        process::on_interrupt()?;
        let here = std::env::current_dir()?;
        if let Some(file) = discover::experiment(&request.targets, &here)? {
            return experiment::plans(&file, request, listener);
        }
        if request.plan.order == Order::Paired {
            pairs::check_targets(&request.targets, &here)?;
        }
        let wanted = revisions::settled(&request.variants, listener)?;
        let sources = revisions::sources(&request.targets, &here, &wanted.given)?;
        let declared = if wanted.given.is_empty() {
            discover::declared_variants(&sources)?
        } else {
            Vec::new()
        };
        let mut variants = wanted.variants(declared)?;
        revisions::place(&variants, sources.iter())?;
        let tell = teller(listener);
        let mut suite = discover::read(sources, &request.selection, &variants[0], &tell)?;
        revisions::keep_common(&mut suite, &variants, &request.selection, &tell)?;
        own_benchmarks::note(&mut variants, &mut suite, &request.selection, &tell)?;
        suite
            .warnings
            .extend(revisions::sameness(&variants, &suite.jobs));
        Ok(Plans::new(request.plan.plan(variants, &suite), suite))
    }

    /// Plans to measure programs against each other; `word` names the pattern that selects their
    /// parts.
    ///
    /// # Errors
    /// Fails if a program cannot be queried, or they have nothing in common.
    pub fn of_sides(
        sides: &[Side],
        word: Option<&str>,
        selection: &Selection,
        request: &PlanRequest,
    ) -> anyhow::Result<Plans> {
        process::adopt_orphans();
        process::on_interrupt()?;
        let mut suite = discover::common_benchmarks(sides, word, selection)?;
        let mut variants: Vec<Variant> = sides.iter().map(|side| side.variant.clone()).collect();
        if word.is_none() {
            // Parts selected by a pattern are different benchmarks on purpose.
            for (variant, side) in variants.iter_mut().zip(sides) {
                variant.work = side.work(&suite.jobs);
            }
        }
        suite
            .warnings
            .extend(revisions::sameness(&variants, &suite.jobs));
        Ok(Plans::new(request.plan(variants, &suite), suite))
    }
}
