//! The driving side of the protocol for code: starts the harness of a language, loads code into it,
//! sends commands and collects responses. Like `harness_driver.rs` it uses none of the code under
//! test, except where a language's code must be compiled into a program first.

use super::code_snippets::{self, LanguageSnippets, TestSnippet};
use super::harness_driver::{
    HarnessEnd, HarnessEvent, HarnessTalk, encode_value, find_tool, javascript,
};
use super::project::repository;
use speedwell_adapters::snippet::{HarnessFailure, build_process, default_program};
use speedwell_model::{self as model, FailureCause, SnippetLanguage, Variant};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How code gets into a harness.
enum CodeDelivery {
    /// The process receives the code.
    ReportedTime(Vec<String>),
    /// Each snippet is compiled into a separate program.
    Compiled,
}

/// A harness that measures code.
pub struct CodeHarness {
    language: &'static str,
    way: CodeDelivery,
    pub snippets: &'static LanguageSnippets,
    /// Processes without jobs, for the next checks; see [`CodeHarness::reuse`].
    idle: RefCell<Vec<CodeConversation>>,
}

/// Idle programs kept for a compiled language, each of which holds one snippet.
const MAX_IDLE_PROGRAMS: usize = 2;

/// A running harness with its trace.
pub struct CodeConversation {
    talk: HarnessTalk,
    commands: u32,
    folder: TempDir,
    language: &'static str,
    /// The snippet it was started for.
    snippet: TestSnippet,
    /// Names of the loaded jobs.
    jobs: Vec<String>,
    /// Events of earlier commands, such as gauges.
    pub aside: Vec<HarnessEvent>,
}

/// All events of a command; parts of a list are joined.
#[derive(Debug, Clone)]
pub struct CodeAnswer {
    pub events: Vec<HarnessEvent>,
}

impl CodeHarness {
    /// Returns the harness of a language; `None` if its tools or its snippets are missing.
    pub fn of(language: &'static str) -> Option<CodeHarness> {
        let Some(snippets) = code_snippets::of(language) else {
            eprintln!("skipped: nobody has written the snippets of {language}");
            return None;
        };
        let program = |path: &str| repository().join(path).to_string_lossy().into_owned();
        let way = match language {
            "node" | "bun" | "deno" => CodeDelivery::ReportedTime(javascript(language)?),
            "python" => CodeDelivery::ReportedTime(vec![
                find_tool(&["python3"])?,
                program("crates/adapters/languages/python/harness.py"),
            ]),
            "erlang" | "elixir" => {
                CodeDelivery::ReportedTime(super::erlang_harness::words(language)?)
            }
            "c" => compiled_by(&["cc", "gcc", "clang"])?,
            "cpp" => compiled_by(&["c++", "g++", "clang++"])?,
            "rust" => compiled_by(&["rustc"])?,
            "java" => compiled_by(&["javac"])?,
            _ => compiled_by(&[language])?,
        };
        Some(CodeHarness { language, way, snippets, idle: RefCell::default() })
    }

    /// Whether one process can hold several snippets.
    pub fn takes_several(&self) -> bool {
        matches!(self.way, CodeDelivery::ReportedTime(_))
    }

    /// Whether the language has a processor clock that excludes idle threads.
    pub fn has_cpu_clock(&self) -> bool {
        !matches!(self.language, "erlang" | "elixir")
    }

    /// Whether continuous runs lack processor time, because looking up the clock would delay their
    /// start.
    pub fn is_slow_to_find_its_cpu_clock(&self) -> bool {
        self.language == "java"
    }

    /// Whether the harness waits for seconds before it gives up a runner that does not end.
    pub fn is_patient(&self) -> bool {
        matches!(self.language, "erlang" | "elixir")
    }

    /// Starts a process that accepts any code, or for a compiled language one that contains
    /// `snippet`; returns an idle one if there is one. Compiler errors are returned as the error.
    pub fn start(&self, snippet: TestSnippet) -> Result<CodeConversation, CodeAnswer> {
        let is_suitable = |talk: &CodeConversation| self.takes_several() || talk.snippet == snippet;
        let mut idle = self.idle.borrow_mut();
        if let Some(place) = idle.iter().rposition(is_suitable) {
            return Ok(idle.remove(place));
        }
        let folder = tempfile::tempdir().unwrap();
        let words = match &self.way {
            CodeDelivery::ReportedTime(words) => words.clone(),
            CodeDelivery::Compiled => {
                compile_program(self.language, snippet, self.modules(snippet))?
            }
        };
        let trace = folder.path().join("trace").to_string_lossy().into_owned();
        Ok(CodeConversation {
            talk: HarnessTalk::start(&words, &[("TRACE", &trace)]),
            commands: 0,
            folder,
            language: match self.language {
                _ if !self.takes_several() => "",
                "bun" | "deno" => "node",
                language => language,
            },
            snippet,
            jobs: Vec::new(),
            aside: Vec::new(),
        })
    }

    /// Returns the folder where a compiler finds the module of `snippet`; `None` if it has no
    /// module. A program is compiled once for each set of folders, so this folder is constant, and
    /// only the code with the module uses it.
    fn modules(&self, snippet: TestSnippet) -> Option<PathBuf> {
        let module = self.snippets.module.as_ref();
        let module = module.filter(|module| module.snippet == snippet)?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.language);
        Some(write_module(&folder, module.file, module.text))
    }

    /// Starts a process that has loaded `snippet` as job `a`.
    #[track_caller]
    pub fn with(&self, snippet: TestSnippet) -> CodeConversation {
        let mut talk = match self.start(snippet) {
            Ok(talk) => talk,
            Err(refusal) => panic!("not compiled: {refusal:?}"),
        };
        let answer = talk.load("a", snippet);
        answer.only("loaded");
        talk
    }

    /// Ends a check; returns its trace. The process unloads its jobs and waits for the next check.
    #[track_caller]
    pub fn reuse(&self, mut talk: CodeConversation) -> Vec<String> {
        let trace = talk.unload_all();
        let mut idle = self.idle.borrow_mut();
        if !self.takes_several() && idle.len() >= MAX_IDLE_PROGRAMS {
            assert_eq!(idle.remove(0).quit().0.code, Some(0));
        }
        idle.push(talk);
        trace
    }

    /// Ends the idle processes.
    #[track_caller]
    pub fn quit_idle(&self) {
        for talk in self.idle.take() {
            assert_eq!(talk.quit().0.code, Some(0));
        }
    }
}

/// Writes a module into a subfolder of `folder`, and returns that.
fn write_module(folder: &Path, file: &str, text: &str) -> PathBuf {
    let modules = folder.join("modules");
    std::fs::create_dir_all(&modules).unwrap();
    let file = modules.join(file);
    // A rewritten file counts as changed, and would be compiled again.
    if std::fs::read_to_string(&file).ok().as_deref() != Some(text) {
        std::fs::write(file, text).unwrap();
    }
    modules
}

fn compiled_by(compilers: &[&str]) -> Option<CodeDelivery> {
    find_tool(compilers).map(|_| CodeDelivery::Compiled)
}

/// Compiles the program of a snippet; returns the command line that starts it.
///
/// # Errors
/// Returns an answer with the `error` that a harness which compiles code itself would send.
fn compile_program(
    language: &str,
    snippet: TestSnippet,
    modules: Option<PathBuf>,
) -> Result<Vec<String>, CodeAnswer> {
    let language = SnippetLanguage::from_name(language).unwrap();
    let hook = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let snippet = model::Snippet {
        init: hook(snippet.init),
        init_worker: hook(snippet.init_runner),
        done: hook(snippet.done),
        paths: modules.into_iter().collect(),
        ..model::Snippet::new(language, snippet.runner)
    };
    let plain = Variant::plain("plain");
    match build_process(&snippet, &default_program(language), &plain) {
        Ok(spec) => {
            let program = spec.program.to_string_lossy().into_owned();
            Ok([program].into_iter().chain(spec.arguments).collect())
        }
        Err(HarnessFailure { cause: FailureCause::Invalid { reason }, .. }) => {
            Err(CodeAnswer::compile_error(&reason))
        }
        Err(failed) => panic!("{failed:?}"),
    }
}

impl CodeConversation {
    pub fn pid(&self) -> i32 {
        self.talk.pid()
    }

    /// Sends a command without waiting; returns its id.
    pub fn send_command(&mut self, verb: &str, fields: &[(&str, &str)]) -> String {
        if verb == "unload" {
            self.jobs.retain(|job| !fields.contains(&("job", job.as_str())));
        }
        self.commands += 1;
        let id = self.commands.to_string();
        let fields: String = fields.iter().map(|(key, value)| format!("\t{key}={value}")).collect();
        self.talk.send_lines(&format!("{verb}\tid={id}{fields}\n"));
        id
    }

    /// Sends a command and waits for all its events. Values are literal text.
    #[track_caller]
    pub fn send_and_wait(&mut self, verb: &str, fields: &[(&str, &str)]) -> CodeAnswer {
        let id = self.send_command(verb, fields);
        self.answer_to(&id, verb)
    }

    /// Collects the events up to the one that concludes the command with that id.
    #[track_caller]
    pub fn answer_to(&mut self, id: &str, verb: &str) -> CodeAnswer {
        let mut events: Vec<HarnessEvent> = Vec::new();
        loop {
            let Some(event) = self.talk.next() else {
                panic!("the harness ended before it had answered '{verb}': {events:#?}");
            };
            // A warning may come at any time; for example, the clock of Erlang is slewed now and
            // then.
            if event.text("id") != id || event.verb == "log" {
                self.aside.push(event);
                continue;
            }
            let concludes = match verb {
                "run" => event.verb == "end" || event.text("stage") == "protocol",
                _ => event.text("more") != "1",
            };
            match events.last_mut() {
                Some(last) if last.text("more") == "1" => last.continue_with(event),
                _ => events.push(event),
            }
            if concludes {
                return CodeAnswer { events };
            }
        }
    }

    #[track_caller]
    pub fn load(&mut self, job: &str, snippet: TestSnippet) -> CodeAnswer {
        self.load_with(job, snippet, &[])
    }

    /// Loads code that finds modules in this folder.
    #[track_caller]
    pub fn load_from(
        &mut self,
        job: &str,
        snippet: TestSnippet,
        file: &str,
        text: &str,
    ) -> CodeAnswer {
        let folder = write_module(self.folder.path(), file, text);
        let folder = encode_value(&folder.to_string_lossy());
        self.load_with(job, snippet, &[("path0", &folder)])
    }

    #[track_caller]
    fn load_with(&mut self, job: &str, snippet: TestSnippet, more: &[(&str, &str)]) -> CodeAnswer {
        let answer = match self.language {
            "" => self.send_and_wait("load", &[("job", job), ("form", "built")]),
            _ => self.load_text(job, snippet, more),
        };
        if !answer.all("loaded").is_empty() {
            self.jobs.push(job.to_owned());
        }
        answer
    }

    #[track_caller]
    fn load_text(&mut self, job: &str, snippet: TestSnippet, more: &[(&str, &str)]) -> CodeAnswer {
        let texts = [
            ("runner", snippet.runner),
            ("init", snippet.init),
            ("init_runner", snippet.init_runner),
            ("done", snippet.done),
        ];
        let texts: Vec<(&str, String)> = texts
            .iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(key, text)| (*key, encode_value(text)))
            .collect();
        let mut fields = vec![("job", job), ("form", "text"), ("lang", self.language)];
        fields.extend(texts.iter().map(|(key, text)| (*key, text.as_str())));
        fields.extend(more);
        self.send_and_wait("load", &fields)
    }

    /// Unloads all jobs, so that the process is like new; returns the trace. A job that failed may
    /// be gone already.
    #[track_caller]
    fn unload_all(&mut self) -> Vec<String> {
        for job in self.jobs.clone() {
            let answer = self.send_and_wait("unload", &[("job", &job)]);
            let errors = answer.all("error");
            assert!(errors.iter().all(|error| error.text("stage") == "protocol"), "{answer:?}");
        }
        let trace = self.trace();
        let _ = std::fs::remove_file(self.folder.path().join("trace"));
        self.aside.clear();
        trace
    }

    #[track_caller]
    pub fn workers(&mut self, job: &str, n: u32) -> CodeAnswer {
        self.send_and_wait("workers", &[("job", job), ("n", &n.to_string())])
    }

    /// Measures windows of `interval_ms`.
    #[track_caller]
    pub fn measure_windows(&mut self, jobs: &str, interval_ms: u64, samples: u32) -> CodeAnswer {
        let id = self.send_windows(jobs, interval_ms, samples);
        self.answer_to(&id, "run")
    }

    /// Measures windows of `interval_ms`, with processor time.
    #[track_caller]
    pub fn windows_with_cpu_time(
        &mut self,
        jobs: &str,
        interval_ms: u64,
        samples: u32,
    ) -> CodeAnswer {
        let interval_ns = (interval_ms * 1_000_000).to_string();
        let samples = samples.to_string();
        let mode = [("jobs", jobs), ("mode", "continuous"), ("cpu", "1")];
        let length = [("interval_ns", &*interval_ns), ("samples", &samples), ("warmup_ns", "0")];
        self.send_and_wait("run", &[mode, length].concat())
    }

    /// Like [`CodeConversation::measure_windows`], without waiting.
    pub fn send_windows(&mut self, jobs: &str, interval_ms: u64, samples: u32) -> String {
        let interval_ns = (interval_ms * 1_000_000).to_string();
        let fields = [
            ("jobs", jobs),
            ("mode", "continuous"),
            ("interval_ns", &interval_ns),
            ("samples", &samples.to_string()),
            ("warmup_ns", "0"),
        ];
        self.send_command("run", &fields)
    }

    /// Measures samples of `count` iterations.
    #[track_caller]
    pub fn measure_samples(&mut self, jobs: &str, count: u64, samples: u32) -> CodeAnswer {
        let fields = [
            ("jobs", jobs),
            ("mode", "timed"),
            ("loop", &count.to_string()),
            ("samples", &samples.to_string()),
            ("warmup_ns", "0"),
        ];
        self.send_and_wait("run", &fields)
    }

    /// The lines of the trace, in order; those of several workers may be interleaved.
    pub fn trace(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("trace")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Number of trace lines that begin with that word.
    pub fn count_traced(&self, word: &str) -> usize {
        let lines = self.trace();
        lines.iter().filter(|line| line.starts_with(word)).count()
    }

    /// Closes the command pipe.
    pub fn close(&mut self) {
        self.talk.close();
    }

    pub fn kill(&mut self) {
        self.talk.kill();
    }

    /// Waits for the end; returns the trace as well.
    pub fn end(self) -> (HarnessEnd, Vec<String>) {
        let CodeConversation { talk, folder, .. } = self;
        let ended = talk.end();
        let text = std::fs::read_to_string(folder.path().join("trace")).unwrap_or_default();
        (ended, text.lines().map(str::to_owned).collect())
    }

    /// Sends `quit` and waits for the end.
    pub fn quit(mut self) -> (HarnessEnd, Vec<String>) {
        self.send_command("quit", &[]);
        self.end()
    }
}

impl CodeAnswer {
    /// Turns `does not compile: runner:2:5: error: words` into the error of job `a`.
    fn compile_error(reason: &str) -> CodeAnswer {
        let line = reason.split(':').find_map(|word| word.trim().parse::<u32>().ok());
        let line = line.map_or(String::new(), |line| format!("\tline={line}"));
        let fields =
            format!("job=a\tstage=compile\tclass=Compiler\tmsg={}{line}", encode_value(reason));
        CodeAnswer { events: vec![HarnessEvent::read(&format!("error\t{fields}"))] }
    }

    pub fn all(&self, verb: &str) -> Vec<&HarnessEvent> {
        let events = self.events.iter();
        events.filter(|event| event.verb == verb).collect()
    }

    #[track_caller]
    pub fn only(&self, verb: &str) -> &HarnessEvent {
        let all = self.all(verb);
        assert_eq!(all.len(), 1, "'{verb}' in {self:#?}");
        all[0]
    }

    /// The verbs, separated by spaces.
    pub fn verbs(&self) -> String {
        let verbs: Vec<&str> = self.events.iter().map(|one| one.verb.as_str()).collect();
        verbs.join(" ")
    }
}
