//! Defines the options of `run`, which `compare` and `confirm` share: what to select, which variants
//! to compare, and how to vary the memory layout. Turns the options of every command that measures
//! into a request ([`SelectionArgs::measure_request`]).

use crate::init::explain_no_targets;
use crate::operand::{
    is_setting, option_name, quote_all, revision_kind, script_command, split_part,
};
use crate::options::{
    ComparisonArgs, FailOn, FleetArgs, MetricArgs, OriginArgs, OutputArgs, PushTarget, StoreArgs,
    parse,
};
use crate::progress::ProgressDisplay;
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use regex::Regex;
use speedwell_adapters::TrialMode;
use speedwell_adapters::discover::{BenchmarkPart, BenchmarkSelection, CaseDivision};
use speedwell_analysis::AnalysisSettings;
use speedwell_compat::erlperf::ReportDetail;
use speedwell_engine::revisions::WORKING_TREE;
use speedwell_engine::{
    BuildArgs, ExecutionArgs, MeasureRequest, PlanRequest, RevisionRequest, SamplingRequest,
    SessionRequest, VariantRequest,
};
use speedwell_machine::process::{CpuSet, resolve_program};
use speedwell_model::{
    InstructionCounting, LayoutVariation, Metric, SessionPurpose, SteadyRule, Variant, quote,
};
use speedwell_report::StudyChoice;
use speedwell_store::Store;
use std::path::{Path, PathBuf};

/// Measure benchmark files, groups or whole benchmark folders
///
/// A single variant gives a table with the results of each case; several variants give a comparison with a verdict for
/// every case. Without targets, those of the project file are measured; 'speedwell init' writes it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell run benchmarks/buffers
  speedwell run benchmarks/buffers/copy.js len=1024 --runs 10
  speedwell run string_decoder --variant old=./node-18 --variant new=./node-22 -o report.md
  speedwell run --resume @latest")]
pub struct RunArgs {
    /// Files, folders, group names; and NAME=VALUE to set a parameter
    #[arg(index = 1, value_name = "TARGET|NAME=VALUE")]
    pub targets: Vec<String>,
    /// After '--': arguments for every measured program
    ///
    /// They precede the variant's own arguments.
    #[arg(index = 2, last = true, value_name = "ARG")]
    pub arguments: Vec<String>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub sampling: SamplingRequest,
    #[command(flatten)]
    pub variants: VariantArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Profile every case of an experiment after measuring
    ///
    /// The profiled runs are not timed.
    #[arg(long, help_heading = "Execution", conflicts_with_all = ["list", "test"])]
    pub profile: bool,
    /// Show live results in a browser
    ///
    /// The dashboard is served until you press Enter, or until a minute after the last viewer leaves.
    #[arg(long, help_heading = "Execution", conflicts_with_all = ["list", "test", "no_save"])]
    pub dashboard: bool,
    #[command(flatten)]
    pub results: ResultArgs,
}

impl RunArgs {
    /// Builds the request.
    ///
    /// # Errors
    /// Fails if settings or variants cannot be parsed.
    pub fn measure_request(&self) -> Result<MeasureRequest> {
        let plan = self.plan_request()?;
        let division = self.case_division()?;
        let targets = [self.targets.clone(), self.results.study.given_values()].concat();
        let mut request =
            self.selection.measure_request(&targets, &self.arguments, &self.variants, plan)?;
        ensure!(!request.targets.is_empty(), "{}", explain_no_targets());
        request.variants.division = division;
        Ok(request)
    }

    /// Returns the values that `--by` compares. With `--x-axis`, they are lines of a study instead.
    fn case_division(&self) -> Result<Option<CaseDivision>> {
        let study = &self.results.study;
        ensure!(
            study.by.len() < 2,
            "a second --by also names variants; use one\nhint: -s NAME=V[,V] measures values of another parameter"
        );
        let (Some(text), None) = (study.by.first(), &study.x_axis) else { return Ok(None) };
        let other = if self.variants.old.is_some() { "--old" } else { "--variant" };
        ensure!(!self.variants.is_any(), "--by and {other} both name variants; use one");
        let (name, values) = match text.split_once('=') {
            Some((name, _)) => (name, BenchmarkSelection::parse_set(text).context("in --by")?),
            None => (text.as_str(), Vec::new()),
        };
        let mut settings = self.selection.set.iter().chain(&self.targets);
        let is_same = |set: &&String| set.split_once('=').is_some_and(|(key, _)| key == name);
        if let Some(set) = settings.find(is_same) {
            bail!("--by and '{set}' both set '{name}'\nhint: --by {}", quote(set));
        }
        Ok(Some(CaseDivision::Parameter {
            name: name.to_owned(),
            values: values.into_iter().map(|(_, value)| value).collect(),
        }))
    }

    /// Builds the plan of runs.
    ///
    /// # Errors
    /// Fails if layout options conflict.
    pub fn plan_request(&self) -> Result<PlanRequest> {
        Ok(PlanRequest {
            layout: self.layout.build_layout()?,
            ..plan_request(
                &self.execution.with_project_order()?,
                &self.sampling,
                &self.results.comparison,
                &self.selection.metric.names,
            )
        })
    }

    /// Builds the task.
    pub fn measure_task(&self) -> MeasureTask {
        let metrics = &self.selection.metric.names;
        MeasureTask {
            profile: self.profile,
            ..self.results.measure_task(&self.execution, &self.sampling, metrics)
        }
    }
}

/// Options of results: which machines measure them, and how they are compared, reported and stored.
#[derive(Debug, Default, Args)]
pub struct ResultArgs {
    #[command(flatten)]
    pub fleet: FleetArgs,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    #[command(flatten)]
    pub study: StudyArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub origin: OriginArgs,
    #[command(flatten)]
    pub owing: PushTarget,
}

impl ResultArgs {
    /// Builds a task whose session `run` can resume.
    pub fn measure_task(
        &self,
        execution: &ExecutionArgs,
        sampling: &SamplingRequest,
        metrics: &[String],
    ) -> MeasureTask {
        MeasureTask {
            settings: self.comparison.analysis_settings(&execution.report_metrics(metrics), None),
            fail_on: self.comparison.fail_on,
            gate_options: self.comparison.gate_options(metrics),
            divides_runs: sampling.divides_runs(),
            runs: sampling.runs,
            steady: sampling.steady_rule(execution.clock),
            execution: execution.clone(),
            fleet: self.fleet.clone(),
            study: self.study.clone(),
            output: self.output.clone(),
            store: self.store.clone(),
            origin: self.origin.clone(),
            owing: self.owing.clone(),
            resume_command: "run",
            ..MeasureTask::default()
        }
    }
}

/// Builds the request for the plan of runs. `metrics` are the requested metrics.
pub fn plan_request(
    execution: &ExecutionArgs,
    sampling: &SamplingRequest,
    comparison: &ComparisonArgs,
    metrics: &[String],
) -> PlanRequest {
    PlanRequest {
        sampling: sampling.clone(),
        execution: execution.clone(),
        confidence: comparison.confidence,
        threshold: comparison.threshold,
        counting: instruction_counting(metrics, execution.estimate_cycles),
        layout: LayoutVariation::default(),
        fixed_by: [
            (!metrics.is_empty(), "--metric"),
            (comparison.method.is_some(), "--method"),
            (comparison.fail_on != FailOn::Never, PlanRequest::GATE_OPTION),
        ]
        .into_iter()
        .find_map(|(is_given, option)| is_given.then_some(option)),
        purpose: SessionPurpose::Measured,
    }
}

/// Options of the commands that measure revisions: how to measure them, and where the results go.
#[derive(Debug, Args)]
pub struct RevisionMeasuringArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub sampling: SamplingRequest,
    /// Pin measured processes to these CPUs, e.g. 1 or 0,2-3
    #[arg(long, value_name = "CPUS", help_heading = "Execution")]
    pub pin: Option<CpuSet>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub store: StoreArgs,
}

impl RevisionMeasuringArgs {
    /// Builds the request without the revisions, which become variants later.
    ///
    /// # Errors
    /// Fails if settings cannot be parsed.
    pub fn measure_request(
        &self,
        targets_and_values: &[String],
        arguments: &[String],
        plan: PlanRequest,
    ) -> Result<MeasureRequest> {
        let plan = PlanRequest {
            sampling: self.sampling.clone(),
            execution: ExecutionArgs { pin: self.pin.clone(), ..plan.execution },
            counting: instruction_counting(&self.selection.metric.names, false),
            ..plan
        };
        self.selection.measure_request(targets_and_values, arguments, &VariantArgs::default(), plan)
    }
}

/// The task of a measuring command: how it executes plans, and where the results go.
#[derive(Debug, Default)]
pub struct MeasureTask {
    pub settings: AnalysisSettings,
    /// The gate: which results make the command fail.
    pub fail_on: FailOn,
    /// The gate's options, for the hint about resuming the session.
    pub gate_options: String,
    /// Whether the division of runs into samples was requested.
    pub divides_runs: bool,
    /// The number of runs per side, if it was requested.
    pub runs: Option<u32>,
    /// The rule that finds the steady part of every run, or `None` without `--steady`.
    pub steady: Option<SteadyRule>,
    /// Execution options, for example whether to only list or try the cases.
    pub execution: ExecutionArgs,
    pub profile: bool,
    pub fleet: FleetArgs,
    pub study: StudyArgs,
    pub output: OutputArgs,
    pub store: StoreArgs,
    /// Origin of the measured code as given by the user.
    pub origin: OriginArgs,
    /// Whether and where to push the session.
    pub owing: PushTarget,
    /// Alternative style of the report.
    pub style: Option<ReportDetail>,
    /// The command that resumes an interrupted session.
    pub resume_command: &'static str,
}

impl MeasureTask {
    /// Opens the store. If cases are only listed or tried, opens an empty store in memory.
    ///
    /// # Errors
    /// Fails if the store cannot be opened.
    pub fn open_store(&self) -> Result<Store> {
        if self.execution.list || self.execution.test {
            Store::in_memory()
        } else {
            let opened = self.store.open_store();
            opened.context("cannot store the session\nhint: --no-save measures without storing")
        }
    }

    pub fn progress_display(&self) -> ProgressDisplay {
        ProgressDisplay::new(&self.output)
    }

    /// Builds the request for the session.
    pub fn session_request(&self) -> SessionRequest {
        SessionRequest {
            settings: self.settings.clone(),
            fail_fast: self.execution.fail_fast,
            divides_runs: self.divides_runs,
            push: self.owing.push_url(),
            ..self.store.session_request(&self.origin)
        }
    }
}

/// Selection options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct SelectionArgs {
    /// Only benchmarks whose name matches
    ///
    /// The name is 'group/name'. Repeatable: benchmarks that match any of the patterns are measured.
    #[arg(short = 'f', long = "filter", value_name = "RE")]
    pub filter: Vec<Regex>,
    /// Leave out benchmarks that match this pattern (repeatable)
    ///
    /// The pattern may match anywhere in 'group/name'.
    #[arg(short = 'x', long = "exclude", value_name = "RE")]
    pub exclude: Vec<Regex>,
    /// Set a parameter to these values (repeatable)
    ///
    /// The values replace the declared ones. NAME=V[,V] among the targets has the same effect. '@FILE' reads lines
    /// such as 'group/file.js n=1000', as written by 'speedwell iterations'.
    #[arg(short = 's', long = "set", value_name = "NAME=V[,V]")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub metric: MetricArgs,
}

impl SelectionArgs {
    /// Builds the request. An element of `targets_and_values` that has the form NAME=VALUE is a
    /// setting, unless a file of this name exists; any other element is a target, and FILE::NAME is
    /// a part of one. `arguments` are passed to every program.
    ///
    /// # Errors
    /// Fails if settings or variants cannot be parsed.
    pub fn measure_request(
        &self,
        targets_and_values: &[String],
        arguments: &[String],
        variants: &VariantArgs,
        plan: PlanRequest,
    ) -> Result<MeasureRequest> {
        let exists = |text: &str| Path::new(text).exists();
        let (mut settings, mut targets): (Vec<String>, Vec<String>) = Default::default();
        let mut parts = Vec::new();
        for argument in targets_and_values {
            let part = split_part(argument, exists).filter(|(target, _)| exists(target));
            let target = part.map_or(argument.as_str(), |(target, _)| target);
            if let Some((_, text)) = part {
                let parsed = BenchmarkPart::parse(text)
                    .with_context(|| format!("in target '{argument}'"))?;
                parts.push((std::fs::canonicalize(target)?, parsed));
            } else if is_setting(argument) {
                settings.push(argument.clone());
                continue;
            }
            if part.is_none() || targets.iter().all(|earlier| earlier != target) {
                targets.push(target.to_owned());
            }
        }
        let selection = self.build_selection(&settings, plan.execution.trial_mode())?;
        Ok(MeasureRequest {
            targets,
            selection: BenchmarkSelection { parts, ..selection },
            variants: variants.variant_request(arguments)?,
            plan,
            place_roles: Some(super::fleet::place_roles),
        })
    }

    /// Builds the selection. `set_arguments` are the NAME=VALUE arguments among the targets.
    ///
    /// # Errors
    /// Fails if a setting is not of the form NAME=VALUE, or if a file of settings cannot be read.
    pub fn build_selection(
        &self,
        set_arguments: &[String],
        trial: TrialMode,
    ) -> Result<BenchmarkSelection> {
        let mut selection = BenchmarkSelection {
            filters: self.filter.clone(),
            excludes: self.exclude.clone(),
            trial,
            ..BenchmarkSelection::default()
        };
        for text in &self.set {
            match text.strip_prefix('@') {
                Some(file) => std::fs::read_to_string(file)
                    .map_err(anyhow::Error::from)
                    .and_then(|lines| selection.add_lines(&lines))
                    .with_context(|| format!("cannot read the values in '{file}'"))
                    .context("in --set")?,
                None => {
                    selection.sets.extend(BenchmarkSelection::parse_set(text).context("in --set")?)
                }
            }
        }
        for text in set_arguments {
            selection.sets.extend(BenchmarkSelection::parse_set(text)?);
        }
        Ok(selection)
    }
}

/// Study options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Study")]
pub struct StudyArgs {
    /// Study how the metric depends on this parameter
    #[arg(long, value_name = "NAME")]
    pub x_axis: Option<String>,
    /// Compare values of a parameter
    ///
    /// The first value is the baseline. Without values, all that the benchmarks declare. -s sets other parameters. With
    /// --x-axis, draw a line for each value ('variant': for each variant).
    #[arg(long, value_name = "PARAM[=V,V]")]
    pub by: Vec<String>,
    /// Use a logarithmic x axis
    #[arg(long, requires = "x_axis")]
    pub log: bool,
}

impl StudyArgs {
    /// Returns the values that `--by` names, as NAME=VALUE.
    pub fn given_values(&self) -> Vec<String> {
        self.by.iter().filter(|by| by.contains('=')).cloned().collect()
    }

    /// Converts the options for the report.
    pub fn study_choice(&self) -> StudyChoice {
        let name = |by: &String| option_name(by).to_owned();
        StudyChoice {
            x_axis: self.x_axis.clone(),
            by: self.by.last().filter(|_| self.x_axis.is_some()).map(name),
            log: self.log,
        }
    }
}

/// Returns how to count instructions, if `metrics` requests it.
fn instruction_counting(metrics: &[String], cache_model: bool) -> Option<InstructionCounting> {
    let is_requested = |metric: &str| metrics.iter().any(|name| name == metric);
    is_requested(Metric::INSTRUCTIONS).then(|| InstructionCounting {
        tool: String::new(),
        cache_model,
        also_timed: Metric::TIMES.into_iter().any(is_requested),
    })
}

/// Layout options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Execution")]
pub struct LayoutArgs {
    /// Link each variant in N different layouts (C, C++, Rust, Go)
    ///
    /// Each build orders functions and data differently, and run i executes build i. With fewer builds than runs,
    /// builds are compared instead of runs.
    #[arg(long, value_name = "N", value_parser = builds, conflicts_with = "resume")]
    pub builds: Option<u32>,
    /// Vary the memory layout: sections, env, stack, align or none
    ///
    /// 'sections' orders functions and data differently in each build. 'env' varies the size of the environment in each
    /// run, 'stack' the length of the program's path. 'align' aligns functions to 64 bytes [default: none; with
    /// --builds: sections,env,stack].
    #[arg(long, value_name = "PART[,PART...]", value_delimiter = ',', conflicts_with = "resume")]
    pub layout: Vec<LayoutPart>,
}

/// Parts of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutPart {
    /// Order of functions and data.
    Sections,
    /// Size of the environment.
    Env,
    /// Length of the program's path.
    Stack,
    /// Functions aligned to 64 bytes.
    Align,
    /// The usual layout.
    None,
}

impl LayoutArgs {
    /// Converts the options to the requested variation of the layout.
    ///
    /// # Errors
    /// Fails if options conflict.
    pub fn build_layout(&self) -> Result<LayoutVariation> {
        use LayoutPart::*;
        let has_part = |part| self.layout.contains(&part);
        let uses_defaults = self.layout.is_empty() && self.builds.is_some();
        ensure!(
            !has_part(None) || (self.layout.len() == 1 && self.builds.is_none()),
            "'--layout none' cannot be combined with --builds or other parts\nhint: leave out 'none', or the rest"
        );
        ensure!(
            !has_part(Sections) || self.builds.is_some(),
            "'--layout sections' needs several builds\nhint: add --builds 32"
        );
        ensure!(
            self.builds.is_none() || uses_defaults || has_part(Sections),
            "--builds varies the order of sections, but '--layout' leaves 'sections' out\nhint: use --layout sections,env,stack"
        );
        Ok(LayoutVariation {
            builds: self.builds.unwrap_or(0),
            env: uses_defaults || has_part(Env),
            stack: uses_defaults || has_part(Stack),
            align: has_part(Align),
        })
    }
}

/// Parses a number of builds, at least 2.
fn builds(text: &str) -> Result<u32, String> {
    match parse::count(text)? {
        1 => Err("expected 2 builds or more: a single build has a single layout".to_owned()),
        builds => Ok(builds),
    }
}

/// Name of the merge base of the current branch and the branch into which it will be merged.
/// `@base:BRANCH` is the merge base with another branch.
const BASE_REVISION: &str = "@base";

/// Variant options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Variants")]
pub struct VariantArgs {
    /// Variant to compare, e.g. 'jit=node --maglev'
    ///
    /// Repeatable. The full form is 'NAME=[VAR=V...] [PROGRAM] [ARG...]', for example 'big=NODE_OPTIONS=--stack-size=2000 node'. A
    /// program alone, such as 'bun', also names the variant. PROGRAM may be a revision, as in --old. The first variant
    /// is the baseline.
    #[arg(long, value_name = "NAME=CMD", conflicts_with_all = ["old", "new"])]
    pub variant: Vec<String>,
    /// Baseline: a program, or a git revision as rev:REV
    ///
    /// 'rev:REV' measures the targets as of a git revision; 'rev:REV:PROGRAM' uses a program built from it. 'rev:@base'
    /// is the merge base with the branch that the current branch will be merged into. Without --new, a revision is
    /// compared with a copy of the working tree, untracked files included.
    #[arg(long, value_name = "P")]
    pub old: Option<PathBuf>,
    /// Candidate: a program or a revision [default: the working tree]
    #[arg(long, value_name = "P", requires = "old")]
    pub new: Option<PathBuf>,
    #[command(flatten)]
    pub build: BuildArgs,
    /// Variant to compare the others with [default: the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
}

/// What to build from each revision of a range.
#[derive(Debug, Args)]
pub struct RevisionProgramArgs {
    /// Program built from each revision, to run the targets
    ///
    /// The path is relative to the current folder.
    #[arg(long, value_name = "PROGRAM", help_heading = "Search")]
    pub program: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Search")]
    pub build: BuildArgs,
}

impl VariantArgs {
    /// Whether any variant was given.
    pub fn is_any(&self) -> bool {
        self.old.is_some() || !self.variant.is_empty()
    }

    /// Converts the options to a request. `arguments` are passed to every program.
    ///
    /// # Errors
    /// Fails if a variant cannot be parsed, or a program is missing.
    pub fn variant_request(&self, arguments: &[String]) -> Result<VariantRequest> {
        self.reject_scripts()?;
        let parsed: Vec<TypedVariant> = match (&self.old, &self.new) {
            (Some(old), Some(new)) => with_sides(old, new)?,
            (Some(old), None) => with_working_tree(old)?,
            _ => self.variant.iter().map(|text| parse_variant(text)).collect::<Result<_>>()?,
        };
        let names_variant = self.old.is_some();
        let (mut given, mut revisions) = (Vec::new(), Vec::new());
        for (variant, (typed, revision)) in parsed.into_iter().enumerate() {
            given.push(typed);
            revisions.extend(revision.map(|typed| RevisionRequest {
                variant,
                names_variant,
                ..typed
            }));
        }
        ensure!(
            self.build.build.is_none() || !revisions.is_empty(),
            "--build needs a revision to build\nhint: name revisions, for example \
             --old rev:main --new rev:HEAD"
        );
        Ok(VariantRequest {
            given,
            revisions,
            build: self.build.clone(),
            division: None,
            baseline: self.baseline.clone(),
            arguments: arguments.to_vec(),
        })
    }

    /// Checks that `--old` and `--new` do not name scripts.
    fn reject_scripts(&self) -> Result<()> {
        let sides: Vec<&PathBuf> = self.old.iter().chain(&self.new).collect();
        let commands: Option<Vec<String>> = sides.iter().map(|side| script_command(side)).collect();
        if let (Some(first), Some(commands)) = (sides.first(), commands)
            && !sides.iter().any(|side| resolve_program(side).is_ok())
        {
            bail!(
                "--old and --new expect programs that execute benchmarks, but '{}' is a script\nhint: speedwell time {}",
                first.display(),
                quote_all(&commands)
            );
        }
        Ok(())
    }
}

/// A variant and, if any, the revision to build it from.
type TypedVariant = (Variant, Option<RevisionRequest>);

/// Parses a revision, `rev:REV[:PROGRAM]`. Returns `None` if the argument is a program.
fn parse_revision(argument: &str) -> Result<Option<RevisionRequest>> {
    let Some(spec) = argument.strip_prefix("rev:") else { return Ok(None) };
    // Inside braces, a colon belongs to the revision: main@{12:30}, HEAD^{/fix: x}.
    let mut depth = 0;
    let end = spec.find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ':' && depth == 0
    });
    let (revision, program) =
        end.map_or((spec, None), |end| (&spec[..end], Some(&spec[end + 1..])));
    let (revision, program) = match program.filter(|_| revision == BASE_REVISION) {
        // After `@base:`, the name of a branch comes first. An empty name, as in
        // `@base::PROGRAM`, means `@base`.
        Some(after_base) if !after_base.is_empty() => {
            let (branch, program) = after_base
                .split_once(':')
                .map_or((after_base, None), |(branch, program)| (branch, Some(program)));
            let end = if branch.is_empty() { 0 } else { 1 + branch.len() };
            (&spec[..BASE_REVISION.len() + end], program)
        }
        _ => (revision, program),
    };
    let is_invalid = revision.is_empty() || program.is_some_and(str::is_empty);
    ensure!(
        !is_invalid && !spec.contains(char::is_control),
        "cannot parse revision '{}': expected rev:REVISION[:PROGRAM]\nhint: rev:main, rev:v1.4:build/bench",
        argument.escape_debug()
    );
    Ok(Some(RevisionRequest {
        variant: 0,
        revision: revision.to_owned(),
        program: program.map(PathBuf::from),
        names_variant: false,
    }))
}

/// Parses `NAME=[VAR=V...] [PROGRAM] [ARG...]`, or a program alone.
fn parse_variant(text: &str) -> Result<TypedVariant> {
    let message =
        || format!("cannot parse variant '{text}': expected NAME=[VAR=V...] [PROGRAM] [ARG...]");
    let Some((name, rest)) = text.split_once('=') else {
        return variant_from_program(text).with_context(message);
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        bail!(message());
    }
    let mut arguments = shell_words::split(rest).with_context(message)?.into_iter().peekable();
    let mut variant = Variant::plain(name);
    while let Some((variable, value)) =
        arguments.peek().and_then(|argument| parse_env_assignment(argument))
    {
        variant.environment.push((variable, value));
        arguments.next();
    }
    let mut revision = None;
    if let Some(program) = arguments.next_if(|argument| !argument.starts_with('-')) {
        revision = parse_revision(&program)?;
        if revision.is_none() {
            variant.program = Some(resolve_program(Path::new(&program))?);
        }
    }
    variant.arguments.extend(arguments);
    Ok((variant, revision))
}

/// Creates a variant from a program alone. The variant gets the program's name.
fn variant_from_program(text: &str) -> Result<TypedVariant> {
    let path = Path::new(text);
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy())
        .filter(|name| !name.contains(char::is_whitespace))
        .with_context(|| format!("'{text}' does not name a program"))?;
    with_program(&name, path)
}

/// Parses `VAR=value`, where VAR is a valid name of a shell variable.
fn parse_env_assignment(argument: &str) -> Option<(String, String)> {
    let (name, value) = argument.split_once('=')?;
    let first = name.chars().next()?;
    let is_name_character = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_valid =
        (first.is_ascii_alphabetic() || first == '_') && name.chars().all(is_name_character);
    is_valid.then(|| (name.to_owned(), value.to_owned()))
}

/// Creates the variants of `--old` and `--new`.
///
/// # Errors
/// Fails if only one names a revision, and neither has the prefix `rev:`, or a program is missing.
fn with_sides(old: &Path, new: &Path) -> Result<Vec<TypedVariant>> {
    let [old_revision, new_revision] = [parse_side(old)?, parse_side(new)?];
    let has_prefix = |side: &Path| side.to_string_lossy().starts_with("rev:");
    if old_revision.is_some() != new_revision.is_some() && !has_prefix(old) && !has_prefix(new) {
        let (revision, program) = if old_revision.is_some() { (old, new) } else { (new, old) };
        let (revision, program) = (revision.display(), program.display());
        bail!(
            "'{revision}' is a revision, but '{program}' is a program\nhint: rev:{revision}:PROGRAM names \
             a program of the revision"
        );
    }
    Ok(vec![with_revision("old", old, old_revision)?, with_revision("new", new, new_revision)?])
}

/// Creates the variants of a revision and of the working tree, with the same program.
fn with_working_tree(old: &Path) -> Result<Vec<TypedVariant>> {
    let baseline = with_program("old", old)?;
    let (_, Some(revision)) = &baseline else {
        bail!(
            "--old '{}' is a program, so --new is needed\nhint: without --new, a revision is compared with the \
             working tree, as in --old rev:@base",
            old.display()
        );
    };
    let working_tree = RevisionRequest { revision: WORKING_TREE.to_owned(), ..revision.clone() };
    Ok(vec![baseline, (Variant::plain("new"), Some(working_tree))])
}

/// Returns the revision that a side of a comparison names, with `rev:` or, if there is neither a file
/// nor a program of this name, without. Returns `None` for a program.
///
/// # Errors
/// Fails if the name is that of a program in `PATH` and of a revision.
fn parse_side(side: &Path) -> Result<Option<RevisionRequest>> {
    let Some(word) = side.to_str() else { return Ok(None) };
    if word.starts_with("rev:") {
        return parse_revision(word);
    }
    let kind = if side.exists() { None } else { revision_kind(word) };
    match (kind, resolve_program(side)) {
        (Some(kind), Ok(path)) => {
            bail!("'{word}' is {0} and a {kind}; write rev:{word} or {0}", path.display())
        }
        (Some(_), Err(_)) => parse_revision(&format!("rev:{word}")),
        (None, _) => Ok(None),
    }
}

fn with_program(name: &str, program: &Path) -> Result<TypedVariant> {
    with_revision(name, program, parse_side(program)?)
}

/// Creates the variant of a revision or, without one, of a program.
fn with_revision(
    name: &str,
    program: &Path,
    revision: Option<RevisionRequest>,
) -> Result<TypedVariant> {
    let mut variant = Variant::plain(name);
    if revision.is_none() {
        variant.program = Some(resolve_program(program)?);
    }
    Ok((variant, revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variants(args: &VariantArgs) -> Result<Vec<Variant>> {
        args.variant_request(&[])?.build_variants(Vec::new())
    }

    #[test]
    fn a_variant_is_variables_then_program_then_arguments() {
        let (variant, _) = parse_variant("big=A=1 NODE_OPTIONS='--x --y' sh -c 'a b'").unwrap();
        assert_eq!(variant.name, "big");
        let environment = [("A", "1"), ("NODE_OPTIONS", "--x --y")];
        assert_eq!(variant.environment, environment.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert!(variant.program.unwrap().ends_with("sh"));
        assert_eq!(variant.arguments, ["-c", "a b"]);
    }

    #[test]
    fn a_variant_may_be_flags_alone() {
        let (variant, _) = parse_variant("jit=--maglev --opt=1").unwrap();
        assert_eq!((variant.program, variant.arguments.len()), (None, 2));
    }

    #[test]
    fn errors_in_variants_describe_the_mistake() {
        let message = |text: &str| parse_variant(text).unwrap_err().to_string();
        assert!(message("no-such-program-xyz").contains("expected NAME=[VAR=V...]"));
        assert!(message("a=no-such-program-xyz").contains("no program 'no-such-program-xyz'"));
        let duplicate =
            VariantArgs { variant: vec!["a=sh".into(), "a=sh".into()], ..VariantArgs::default() };
        assert!(
            variants(&duplicate).unwrap_err().to_string().contains("two variants are named 'a'")
        );
    }

    #[test]
    fn a_revision_ends_at_a_colon_outside_of_braces() {
        let read = |text: &str| {
            let revision = parse_revision(text).unwrap()?;
            Some((revision.revision, revision.program))
        };
        let expected = |revision: &str, program: Option<&str>| {
            Some((revision.to_owned(), program.map(PathBuf::from)))
        };
        assert_eq!(read("rev:main"), expected("main", None));
        assert_eq!(read("rev:v1:out/a:b"), expected("v1", Some("out/a:b")));
        assert_eq!(read("rev:main@{12:30}:x"), expected("main@{12:30}", Some("x")));
        assert_eq!(read("rev:HEAD^{/fix: x}"), expected("HEAD^{/fix: x}", None));
        assert_eq!(read("./rev:main"), None);
        assert_eq!(read("rev:@base"), expected("@base", None));
        assert_eq!(read("rev:@base:main"), expected("@base:main", None));
        assert_eq!(read("rev:@base:main:out/a"), expected("@base:main", Some("out/a")));
        assert_eq!(read("rev:@base::out/a"), expected("@base", Some("out/a")));
        for invalid in [
            "rev:@base:",
            "rev:@base::",
            "rev:@base:main:",
            "rev:",
            "rev::x",
            "rev:main:",
            "rev:a\nb",
        ] {
            let message = parse_revision(invalid).unwrap_err().to_string();
            assert!(message.contains("rev:REVISION[:PROGRAM]"), "{message}");
        }
    }

    #[test]
    fn a_variant_may_be_a_revision_with_variables_and_arguments() {
        let (variant, revision) = parse_variant("base=A=1 rev:main --x").unwrap();
        assert_eq!((variant.program, &*variant.arguments[0]), (None, "--x"));
        assert_eq!(revision.unwrap().revision, "main");
    }

    #[test]
    fn a_revision_alone_is_compared_with_the_working_tree() {
        let request = |old: &str| {
            let args = VariantArgs { old: Some(old.into()), ..VariantArgs::default() };
            args.variant_request(&[])
        };
        let revisions = request("rev:@base:main:out/a").unwrap().revisions;
        let sides: Vec<_> = revisions.iter().map(|side| (side.variant, &*side.revision)).collect();
        assert_eq!(sides, [(0, "@base:main"), (1, WORKING_TREE)]);
        assert!(revisions.iter().all(|side| side.program == Some("out/a".into())));
        let message = request("sh").unwrap_err().to_string();
        assert!(message.starts_with("--old 'sh' is a program, so --new is needed"), "{message}");
    }

    #[test]
    fn the_baseline_comes_first() {
        let args = VariantArgs {
            variant: vec!["a=sh".into(), "b=sh".into()],
            baseline: Some("b".into()),
            ..VariantArgs::default()
        };
        assert_eq!(variants(&args).unwrap()[0].name, "b");
    }
}
