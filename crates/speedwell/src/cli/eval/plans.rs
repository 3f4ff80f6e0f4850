//! From pieces of code to what is executed: which are variants of one case, and which are cases of their own.

use super::codes::Named;
use crate::cli::options::{Concurrency, EvalArgs};
use crate::define::Suite;
use crate::harness::{Job, Kind, Route, Source, Trial};
use crate::measure::Plans;
use crate::model::{Case, Code, Language, Length, Samples, Value, Variant};
use anyhow::ensure;

/// A run of a command: as many executions as there is time for, and one at least. A process does not grow warm by
/// being executed before, and slow commands are not to be executed in vain.
const EXECUTIONS: Samples = Samples {
    count: 1,
    length: Length::TimeNs(300_000_000),
    warmup_ns: 0,
};

/// Several codes are variants of one case, so that they are compared. Programs that are compared perform each
/// code as a case of its own.
///
/// # Errors
/// Variants that cannot be read, or contradict what else was typed.
pub fn plans(args: &EvalArgs, codes: Vec<Named>) -> anyhow::Result<Plans> {
    let named = args.variants.is_any();
    let shared = args.shares_process() && codes.len() > 1;
    ensure!(
        !(shared && named),
        "programs that are compared cannot share a process\nhint: leave out --shared and --order parallel"
    );
    ensure!(
        !(args.shares_process() && args.language().is_compiled()),
        "{} is compiled, so every code is a program of its own\nhint: leave out --shared and --order parallel",
        args.language()
    );
    let mut cases: Vec<(Option<String>, Option<Code>)> = Vec::new();
    let mut compared = Vec::new();
    if named || codes.len() == 1 {
        let own = codes.into_iter();
        cases.extend(own.map(|named| (Some(named.name), Some(named.code))));
    } else {
        cases.push((None, None));
        compared = of_codes(codes);
    }
    let variants = args.variants.request(&args.arguments)?.variants(compared)?;
    let jobs = cases
        .iter()
        .flat_map(|(name, code)| {
            levels(args)
                .into_iter()
                .map(move |level| (name, code, level))
        })
        .map(|(name, code, level)| job(args, name.as_deref(), code.clone(), level))
        .collect::<anyhow::Result<Vec<Job>>>()?;
    let suite = Suite {
        files: jobs.len(),
        jobs,
        ..Suite::default()
    };
    let request = args.execution.plan(&args.sampling, &args.comparison);
    let mut plan = request.plan(variants, &suite);
    plan.shared = shared;
    if args.language() == Language::Sh && !request.sampling.divides_runs() {
        plan.sampling.samples = EXECUTIONS;
    }
    Ok(Plans::new(plan, suite))
}

/// Codes as things that are compared.
pub fn of_codes(codes: Vec<Named>) -> Vec<Variant> {
    let variant = |named: Named| Variant {
        code: Some(named.code),
        ..Variant::plain(named.name)
    };
    codes.into_iter().map(variant).collect()
}

/// The numbers of workers; none where nothing was said, because then it is no parameter.
fn levels(args: &EvalArgs) -> Vec<Option<u32>> {
    match &args.concurrency {
        Some(Concurrency::Levels(levels)) => levels.iter().copied().map(Some).collect(),
        _ => vec![None],
    }
}

/// The case of a code at a concurrency.
///
/// # Errors
/// The current folder is gone.
pub fn job(
    args: &EvalArgs,
    name: Option<&str>,
    code: Option<Code>,
    level: Option<u32>,
) -> anyhow::Result<Job> {
    let benchmark = format!("eval/{}", args.language());
    let name = name.map(|name| ("code".to_owned(), Value::Text(name.to_owned())));
    let level = level.map(|level| ("concurrency".to_owned(), Value::Number(level.into())));
    let case = Case::new(&benchmark, name.into_iter().chain(level).collect());
    let here = std::env::current_dir()?;
    Ok(Job {
        source: Source {
            kind: Kind::Code(args.language()),
            name: benchmark,
            file: here.clone(),
            root: here.clone(),
            directory: here,
            definition: None,
        },
        label: case.id(),
        route: Route::Direct,
        flags: Vec::new(),
        arguments: Vec::new(),
        names: Vec::new(),
        test: args.execution.trial() != Trial::No,
        http_tool: None,
        unavailable: None,
        case: Some(case),
        code,
        measured: None,
    })
}
