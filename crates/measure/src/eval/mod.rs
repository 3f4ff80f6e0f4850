//! Snippets: decides which become variants of one case and which become separate cases. Start at
//! [`plans`].

pub mod parameters;
mod search;

pub use search::{search, search_plans};

use super::{Listener, PlanRequest, Plans, VariantRequest, revisions};
use anyhow::ensure;
use speedwell_harness::discover::{Selection, Suite};
use speedwell_harness::{Job, Kind, Route, Source};
use speedwell_model::{Case, Language, Length, Samples, Snippet, Value, Variant};

/// One run of a command: as many executions as fit into the time, at least one. No warm-up: a new
/// process is not warmed up by earlier executions, and slow commands should not be executed for
/// nothing.
const EXECUTIONS: Samples = Samples {
    count: 1,
    length: Length::TimeNs(300_000_000),
    warmup_ns: 0,
};

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
    pub language: Language,
    /// The snippets.
    pub snippets: Vec<NamedSnippet>,
    /// Parameters that occur in snippets as `{NAME}`, with their values in order.
    pub parameters: Vec<(String, Vec<Value>)>,
    /// Cases to measure, by ID.
    pub selection: Selection,
    /// Numbers of workers; empty if not requested, because concurrency is then not a parameter.
    pub levels: Vec<u32>,
    /// Programs to compare.
    pub variants: VariantRequest,
    /// Options of the plan.
    pub plan: PlanRequest,
    /// Whether all snippets run in one process.
    pub shares_process: bool,
    /// Whether to only try the snippets.
    pub is_trial: bool,
}

/// Plans to measure snippets. Several snippets become variants of one case, so that they are
/// compared. If programs are compared, each snippet becomes a case instead.
///
/// # Errors
/// Fails if variants contradict each other or other options.
pub fn plans(mut request: EvalRequest, listener: &mut Listener<'_>) -> anyhow::Result<Plans> {
    let named = !request.variants.given.is_empty();
    let shared = request.shares_process && request.snippets.len() > 1;
    ensure!(
        !(shared && named),
        "programs that are compared cannot share a process\nhint: leave out --shared and --order parallel"
    );
    ensure!(
        !(request.shares_process && request.language.is_compiled()),
        "{} is compiled, so every snippet is a program of its own\nhint: leave out --shared and --order parallel",
        request.language
    );
    request.variants = revisions::settled(&request.variants, listener)?;
    let compares_snippets = !named && request.snippets.len() > 1;
    let jobs = jobs(&request, compares_snippets)?;
    let compared = if compares_snippets {
        variants_of(&request.snippets)
    } else {
        Vec::new()
    };
    let variants = request.variants.variants(compared)?;
    request.plan.sampling.check_bounds(variants.len())?;
    revisions::place(&variants, std::iter::empty())?;
    let suite = Suite {
        files: jobs.len(),
        warnings: revisions::sameness(&variants, &jobs),
        jobs,
        ..Suite::default()
    };
    let mut plan = request.plan.plan(variants, &suite);
    plan.shared = shared;
    if request.language == Language::Sh && !request.plan.sampling.divides_runs() {
        plan.sampling.samples = EXECUTIONS;
    }
    Ok(Plans::new(plan, suite))
}

fn variants_of(snippets: &[NamedSnippet]) -> Vec<Variant> {
    let variant = |named: &NamedSnippet| Variant {
        snippet: Some(named.snippet.clone()),
        ..Variant::plain(&named.name)
    };
    snippets.iter().map(variant).collect()
}

/// Builds the cases: every snippet, or all compared ones together, with every combination of values
/// and every number of workers.
///
/// # Errors
/// Fails if the current folder is gone, there are too many combinations, or the selection matches
/// none.
fn jobs(request: &EvalRequest, compares_snippets: bool) -> anyhow::Result<Vec<Job>> {
    let levels: Vec<Option<u32>> = match request.levels.as_slice() {
        [] => vec![None],
        levels => levels.iter().copied().map(Some).collect(),
    };
    let alone: Vec<Option<&NamedSnippet>> = if compares_snippets {
        vec![None]
    } else {
        request.snippets.iter().map(Some).collect()
    };
    let rows = Case::combinations(&request.parameters)?;
    let mut jobs = Vec::new();
    for snippet in alone {
        for row in &rows {
            for level in &levels {
                jobs.push(job(request, snippet, row, *level)?);
            }
        }
    }
    let count = jobs.len();
    jobs.retain(|job| request.selection.wants(&job.label));
    ensure!(
        !jobs.is_empty(),
        "no case is left of {count}\nhint: '--list' shows them"
    );
    Ok(jobs)
}

/// Builds the case of a snippet, or of all compared ones together, with these values and
/// concurrency.
///
/// # Errors
/// Fails if the current folder is gone.
fn job(
    request: &EvalRequest,
    snippet: Option<&NamedSnippet>,
    row: &[(String, Value)],
    level: Option<u32>,
) -> anyhow::Result<Job> {
    let benchmark = format!("eval/{}", request.language);
    let name = snippet.map(|snippet| ("code".to_owned(), Value::Text(snippet.name.clone())));
    let level = level.map(|level| ("concurrency".to_owned(), Value::Number(level.into())));
    let case = Case::new(
        &benchmark,
        name.into_iter()
            .chain(row.iter().cloned())
            .chain(level)
            .collect(),
    );
    let here = std::env::current_dir()?;
    Ok(Job {
        source: Source {
            kind: Kind::Snippet(request.language),
            name: benchmark,
            file: here.clone(),
            root: here.clone(),
            directory: here,
            definition: None,
            suite: None,
            user_suites: Vec::new(),
            is_artifact: false,
        },
        label: case.id(),
        route: Route::Direct,
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
