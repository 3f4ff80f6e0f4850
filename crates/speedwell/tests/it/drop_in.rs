//! Runs a drop-in in-process: arguments and bytes in, bytes and a status out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use speedwell_compat::{self as compat, DropInConsole};
use speedwell_engine::ScriptsRequest;
use speedwell_model::{
    Case, FailureCause, Metric, Run, Sample, SessionEvent, SessionObserver,
    SessionStep as FailedStep, StepFailure,
};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/node-core").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A drop-in call under construction.
pub struct DropIn {
    tool: &'static str,
    arguments: Vec<String>,
    stdin: Vec<u8>,
    directory: PathBuf,
    variables: Vec<(&'static str, String)>,
    script: MeasureScript,
    terminal: Option<FakeTerminal>,
}

#[derive(Debug)]
pub struct DropInOutcome {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
    /// What was to be measured, if anything.
    pub request: Option<ScriptsRequest>,
}

impl DropInOutcome {
    /// The names of the requested scripts.
    pub fn scripts(&self) -> Vec<&str> {
        let request = self.request.as_ref().unwrap();
        request.scripts.iter().map(|script| script.name.as_str()).collect()
    }
}

/// A stand-in for measuring.
pub type MeasureScript =
    Box<dyn FnMut(&ScriptsRequest, &mut dyn SessionObserver) -> anyhow::Result<()>>;

impl DropIn {
    pub fn new(tool: &'static str, arguments: &str) -> DropIn {
        DropIn {
            tool,
            arguments: arguments.split_whitespace().map(str::to_owned).collect(),
            stdin: Vec::new(),
            directory: PathBuf::from("."),
            variables: Vec::new(),
            script: Box::new(|_, _| Ok(())),
            terminal: None,
        }
    }

    pub fn argument(mut self, word: &str) -> DropIn {
        self.arguments.push(word.to_owned());
        self
    }

    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> DropIn {
        self.stdin = text.into();
        self
    }

    pub fn directory(mut self, path: &Path) -> DropIn {
        self.directory = path.to_owned();
        self
    }

    pub fn variable(mut self, name: &'static str, value: &str) -> DropIn {
        self.variables.push((name, value.to_owned()));
        self
    }

    pub fn terminal(mut self, screen: &FakeTerminal) -> DropIn {
        self.terminal = Some(screen.clone());
        self
    }

    pub fn engine(
        mut self,
        script: impl FnMut(&ScriptsRequest, &mut dyn SessionObserver) -> anyhow::Result<()> + 'static,
    ) -> DropIn {
        self.script = Box::new(script);
        self
    }

    pub fn run(self) -> DropInOutcome {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let variables = self.variables;
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        };
        let (script, request) = (RefCell::new(self.script), RefCell::new(None));
        let mut console = DropInConsole {
            stdin: &mut self.stdin.as_slice(),
            stdout: &mut stdout,
            stderr: &mut stderr,
            stdout_is_terminal: false,
            progress: self.terminal.map(|screen| Box::new(screen) as Box<_>),
            directory: self.directory,
            variable: &variable,
            measure: &|asked: &ScriptsRequest, observer: &mut dyn SessionObserver| {
                *request.borrow_mut() = Some(asked.clone());
                (script.borrow_mut())(asked, observer)
            },
        };
        let status = compat::run_tool(self.tool, &self.arguments, &mut console);
        DropInOutcome {
            status,
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
            request: request.into_inner(),
        }
    }
}

/// A terminal that records what was shown.
#[derive(Clone, Default)]
pub struct FakeTerminal(Arc<Mutex<Vec<u8>>>);

impl FakeTerminal {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for FakeTerminal {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Creates a benchmark folder with these scripts, each `group/name.js`.
pub fn benchmark_folder(scripts: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("common.js"), "").unwrap();
    for script in scripts {
        let path = folder.path().join(script);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    folder
}

pub fn result(case: &Case, variant: &str, slot: u32, rate: f64, elapsed_ns: u64) -> Run {
    Run {
        wall_ns: elapsed_ns,
        samples: vec![Sample {
            metric: Metric::THROUGHPUT.into(),
            value: rate,
            elapsed_ns: Some(elapsed_ns),
            iterations: None,
        }],
        ..Run::empty(case.clone(), variant, slot, 0)
    }
}

/// Sends a whole session to an observer: the plan, then each step, then the end.
pub fn play_session(
    follower: &mut dyn SessionObserver,
    planned: &[(&str, usize)],
    steps: &[DropInStep],
) -> anyhow::Result<()> {
    for (benchmark, cases) in planned {
        let cases = Some(*cases);
        follower.observe(&SessionEvent::Planned { benchmark, cases })?;
    }
    follower.observe(&SessionEvent::Started {
        runs: steps.len(),
        is_upper_bound: false,
        cases: planned.iter().map(|(_, cases)| cases).sum(),
        done: 0,
    })?;
    for step in steps {
        match step {
            DropInStep::Result(run) => {
                let label = run.case.id();
                follower.observe(&SessionEvent::RunStarted {
                    slot: run.slot,
                    label: &label,
                    variant: &run.variant,
                })?;
                follower.observe(&SessionEvent::RunFinished(run))?;
                follower.observe(&SessionEvent::SlotsDone(&[run.slot]))?;
            }
            DropInStep::Failure(failure) => follower.observe(&SessionEvent::Failed(failure))?,
        }
    }
    follower.observe(&SessionEvent::Finished { interrupted: false })
}

#[derive(Clone)]
pub enum DropInStep {
    Result(Run),
    Failure(StepFailure),
}

/// The scripts of the default benchmark folder, and files that must not be taken for one.
pub const SCRIPTS: &[&str] = &[
    "fixtures/alice.html",
    "napi/string/index.js",
    "querystring/querystring-parse.js",
    "string_decoder/.hidden.js",
    "string_decoder/_helper.js",
    "string_decoder/string-decoder-create.js",
    "string_decoder/string-decoder.js",
    "zz/kill.js",
];

/// Calls a drop-in in the default benchmark folder, where nothing is measured.
pub fn call(tool: &'static str, arguments: &str) -> DropInOutcome {
    let folder = benchmark_folder(SCRIPTS);
    DropIn::new(tool, arguments).directory(folder.path()).run()
}

/// The results in a recorded file, as steps of a session.
pub fn recorded(name: &str) -> Vec<DropInStep> {
    let sessions = speedwell_formats::read(name, golden(name).as_bytes()).unwrap();
    sessions[0].runs.iter().cloned().map(DropInStep::Result).collect()
}

/// A failed step: describing a script, or running one of its cases.
pub fn failure(benchmark: &str, case: Option<&str>, cause: FailureCause) -> DropInStep {
    DropInStep::Failure(StepFailure {
        step: if case.is_some() { FailedStep::Run } else { FailedStep::Describe },
        benchmark: benchmark.into(),
        case: case.map(Into::into),
        variant: None,
        slot: None,
        cause,
        stderr_tail: String::new(),
        replay: String::new(),
    })
}

pub fn case(id: &str) -> Case {
    Case::parse(id).unwrap()
}
