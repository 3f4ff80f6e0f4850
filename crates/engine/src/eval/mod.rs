//! Creates plans that measure snippets of code. This module decides which snippets become variants
//! of one case and which become separate cases. Start at [`plan_snippets`].

pub mod parameters;

use super::{EventListener, PlanRequest, PreparedPlan, VariantRequest, measured_code, revisions};
use anyhow::ensure;
use speedwell_adapters::discover::{BenchmarkSelection, DiscoveredBenchmarks};
use speedwell_adapters::{BenchmarkJob, BenchmarkSource, SourceKind, StartMode};
use speedwell_model::{
    Case, ParameterValue, SampleDivision, SampleLength, Snippet, SnippetLanguage, Variant,
};

/// Default division of a command's run: one sample of as many executions as fit into the time, but
/// at least one. There is no warm-up, because an execution does not warm up the next process.
const COMMAND_SAMPLES: SampleDivision =
    SampleDivision { count: 1, length: SampleLength::TimeNs(300_000_000), warmup_ns: 0 };

/// A named snippet.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedSnippet {
    /// Name in tables.
    pub name: String,
    /// The snippet.
    pub snippet: Snippet,
}

/// Options for measuring snippets.
#[derive(Debug, Clone)]
pub struct EvalRequest {
    /// Language of all snippets.
    pub language: SnippetLanguage,
    /// The snippets.
    pub snippets: Vec<NamedSnippet>,
    /// Parameters that occur in snippets as `{NAME}`, with their values in order.
    pub parameters: Vec<(String, Vec<ParameterValue>)>,
    /// Cases to measure, by ID.
    pub selection: BenchmarkSelection,
    /// Numbers of workers to measure with. Empty if the user gave none; concurrency is then not a
    /// parameter of the cases.
    pub levels: Vec<u32>,
    /// Programs to compare.
    pub variants: VariantRequest,
    /// Options of the plan.
    pub plan: PlanRequest,
    /// Whether all snippets run in one process.
    pub shares_process: bool,
    /// Whether the snippets are only tried, not measured.
    pub is_trial: bool,
}

/// Creates a plan that measures snippets. If programs are compared, each snippet becomes a case.
/// Otherwise, the snippets become variants of one case and are compared.
///
/// # Errors
/// Fails if the variants conflict with each other or with other options.
pub fn plan_snippets(
    mut request: EvalRequest,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<PreparedPlan> {
    let has_named_variants = !request.variants.given.is_empty();
    let shared = request.shares_process && request.snippets.len() > 1;
    ensure!(
        !(shared && has_named_variants),
        "compared programs cannot share a process\nhint: leave out --shared and --order parallel"
    );
    ensure!(
        !(request.shares_process && request.language.is_compiled()),
        "{} is compiled, so every snippet is a separate program\nhint: leave out --shared and \
         --order parallel",
        request.language
    );
    if !request.variants.revisions.is_empty() {
        request.variants = revisions::check_out_revisions(&request.variants, listener)?;
    }
    let compares_snippets = !has_named_variants && request.snippets.len() > 1;
    let jobs = build_jobs(&request, compares_snippets)?;
    let snippet_variants =
        if compares_snippets { snippets_as_variants(&request.snippets) } else { Vec::new() };
    let variants = request.variants.build_variants(snippet_variants)?;
    request.plan.sampling.check_bounds(variants.len())?;
    revisions::place_benchmark_files(&variants, std::iter::empty())?;
    let suite = DiscoveredBenchmarks {
        files: jobs.len(),
        warnings: measured_code::identical_warnings(&variants, &jobs),
        jobs,
        ..DiscoveredBenchmarks::default()
    };
    let mut plan = request.plan.build_plan(variants, &suite);
    plan.shared = shared;
    if request.language == SnippetLanguage::Sh && !request.plan.sampling.divides_runs() {
        plan.sampling.samples = COMMAND_SAMPLES;
    }
    Ok(PreparedPlan::new(plan, suite))
}

fn snippets_as_variants(snippets: &[NamedSnippet]) -> Vec<Variant> {
    let variant = |named: &NamedSnippet| Variant {
        snippet: Some(named.snippet.clone()),
        ..Variant::plain(&named.name)
    };
    snippets.iter().map(variant).collect()
}

/// Builds a case for every combination of values and every number of workers. Snippets that are
/// compared share these cases. Otherwise, every snippet has cases of its own.
///
/// # Errors
/// Fails if the current folder is gone, there are too many combinations, or the selection matches
/// no case.
fn build_jobs(request: &EvalRequest, compares_snippets: bool) -> anyhow::Result<Vec<BenchmarkJob>> {
    let levels: Vec<Option<u32>> = match request.levels.as_slice() {
        [] => vec![None],
        levels => levels.iter().copied().map(Some).collect(),
    };
    let separate_snippets: Vec<Option<&NamedSnippet>> =
        if compares_snippets { vec![None] } else { request.snippets.iter().map(Some).collect() };
    let rows = Case::cartesian_product(&request.parameters)?;
    let mut jobs = Vec::new();
    for snippet in separate_snippets {
        for row in &rows {
            for level in &levels {
                jobs.push(build_job(request, snippet, row, *level)?);
            }
        }
    }
    let count = jobs.len();
    jobs.retain(|job| request.selection.selects_name(&job.label));
    ensure!(!jobs.is_empty(), "0 of {count} cases are selected\nhint: --list shows all cases");
    Ok(jobs)
}

/// Builds the case of a snippet with these values and this concurrency. If `snippet` is `None`, all
/// snippets share the case, because they are compared.
///
/// # Errors
/// Fails if the current folder is gone.
fn build_job(
    request: &EvalRequest,
    snippet: Option<&NamedSnippet>,
    row: &[(String, ParameterValue)],
    level: Option<u32>,
) -> anyhow::Result<BenchmarkJob> {
    let benchmark = format!("eval/{}", request.language);
    let name =
        snippet.map(|snippet| ("code".to_owned(), ParameterValue::Text(snippet.name.clone())));
    let concurrency =
        level.map(|level| ("concurrency".to_owned(), ParameterValue::Number(level.into())));
    let case = Case::new(
        &benchmark,
        name.into_iter().chain(row.iter().cloned()).chain(concurrency).collect(),
    );
    let directory = std::env::current_dir()?;
    Ok(BenchmarkJob {
        source: BenchmarkSource {
            kind: SourceKind::Snippet(request.language),
            name: benchmark,
            file: directory.clone(),
            root: directory.clone(),
            directory,
            definition: None,
            suite: None,
            user_suites: Vec::new(),
            is_artifact: false,
        },
        label: case.id(),
        route: StartMode::Direct,
        flags: Vec::new(),
        arguments: Vec::new(),
        names: Vec::new(),
        in_suite: None,
        test: request.is_trial,
        http_tool: None,
        unavailable: None,
        case: Some(case),
        snippet: snippet.map(|named| named.snippet.clone()),
        samples: None,
        measured: None,
    })
}
