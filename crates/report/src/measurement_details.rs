//! Reports how and on which machine the results were measured. Readers need these facts to judge or
//! reproduce the results. Every report about sessions contains them as reference material.

use crate::case_labels::distinct;
use crate::comparison::{correction_words, method_words};
use crate::document::{
    Document, Fact, LinkedText, ReportBlock, SessionLine, known_facts, new_fact,
};
use crate::figure::{
    format_bytes, format_count, format_count_or, format_moment, format_setting, format_whole,
    join_texts, unless_empty,
};
use serde_json::{Value, json};
use speedwell_analysis::{AnalysisFindings, CandidateComparison, snippet};
use speedwell_model::{
    Environment, LayoutVariation, MeasuredProgram, RunOrder, Session, SessionDesign, SessionState,
    StoppingDesign, Variant, VariantWorktree,
};

/// Describes how the sessions behind `findings` were measured. Each of several sessions is labelled
/// with the name by which the user referred to it. Programs find the same details in the list
/// `sources`.
pub fn report_measurement_details(
    sources: &[(Option<&str>, &Session)],
    findings: &AnalysisFindings,
) -> Document {
    let run_counts: Vec<_> =
        sources.iter().map(|(name, session)| (*name, *session, session.runs.len())).collect();
    report_measurement_details_of(&run_counts, findings)
}

impl Document {
    /// Appends how a session was measured.
    pub fn append_details(&mut self, session: &Session, findings: &AnalysisFindings) {
        self.append_document(report_measurement_details(&[(None, session)], findings));
    }
}

/// Does the same as [`report_measurement_details`], but gets the number of runs of each session as
/// a parameter. The runs need not be in memory.
pub(crate) fn report_measurement_details_of(
    sources: &[(Option<&str>, &Session, usize)],
    findings: &AnalysisFindings,
) -> Document {
    let mut document = Document::new("measurement_details");
    let lines = sources.iter().map(|(name, session, _)| session_line(*name, session));
    document.session_lines = lines.collect();
    for (name, session, _) in sources {
        let of_session = name.map(|name| format!(" of {name}")).unwrap_or_default();
        let choice = session.design.describe_order_choice();
        document.push_notes(choice.map(|text| format!("order{of_session}: {text}")));
        let worktrees = session.variants.iter().filter_map(|variant| variant.worktree.as_ref());
        document
            .push_notes(worktrees.filter_map(|worktree| describe_changes(worktree, &of_session)));
    }
    let analysis = findings.comparisons.first().map(|c| comparison_facts(c, findings));
    let mut blocks: Vec<ReportBlock> = analysis.into_iter().map(ReportBlock::Facts).collect();
    for (name, session, runs) in sources {
        let heading = |name: &str| ReportBlock::Heading { level: 3, text: name.to_owned() };
        blocks.extend(name.map(heading));
        blocks.push(ReportBlock::Facts(session_facts(session, *runs)));
    }
    document.push(ReportBlock::appendix("How it was measured", blocks));
    for (name, session, _) in sources {
        document.append_document(report_environment(&session.environment, *name));
    }
    document.attach_data("sources", sources.iter().map(source_data).collect());
    document
}

/// Says what a working tree has in addition to the revision with which it is compared. Returns
/// `None` for a commit.
fn describe_changes(worktree: &VariantWorktree, of_session: &str) -> Option<String> {
    let (changes, commits) = (worktree.changes.as_ref(), worktree.commits.as_ref());
    if changes.is_none() && commits.is_none() {
        return None;
    }
    let files = changes.map_or(0, |changes| changes.files);
    let files = format_count_or("no files", files, "file", "files");
    let included = commits.map(|commits| {
        let count = format_count(commits.count, "commit", "commits");
        format!(", includes {count} since {}", commits.revision)
    });
    Some(format!("{}{of_session}, {files} changed{}", worktree.typed, included.unwrap_or_default()))
}

/// Describes a session in a few words, for the top of a page.
fn session_line(name: Option<&str>, session: &Session) -> SessionLine {
    let origin = session.origin.as_ref();
    let revision = origin.map(|origin| {
        let subject = origin.subject.as_deref().unwrap_or_default();
        let subject = unless_empty(subject, |subject| format!(" \"{subject}\""));
        let changes = if origin.dirty.is_some() { " + changes" } else { "" };
        format!("{}{subject}{changes}", origin.short())
    });
    let environment = &session.environment;
    let machine = match session.machines.len() {
        0 | 1 => environment.machine.as_ref().or(environment.host.as_ref()).cloned(),
        machines => Some(format_count(machines, "machine", "machines")),
    };
    let text = |text: Option<String>| LinkedText::plain(text.unwrap_or_default());
    SessionLine {
        id: session.id.clone(),
        name: text(name.map(str::to_owned)),
        measured: LinkedText::plain(measured_text(session)),
        revision: text(revision),
        branch: text(origin.and_then(|origin| origin.branch.clone())),
        machine: text(machine),
        started_unix_ms: session.started_unix_ms,
        command: shell_words::join(&session.command),
    }
}

/// Maximum number of benchmarks or commands that the top of a page names.
const MAX_NAMED: usize = 3;

/// Names what the session measured: its benchmarks, or its commands.
fn measured_text(session: &Session) -> String {
    let (names, words): (Vec<&str>, [&str; 2]) = if snippet::has_only_snippets(session) {
        let names = session.variants.iter().map(|variant| variant.name.as_str());
        (names.collect(), ["command", "commands"])
    } else {
        let names = session.runs.iter().map(|run| run.case.benchmark.as_str());
        (distinct(names), ["benchmark", "benchmarks"])
    };
    match names.len() {
        ..=MAX_NAMED => names.join(", "),
        count => format_count(count, words[0], words[1]),
    }
}

/// Describes how the results were computed. All comparisons of a report use the same method, so one
/// of them suffices.
fn comparison_facts(comparison: &CandidateComparison, findings: &AnalysisFindings) -> Vec<Fact> {
    let candidates = distinct(findings.comparisons.iter().map(|other| other.candidate.as_str()));
    let delta = format_setting(comparison.delta);
    vec![
        new_fact("baseline", comparison.baseline.as_str()),
        new_fact("candidates", candidates.join(", ")),
        new_fact("test", method_words(comparison.method)),
        new_fact("confidence", format_setting(comparison.confidence)),
        new_fact("correction for many cases", correction_words(comparison.correction)),
        new_fact("counts as the same", format!("a change within {delta}")),
    ]
}

/// Describes how one session was measured.
fn session_facts(session: &Session, done: usize) -> Vec<Fact> {
    let started = format_moment(session.started_unix_ms);
    let state = match session.state {
        SessionState::Complete => None,
        SessionState::Running => Some("still running, or killed"),
        SessionState::Interrupted => Some("interrupted; partial results are shown"),
        SessionState::Imported => Some("imported from a file"),
    };
    let command = &session.command;
    let mut facts = known_facts([
        ("session", session.number.map(|number| format!("@{number}"))),
        ("started", Some(format!("{started} UTC"))),
        ("state", state.map(str::to_owned)),
        ("tags", (!session.tags.is_empty()).then(|| session.tags.join(" "))),
        ("command", (!command.is_empty()).then(|| shell_words::join(command))),
    ]);
    facts.extend(session.variants.iter().filter_map(variant_fact));
    facts.extend(design_facts(&session.design, session.variants.len()));
    let speedwell = session.environment.speedwell.as_ref();
    facts.extend(known_facts([
        ("runs", Some(runs_text(session, done))),
        ("measured by", speedwell.map(|version| format!("Speedwell {version}"))),
    ]));
    facts
}

/// Describes the environment, the program and the arguments of a variant. Returns `None` if the
/// variant has only a name.
fn variant_fact(variant: &Variant) -> Option<Fact> {
    let mut arguments: Vec<String> =
        variant.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    arguments.extend(variant.program.iter().map(|path| path.display().to_string()));
    arguments.extend(variant.arguments.iter().cloned());
    let name = format!("variant {}", variant.name);
    (!arguments.is_empty()).then(|| (name, shell_words::join(arguments)))
}

/// Describes the plan of a session. The order of the variants is left out if there is only one.
fn design_facts(design: &SessionDesign, variants: usize) -> Vec<Fact> {
    let number = u64::from(design.runs_per_block);
    let order = match design.order {
        RunOrder::Blocks => format!(
            "randomised blocks of {number} {} of every variant, shuffled, spread over the session",
            if number == 1 { "run" } else { "runs" }
        ),
        RunOrder::Alternate => "fixed alternation of the variants".into(),
        RunOrder::Parallel => "all variants at the same time".into(),
        RunOrder::Paired => {
            "pairs of a candidate and the baseline, both at once on one processor; \
            in one round of eight, one after the other"
                .into()
        }
        RunOrder::Imported => "not known".into(),
    };
    // The plan of imported results is unknown. The session holds placeholder values.
    if design.order == RunOrder::Imported {
        return vec![new_fact("order of runs", order)];
    }
    let rejected = (!design.reject.is_empty()).then(|| design.reject.to_string());
    known_facts([
        ("order of runs", (variants > 1).then_some(order)),
        ("seed", Some(design.seed.to_string())),
        ("layout", layout_text(&design.layout)),
        ("instructions counted by", design.counting.as_ref().map(|counting| counting.tool.clone())),
        ("runs rejected by", rejected),
        ("stopping rule", Some(stopping_text(&design.stopping, variants))),
        ("threshold set before measuring", design.threshold.map(format_setting)),
    ])
}

fn layout_text(layout: &LayoutVariation) -> Option<String> {
    let builds = format!(
        "{} of every variant, each with functions and data in a different order",
        format_count(layout.builds as usize, "build", "builds")
    );
    let parts = [
        (layout.builds > 0, builds.as_str()),
        (layout.env, "a different environment length in every run"),
        (layout.stack, "a different path length in every run"),
        (layout.align, "functions aligned to 64 bytes"),
    ];
    let varied = parts.iter().filter(|(is_varied, _)| *is_varied);
    Some(join_texts("; ", varied.map(|(_, phrase)| phrase))).filter(|phrases| !phrases.is_empty())
}

fn stopping_text(stopping: &StoppingDesign, variants: usize) -> String {
    match stopping {
        StoppingDesign::Fixed { runs } => {
            let of_every = if variants > 1 { " of every variant" } else { "" };
            format!("after {}{of_every}", format_count(*runs as usize, "run", "runs"))
        }
        StoppingDesign::Sequential { looks, alpha, delta } => {
            format!(
                "when a sequential test decides, with interim analyses at {} runs a side; error rate {} \
                 over all of them, changes within {} count as equal",
                join_texts(", ", looks.iter().map(u32::to_string)),
                format_setting(*alpha),
                format_setting(*delta)
            )
        }
    }
}

fn runs_text(session: &Session, done: usize) -> String {
    let failed = session.failures.iter().filter(|f| !f.cause.is_skip()).count();
    let [done, others] = [done, failed].map(format_whole);
    if failed > 0 { format!("{done}, and {others} failed") } else { done }
}

/// Describes a session for programs. Serialization cannot fail, because the model contains no value
/// that JSON cannot represent, such as NaN.
fn source_data((name, session, _): &(Option<&str>, &Session, usize)) -> Value {
    let mut data = json!({
        "source": name,
        "session": session.id,
        "number": session.number,
        "started_unix_ms": session.started_unix_ms,
        "state": session.state,
        "tags": session.tags,
        "command": session.command,
        "design": session.design,
        "variants": session.variants,
    });
    if let Some(origin) = &session.origin {
        data["origin"] = json!(origin);
    }
    if let Some(metric) = session.metrics.first() {
        data["compared_metric"] = json!(metric.name);
    }
    data
}

/// Describes the environment. If there are several sessions, `source` names the one measured in
/// this environment. Programs get the whole environment as stored.
pub fn report_environment(environment: &Environment, source: Option<&str>) -> Document {
    let mut document = Document::new("environment");
    let facts = environment_facts(environment);
    if !facts.is_empty() {
        let title =
            source.map_or("Measured on".to_owned(), |source| format!("Measured on: {source}"));
        document.push(ReportBlock::appendix(title, vec![ReportBlock::Facts(facts)]));
    }
    // Serialization cannot fail, because the model contains no value that JSON cannot represent,
    // such as NaN.
    let data = serde_json::to_value(environment).unwrap_or_else(|_| json!({}));
    document.attach_data("environments", json!([data]));
    document
}

fn environment_facts(environment: &Environment) -> Vec<Fact> {
    let memory = environment.memory_bytes.map(|bytes| format_bytes(bytes as f64));
    let load = environment.load.map(|load| load.map(|average| format!("{average:.2}")).join(" "));
    let aslr = environment.aslr.map(|is_on| if is_on { "on" } else { "off" }.to_owned());
    let governors = Some(environment.governors.join(" ")).filter(|names| !names.is_empty());
    let processors = environment.cpus.map(|number| format!("{number} ×"));
    let processor = join_texts(" ", processors.into_iter().chain(environment.cpu.clone()));
    let properties = [
        ("host", environment.host.clone()),
        ("processor", Some(processor).filter(|parts| !parts.is_empty())),
        ("memory", memory),
        ("system", environment.kernel.clone()),
        ("frequency governor", governors),
        ("address randomisation", aslr),
        ("load before", load),
        ("speedwell", environment.speedwell.clone()),
    ];
    let mut facts = known_facts(properties);
    facts.extend(environment.facts.iter().map(|(name, value)| named_fact(name, value)));
    facts.extend(environment.programs.iter().map(program_fact));
    facts
}

/// Describes an additional fact: `now_cpu_pressure_percent` with the value 1.25 becomes "cpu
/// pressure before" with the value 1.25%. The prefix `now_` marks values from the beginning of the
/// session.
fn named_fact(name: &str, value: &str) -> Fact {
    let (name, suffix) = name.strip_prefix("now_").map_or((name, ""), |name| (name, " before"));
    let number: Option<f64> = value.parse().ok();
    let (name, value) = match (name.strip_suffix("_percent"), name.strip_suffix("_bytes"), number) {
        (Some(name), _, Some(_)) => (name, format!("{value}%")),
        (_, Some(name), Some(bytes)) => (name, format_bytes(bytes)),
        _ => (name, value.to_owned()),
    };
    (name.replace('_', " ") + suffix, value)
}

fn program_fact(program: &MeasuredProgram) -> Fact {
    let version = program.version.clone().unwrap_or_default();
    let versions = program.versions.iter().map(|(name, version)| format!("{name} {version}"));
    let versions = unless_empty(join_texts(", ", versions), |versions| format!("({versions})"));
    let parts = [version, program.path.display().to_string(), versions];
    (format!("variant {}", program.variant), join_texts(" ", parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequential_design_is_told_in_full() {
        let design = SessionDesign {
            seed: 7,
            runs_per_block: 2,
            threshold: Some(0.05),
            ..SessionDesign::new(
                RunOrder::Blocks,
                StoppingDesign::Sequential { looks: vec![8, 14], alpha: 0.05, delta: 0.02 },
                "old",
            )
        };
        let facts = design_facts(&design, 2);
        let names: Vec<_> = facts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["order of runs", "seed", "stopping rule", "threshold set before measuring"]
        );
        assert_eq!(
            facts[2].1,
            "when a sequential test decides, with interim analyses at 8, 14 runs a side; error rate 5% \
             over all of them, changes within 2% count as equal"
        );
    }

    #[test]
    fn the_design_of_imported_results_is_reported_as_unknown() {
        let design = SessionDesign::new(RunOrder::Imported, StoppingDesign::Fixed { runs: 1 }, "");
        assert_eq!(design_facts(&design, 1), [new_fact("order of runs", "not known")]);
    }

    #[test]
    fn one_variant_has_no_order_of_variants() {
        let stopping = StoppingDesign::Fixed { runs: 1 };
        let design = SessionDesign::new(RunOrder::Blocks, stopping, "default");
        let facts = design_facts(&design, 1);
        assert_eq!(facts, [new_fact("seed", "0"), new_fact("stopping rule", "after 1 run")]);
    }

    #[test]
    fn the_line_of_a_session_names_revision_branch_machine_and_command() {
        let mut session = speedwell_fixtures::FakeSession::with_fixed_blocks(&["old"], 1)
            .add_case("g/fill n=1", |_, _| 1.0)
            .add_case("g/fill n=2", |_, _| 1.0)
            .build();
        session.command = vec!["speedwell".into(), "run".into(), "a b.js".into()];
        session.environment.machine = Some("ci-2".into());
        session.origin = Some(speedwell_model::CodeOrigin {
            revision: "401d8e5f00".repeat(4),
            branch: Some("main".into()),
            subject: Some("one".into()),
            dirty: Some("digest".into()),
            ..speedwell_model::CodeOrigin::default()
        });
        let line = session_line(Some("@3"), &session);
        let texts = [&line.name, &line.measured, &line.revision, &line.branch, &line.machine];
        assert_eq!(
            texts.map(|linked| linked.text.as_str()),
            ["@3", "g/fill", "401d8e5f00 \"one\" + changes", "main", "ci-2"]
        );
        assert_eq!(line.command, "speedwell run 'a b.js'");
    }

    #[test]
    fn facts_are_told_in_words() {
        let told = |name, value| {
            let (name, value) = named_fact(name, value);
            format!("{name}: {value}")
        };
        assert_eq!(told("now_cpu_pressure_percent", "1.25"), "cpu pressure before: 1.25%");
        assert_eq!(
            told("now_memory_available_bytes", "1073741824"),
            "memory available before: 1.00 GiB"
        );
        assert_eq!(told("transparent_huge_pages", "madvise"), "transparent huge pages: madvise");
    }
}
