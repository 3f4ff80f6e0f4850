//! Defines the options of `eval`, and reads the snippets that they name ([`read_snippets`]).

use super::{
    Concurrency, LayoutArgs, MetricArgs, ResultArgs, SearchArgs, VariantArgs, hide_unused, parse,
    plan_request,
};
use crate::options::MeasureTask;
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use regex::Regex;
use speedwell_adapters::discover::{BenchmarkSelection, read_named_file};
use speedwell_adapters::snippet;
use speedwell_compat::erlperf::ReportDetail;
use speedwell_engine::eval::{EvalRequest, NamedSnippet, infer_values, parse_list, parse_range};
use speedwell_engine::{ExecutionArgs, SamplingRequest, WarmupLength};
use speedwell_machine::process::resolve_program;
use speedwell_model::{
    Case, ErlangNodes, ParameterValue, RunOrder, Snippet, SnippetLanguage, quote,
};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Measure code snippets in Erlang, Elixir, JavaScript, Python, C, C++, Go, Rust, Java or shell
///
/// A single snippet is measured in several fresh processes. Several snippets are compared with the first, in randomised
/// blocks of fresh processes, with a verdict for each. An iteration is one execution of the code; with 'sh', it is one
/// process.
#[derive(Debug, Default, Args)]
#[command(mut_arg("by", |arg| arg.requires("x_axis")), after_help = "Examples:
  speedwell eval python 'sum(range(1000))'
  speedwell eval node --init @slug.js \"regex('a b')\" \"loop('a b')\"
  speedwell eval erlang 'rand:uniform().' 'rand:uniform(1000).'
  speedwell eval node 'state.next()' --init-worker '[1, 2, 3].values()'
  speedwell eval erlang 'code:is_loaded(local_udp).' -c max
  speedwell eval sh 'rg -c needle book.txt' 'grep -c needle book.txt'
  speedwell eval sh 'sort -S {size} words' -L size 1M,16M,64M -o sizes.md
  speedwell eval node 'JSON.stringify(state)' --init-worker '@big.json' --old node18 --new node22
  speedwell eval python 'sum(range(1000))' --watch",
    mut_arg("warmup", |arg| arg.value_name("DUR|N").value_parser(WarmupLength::parse)
        .help("Warm-up before the first sample; with 'sh', executions")),
    mut_args(|arg| hide_unused(arg, "with_own_benchmarks")),
    mut_arg("parameter_scan", |arg| arg.conflicts_with("watch")),
    mut_arg("parameter_list", |arg| arg.conflicts_with("watch")),
    mut_arg("show_output", |arg| arg.conflicts_with_all(["shared", "watch", "squeeze"])))]
pub struct EvalArgs {
    /// erlang, elixir, node, python, c, cpp, go, rust, java or sh
    #[arg(
        index = 1,
        value_name = "LANG",
        value_parser = language,
        required_unless_present = "resume",
        conflicts_with = "resume"
    )]
    pub language: Option<SnippetLanguage>,
    /// Code of one iteration; '@FILE' reads it from a file
    #[arg(
        index = 2,
        value_name = "CODE",
        required_unless_present = "resume",
        conflicts_with = "resume",
        allow_hyphen_values = false
    )]
    pub snippets: Vec<String>,
    /// After '--': flags for the runtime or the compiler
    #[arg(index = 3, last = true, value_name = "ARG")]
    pub arguments: Vec<String>,
    #[command(flatten)]
    pub snippet: SnippetArgs,
    #[command(flatten)]
    pub commands: CommandArgs,
    #[command(flatten)]
    pub parameters: ParameterArgs,
    /// Only cases whose id matches this pattern (repeatable)
    ///
    /// The id includes the parameter values. With several patterns, one must match.
    #[arg(short = 'f', long = "filter", value_name = "RE", help_heading = "Selection")]
    pub filter: Vec<Regex>,
    /// Leave out cases whose id matches this pattern (repeatable)
    #[arg(short = 'x', long = "exclude", value_name = "RE", help_heading = "Selection")]
    pub exclude: Vec<Regex>,
    /// Number of concurrent workers, or 'max' to search for the best
    ///
    /// Several numbers are measured in turn. 'max' finds the number with the highest throughput.
    #[arg(short = 'c', long, value_name = "N|max", value_parser = Concurrency::from_str,
          help_heading = "Concurrency")]
    pub concurrency: Option<Concurrency>,
    #[command(flatten)]
    pub search: SearchArgs,
    #[command(flatten)]
    pub sampling: SamplingRequest,
    /// At least N runs of every case and variant
    #[arg(long, value_name = "N", value_parser = parse::count, conflicts_with_all = ["runs", "precision"],
          help_heading = "Sampling")]
    pub min_runs: Option<u32>,
    /// At most N runs of every case and variant [default: see --runs]
    #[arg(long, value_name = "N", value_parser = parse::count, conflicts_with = "runs", help_heading = "Sampling")]
    pub max_runs: Option<u32>,
    #[command(flatten)]
    pub variants: VariantArgs,
    /// Print a line per second until Ctrl-C
    ///
    /// The line shows the throughput and gauges of the runtime and the machine.
    #[arg(long, help_heading = "Execution", conflicts_with_all = ["runs", "precision", "list", "test", "resume", "builds", "layout"])]
    pub watch: bool,
    /// Measure every snippet in its own process (the default)
    #[arg(long, help_heading = "Execution", conflicts_with = "shared")]
    pub isolate: bool,
    /// Measure all snippets in one process, alternating
    ///
    /// Available for Erlang, Elixir, Node.js and Python.
    #[arg(long, help_heading = "Execution")]
    pub shared: bool,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub layout: LayoutArgs,
    #[command(flatten)]
    pub metric: MetricArgs,
    #[command(flatten)]
    pub results: ResultArgs,
    /// Print a table in the style of erlperf instead of the report
    ///
    /// STYLE is erlperf, erlperf-extended or erlperf-full.
    #[arg(long, value_name = "STYLE", value_parser = style, help_heading = "Output",
          conflicts_with_all = ["format", "json", "watch", "chart", "sort"])]
    pub style: Option<ReportDetail>,
}

impl EvalArgs {
    /// Returns the language of all snippets. A resumed session ignores this language.
    pub fn language(&self) -> SnippetLanguage {
        self.language.unwrap_or(SnippetLanguage::Sh)
    }

    /// Builds the request that measures these snippets.
    ///
    /// # Errors
    /// Fails if a variant cannot be parsed, layout options conflict, or an option for shell
    /// commands is used with another language.
    pub fn eval_request(
        &self,
        mut snippets: Vec<NamedSnippet>,
        parameters: Vec<(String, Vec<ParameterValue>)>,
    ) -> Result<EvalRequest> {
        let warmup_executions = self.sampling.warmup_executions();
        ensure!(
            self.language() == SnippetLanguage::Sh
                || (warmup_executions.is_none() && self.commands == CommandArgs::default()),
            "--ignore-failure, --no-shell, --shell, --setup, --cleanup, --show-output and a number for --warmup need 'sh', \
             where each iteration is a process\nhint: for other languages, use --warmup 100ms"
        );
        if self.commands.no_shell {
            let rows = Case::cartesian_product(&parameters)?;
            if let Some(named) = snippets.iter().find(|named| needs_shell(named, &rows)) {
                bail!("'{}' needs a shell\nhint: leave out -N", named.name);
            }
        }
        for named in &mut snippets {
            named.snippet.warmup = warmup_executions;
            named.snippet.shows_output = self.commands.show_output;
            named.snippet.ignores_failure = self.commands.ignore_failure;
        }
        let mut plan = plan_request(
            &self.execution.with_project_order()?,
            &self.sampling,
            &self.results.comparison,
            &self.metric.names,
        );
        plan.layout = self.layout.build_layout()?;
        plan.sampling.min_runs = self.min_runs;
        plan.sampling.max_runs = self.max_runs;
        if warmup_executions.is_some() {
            let divides_runs = plan.sampling.divides_runs();
            plan.sampling.warmup = divides_runs.then_some(WarmupLength::Time(Duration::ZERO));
        }
        Ok(EvalRequest {
            language: self.language(),
            snippets,
            parameters,
            selection: BenchmarkSelection {
                filters: self.filter.clone(),
                excludes: self.exclude.clone(),
                ..BenchmarkSelection::default()
            },
            levels: match &self.concurrency {
                Some(Concurrency::Levels(levels)) => levels.clone(),
                _ => Vec::new(),
            },
            variants: self.variants.variant_request(&self.arguments)?,
            program: self.commands.shell.as_deref().map(resolve_program).transpose()?,
            plan,
            shares_process: self.shared || self.execution.is_order(RunOrder::Parallel),
        })
    }

    /// Builds the task.
    pub fn eval_task(&self) -> MeasureTask {
        let mut task =
            self.results.measure_task(&self.execution, &self.sampling, &self.metric.names);
        task.style = self.style;
        task.resume_command = if self.language() == SnippetLanguage::Sh { "time" } else { "eval" };
        task.gate_options.push_str(&self.commands.hook_options());
        task
    }
}

fn style(text: &str) -> Result<ReportDetail, String> {
    match text {
        "erlperf" => Ok(ReportDetail::Basic),
        "erlperf-extended" => Ok(ReportDetail::Extended),
        "erlperf-full" => Ok(ReportDetail::Full),
        _ => Err("expected erlperf, erlperf-extended or erlperf-full".to_owned()),
    }
}

/// Parses the name of a language.
///
/// # Errors
/// Fails if there is no such language.
pub fn language(text: &str) -> Result<SnippetLanguage, String> {
    SnippetLanguage::from_name(&text.to_lowercase()).ok_or_else(|| {
        let names = SnippetLanguage::ALL.map(SnippetLanguage::name).join(", ");
        let meant = language_alias(text).map(|name| format!("; did you mean '{name}'?"));
        format!("expected one of {names}{}", meant.unwrap_or_default())
    })
}

/// Returns the name of the language for another name that it has.
pub fn language_alias(text: &str) -> Option<&'static str> {
    Some(match text.to_lowercase().as_str() {
        "js" | "javascript" | "nodejs" => "node",
        "py" | "python3" => "python",
        "erl" => "erlang",
        "ex" | "exs" => "elixir",
        "c++" | "cc" | "cxx" => "cpp",
        "golang" => "go",
        "rs" => "rust",
        "bash" | "shell" | "zsh" => "sh",
        _ => return None,
    })
}

/// Options of shell commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Commands")]
pub struct CommandArgs {
    /// Accept any exit status of the commands
    #[arg(short = 'i', long)]
    pub ignore_failure: bool,
    /// Reject commands that need a shell
    #[arg(short = 'N', long, conflicts_with = "shell")]
    pub no_shell: bool,
    /// Run the commands in this shell [default: sh, if they need one]
    #[arg(long, value_name = "SHELL")]
    pub shell: Option<PathBuf>,
    /// Run once before everything is measured, untimed
    #[arg(long, value_name = "CMD")]
    pub setup: Vec<String>,
    /// Run once after everything has been measured
    #[arg(long, value_name = "CMD")]
    pub cleanup: Vec<String>,
    /// Show the output of the commands on stderr
    #[arg(long)]
    pub show_output: bool,
}

impl CommandArgs {
    /// Returns the lines of `--setup` and `--cleanup`, with the values of parameters filled in.
    ///
    /// # Errors
    /// Fails if several different lines are given, or if a line differs between the cases (`rows`).
    /// Blocks mix commands and cases, so the line of the last one would hold for all of them.
    pub fn fill_hooks(
        &self,
        rows: &[Vec<(String, ParameterValue)>],
    ) -> Result<[Option<String>; 2]> {
        let fill = |option: &str, typed: &[String]| -> Result<Option<String>> {
            let mut lines: Vec<String> = Vec::new();
            for line in typed {
                let snippet = Snippet::new(SnippetLanguage::Sh, line);
                lines.extend(rows.iter().map(|row| snippet.with_defaults(row).runner.clone()));
            }
            lines.dedup();
            ensure!(
                lines.len() < 2,
                "{option} differs between commands: '{}' and '{}'\nhint: --prepare runs before every execution; to \
                 compare revisions: speedwell compare --old rev:A --new rev:B",
                lines[0],
                lines[1]
            );
            Ok(lines.pop())
        };
        Ok([fill("--setup", &self.setup)?, fill("--cleanup", &self.cleanup)?])
    }

    /// Formats the options that a resumed session needs again: ` --setup CMD --cleanup CMD`.
    fn hook_options(&self) -> String {
        let hooks = [("--setup", &self.setup), ("--cleanup", &self.cleanup)];
        let given = |(option, lines): (&str, &Vec<String>)| {
            Some(format!(" {option} {}", quote(lines.last()?)))
        };
        hooks.into_iter().filter_map(given).collect()
    }
}

/// Snippet options. Each hook is given once for all snippets, or once for each, in order.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Code")]
pub struct SnippetArgs {
    /// Run once before the workers start; its value is shared by all
    ///
    /// Give it once for all snippets, or once for each. With '@FILE', the code sees the names that a Python file defines,
    /// or that a JavaScript file or an Erlang module exports.
    #[arg(long, value_name = "CODE", allow_hyphen_values = true)]
    pub init: Vec<String>,
    /// Run once in every worker; its value is the worker's state
    #[arg(long, visible_alias = "init-runner", value_name = "CODE", allow_hyphen_values = true)]
    pub init_worker: Vec<String>,
    /// Run before every execution of a command, untimed
    #[arg(long, value_name = "CODE", allow_hyphen_values = true)]
    pub prepare: Vec<String>,
    /// Run once after all workers have ended
    #[arg(long, value_name = "CODE", allow_hyphen_values = true)]
    pub done: Vec<String>,
    /// Name in tables [default: the text]
    #[arg(long, visible_alias = "label", value_name = "NAME")]
    pub name: Vec<String>,
    /// Search path for modules, headers or classes (repeatable)
    #[arg(long, visible_alias = "pa", value_name = "FOLDER")]
    pub path: Vec<PathBuf>,
    /// Erlang, Elixir: measure in a local cluster of N nodes
    #[arg(long, value_name = "N", value_parser = parse::count, conflicts_with = "node")]
    pub nodes: Option<u32>,
    /// Erlang, Elixir: measure on a running node
    #[arg(long, value_name = "NAME@HOST")]
    pub node: Option<String>,
    /// Cookie of that node [default: the user's cookie]
    #[arg(long, value_name = "TEXT", requires = "node")]
    pub node_cookie: Option<String>,
}

/// Parameter options. In snippets and hooks, '{NAME}' stands for a value; each value is a separate
/// case.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Parameters")]
pub struct ParameterArgs {
    /// Measure each number from MIN to MAX as '{NAME}' (repeatable)
    #[arg(short = 'P', long, num_args = 3, value_names = ["NAME", "MIN", "MAX"], allow_negative_numbers = true)]
    pub parameter_scan: Vec<String>,
    /// Step of the parameter scan [default: 1]
    ///
    /// Give it once for all scans, or once for each.
    #[arg(short = 'D', long, value_name = "STEP", requires = "parameter_scan")]
    pub parameter_step_size: Vec<String>,
    /// Measure each of these values as '{NAME}' (repeatable)
    ///
    /// Write a comma within a value as '\,'.
    #[arg(short = 'L', long, num_args = 2, value_names = ["NAME", "V[,V]"], allow_hyphen_values = true)]
    pub parameter_list: Vec<String>,
}

impl ParameterArgs {
    /// Returns the parameters: first scans, then lists, as typed.
    ///
    /// # Errors
    /// Fails if a name is invalid or repeated, a number is invalid, or a range is empty.
    pub fn snippet_parameters(&self) -> Result<Vec<(String, Vec<ParameterValue>)>> {
        let mut parameters: Vec<(String, Vec<ParameterValue>)> = Vec::new();
        let mut add = |name: &str, values: Vec<ParameterValue>| -> Result<()> {
            let rejection = match name {
                "code" | "concurrency" => {
                    Some("every snippet already has a parameter with this name")
                }
                name => Case::refuses_name(name),
            };
            if let Some(reason) = rejection {
                bail!("invalid parameter name '{name}': {reason}");
            }
            ensure!(
                parameters.iter().all(|(existing, _)| existing != name),
                "parameter '{name}' is given twice"
            );
            parameters.push((name.to_owned(), values));
            Ok(())
        };
        let scans = self.parameter_scan.chunks_exact(3);
        let steps = &self.parameter_step_size;
        ensure!(
            steps.len() <= 1 || steps.len() == scans.len(),
            "--parameter-step-size is given {} times for {} scan(s)\nhint: give it once for all scans, or once for each, in the same order",
            steps.len(),
            scans.len()
        );
        for (index, scan) in scans.enumerate() {
            let step = steps.get(index).or(steps.first()).map(String::as_str);
            let texts = parse_range(&scan[1], &scan[2], step)
                .with_context(|| format!("in --parameter-scan '{}'", scan[0]))?;
            let numbers = texts.iter().filter_map(|text| text.parse().ok());
            let values = numbers.map(ParameterValue::Number).collect();
            add(&scan[0], values).context("in --parameter-scan")?;
        }
        for pair in self.parameter_list.chunks_exact(2) {
            add(&pair[0], infer_values(&parse_list(&pair[1]))).context("in --parameter-list")?;
        }
        Ok(parameters)
    }
}

/// Reads the snippets and returns them in the order in which they were typed.
///
/// # Errors
/// Fails if the number of hooks or names does not suit the number of snippets, if a snippet is
/// empty, if an option does not apply to the language, or if a file cannot be read.
pub fn read_snippets(
    language: SnippetLanguage,
    arguments: &[String],
    args: &SnippetArgs,
    parameters: &[(String, Vec<ParameterValue>)],
) -> Result<Vec<NamedSnippet>> {
    let count = arguments.len();
    let found = args.init.iter().map(|text| find_module(language, text, parameters));
    let modules: Vec<Option<PathBuf>> = found.collect::<Result<_>>().context("in --init")?;
    let typed_inits = args.init.iter().zip(&modules);
    let init_code: Vec<String> = typed_inits
        .map(|(text, module)| if module.is_none() { text.clone() } else { String::new() })
        .collect();
    let read = |text: &str| read_code(language, text, parameters);
    let inits = hook_per_snippet("--init", &init_code, count, read)?;
    let init_workers = hook_per_snippet("--init-worker", &args.init_worker, count, read)?;
    let prepares = hook_per_snippet("--prepare", &args.prepare, count, read)?;
    ensure!(
        args.prepare.is_empty() || language == SnippetLanguage::Sh,
        "--prepare needs 'sh', where each iteration is a process\nhint: for other languages, --init-worker prepares each worker once"
    );
    let dones = hook_per_snippet("--done", &args.done, count, read)?;
    let names = &args.name;
    ensure!(
        names.is_empty() || names.len() == count,
        "--name is given {} for {count} snippets\nhint: give one name for each snippet, in the same order",
        count_of_times(names.len())
    );
    let paths = args.path.iter().map(|path| resolve_folder(path));
    let paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
    let nodes = remote_nodes(language, args)?;
    let mut named_snippets: Vec<NamedSnippet> = Vec::new();
    for (index, text) in arguments.iter().enumerate() {
        let code = read(text)?;
        ensure!(!code.trim().is_empty(), "snippet number {} is empty", index + 1);
        let default_name = if code == *text { join_lines(&code) } else { text[1..].to_owned() };
        let name = names.get(index).unwrap_or(&default_name);
        let module = modules.get(index).or(modules.first()).into_iter().flatten();
        named_snippets.push(NamedSnippet {
            name: unique_name(name, &named_snippets),
            snippet: Snippet {
                init: inits[index].clone(),
                init_worker: init_workers[index].clone(),
                prepare: prepares[index].clone(),
                done: dones[index].clone(),
                paths: module.chain(&paths).cloned().collect(),
                nodes: nodes.clone(),
                ..Snippet::new(language, code)
            },
        });
    }
    compare_in_shell(&mut named_snippets, &Case::cartesian_product(parameters)?);
    Ok(named_snippets)
}

/// If one of several commands needs a shell, runs all of them in a shell, so that all have the same
/// overhead. Checks each command with the values of every case (`rows`) filled in.
fn compare_in_shell(named: &mut [NamedSnippet], rows: &[Vec<(String, ParameterValue)>]) {
    if named.len() * rows.len() > 1 && named.iter().any(|named| needs_shell(named, rows)) {
        named.iter_mut().for_each(|named| named.snippet.in_shell = true);
    }
}

/// Whether the command needs a shell with the values of some case.
fn needs_shell(named: &NamedSnippet, rows: &[Vec<(String, ParameterValue)>]) -> bool {
    let mut filled = rows.iter().map(|row| named.snippet.with_defaults(row));
    named.snippet.language == SnippetLanguage::Sh
        && filled.any(|snippet| snippet::sh::needs_shell(&snippet.runner))
}

/// Joins the lines of a snippet into a one-line name, for use in sentences and tables.
pub fn join_lines(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the requested Erlang nodes: a local cluster or a running node.
fn remote_nodes(language: SnippetLanguage, args: &SnippetArgs) -> Result<Option<ErlangNodes>> {
    let nodes = match (args.nodes, &args.node) {
        (Some(count), _) => Some(ErlangNodes::Local(count)),
        (_, Some(name)) => {
            Some(ErlangNodes::Remote { name: name.clone(), cookie: args.node_cookie.clone() })
        }
        _ => None,
    };
    let is_distributed = matches!(language, SnippetLanguage::Erlang | SnippetLanguage::Elixir);
    ensure!(
        nodes.is_none() || is_distributed,
        "--nodes and --node need Erlang or Elixir, not {language}"
    );
    Ok(nodes)
}

/// Returns a hook for each snippet. There must be one hook for all snippets, or one hook for each.
fn hook_per_snippet(
    option: &str,
    arguments: &[String],
    count: usize,
    read: impl Fn(&str) -> Result<String>,
) -> Result<Vec<Option<String>>> {
    let hooks = arguments.iter().map(|text| read(text).map(Some));
    let hooks: Vec<Option<String>> =
        hooks.collect::<Result<_>>().with_context(|| format!("in {option}"))?;
    Ok(match &hooks[..] {
        [] => vec![None; count],
        [hook] => vec![hook.clone(); count],
        _ if hooks.len() == count => hooks,
        _ => bail!(
            "{option} is given {} for {count} snippet(s)\nhint: give it once for all snippets, or once for each, in \
             their order; an empty string leaves its snippet without a hook",
            count_of_times(hooks.len())
        ),
    }
    .into_iter()
    .map(|text| text.filter(|text| !text.trim().is_empty()))
    .collect())
}

/// Returns the absolute path of an `@FILE` argument that is a module, whose names the code sees: a
/// Python file, a JavaScript file that exports something, or an Erlang module. A text with parameters
/// is code.
fn find_module(
    language: SnippetLanguage,
    argument: &str,
    parameters: &[(String, Vec<ParameterValue>)],
) -> Result<Option<PathBuf>> {
    let Some(file) = named_file(argument) else { return Ok(None) };
    let text = read_text(argument)?;
    let has_parameters = parameters.iter().any(|(name, _)| text.contains(&format!("{{{name}}}")));
    let has_names = snippet::is_module(language, file, &text) && !has_parameters;
    Ok(has_names.then(|| std::fs::canonicalize(file)).transpose()?)
}

/// Returns the file of an `@FILE` argument. Code may also begin with '@': an attribute in Elixir, or
/// an annotation in Java. A single word cannot be meant as code, even if there is no such file.
fn named_file(argument: &str) -> Option<&Path> {
    let name = argument.strip_prefix('@')?;
    let is_word = !name.is_empty()
        && name.chars().all(|letter| letter.is_alphanumeric() || "._-+/~".contains(letter));
    (is_word || Path::new(name).is_file()).then(|| Path::new(name))
}

/// Reads the file of an `@FILE` argument; returns any other text unchanged.
fn read_text(argument: &str) -> Result<String> {
    let Some(file) = named_file(argument) else { return Ok(argument.to_owned()) };
    String::from_utf8(read_named_file(file)?)
        .map_err(|_| anyhow!("cannot read '{}': it is not UTF-8 text", file.display()))
}

/// Reads code like [`read_text`]. A module of JavaScript or Erlang has no value, and cannot be a part
/// of a loop.
fn read_code(
    language: SnippetLanguage,
    argument: &str,
    parameters: &[(String, Vec<ParameterValue>)],
) -> Result<String> {
    if language != SnippetLanguage::Python {
        let module = find_module(language, argument, parameters)?;
        ensure!(
            module.is_none(),
            "'{}' is a module\nhint: to measure a function that it exports: speedwell eval {language} --init {} {}",
            &argument[1..],
            quote(argument),
            quote(&snippet::suggest_call(language, &read_text(argument)?))
        );
    }
    read_text(argument)
}

fn resolve_folder(path: &Path) -> Result<PathBuf> {
    let displayed = path.display();
    let resolved = std::fs::canonicalize(path)
        .with_context(|| format!("in --path: cannot find '{displayed}'"))?;
    ensure!(
        resolved.is_dir() || resolved.is_file(),
        "in --path: '{displayed}' is neither a folder nor a file"
    );
    Ok(resolved)
}

/// Appends a number to the name if another snippet has it.
fn unique_name(name: &str, others: &[NamedSnippet]) -> String {
    let numbered = (2..).map(|number| format!("{name} #{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    // The range is infinite, so the default is never used.
    names.find(|name| others.iter().all(|other| other.name != *name)).unwrap_or_default()
}

fn count_of_times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_snippet(runner: &str) -> NamedSnippet {
        NamedSnippet { name: runner.to_owned(), snippet: Snippet::new(SnippetLanguage::Sh, runner) }
    }

    #[test]
    fn compared_commands_all_run_in_a_shell_or_none_does() {
        let in_shell = |runners: &[&str]| -> Vec<bool> {
            let mut others: Vec<NamedSnippet> =
                runners.iter().map(|runner| named_snippet(runner)).collect();
            compare_in_shell(&mut others, &[Vec::new()]);
            others.iter().map(|snippet| snippet.snippet.in_shell).collect()
        };
        assert_eq!(in_shell(&["sleep 1", "sleep 1 | cat"]), [true, true]);
        assert_eq!(in_shell(&["sleep 1", "sleep 2"]), [false, false]);
        assert_eq!(in_shell(&["sleep 1 | cat"]), [false], "a lone command is left alone");
    }

    #[test]
    fn a_file_with_exports_is_a_module_and_any_other_file_is_code() {
        let folder = tempfile::tempdir().unwrap();
        let parameters = [("n".to_owned(), Vec::new())];
        for (language, text, expected) in [
            (SnippetLanguage::Node, "export function f() {}", true),
            (SnippetLanguage::Node, "const f = 1;\nmodule.exports = { f };", true),
            (SnippetLanguage::Node, "require('./counter')", false),
            (SnippetLanguage::Python, "def f():\n    pass", true),
            (SnippetLanguage::Python, "x = {n}", false),
            (SnippetLanguage::Erlang, "-module(a).\n-export([f/0]).", true),
            (SnippetLanguage::Erlang, "i() -> ok.", false),
            (SnippetLanguage::Go, "export x", false),
        ] {
            let ending = if language == SnippetLanguage::Erlang { "erl" } else { "py" };
            let file = folder.path().join(format!("a.{ending}"));
            std::fs::write(&file, text).unwrap();
            let argument = format!("@{}", file.display());
            let found = find_module(language, &argument, &parameters).unwrap();
            assert_eq!(found.is_some(), expected, "{text}");
        }
        assert_eq!(find_module(SnippetLanguage::Node, "export x", &[]).unwrap(), None);
    }

    #[test]
    fn a_single_word_after_an_at_sign_is_a_file() {
        for (argument, expected) in [
            ("@slog.js", Some("slog.js")),
            ("@../a b.js", None),
            ("@moduledoc false", None),
            ("@Override public void f() {}", None),
            ("slug.js", None),
            ("@", None),
        ] {
            assert_eq!(named_file(argument), expected.map(Path::new), "{argument}");
        }
    }

    #[test]
    fn a_snippet_of_several_lines_has_a_single_line_name() {
        assert_eq!(join_lines("\n#include <a.h>\n\n  f(1)\n"), "#include <a.h> f(1)");
    }
}
