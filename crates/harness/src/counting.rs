//! Instructions of a case, counted by callgrind, a tool of valgrind: the same number every time where the same work is
//! done at the same addresses. It says nothing of waiting, of the kernel, of caches and of branches.
//!
//! Harnesses in C, C++ and Rust mark what is to be counted by client requests (`harness/c/requests.h`). Decides what
//! surrounds the process, so that nothing of it differs between runs. Start at [`check`] and [`perform`].

use crate::attempt::invalid;
use crate::events::Events;
use crate::job::{Job, Kind, Setting};
use crate::{Attempt, Observation};
use speedwell_model::{Better, Cause, Counting, Language, Length, Metric, Samples};
use speedwell_process::{Scratch, Spec, resolve, run};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Whether instructions of this kind of benchmark can be counted.
///
/// # Errors
/// Why not.
pub fn check(kind: Kind) -> Result<(), &'static str> {
    use Language::*;
    match kind {
        Kind::Cpp | Kind::Program | Kind::Snippet(C | Cpp | Rust) => Ok(()),
        Kind::Python | Kind::Snippet(Python) => Err(
            "its interpreter would be counted with it, and its harness, which looks at the clock",
        ),
        Kind::Snippet(Go) => Err("its runtime does not run under valgrind (3.19 ends in a crash)"),
        Kind::Snippet(Java | Erlang | Elixir | Node) | Kind::Node | Kind::NodeCore => {
            Err("its virtual machine compiles while it runs, and how much depends on time")
        }
        Kind::Snippet(Sh) => Err("a shell starts other processes, which are not counted"),
        Kind::Suite => Err("the program decides by the clock how much it does"),
        Kind::Load | Kind::Experiment => Err("what it does depends on when requests come in"),
        Kind::Fake => Err("no program is behind made-up numbers"),
    }
}

/// What a case is counted with.
pub(super) struct Counted<'a> {
    pub job: &'a Job,
    pub setting: &'a Setting<'a>,
    pub counting: &'a Counting,
    /// The process of the harness.
    pub spec: &'a Spec,
    /// What repeats it by hand.
    pub plain: &'a Spec,
}

/// What a harness said of a case.
pub(super) type Said = (Option<Observation>, Option<Cause>);

/// Performs one case and counts its instructions; `commands` are those for such samples, `observe` says what
/// the answers mean.
pub(super) fn perform(
    of: &Counted<'_>,
    commands: &dyn Fn(&Samples) -> Events,
    observe: &dyn Fn(&Events) -> Said,
) -> Attempt {
    let (job, setting) = (of.job, of.setting);
    let refused = |reason: &str| Attempt::refused(of.plain, reason, job, setting);
    let Length::Iterations(iterations) = setting.samples.length else {
        return refused("a number of iterations is needed to count instructions");
    };
    let prepared = Scratch::new().and_then(|folder| {
        let spec = under_callgrind(of, folder.folder())?;
        Ok((folder, spec))
    });
    let (folder, spec) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return refused(&format!("{error:#}")),
    };
    let mut events = commands(&Samples {
        count: 1,
        length: Length::Iterations(iterations),
        warmup_ns: 0,
    });
    let outcome = match run(&spec, &mut events) {
        Ok(outcome) => outcome,
        Err(error) => return Attempt::not_started(&spec, &error, job, setting),
    };
    let (seen, fault) = observe(&events);
    let read = |name: &str| Counts::parse(&fs::read_to_string(folder.folder().join(name)).ok()?);
    // The first part is that of a section without anything in it.
    let counts = read("counts.2").zip(read("counts.1"));
    let mut attempt = Attempt::new(
        of.plain,
        &outcome,
        seen.into_iter().collect(),
        fault,
        job,
        setting,
    );
    match counts {
        Some((all, empty)) => {
            let counts = all.without(&empty);
            for seen in &mut attempt.observations {
                counts.add_to(seen, iterations, of.counting);
            }
        }
        None if attempt.failure.is_some() || attempt.interrupted => attempt.observations.clear(),
        None => {
            return refused(
                "callgrind counted nothing: the program does not mark what is measured",
            );
        }
    }
    // What the kernel says of a process under valgrind says nothing of the benchmark.
    attempt.usage = None;
    if of.counting.times && attempt.failure.is_none() && !attempt.interrupted {
        return at_full_speed(of, iterations, commands, observe, attempt);
    }
    attempt
}

/// Adds the times of the same case to what was counted of it.
fn at_full_speed(
    of: &Counted<'_>,
    iterations: u64,
    commands: &dyn Fn(&Samples) -> Events,
    observe: &dyn Fn(&Events) -> Said,
    mut counted: Attempt,
) -> Attempt {
    let (job, setting) = (of.job, of.setting);
    let mut events = commands(&Samples {
        count: TIMED,
        length: Length::Iterations(iterations),
        warmup_ns: WARMUP_NS,
    });
    let outcome = match run(of.spec, &mut events) {
        Ok(outcome) => outcome,
        Err(error) => return Attempt::not_started(of.spec, &error, job, setting),
    };
    let (seen, fault) = observe(&events);
    let seen = seen.into_iter().collect();
    let mut timed = Attempt::new(of.plain, &outcome, seen, fault, job, setting);
    if timed.failure.is_some() || timed.interrupted {
        timed.observations.clear();
        return timed;
    }
    let is_time = |name: &str| Metric::TIMES.contains(&name);
    for (counted, timed) in counted.observations.iter_mut().zip(timed.observations) {
        let (samples, metrics) = (timed.samples.into_iter(), timed.metrics.into_iter());
        (counted.samples).extend(samples.filter(|sample| is_time(&sample.metric)));
        (counted.metrics).extend(metrics.filter(|metric| is_time(&metric.name)));
    }
    counted
}

/// Samples at full speed, each with the iterations that are counted, and the time of the warm-up before them.
const TIMED: u32 = 10;
const WARMUP_NS: u64 = 10_000_000;

/// The caches of the model: those of no processor in particular, so that figures do not depend on the machine.
const CACHES: [&str; 4] = [
    "--cache-sim=yes",
    "--I1=32768,8,64",
    "--D1=32768,8,64",
    "--LL=8388608,16,64",
];

/// What every process sees besides the variables of its variant.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", "/"),
    ("LANG", "C"),
];

/// The process of the harness under callgrind, started through a link whose path always has the same length: the name of
/// a program lies on its stack, and moves what comes after it.
fn under_callgrind(of: &Counted<'_>, folder: &Path) -> anyhow::Result<Spec> {
    let link = folder.join("program");
    symlink(resolve(&of.spec.program)?, &link)?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut arguments = vec![
        "--tool=callgrind".to_owned(),
        format!("--callgrind-out-file={}", text(&folder.join("counts"))),
        "--collect-atstart=no".to_owned(),
        "--quiet".to_owned(),
    ];
    if of.counting.cache_model {
        arguments.extend(CACHES.map(str::to_owned));
    }
    arguments.push(text(&link));
    arguments.extend(of.spec.arguments.iter().cloned());
    let fixed = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let own = of.spec.environment.iter().cloned();
    Ok(Spec {
        program: PathBuf::from("valgrind"),
        arguments,
        environment: fixed.into_iter().chain(own).collect(),
        is_fixed: true,
        ..of.spec.clone()
    })
}

/// Events that callgrind counted, by its names for them (Callgrind Format Specification).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Counts(Vec<(String, u64)>);

impl Counts {
    /// From one of its files: the names stand in the line `events:`, the sums in `totals:`, where zeros at the end are
    /// left out.
    fn parse(text: &str) -> Option<Counts> {
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let names = line("events:")?.split_whitespace();
        let mut sums = line("totals:")?.split_whitespace().map(str::parse);
        let counts = names.map(|name| Some((name.to_owned(), sums.next().unwrap_or(Ok(0)).ok()?)));
        counts.collect::<Option<_>>().map(Counts)
    }

    fn count_of(&self, name: &str) -> u64 {
        let known = self.0.iter().find(|(known, _)| known == name);
        known.map_or(0, |(_, count)| *count)
    }

    fn without(&self, other: &Counts) -> Counts {
        let rest = self.0.iter();
        let rest =
            rest.map(|(name, count)| (name.clone(), count.saturating_sub(other.count_of(name))));
        Counts(rest.collect())
    }

    /// Accesses that each level of the model's memory answers, at 1, 5 and 35 cycles: the weights of cachegrind's
    /// authors for an estimate, made popular by iai.
    fn cycles_estimate(&self) -> u64 {
        let sum = |names: [&str; 3]| names.iter().map(|name| self.count_of(name)).sum::<u64>();
        let all = sum(["Ir", "Dr", "Dw"]);
        let missed = sum(["I1mr", "D1mr", "D1mw"]);
        let memory = sum(["ILmr", "DLmr", "DLmw"]);
        all.saturating_sub(missed) + 5 * missed.saturating_sub(memory) + 35 * memory
    }

    /// Puts what was counted in the place of every time: those of a process under valgrind mean nothing.
    fn add_to(&self, seen: &mut Observation, iterations: u64, counting: &Counting) {
        seen.samples.clear();
        seen.metrics.clear();
        let each = |count: u64| count as f64 / iterations as f64;
        seen.add(
            Metric::new(Metric::INSTRUCTIONS, "1", Better::Lower),
            each(self.count_of("Ir")),
        );
        if counting.cache_model {
            seen.add(
                Metric::new(Metric::CYCLES_ESTIMATE, "1", Better::Lower),
                each(self.cycles_estimate()),
            );
        }
    }
}

/// That a process said nothing.
pub(super) fn nothing_said() -> Cause {
    invalid("its harness did not say that the case was performed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of callgrind 3.19: nothing is written for the events at the end that did not occur.
    const PART: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npart: 2\n\n\
        events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\nsummary: 6031 1006 1012\n\nfn=(1) main\n3 6031 1006 1012\n\n\
        totals: 6031 1006 1012\n";

    #[test]
    fn counts_are_the_totals_of_a_part_without_those_of_an_empty_one() {
        let part = Counts::parse(PART).unwrap();
        assert_eq!(
            (
                part.count_of("Ir"),
                part.count_of("Dw"),
                part.count_of("DLmw")
            ),
            (6031, 1012, 0)
        );
        let empty = Counts::parse("events: Ir\ntotals: 20\n").unwrap();
        let rest = part.without(&empty);
        assert_eq!((rest.count_of("Ir"), rest.count_of("Dr")), (6011, 1006));
        assert_eq!(Counts::parse("events: Ir\n"), None);
        assert_eq!(Counts::parse("events: Ir\ntotals: many\n"), None);
    }

    #[test]
    fn cycles_are_estimated_from_what_each_level_answers() {
        let text =
            "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\ntotals: 1000 300 200 10 20 30 1 2 3\n";
        // 1500 accesses, 60 not in the first level, 6 of them not in the last.
        assert_eq!(
            Counts::parse(text).unwrap().cycles_estimate(),
            1440 + 5 * 54 + 35 * 6
        );
    }

    #[test]
    fn what_cannot_be_counted_says_why() {
        use Language::*;
        for kind in [
            Kind::Cpp,
            Kind::Program,
            Kind::Snippet(Rust),
            Kind::Snippet(C),
        ] {
            assert_eq!(check(kind), Ok(()));
        }
        for (kind, reason) in [
            (Kind::Snippet(Java), "compiles while it runs"),
            (Kind::NodeCore, "compiles while it runs"),
            (Kind::Snippet(Go), "does not run under valgrind"),
            (Kind::Snippet(Python), "its interpreter would be counted"),
            (Kind::Load, "when requests come in"),
            (Kind::Snippet(Sh), "starts other processes"),
        ] {
            assert!(
                check(kind).is_err_and(|said| said.contains(reason)),
                "{kind:?}"
            );
        }
    }
}
