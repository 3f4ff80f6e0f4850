//! The recipes of the page on CI, and the GitHub action, executed like a service would: step by
//! step, in a checkout of a bare repository with the requested depth, with the variables of a job.
//! The steps that install Speedwell are skipped, and the service's own part (checkouts, caches) is
//! emulated.

use super::fake_forge::FakeForge;
use super::project::repository;
use super::repository::TestRepository;
use serde_json::Value as Json;
use serde_yaml_ng::Value;
use speedwell_fixtures::write_program;
use speedwell_server::clients::forge::ForgeKind;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "docs/guide/ci.md";

/// Commits of `main`.
const COMMITS: usize = 36;

/// Command that installs Speedwell on the page.
const INSTALLS: &str = "cargo install --locked ";

/// What services prepend to their scripts.
const PIPEFAIL: &str = "set -o pipefail\n";

/// A hook that rejects the first push, as if another job had been faster.
const REFUSES_ONCE: &str = "#!/bin/sh\ntest -e refused && exit 0\n: > refused\nexit 1\n";

/// Returns the page's code blocks of a language that contain a text.
fn blocks(language: &str, containing: &str) -> Vec<String> {
    let page = fs::read_to_string(repository().join(PAGE)).unwrap();
    let fence = format!("```{language}\n");
    let found = page.split(&fence).skip(1);
    let found = found.map(|rest| rest.split("```").next().unwrap().to_owned());
    let found: Vec<String> = found.filter(|block| block.contains(containing)).collect();
    assert!(!found.is_empty(), "{PAGE} has no block with '{containing}'");
    found
}

fn yaml(text: &str) -> Value {
    serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

/// Returns the text of a scalar; empty for null.
fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(is) => is.to_string(),
        Value::Null => String::new(),
        other => panic!("no plain value: {other:?}"),
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (String, &Value)> {
    let mapping = value.as_mapping().into_iter().flatten();
    mapping.map(|(name, value)| (scalar_text(name), value))
}

fn steps(value: &Value) -> &[Value] {
    value.as_sequence().expect("a list of steps")
}

/// Trigger of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CiTrigger {
    Push,
    PullRequest,
}

/// Exit status and remains of a job.
#[derive(Debug)]
struct CiOutcome {
    status: i32,
    said: String,
    summary: String,
}

impl CiOutcome {
    #[track_caller]
    fn expect(self, status: i32, said: &str) -> CiOutcome {
        assert_eq!(self.status, status, "{self:#?}");
        assert!(self.said.contains(said), "no '{said}' in {self:#?}");
        self
    }
}

/// A CI service: a repository, what it keeps between jobs, and the tools of its runners.
struct CiService {
    repository: TestRepository,
    /// Where comments are posted.
    forge: FakeForge,
    jobs: RefCell<u32>,
}

impl CiService {
    /// Creates a repository whose program takes 100 µs on `main`; `None`, with a message, without
    /// git.
    fn new() -> Option<CiService> {
        let repository = TestRepository::with_program("100")?;
        let messages: Vec<String> =
            (2..=COMMITS).map(|commit| format!("commit {commit}")).collect();
        repository.import_empty_commits(&messages);
        let service = CiService {
            repository,
            forge: FakeForge::start(ForgeKind::GitHub).with_job_token(),
            jobs: RefCell::default(),
        };
        let make = "#!/bin/sh\nexec sh build.sh\n";
        write_program(&service.file("tools/make"), make);
        let origin = service.file("origin.git");
        service.git(&["clone", "--quiet", "--bare", ".", &origin.to_string_lossy()]);
        service.git(&["remote", "add", "origin", &service.url()]);
        Some(service)
    }

    fn git(&self, words: &[&str]) -> String {
        self.repository.run_git(words)
    }

    /// Path of a file of the service, in an existing folder.
    fn file(&self, name: &str) -> PathBuf {
        let file = self.repository.outside(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        file
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.repository.outside(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn url(&self) -> String {
        format!("file://{}", self.file("origin.git").display())
    }

    /// Creates a pull request whose program takes `cost` and is built by `build`; jobs get its
    /// trial merge.
    fn pull_request(&self, cost: &str, build: Option<&str>) {
        self.repository.check_out("main~3").run_git(&["checkout", "--quiet", "-B", "topic"]);
        self.repository.write_file("cost", cost).write_file("notes", "of the pull request");
        if let Some(build) = build {
            self.repository.write_file("build.sh", build);
        }
        self.repository.commit_all("topic");
        self.repository.check_out("main").run_git(&["checkout", "--quiet", "-B", "trial"]);
        self.repository.merge_branch("topic", "trial merge");
        let names =
            ["topic:refs/heads/topic", "topic:refs/pull/12/head", "trial:refs/pull/12/merge"];
        self.git(&[&["push", "--quiet", "--force", "origin"], &names[..]].concat());
        self.repository.check_out("main");
    }

    /// Creates a checkout like `actions/checkout` and GitLab's runner: complete, or only the newest
    /// commit.
    fn checkout(&self, event: CiTrigger, is_whole: bool) -> PathBuf {
        let mut jobs = self.jobs.borrow_mut();
        *jobs += 1;
        let folder = self.file(&format!("job-{jobs}/work"));
        let name = match event {
            CiTrigger::Push => "refs/heads/main",
            CiTrigger::PullRequest => "refs/pull/12/merge",
        };
        let at = folder.to_string_lossy();
        self.git(&["init", "--quiet", &at]);
        let git = |words: &[&str]| self.git(&[&["-C", &at], words].concat());
        git(&["remote", "add", "origin", &self.url()]);
        let own = format!("+{name}:refs/remotes/job");
        if is_whole {
            git(&["fetch", "--quiet", "origin", "+refs/heads/*:refs/remotes/origin/*", &own]);
        } else {
            git(&["fetch", "--quiet", "--depth=1", "origin", &own]);
        }
        match event {
            CiTrigger::Push => git(&["checkout", "--quiet", "-B", "main", "refs/remotes/job"]),
            CiTrigger::PullRequest => git(&["checkout", "--quiet", "--detach", "refs/remotes/job"]),
        };
        folder
    }

    /// Executes lines in a checkout like a service; returns the status and all output.
    fn execute(
        &self,
        script: &str,
        work: &Path,
        variables: &BTreeMap<String, String>,
    ) -> (i32, String) {
        let lines = script.lines().filter(|line| !line.starts_with(INSTALLS));
        let script: String = lines.flat_map(|line| [line, "\n"]).collect();
        let folder = Path::new(env!("CARGO_BIN_EXE_speedwell")).parent().unwrap();
        let path = [self.file("tools").display().to_string(), folder.display().to_string()];
        let path = format!("{}:{}", path.join(":"), std::env::var("PATH").unwrap_or_default());
        let mut bash = Command::new("bash");
        for (name, _) in std::env::vars_os() {
            let name_of = name.to_string_lossy();
            let is_of_a_job = ["GIT_", "GITHUB_", "GITLAB_", "CI_", "SPEEDWELL_"];
            if is_of_a_job.iter().any(|prefix| name_of.starts_with(prefix)) {
                bash.env_remove(&name);
            }
        }
        bash.args(["-ec", &format!("exec 2>&1\n{script}")]);
        bash.current_dir(work).env("PATH", path).env("HOME", self.folder("home"));
        bash.env("GIT_CONFIG_GLOBAL", "/dev/null").env("XDG_CACHE_HOME", self.file("cache"));
        bash.env("LOG", "/dev/null").envs(variables);
        let output = bash.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code().unwrap_or(-1), said)
    }

    fn variables_of_github(&self, event: CiTrigger) -> BTreeMap<String, String> {
        let revision = match event {
            CiTrigger::Push => "main",
            CiTrigger::PullRequest => "trial",
        };
        let mut variables = vec![
            ("GITHUB_ACTIONS", "true".to_owned()),
            ("GITHUB_SHA", self.repository.commit_id(revision)),
            ("GITHUB_API_URL", format!("{}/api/v3", self.forge.address)),
            ("GITHUB_REPOSITORY", "owner/name".to_owned()),
            ("GITHUB_STEP_SUMMARY", self.file("summary").display().to_string()),
            ("GITHUB_OUTPUT", self.file("output").display().to_string()),
            ("GITHUB_ACTION_PATH", repository().display().to_string()),
            ("RUNNER_TEMP", self.folder("temporary").display().to_string()),
        ];
        variables.extend(match event {
            CiTrigger::Push => vec![
                ("GITHUB_REF", "refs/heads/main".to_owned()),
                ("GITHUB_REF_NAME", "main".to_owned()),
            ],
            CiTrigger::PullRequest => vec![
                ("GITHUB_REF", "refs/pull/12/merge".to_owned()),
                ("GITHUB_HEAD_REF", "topic".to_owned()),
                ("GITHUB_BASE_REF", "main".to_owned()),
            ],
        });
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Executes the only job of a GitHub workflow.
    fn workflow(&self, workflow: &Value, event: CiTrigger) -> CiOutcome {
        let (_, job) = entries(&workflow["jobs"]).next().expect("a job");
        let mut run = GitHubJob::new(self, event);
        for environment in [&workflow["env"], &job["env"]] {
            run.add_variables(environment);
        }
        run.steps(steps(&job["steps"]));
        run.outcome()
    }

    /// Executes the only job of a GitLab file. Its caches persist until the next one.
    fn pipeline(&self, file: &Value, event: CiTrigger) -> CiOutcome {
        let (_, job) = entries(file).next().expect("a job");
        let mut variables: BTreeMap<String, String> =
            entries(&job["variables"]).map(|(name, value)| (name, scalar_text(value))).collect();
        let is_whole = variables.get("GIT_DEPTH").map(String::as_str) == Some("0");
        let work = self.checkout(event, is_whole);
        let (name, revision) = match event {
            CiTrigger::Push => ("CI_COMMIT_BRANCH", "main"),
            CiTrigger::PullRequest => ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "trial"),
        };
        for (name, value) in [
            ("GITLAB_CI", "true"),
            ("CI_DEFAULT_BRANCH", "main"),
            ("CI_COMMIT_SHA", &self.repository.commit_id(revision)),
            (name, "main"),
        ] {
            variables.insert(name.to_owned(), value.to_owned());
        }
        let caches = job["cache"]["paths"].as_sequence().cloned().unwrap_or_default();
        let caches: Vec<String> = caches.iter().map(scalar_text).collect();
        for path in &caches {
            let _ = fs::copy(self.file(&format!("kept/{path}")), work.join(path));
        }
        let script: String =
            steps(&job["script"]).iter().map(|line| scalar_text(line) + "\n").collect();
        let script = format!("{PIPEFAIL}{script}");
        let (status, said) = self.execute(&script, &work, &variables);
        if status == 0 || scalar_text(&job["cache"]["when"]) == "always" {
            for path in &caches {
                let _ = fs::copy(work.join(path), self.file(&format!("kept/{path}")));
            }
        }
        let left = job["artifacts"]["paths"].as_sequence().cloned().unwrap_or_default();
        let left: Vec<String> =
            left.iter().map(|path| read(&work.join(scalar_text(path)))).collect();
        CiOutcome { status, said, summary: left.concat() }
    }
}

struct GitHubJob<'a> {
    service: &'a CiService,
    event: CiTrigger,
    work: PathBuf,
    variables: BTreeMap<String, String>,
    /// Values for `${{ ... }}`.
    context: BTreeMap<String, String>,
    status: i32,
    said: String,
}

impl<'a> GitHubJob<'a> {
    fn new(service: &'a CiService, event: CiTrigger) -> GitHubJob<'a> {
        for name in ["summary", "output"] {
            fs::write(service.file(name), "").unwrap();
        }
        let number = if event == CiTrigger::PullRequest { "12" } else { "" };
        let context = [
            ("github.token", "secret"),
            ("github.event.number", number),
            ("github.run_id", "1"),
            ("runner.os", "Linux"),
        ];
        GitHubJob {
            service,
            event,
            work: PathBuf::new(),
            variables: service.variables_of_github(event),
            context: context.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            status: 0,
            said: String::new(),
        }
    }

    fn add_variables(&mut self, environment: &Value) {
        for (name, value) in entries(environment) {
            let value = self.expand_expressions(&scalar_text(value));
            self.variables.insert(name, value);
        }
    }

    /// Expands every `${{ NAME }}` in a text.
    fn expand_expressions(&self, text: &str) -> String {
        let mut parts = text.split("${{");
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once("}}").expect("an expression ends");
            let value = self.context.get(name.trim());
            filled += value.unwrap_or_else(|| panic!("'{}' is not known", name.trim()));
            filled += rest;
        }
        filled
    }

    /// Returns whether a step with this condition is executed.
    fn is_due(&self, condition: &Value) -> bool {
        let condition = scalar_text(condition);
        if condition == "always()" {
            return true;
        }
        let holds = match condition.split_once(" == ") {
            Some((name, value)) => {
                self.expand_expressions(&format!("${{{{{name}}}}}")) == value.trim_matches('\'')
            }
            None => condition.is_empty(),
        };
        holds && self.status == 0
    }

    fn steps(&mut self, steps: &[Value]) {
        for step in steps.iter().filter(|step| !step.is_null()) {
            if !self.is_due(&step["if"]) {
                continue;
            }
            match &step["uses"] {
                Value::Null => self.run(step),
                action => self.action(&scalar_text(action), &step["with"]),
            }
        }
    }

    fn run(&mut self, step: &Value) {
        let before = self.variables.clone();
        self.add_variables(&step["env"]);
        let script = scalar_text(&step["run"]);
        assert!(!script.contains("${{"), "what others write must not become a script: {script}");
        // Without an explicit shell, a pipe has the status of its last command.
        let strictly = if step["shell"].is_null() { "" } else { PIPEFAIL };
        let script = format!("{strictly}{script}");
        let (status, said) = self.service.execute(&script, &self.work, &self.variables);
        self.said += &said;
        if self.status == 0 {
            self.status = status;
        }
        self.variables = before;
        let id = scalar_text(&step["id"]);
        for (name, value) in
            read(&self.service.file("output")).lines().filter_map(|line| line.split_once('='))
        {
            self.context.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
        }
    }

    fn action(&mut self, action: &str, with: &Value) {
        let kept =
            self.service.file(&format!("kept/{}", scalar_text(&with["path"]).replace('/', "-")));
        let here = self.work.join(scalar_text(&with["path"]));
        match action.split('@').next().unwrap() {
            "actions/checkout" => {
                let is_whole = scalar_text(&with["fetch-depth"]) == "0";
                self.work = self.service.checkout(self.event, is_whole);
            }
            "actions/cache/restore" => drop(fs::copy(kept, here)),
            "actions/cache/save" => drop(fs::copy(here, kept).unwrap()),
            "speedwell-bench/speedwell" => {
                let own = action_file();
                for (name, input) in entries(&own["inputs"]) {
                    let value = match &with[&*name] {
                        Value::Null => self.expand_expressions(&scalar_text(&input["default"])),
                        given => scalar_text(given),
                    };
                    self.context.insert(format!("inputs.{name}"), value);
                }
                self.steps(steps(&own["runs"]["steps"]));
            }
            other => panic!("'{other}' is not known"),
        }
    }

    fn outcome(self) -> CiOutcome {
        CiOutcome {
            status: self.status,
            said: self.said,
            summary: read(&self.service.file("summary")),
        }
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn action_file() -> Value {
    yaml(&fs::read_to_string(repository().join("action.yml")).unwrap())
}

/// Makes sessions of all commits of `main` but the last, from the exported one: with 100 µs, or
/// with 80 until commit 20.
fn sessions(service: &CiService, exported: &str, was_faster: bool) -> String {
    let mut lines = exported.lines().map(|line| serde_json::from_str(line).unwrap());
    let header: Json = lines.next().unwrap();
    let runs: Vec<Json> = lines.collect();
    let metric = header["metrics"][0]["name"].clone();
    let line = service.git(&["log", "--reverse", "--format=%H %T", "main~1"]);
    let mut text = String::new();
    for (commit, line) in line.lines().enumerate() {
        let (revision, tree) = line.split_once(' ').unwrap();
        let mut own = header.clone();
        own["id"] = format!("session-{commit}").into();
        own["origin"]["revision"] = revision.into();
        own["origin"]["tree"] = tree.into();
        writeln!(text, "{own}").unwrap();
        let level = if was_faster && commit < 20 { 0.8 } else { 1.0 };
        let drawn = (commit as u32 + 1).wrapping_mul(2_654_435_761) >> 16;
        let factor = level * (1.0 + 0.01 * (f64::from(drawn) / 65_536.0 - 0.5));
        for run in &runs {
            let mut run = run.clone();
            for sample in run["run"]["samples"].as_array_mut().unwrap() {
                if sample["metric"] == metric {
                    sample["value"] = (sample["value"].as_f64().unwrap() * factor).into();
                }
            }
            writeln!(text, "{run}").unwrap();
        }
    }
    text
}

/// Executes a recipe for main without history, with an unchanged one, and with a regression. `kept`
/// returns what the recipe stores as JSON Lines, and `keep` replaces it.
fn check_main_recipe(
    service: &CiService,
    recipe: &dyn Fn() -> CiOutcome,
    kept: &dyn Fn() -> String,
    keep: &dyn Fn(&str),
) {
    // A young repository can merge, and its job reports that nothing was searched.
    recipe().expect(0, "nothing could be compared: no series has enough points");
    let exported = kept();
    keep(&sessions(service, &exported, false));
    recipe().expect(0, "");
    let all = kept();
    let count = all.matches("\"speedwell\":\"session\"").count();
    assert_eq!(count, COMMITS, "a session of each commit");
    keep(&sessions(service, &exported, true));
    recipe().expect(1, "worse");
    assert_eq!(kept().matches("\"speedwell\":\"session\"").count(), COMMITS);
}

impl CiService {
    fn exported(&self, db: &Path) -> String {
        let db = db.display();
        let script = format!(
            "for number in $(speedwell history --format csv --db {db} | sed 1d | cut -d, -f1); do
               speedwell report @$number --export jsonl --db {db}
             done"
        );
        let (status, said) = self.execute(&script, &self.folder("home"), &BTreeMap::new());
        assert_eq!(status, 0, "{said}");
        said
    }

    /// Replaces a store by one with these sessions.
    fn import(&self, lines: &str, db: &Path) {
        let _ = fs::remove_file(db);
        let file = self.file("import.jsonl");
        fs::write(&file, lines).unwrap();
        let answer = self.repository.run(&[
            "import",
            "--quiet",
            &file.to_string_lossy(),
            "--db",
            &db.to_string_lossy(),
        ]);
        answer.expect_status(0);
    }
}

#[test]
fn a_branch_of_the_repository_keeps_the_results_of_main() {
    let Some(service) = CiService::new() else {
        return;
    };
    let [workflow] = &blocks("yaml", "git show origin/results")[..] else {
        panic!("one workflow");
    };
    let workflow = yaml(workflow);
    let origin = service.file("origin.git").display().to_string();
    let bare = |words: &[&str]| service.git(&[&["--git-dir", &origin], words].concat());
    write_program(&service.file("origin.git/hooks/pre-receive"), REFUSES_ONCE);
    let kept = || bare(&["show", "results:history.jsonl"]);
    let keep = |lines: &str| {
        let file = service.file("history.jsonl");
        fs::write(&file, lines).unwrap();
        let blob = bare(&["hash-object", "-w", &file.to_string_lossy()]);
        let index = format!("100644,{blob},history.jsonl");
        bare(&["update-index", "--add", "--cacheinfo", &index]);
        let tree = bare(&["write-tree"]);
        let commit = bare(&["commit-tree", &tree, "-m", "other results"]);
        bare(&["update-ref", "refs/heads/results", &commit]);
    };
    check_main_recipe(&service, &|| service.workflow(&workflow, CiTrigger::Push), &kept, &keep);
    assert!(service.file("origin.git/refused").exists());
    assert_eq!(bare(&["ls-tree", "--name-only", "results"]), "history.jsonl");
}

#[test]
fn a_cache_keeps_the_store_of_main_even_if_the_gate_fails() {
    let Some(service) = CiService::new() else {
        return;
    };
    let [workflow] = &blocks("yaml", "actions/cache/save")[..] else {
        panic!("one workflow");
    };
    let workflow = yaml(workflow);
    let db = service.file("kept/speedwell.db");
    check_main_recipe(
        &service,
        &|| service.workflow(&workflow, CiTrigger::Push),
        &|| service.exported(&db),
        &|lines| service.import(lines, &db),
    );
}

#[test]
fn exported_results_are_kept_on_gitlab() {
    let Some(service) = CiService::new() else {
        return;
    };
    let [file] = &blocks("yaml", "paths: [results.jsonl]")[..] else {
        panic!("one pipeline");
    };
    let file = yaml(file);
    let kept = service.file("kept/results.jsonl");
    check_main_recipe(
        &service,
        &|| service.pipeline(&file, CiTrigger::Push),
        &|| read(&kept),
        &|lines| fs::write(&kept, lines).unwrap(),
    );
}

#[test]
fn a_dedicated_machine_measures_main() {
    let Some(service) = CiService::new() else {
        return;
    };
    let [script] = &blocks("sh", "speedwell run")[..] else {
        panic!("one script");
    };
    let db = service.file("home/speedwell.db");
    let recipe = || {
        let work = service.checkout(CiTrigger::Push, true);
        let (status, said) = service.execute(script, &work, &BTreeMap::new());
        CiOutcome { status, said, summary: String::new() }
    };
    check_main_recipe(&service, &recipe, &|| service.exported(&db), &|lines| {
        service.import(lines, &db)
    });
}

/// Executes a recipe for pull requests on an unchanged, a slower, and an unbuildable one.
fn check_pull_recipe(service: &CiService, recipe: &dyn Fn() -> CiOutcome) -> [CiOutcome; 3] {
    service.pull_request("100", None);
    let level = recipe().expect(0, "");
    service.pull_request("150", None);
    let slower = recipe().expect(1, "");
    assert!(slower.summary.contains("BM_copy/"), "{slower:#?}");
    assert!(slower.summary.contains("base"), "{slower:#?}");
    service.pull_request("100", Some("echo no compiler here; exit 3"));
    let broken = recipe().expect(2, "no compiler here");
    assert_eq!(broken.summary, "");
    [level, slower, broken]
}

#[test]
fn a_github_pull_request_gets_one_comment_and_tolerates_a_refusal() {
    let Some(service) = CiService::new() else {
        return;
    };
    let workflows = blocks("yaml", "on: pull_request\n");
    assert_eq!(workflows.len(), 2, "commands, and the action");
    for workflow in &workflows {
        let workflow = yaml(workflow);
        let recipe = || service.workflow(&workflow, CiTrigger::PullRequest);
        let [level, slower, broken] = check_pull_recipe(&service, &recipe);
        for own in [level, slower] {
            assert!(own.said.contains("on owner/name#12"), "{own:#?}");
        }
        assert!(!broken.said.contains("owner/name#12"), "{broken:#?}");
        let comments = service.forge.comments();
        let [comment] = &comments[..] else {
            panic!("one comment for all jobs: {comments:#?}");
        };
        assert!(comment.body.contains("BM_copy/"), "{comment:?}");
        assert_eq!(service.forge.foreign_tokens(), 0);

        service.forge.refuse_writing(403);
        service.pull_request("150", None);
        let refused = recipe().expect(1, "the token needs 'pull-requests: write'");
        assert!(refused.summary.contains("BM_copy/"), "{refused:#?}");
        service.forge.allow_writing();
    }
}

/// A fork leaves a text and a number. Anything else in place of the number is rejected, and nothing
/// of it is executed.
#[test]
fn a_second_job_comments_on_a_fork_without_executing_its_input() {
    let Some(service) = CiService::new() else {
        return;
    };
    service.pull_request("100", None);
    let [workflow] = &blocks("yaml", "workflow_run:")[..] else {
        panic!("one workflow");
    };
    let workflow = yaml(workflow);
    let steps = steps(&workflow["jobs"]["say"]["steps"]);
    let script = scalar_text(&steps.last().expect("a step")["run"]);
    let mut variables = service.variables_of_github(CiTrigger::Push);
    variables.insert("GITHUB_TOKEN".into(), "secret".into());
    variables.insert("HEAD".into(), service.repository.commit_id("topic"));
    let work = service.checkout(CiTrigger::Push, true);
    fs::write(work.join("report.md"), "no change\n").unwrap();
    for (number, status) in
        [("12\n", 0), ("", 2), ("12; touch pwned", 2), ("$(touch pwned)", 2), ("12/../13", 2)]
    {
        fs::write(work.join("number"), number).unwrap();
        let (ended, said) = service.execute(&script, &work, &variables);
        assert_eq!(ended, status, "{number:?}: {said}");
        assert!(!work.join("pwned").exists(), "{number:?}");
    }
    let comments = service.forge.comments();
    let [comment] = &comments[..] else {
        panic!("one comment: {comments:#?}");
    };
    assert!(comment.body.contains("no change"), "{comment:?}");
}

#[test]
fn a_merge_request_is_compared_on_gitlab_and_a_branch_anywhere() {
    let Some(service) = CiService::new() else {
        return;
    };
    let [file] = &blocks("yaml", "merge_request_event")[..] else {
        panic!("one pipeline");
    };
    let file = yaml(file);
    check_pull_recipe(&service, &|| service.pipeline(&file, CiTrigger::PullRequest));
    let [script] = &blocks("sh", "rev:@base:main")[..] else {
        panic!("one script");
    };
    check_pull_recipe(&service, &|| {
        let work = service.checkout(CiTrigger::PullRequest, true);
        let (status, said) = service.execute(script, &work, &BTreeMap::new());
        let summary = read(&work.join("report.md"));
        CiOutcome { status, said, summary }
    });
}

#[test]
fn a_shallow_checkout_is_refused_with_the_git_command_to_fix_it() {
    let Some(service) = CiService::new() else {
        return;
    };
    service.pull_request("100", None);
    let workflow = &blocks("yaml", "pull-requests: write")[0];
    let workflow = yaml(&workflow.replace("fetch-depth: 0", "fetch-depth: 1"));
    let outcome = service.workflow(&workflow, CiTrigger::PullRequest);
    outcome.expect(
        2,
        "no branch 'main' here\nhint: git fetch --unshallow origin main:refs/remotes/origin/main",
    );
}

#[test]
fn the_action_is_a_valid_composite_action_with_documented_inputs() {
    let action = action_file();
    for field in ["name", "description"] {
        assert!(!scalar_text(&action[field]).is_empty(), "{field}");
    }
    assert_eq!(scalar_text(&action["runs"]["using"]), "composite");
    for step in steps(&action["runs"]["steps"]) {
        assert_eq!(scalar_text(&step["shell"]), "bash", "{step:?}");
        assert!(!scalar_text(&step["run"]).is_empty(), "{step:?}");
    }
    let page = fs::read_to_string(repository().join(PAGE)).unwrap();
    for (name, input) in entries(&action["inputs"]) {
        let default = scalar_text(&input["default"]);
        let is_needed = scalar_text(&input["required"]) == "true";
        assert!(is_needed || input.get("default").is_some(), "{name}");
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("{PAGE} lacks the input '{name}'"));
        assert!(default.contains("${{") || row.contains(&default), "{row}");
        assert!(!scalar_text(&input["description"]).is_empty(), "{name}");
    }
}

#[test]
fn the_action_accepts_another_command_and_an_installed_program() {
    let Some(service) = CiService::new() else {
        return;
    };
    let workflow = |with: &str| {
        yaml(&format!(
            "jobs: {{one: {{steps: [{{uses: actions/checkout@v4, with: {{fetch-depth: 0}}}},
             {{run: make bench}}, {{uses: speedwell-bench/speedwell@main, with: {{{with}}}}}]}}}}"
        ))
    };
    let run = workflow("command: run, arguments: ./bench --runs 2 --no-save");
    let outcome = service.workflow(&run, CiTrigger::Push).expect(0, "BM_copy/*");
    assert_eq!(outcome.summary, "");
    assert_eq!(service.forge.requests(), 0, "nothing to say");
    let other = workflow("arguments: ./bench, program: /nowhere/speedwell");
    service.workflow(&other, CiTrigger::Push).expect(127, "/nowhere/speedwell");
}

#[test]
fn the_benchmark_job_of_node_core_prints_the_table() {
    let Some(node) = super::project::node() else {
        return;
    };
    let [script] = &blocks("sh", "node-benchmarks CATEGORY")[..] else {
        panic!("there is one such script");
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_program(&at("job"), script);
    for side in ["node-old", "node-new"] {
        std::os::unix::fs::symlink(&node, at(side)).unwrap();
    }
    fs::create_dir_all(at("benchmark/answers")).unwrap();
    let library = repository().join("crates/adapters/languages/node/common.js");
    let library = format!("module.exports = require({:?});\n", library.display().to_string());
    fs::write(at("benchmark/common.js"), library).unwrap();
    let benchmark = "const common = require('../common.js');
        const bench = common.createBenchmark(main, { n: [1e3] });
        function main({ n }) { bench.start(); for (let i = 0; i < n; i++) Math.sqrt(i); bench.end(n); }\n";
    for file in ["wanted.js", "other.js"] {
        fs::write(at("benchmark/answers").join(file), benchmark).unwrap();
    }
    let own = Path::new(env!("CARGO_BIN_EXE_speedwell")).parent().unwrap();
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    let mut job = Command::new(at("job"));
    job.args(["answers", "wanted", "2"]).current_dir(folder.path()).env("PATH", path);
    let told = job.output().unwrap();
    let (table, errors) =
        (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success(), "{errors}");
    assert!(table.contains("confidence improvement accuracy (*)"), "{table}{errors}");
    assert!(table.contains("answers/wanted.js n=1000"), "{table}");
    assert!(!table.contains("other.js"), "{table}");
    let rows = fs::read_to_string(at("compare.csv")).unwrap();
    assert_eq!(rows.lines().count(), 1 + 2 * 2, "{rows}");
}
