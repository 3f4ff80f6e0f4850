//! Lists the cases of one program; where the list is incomplete, executes each selected benchmark
//! once. Start at [`Asking`].

use super::build::Built;
use super::command::{Filling, refused, without_decided};
use super::known;
use super::place::Collected;
use super::read::{self, Listed, last_lines};
use super::refused_option;
use crate::attempt::{not_described, start_reason};
use crate::job::{Description, Job, Parameter, Request, Source, SuiteCase};
use crate::protocol::draft;
use speedwell_model::{Case, Cause, Value};
use speedwell_process::{Channel, Ended, Outcome, Spec, run};
use speedwell_results::foreign::go_bench;
use speedwell_suite::adapter::{Read, Version};
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::time::Duration;

/// Some frameworks execute all benchmarks once to list them.
const LISTING: Duration = Duration::from_secs(300);

/// Finding the cases within a benchmark requires executing it.
const EXPANDING: Duration = Duration::from_secs(120);

/// Package path that the linker embeds in a test binary (`go version -m`).
const GO_PACKAGE: &str = r"path\t(\S+)\.test\n";

/// A request for the cases of one program.
pub struct Asking<'a> {
    pub source: &'a Source,
    pub request: &'a Request,
    /// The program of the target.
    pub built: &'a Built,
}

impl Asking<'_> {
    /// Describes the cases.
    pub fn describe(&self) -> Description {
        let keys = &self.built.adapter.keys;
        let spec = self.spec(&keys.list, &Filling::default(), LISTING);
        let adapter = &self.built.adapter;
        if let Some(option) = refused(adapter, &self.request.variant.arguments) {
            let cause = refused_option(adapter, option);
            return not_described(self.source, cause, &spec, None);
        }
        let version = self.version();
        if let Some(cause) = version.as_deref().and_then(|version| self.too_old(version)) {
            return not_described(self.source, cause, &spec, None);
        }
        let mut cases = match self.ask(&spec) {
            Ok(cases) => cases,
            Err(description) => return *description,
        };
        if !keys.expand.is_empty() {
            cases = self.expanded_where_wanted(cases);
        }
        // A Catch2 test with a generator lists its benchmarks once per generated value.
        let mut known = HashSet::new();
        cases.retain(|listed| known.insert((listed.name.clone(), listed.case.id())));
        if cases.is_empty() {
            let how = speedwell_process::replay(&Spec {
                directory: None,
                environment: Vec::new(),
                ..spec.clone()
            });
            let reason = format!("lists no benchmarks; it was asked with: {how}");
            return not_described(self.source, Cause::Invalid { reason }, &spec, None);
        }
        let version = version.map(|version| (self.built.adapter.name.clone(), version));
        Description {
            warnings: self.together(&cases).into_iter().collect(),
            jobs: cases.into_iter().map(|case| self.job(case)).collect(),
            suites: version.into_iter().collect(),
            ..Description::default()
        }
    }

    fn spec(&self, command: &[String], more: &Filling, limit: Duration) -> Spec {
        let variant = &self.request.variant;
        let arguments = without_decided(&variant.arguments, command);
        let filling = self
            .built
            .filling(self.source, variant)
            .and(more)
            .words("arguments", arguments);
        Spec {
            limit,
            channel: Channel::Stdout,
            ..self.built.process(command, &filling, variant)
        }
    }

    fn ask(&self, spec: &Spec) -> Result<Vec<Listed>, Box<Description>> {
        let mut output = Collected::default();
        let outcome = match run(spec, &mut output) {
            Ok(outcome) => outcome,
            Err(error) => {
                let mut reason = start_reason(spec, &error);
                if error.kind() == ErrorKind::NotFound {
                    reason += &self.built.adapter.install_hint();
                }
                return Err(Box::new(not_described(
                    self.source,
                    Cause::Start { reason },
                    spec,
                    None,
                )));
            }
        };
        let read = read::cases(&self.built.adapter, &output.0);
        let unread = |error: &anyhow::Error| Cause::Invalid {
            reason: format!("its list of benchmarks cannot be read: {error:#}"),
        };
        let cause = outcome
            .cause(spec.limit)
            .map(|cause| self.missing(&outcome, &output).unwrap_or(cause))
            .or_else(|| read.as_ref().err().map(unread));
        match (cause, read) {
            (None, Ok(cases)) => Ok(cases),
            (cause, _) => {
                let cause = cause.unwrap_or(Cause::Silent);
                let mut description = not_described(self.source, cause, spec, Some(&outcome));
                // pytest reports import errors on stdout.
                if let Some(failure) = &mut description.failure
                    && failure.stderr_tail.is_empty()
                {
                    failure.stderr_tail = last_lines(&String::from_utf8_lossy(&output.0));
                }
                Err(Box::new(description))
            }
        }
    }

    /// Whether the framework itself is missing, according to the output of the failed listing.
    fn missing(&self, outcome: &Outcome, output: &Collected) -> Option<Cause> {
        let adapter = &self.built.adapter;
        let pattern = regex::Regex::new(adapter.keys.missing.as_deref()?).ok()?;
        let said = String::from_utf8_lossy(&output.0);
        if !pattern.is_match(&said) && !pattern.is_match(&outcome.stderr.text()) {
            return None;
        }
        let (suite, program) = (&adapter.name, self.built.program.display());
        let hint = adapter.install_hint();
        Some(Cause::Invalid {
            reason: format!("needs {suite}, which is not installed for '{program}'{hint}"),
        })
    }

    /// Warns if the framework cannot execute some of its cases alone: those with the same command.
    fn together(&self, cases: &[Listed]) -> Option<String> {
        let keys = &self.built.adapter.keys;
        let mut of_command: HashMap<Vec<String>, usize> = HashMap::new();
        for listed in cases {
            let own = Filling::default().case(&listed.name, Some(&listed.case), keys);
            *of_command.entry(own.fill(&keys.run)).or_default() += 1;
        }
        let count: usize = of_command.into_values().filter(|&count| count > 1).sum();
        let (all, suite) = (cases.len(), &self.built.adapter.name);
        (count > 0).then(|| {
            format!(
                "{suite} cannot execute {count} of the {all} benchmarks in '{}' alone: each run of one of them performs \
                 the others of its process as well, and keeps its own figures.",
                self.source.name
            )
        })
    }

    /// Expands the selected listed cases; keeps the others as listed.
    fn expanded_where_wanted(&self, listed: Vec<Listed>) -> Vec<Listed> {
        let listed: Vec<Listed> = listed.into_iter().map(|one| self.in_package(one)).collect();
        let names: Vec<String> = listed.iter().map(|one| self.benchmark(&one.case)).collect();
        let wanted = self.request.names.choose(&names);
        let of_one = |(one, is_wanted)| {
            if is_wanted {
                self.expanded(one)
            } else {
                vec![one]
            }
        };
        listed.into_iter().zip(wanted).flat_map(of_one).collect()
    }

    /// Benchmark name of a case; prefixed with the target if a package has several.
    fn benchmark(&self, case: &Case) -> String {
        match &self.built.target {
            Some(target) => format!("{target}/{}", case.benchmark),
            None => case.benchmark.clone(),
        }
    }

    /// Finds the cases within a listed one. One that fails is kept as listed: executing it shows
    /// the failure.
    fn expanded(&self, listed: Listed) -> Vec<Listed> {
        let adapter = &self.built.adapter;
        let own = Filling::default().case(&listed.name, Some(&listed.case), &adapter.keys);
        let spec = self.spec(&adapter.keys.expand, &own, EXPANDING);
        let mut output = Collected::default();
        let is_over = run(&spec, &mut output).is_ok_and(|outcome| outcome.ended == Ended::Exit(0));
        let results = read::results(adapter, &output.0).unwrap_or_default();
        let inner: Vec<Listed> = results.into_iter().filter_map(read::listed).collect();
        // Some results of a benchmark that panicked may be missing.
        if inner.is_empty() || !is_over {
            vec![listed]
        } else {
            inner.into_iter().map(|one| self.in_package(one)).collect()
        }
    }

    /// Names a benchmark that fails or is skipped before its package is printed as if it had been.
    fn in_package(&self, listed: Listed) -> Listed {
        if self.built.adapter.keys.read != Read::GoBench {
            return listed;
        }
        let package = known::found_in(&self.built.program, GO_PACKAGE);
        let Some(package) = package.ok().flatten() else {
            return listed;
        };
        let named = go_bench::case(Some(&package), &listed.name, None);
        if listed.case.benchmark == named.benchmark {
            return listed;
        }
        Listed {
            case: Case::new(named.benchmark, Vec::new()),
            ..listed
        }
    }

    fn version(&self) -> Option<String> {
        match self.built.adapter.keys.version.as_ref()? {
            Version::Content(pattern) => {
                known::found_in(&self.built.program, pattern).ok().flatten()
            }
            Version::Command(command) => {
                let mut output = Collected::default();
                let spec = self.spec(command, &Filling::default(), self.request.limit);
                run(&spec, &mut output).ok()?;
                let text = String::from_utf8_lossy(&output.0).into_owned();
                let version = regex::Regex::new(r"\d+(?:\.\w+)+").ok()?;
                version.find(&text).map(|found| found.as_str().to_owned())
            }
        }
    }

    /// Explains that the framework is too old, if it is.
    fn too_old(&self, version: &str) -> Option<Cause> {
        let (suite, minimum) = (
            &self.built.adapter.name,
            self.built.adapter.keys.minimum.as_deref()?,
        );
        let numbers = |version: &str| -> Vec<u32> {
            let numbers = version.split('.').map_while(|part| part.parse().ok());
            numbers.collect()
        };
        let hint = self.built.adapter.install_hint();
        (numbers(version) < numbers(minimum)).then(|| Cause::Invalid {
            reason: format!(
                "needs {suite} {minimum} or newer, and this is {suite} {version}{hint}"
            ),
        })
    }

    fn job(&self, listed: Listed) -> Job {
        let Listed { name, mut case } = listed;
        case.benchmark = self.benchmark(&case);
        Job {
            label: case.id(),
            arguments: (case.values.iter())
                .map(|(name, value)| format!("{name}={}", value.plain()))
                .collect(),
            case: Some(case),
            in_suite: Some(SuiteCase {
                name,
                target: self.built.target.clone(),
            }),
            ..draft(self.source, self.request)
        }
    }
}

/// Parameters of all cases with their values.
pub fn parameters(jobs: &[Job]) -> Vec<Parameter> {
    let mut found: Vec<Parameter> = Vec::new();
    let cases = jobs.iter().filter_map(|job| job.case.as_ref());
    for (name, value) in cases.flat_map(|case| &case.values) {
        match found.iter_mut().find(|known| known.name == *name) {
            Some(known) if known.values.contains(value) => {}
            Some(known) => known.values.push(value.clone()),
            None => found.push(Parameter {
                name: name.clone(),
                values: vec![value.clone()],
            }),
        }
    }
    found
}

/// Keeps the cases with the requested values: the framework decides which cases exist.
pub fn select(description: &mut Description, sets: &[(String, String)]) {
    let fits = |name: &str, value: &Value| {
        let mut wanted = sets.iter().filter(|(known, _)| known == name).peekable();
        wanted.peek().is_none() || wanted.any(|(_, wanted)| *wanted == value.plain())
    };
    description.jobs.retain(|job| {
        let values = job.case.iter().flat_map(|case| &case.values);
        values.into_iter().all(|(name, value)| fits(name, value))
    });
}
