//! Withholds answers (verdicts and overall changes) if the sides did not measure the same thing.
//!
//! Decides when the figures of two sides say nothing about the compared code. This is the case if
//! the benchmark itself differs, or if a side has loaded the code of the user's checkout instead of
//! its own. Start at [`WithheldReason::between`].
//!
//! Only the store knows whether a session is still running. If it is running, the caller withholds
//! all answers with [`AnalysisFindings::withhold`].

use crate::grid::SourceSide;
use crate::{AnalysisFindings, AnalysisSettings, WithheldReason};
use speedwell_model::{Variant, Verdict};
use std::collections::{BTreeSet, HashMap};
use std::fmt;

impl<'a> SourceSide<'a, '_> {
    fn known_variant(&self) -> Option<&'a Variant> {
        let mut variants = self.session.variants.iter();
        variants.find(|variant| variant.name == self.variant_name())
    }

    /// Files that runs wrongly loaded from the user's checkout, by benchmark.
    pub fn checkout_files_by_benchmark(&self) -> HashMap<&'a str, BTreeSet<&'a str>> {
        let mut files: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for case in &self.grid.cases {
            for file in case.by_variant[self.variant].iter().flat_map(|run| run.stray_files()) {
                files.entry(&case.case.benchmark).or_default().insert(file);
            }
        }
        files
    }

    /// The files that this side has loaded from the checkout. Files loaded when its benchmarks were
    /// listed come first, followed by files loaded in runs.
    fn checkout_files(&self, in_runs: Option<&BTreeSet<&str>>) -> Vec<String> {
        let listed = (self.known_variant()).map_or(&[][..], |variant| &variant.checkout_files[..]);
        let loaded_in_runs = in_runs.into_iter().flatten().copied();
        listed.iter().map(String::as_str).chain(loaded_in_runs).map(str::to_owned).collect()
    }

    /// Digests of the benchmark's source on this side: first of the part that belongs to the
    /// benchmark, then of the whole file.
    fn source_digests(&self, benchmark: &str) -> [Option<&'a String>; 2] {
        let own_digest = self.known_variant().and_then(|variant| variant.work.get(benchmark));
        [own_digest, self.session.design.work.get(benchmark)]
    }
}

impl WithheldReason {
    /// Returns why the answer for a benchmark must be withheld, or `None` if it need not be.
    /// `checkout_files` has the files that runs of the benchmark loaded from the checkout.
    pub(super) fn between(
        sides: [&SourceSide<'_, '_>; 2],
        checkout_files: [Option<&BTreeSet<&str>>; 2],
        benchmark: &str,
        settings: &AnalysisSettings,
    ) -> Option<WithheldReason> {
        let [old, new] = [0, 1].map(|side| sides[side].checkout_files(checkout_files[side]));
        if !old.is_empty() || !new.is_empty() {
            let is_both = !old.is_empty() && !new.is_empty();
            let mut files = [old, new].concat();
            files.sort();
            files.dedup();
            return Some(WithheldReason::LoadsCheckout { is_both, files });
        }
        let [old, new] = sides.map(|side| side.source_digests(benchmark));
        // Compare the benchmark's own parts if they are known on both sides; otherwise, compare
        // whole files. Files may differ in parts that the benchmark does not use.
        let digests = old.into_iter().zip(new).find_map(|(old, new)| Some((old?, new?)));
        let is_changed = digests.is_some_and(|(old, new)| old != new);
        (is_changed && !settings.with_own_benchmarks).then_some(WithheldReason::BenchmarkChanged)
    }
}

impl AnalysisFindings {
    /// Withholds the answers of all comparisons.
    pub fn withhold(&mut self, reason: &WithheldReason) {
        for comparison in &mut self.comparisons {
            (comparison.overall, comparison.is_typical) = (None, false);
            for row in &mut comparison.rows {
                row.withheld = Some(reason.clone());
                row.verdict = Verdict::Unclear;
                row.differs = false;
                (row.no_verdict, row.decided_at, row.more_runs) = (None, None, None);
                row.machines = None;
            }
        }
    }
}

impl fmt::Display for WithheldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WithheldReason::BenchmarkChanged => f.write_str("the benchmark itself changed"),
            WithheldReason::LoadsCheckout { is_both, files } => {
                let sides = if *is_both { "both sides load" } else { "one side loads" };
                write!(f, "{sides} {} from the checkout", files.join(", "))
            }
            WithheldReason::HasNotEnded(number) => {
                write!(f, "@{number} has not ended: no verdict yet")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{self, FailOn, GateAnswer};
    use crate::{analyze_session, compare_sources};
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{Run, Session};

    fn story(works: [&str; 2]) -> Session {
        let value = |variant: &str, run: u32| {
            let base = if variant == "old" { 100.0 } else { 200.0 };
            base + f64::from(run)
        };
        let story = FakeSession::with_fixed_blocks(&["old", "new"], 8).add_case("g/a", value);
        let mut session = story.add_case("g/b", value).build();
        for (variant, work) in session.variants.iter_mut().zip(works) {
            variant.work.insert("g/a".to_owned(), work.to_owned());
        }
        session
    }

    fn answers(
        session: &Session,
        settings: &AnalysisSettings,
    ) -> Vec<(Verdict, Option<WithheldReason>)> {
        let rows = analyze_session(session, settings).comparisons.remove(0).rows.into_iter();
        rows.map(|row| (row.verdict, row.withheld)).collect()
    }

    #[test]
    fn only_the_benchmark_that_changed_has_no_verdict() {
        let session = story(["one", "two"]);
        let found = answers(&session, &AnalysisSettings::default());
        let changed = (Verdict::Unclear, Some(WithheldReason::BenchmarkChanged));
        assert_eq!(found[0], changed);
        assert_ne!(found[1].0, Verdict::Unclear);
        assert_eq!(found[1].1, None);
        let settings =
            AnalysisSettings { with_own_benchmarks: true, ..AnalysisSettings::default() };
        let found = answers(&session, &settings);
        assert_eq!(found[0], found[1]);
        let same = answers(&story(["one", "one"]), &AnalysisSettings::default());
        assert_eq!(same[0], same[1]);
    }

    #[test]
    fn withheld_rows_do_not_count_in_gates_or_for_the_overall_change() {
        let session = story(["one", "two"]);
        let comparison =
            analyze_session(&session, &AnalysisSettings::default()).comparisons.remove(0);
        assert_eq!(comparison.rows[0].gate_verdicts().count(), 0);
        assert_eq!(comparison.rows_with_verdict(Verdict::Unclear).count(), 0);
        assert_eq!(comparison.overall, None, "a single case has no overall change");
        assert_eq!(comparison.rows[0].more_runs, None);
    }

    #[test]
    fn whole_benchmark_files_are_compared_if_nothing_finer_is_known() {
        let with_file = |work: &str| {
            let mut session = story(["one", "one"]);
            session.variants.iter_mut().for_each(|own| own.work.clear());
            session.design.work.insert("g/a".to_owned(), work.to_owned());
            session.id = work.to_owned();
            session
        };
        let (old, new) = (with_file("x"), with_file("y"));
        let sources = [("old", &old), ("new", &new)];
        let sources =
            sources.map(|(label, session)| (label.to_owned(), session, Some("old".to_owned())));
        let found = compare_sources(&sources, &AnalysisSettings::default());
        let withheld: Vec<_> = found.comparisons[0].rows.iter().map(|row| &row.withheld).collect();
        assert_eq!(withheld, [&Some(WithheldReason::BenchmarkChanged), &None]);
    }

    #[test]
    fn a_session_that_has_not_ended_has_no_verdict_and_cannot_be_judged() {
        let mut found = analyze_session(&story(["one", "one"]), &AnalysisSettings::default());
        found.withhold(&WithheldReason::HasNotEnded(7));
        let comparison = &found.comparisons[0];
        assert_eq!((comparison.typical(), comparison.range()), (None, None));
        for row in &comparison.rows {
            assert_eq!((row.verdict, row.gate_verdicts().count()), (Verdict::Unclear, 0));
        }
        let outcome = gate::judge_findings(&found, FailOn::Worse, None).unwrap();
        assert_eq!(outcome.to_answer(), GateAnswer::CannotJudge);
        let line = outcome.to_line();
        assert!(line.contains("@7 has not ended: no verdict yet in 2 cases"), "{line}");
    }

    #[test]
    fn a_side_that_loads_the_checkout_has_no_verdict() {
        let mut session = story(["one", "one"]);
        for variant in &mut session.variants {
            variant.checkout_files = vec!["lib/k.js".to_owned()];
        }
        let reasons = |session: &Session| -> Vec<String> {
            let found = answers(session, &AnalysisSettings::default());
            let withheld = found.iter().flat_map(|(_, reason)| reason);
            withheld.map(WithheldReason::to_string).collect()
        };
        assert_eq!(reasons(&session), ["both sides load lib/k.js from the checkout"; 2]);
        // Here only one side loads files from the checkout, in one of its runs of one benchmark.
        let mut session = story(["one", "one"]);
        let strays = ["lib/a.js", "lib/b.js"].map(str::to_owned);
        let mut runs = session.runs.iter_mut();
        let run = runs.rfind(|run| run.case.benchmark == "g/b" && &*run.variant == "new");
        run.unwrap().notes.push(Run::stray_note(&strays));
        assert_eq!(reasons(&session), ["one side loads lib/a.js, lib/b.js from the checkout"]);
    }
}
