//! Snippets: which are variants of one case, and which are cases of their own. Start at [`plans`].

pub mod parameters;
mod search;

pub use search::{search, search_plans};

use super::{Listener, PlanRequest, Plans, VariantRequest, revisions};
use anyhow::ensure;
use speedwell_harness::discover::{Selection, Suite};
use speedwell_harness::{Job, Kind, Route, Source};
use speedwell_model::{Case, Language, Length, Samples, Snippet, Value, Variant};

/// A run of a command: as many executions as there is time for, and one at least. A process does not grow warm by
/// being executed before, and slow commands are not to be executed in vain.
const EXECUTIONS: Samples = Samples {
    count: 1,
    length: Length::TimeNs(300_000_000),
    warmup_ns: 0,
};

/// A snippet under a name of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedSnippet {
    /// What it is called in tables.
    pub name: String,
    /// The snippet.
    pub snippet: Snippet,
}

/// Snippets to be measured.
#[derive(Debug, Clone)]
pub struct EvalRequest {
    /// The language of all.
    pub language: Language,
    /// The snippets.
    pub snippets: Vec<NamedSnippet>,
    /// Parameters that stand in the texts of snippets as `{NAME}`, with their values in order.
    pub parameters: Vec<(String, Vec<Value>)>,
    /// Which cases are measured, by their ids.
    pub selection: Selection,
    /// The numbers of workers; none where nothing is requested, because then it is no parameter.
    pub levels: Vec<u32>,
    /// Programs that are compared.
    pub variants: VariantRequest,
    /// How runs are planned.
    pub plan: PlanRequest,
    /// Whether all snippets are measured in one process.
    pub shares_process: bool,
    /// Whether snippets are only tried.
    pub is_trial: bool,
}

/// Several snippets are variants of one case, so that they are compared. Programs that are compared perform each
/// snippet as a case of its own.
///
/// # Errors
/// Variants that contradict each other or what else is requested.
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

/// Snippets as things that are compared.
fn variants_of(snippets: &[NamedSnippet]) -> Vec<Variant> {
    let variant = |named: &NamedSnippet| Variant {
        snippet: Some(named.snippet.clone()),
        ..Variant::plain(&named.name)
    };
    snippets.iter().map(variant).collect()
}

/// The cases: every snippet, or all that are compared, with every combination of values, at every number of workers.
///
/// # Errors
/// The current folder is gone; there are too many combinations, or none that the selection keeps.
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

/// The case of a snippet, or of all that are compared, with these values at a concurrency.
///
/// # Errors
/// The current folder is gone.
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
