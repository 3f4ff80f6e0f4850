//! Section "Conformance" of docs/reference/protocol.md: one suite, run unchanged for every harness.
//!
//! The benchmarks are in `tests/conformance`, the same ones in every language. A language without
//! tools is skipped.

use super::busy::{ensure_holds, retry_busy};
use super::harness_driver::{TestHarness, encode_value};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const HELLO: &str = "hello\tid=1\tproto=1\tfuture=ignored\n";
const ONCE: &str = "run\tid=4\tjobs=a\tmode=once\n";

/// Texts that break careless framing.
const AWKWARD: [&str; 7] =
    ["tab\there", "line\nfeed", "100 %", "%41", "del\x7f", "é😀, a=b", "c,d"];

/// Whether the harness owns the loop of benchmark files; if not, it measures them once.
/// `ready` does not tell, because its capabilities may apply to code only.
fn is_timed(harness: &TestHarness) -> bool {
    static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    let command_line = harness.command_line();
    let known = KNOWN.lock().unwrap().get(&command_line).copied();
    let is_timed = known.unwrap_or_else(|| describes_timed_mode(harness));
    KNOWN.lock().unwrap().insert(command_line, is_timed);
    is_timed
}

fn describes_timed_mode(harness: &TestHarness) -> bool {
    let ended = harness.converse(&[harness.describe("answer", "")]);
    let benchmarks = ended.all("benchmark");
    benchmarks.iter().any(|benchmark| benchmark.list("modes").contains(&"timed".to_owned()))
}

fn says_what_it_is(harness: &TestHarness) {
    let ended = harness.converse(&["hello\tid=x%251\tproto=1\tfuture=ignored\n".into()]);
    let ready = ended.only("ready");
    assert_eq!((ready.text("id").as_str(), ready.text("proto").as_str()), ("x%1", "1"));
    assert!(!ready.text("lang").is_empty() && !ready.text("version").is_empty());
    assert!(ready.number("cpus") >= 1.0 && ready.number("clock_res_ns") > 0.0);
    assert!(ready.list("caps").contains(&"once".to_owned()), "{ready:?}");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
}

fn refuses_another_version_and_ends(harness: &TestHarness) {
    let ended = harness.converse(&["hello\tid=1\tproto=2\n".into(), HELLO.into()]);
    let error = ended.only("error");
    assert_eq!((error.text("stage").as_str(), error.text("fatal").as_str()), ("protocol", "1"));
    assert_eq!((ended.verbs().as_str(), ended.code), ("error", Some(0)));
}

fn goes_on_after_what_it_does_not_understand(harness: &TestHarness) {
    let wrong = [
        "dance\tid=5\n",
        "run\tid=6\tjobs=a\tmode=once\n",
        "load\tid=7\n",
        "unload\tid=8\tjob=a\n",
    ];
    let mut commands: Vec<String> = wrong.map(str::to_owned).to_vec();
    commands.push(HELLO.into());
    let ended = harness.converse(&commands);
    let errors = ended.all("error");
    let told: Vec<_> = errors.iter().map(|error| (error.text("id"), error.text("stage"))).collect();
    let expected = ["5", "6", "7", "8"].map(|id| (id.to_owned(), "protocol".to_owned()));
    assert_eq!(told, expected);
    assert_eq!((ended.events.last().unwrap().verb.as_str(), ended.code), ("ready", Some(0)));
}

fn carries_every_text_unchanged(harness: &TestHarness) {
    let words: Vec<String> =
        AWKWARD.iter().map(|text| encode_value(&format!("q={text}"))).collect();
    let described =
        harness.converse(&[harness.describe("echo", &format!("\targs={}", words.join(",")))]);
    let cases = described.all("case");
    let texts: Vec<String> = cases
        .iter()
        .filter(|case| case.text("benchmark").contains("echo"))
        .map(|case| case.list("args")[0].clone())
        .collect();
    assert_eq!(texts, AWKWARD.map(|text| format!("q={text}")));
    let jobs = ["a", "b", "c", "d", "e", "f", "g"];
    let mut commands: Vec<String> = Vec::new();
    for (job, text) in jobs.iter().zip(AWKWARD) {
        let value = format!("\tvalue.q={}", encode_value(text));
        commands.push(harness.load(job, "echo", &value));
    }
    commands.push(format!("run\tid=4\tjobs={}\tmode=once\n", jobs.join(",")));
    let ended = harness.converse(&commands);
    let checks = ended.all("check");
    let texts: Vec<String> = checks.iter().map(|check| check.text("text")).collect();
    assert_eq!(texts, AWKWARD);
}

fn describes_without_measuring(harness: &TestHarness) {
    let ended = harness.converse(&[harness.describe("kinds", "\tfuture=ignored")]);
    let all = ended.all("benchmark");
    let benchmark = all.iter().find(|one| one.text("name").contains("zoo/kinds")).unwrap();
    let kinds = ["n", "share", "flag", "q"].map(|name| benchmark.text(&format!("type.{name}")));
    assert_eq!(kinds, ["int", "float", "bool", "text"]);
    assert_eq!(benchmark.list("param.n"), ["5", "7"]);
    assert_eq!(benchmark.list("param.flag"), ["true", "false"]);
    let cases = ended.all("case");
    let of_kinds = cases.iter().filter(|one| one.text("benchmark") == benchmark.text("name"));
    assert_eq!(of_kinds.count(), 4);
    assert_eq!(ended.only("described").number("cases"), cases.len() as f64);
    assert_eq!((ended.stdout.as_str(), ended.code), ("", Some(0)), "nothing was measured");
}

fn takes_the_values_it_is_given(harness: &TestHarness) {
    let ended = harness.converse(&[harness.describe("kinds", "\targs=n=3,n=4,flag=true")]);
    let cases = ended.all("case");
    let of_kinds = cases.iter().filter(|one| one.text("benchmark").contains("zoo/kinds"));
    let given: Vec<bool> =
        of_kinds.map(|one| one.list("args").contains(&"flag=true".to_owned())).collect();
    assert_eq!(given, [true, true]);
    let wrong = harness.converse(&[harness.describe("kinds", "\targs=n=many")]);
    assert_eq!(wrong.all("described").len(), 0);
    assert!(wrong.only("error").text("msg").contains("bad argument: n=many"));
}

fn splits_long_lists(harness: &TestHarness) {
    // Long values, so that fewer are enough for three messages.
    let points: Vec<String> =
        (0..25_000_u64).map(|n| (1_000_000_000_000_000 + n).to_string()).collect();
    let words: Vec<String> = points.iter().map(|point| format!("point={point}")).collect();
    let ended =
        harness.converse(&[harness.describe("points", &format!("\targs={}", words.join(",")))]);
    let all = ended.all("benchmark");
    let parts: Vec<_> = all.iter().filter(|one| one.text("name").contains("zoo/points")).collect();
    assert!(parts.len() > 2, "{} messages", parts.len());
    let more: Vec<String> = parts.iter().map(|part| part.text("more")).collect();
    assert!(
        more[..more.len() - 1].iter().all(|flag| flag == "1") && more.last().unwrap().is_empty()
    );
    let joined: Vec<String> = parts.iter().flat_map(|part| part.list("param.point")).collect();
    assert!(joined == points, "{} values", joined.len());
}

fn refuses_cases_that_are_not_whole(harness: &TestHarness) {
    let loads = [
        ("kinds", "\tvalue.n=5"),
        ("answer", "\tvalue.n=many"),
        ("picky", "\tvalue.n=2"),
        ("picky", "\tvalue.n=1\tvalue.more=passed_on"),
    ];
    let loads = loads.map(|(benchmark, values)| harness.load("a", benchmark, values));
    let ended = harness.converse(&loads);
    let told = (ended.verbs(), ended.code);
    assert_eq!(told, ("error error error loaded".into(), Some(0)), "{ended:#?}");
}

fn measures_one_case_once(harness: &TestHarness) {
    let load = harness.load("a", "answer", "\tvalue.n=1000\tfuture=ignored");
    let ended = harness.converse(&[HELLO.into(), load, ONCE.into()]);
    let (once, end) = (ended.only("once"), ended.only("end"));
    assert_eq!((once.text("job").as_str(), once.text("id").as_str()), ("a", "4"));
    let rate = once.number("iterations") / (once.number("elapsed_ns") / 1e9);
    assert!((once.number("rate") / rate - 1.0).abs() < 1e-9, "{once:?}");
    assert!(end.number("elapsed_ns") >= once.number("elapsed_ns"));
    let metric = ended.only("metric");
    assert_eq!(["name", "unit", "better"].map(|key| metric.text(key)), ["weight", "B", "lower"]);
    assert_eq!(metric.number("value"), 64_000.0);
    assert_eq!(ended.only("check").text("text"), "sum 499500");
    assert_eq!(
        (end.list("jobs"), ended.code, ended.stdout.as_str()),
        (vec!["a".to_owned()], Some(0), "")
    );
}

fn goes_on_after_a_job_that_fails(harness: &TestHarness) {
    let load = |job, name| harness.load(job, name, "\tvalue.n=1");
    let run = "run\tid=4\tjobs=a,b\tmode=once\n".to_owned();
    let ended = harness.converse(&[load("a", "throws"), load("b", "answer"), run]);
    let error = ended.only("error");
    assert_eq!(["job", "stage", "msg"].map(|key| error.text(key)), ["a", "run", "bad\tluck"]);
    assert_eq!(ended.only("once").text("job"), "b");
    assert_eq!(
        (ended.only("end").list("jobs"), ended.code),
        (vec!["a".to_owned(), "b".to_owned()], Some(0))
    );
}

fn tells_a_failed_preparation_apart(harness: &TestHarness) {
    let load = harness.load("a", "unready", "\tvalue.n=1");
    let ended = harness.converse(&[load, ONCE.into()]);
    let error = ended.only("error");
    assert_eq!(["stage", "msg"].map(|key| error.text(key)), ["init", "no room"]);
    assert_eq!(ended.verbs(), "loaded error end");
}

fn dies_with_its_benchmark(harness: &TestHarness) {
    let load = harness.load("a", "dies", "\tvalue.n=1");
    let ended = harness.converse(&[HELLO.into(), load, ONCE.into()]);
    assert_eq!(
        (ended.verbs().as_str(), ended.signal),
        ("ready loaded", Some(Signal::KILL.as_raw()))
    );
}

fn ends_with_the_commands_when_idle(harness: &TestHarness) {
    let mut talk = harness.start();
    talk.send_lines(HELLO);
    talk.wait_for_event("ready");
    talk.close();
    assert_eq!(talk.end().code, Some(0));
}

fn ends_with_the_commands_in_a_run_without_end(harness: &TestHarness) {
    let mut talk = harness.start();
    talk.send_lines(&harness.load("a", "hangs", "\tvalue.n=1"));
    talk.send_lines(ONCE);
    talk.wait_for_event("loaded");
    std::thread::sleep(Duration::from_millis(100));
    talk.close();
    let ended = talk.end();
    assert_eq!((ended.verbs().as_str(), ended.code), ("", Some(0)));
}

fn stops_with_what_it_has(harness: &TestHarness) {
    let timed = is_timed(harness);
    let (name, values) = if timed { ("sleeps", "\tvalue.ms=20") } else { ("hangs", "\tvalue.n=1") };
    let mode = if timed { "timed\tsamples=100000\tloop=1\twarmup_ns=0" } else { "once" };
    let mut pause_ms = 100;
    retry_busy(1, || {
        // A busy machine may delay the start of the run by more than that.
        pause_ms *= 3;
        let begin = Instant::now();
        let mut talk = harness.start();
        talk.send_lines(&harness.load("a", name, values));
        talk.send_lines(&format!("run\tid=4\tjobs=a\tmode={mode}\n"));
        talk.wait_for_event("loaded");
        std::thread::sleep(Duration::from_millis(pause_ms));
        talk.send_lines("stop\tid=5\tjob=a\nquit\tid=6\n");
        let ended = talk.end();
        assert_eq!(ended.only("stopped").text("id"), "5");
        assert_eq!((ended.only("end").text("id").as_str(), ended.code), ("4", Some(0)));
        if !timed {
            return Ok(());
        }
        let timed = ended.all("timed");
        let samples = timed.first().map_or(0, |timed| timed.list("ns").len());
        let most = begin.elapsed().as_millis() as usize / 20 + 1;
        assert!(samples <= most, "{samples} samples of 20 ms, at most {most}");
        ensure_holds(samples >= 2, || format!("{samples} samples: {ended:#?}"))
    });
}

fn tells_the_processor_time_of_what_it_measured(harness: &TestHarness) {
    let load = harness.load("a", "answer", "\tvalue.n=3000000");
    let ended = harness.converse(&[load, ONCE.into()]);
    assert!(ended.only("once").number("cpu_ns") > 0.0, "{ended:#?}");
}

fn times_a_known_sleep(harness: &TestHarness) {
    if is_timed(harness) {
        // A busy machine makes sleeping longer, at times by milliseconds.
        retry_busy(2, || sleep_of_20_ms(harness));
    }
}

fn sleep_of_20_ms(harness: &TestHarness) -> Result<(), String> {
    let load = harness.load("a", "sleeps", "\tvalue.ms=20");
    let run = "run\tid=4\tjobs=a\tmode=timed\tsamples=6\tloop=3\twarmup_ns=0\n".to_owned();
    let ended = harness.converse(&[load, run]);
    let timed = ended.only("timed");
    let times = timed.numbers("ns");
    assert_eq!(
        (times.len(), timed.list("loop"), timed.text("workers").as_str()),
        (6, vec!["3".to_owned()], "1")
    );
    let (cpu_ns, wall_ns): (f64, f64) = (timed.numbers("cpu_ns").iter().sum(), times.iter().sum());
    assert_eq!(timed.list("cpu_ns").len(), times.len());
    assert!(cpu_ns < wall_ns / 2.0, "{cpu_ns} ns of work in {wall_ns} ns of sleep");
    // The smallest is the least disturbed.
    let least = times.iter().copied().fold(f64::INFINITY, f64::min) / 3e6;
    assert!(least >= 20.0, "{least} ms per iteration of 20 ms");
    let whole = ended.only("end").number("elapsed_ns");
    let measured: f64 = times.iter().sum();
    // Beyond the samples a busy machine may take longer, but not by seconds.
    assert!(
        (measured..measured + 3e9).contains(&whole),
        "{whole} ns in all, {measured} in samples"
    );
    assert_eq!(ended.stdout.trim(), "undone");
    ensure_holds(least < 25.0, || format!("{least} ms per iteration of 20 ms"))
}

fn records_a_series_with_its_reference_loop(harness: &TestHarness) {
    if !is_timed(harness) {
        return;
    }
    let load = harness.load("a", "answer", "\tvalue.n=1");
    let run = "run\tid=4\tjobs=a\tmode=series\tsamples=30000\tloop=1\treference=10000\n".to_owned();
    let ended = harness.converse(&[load, run]);
    let mut parts = ended.all("timed").into_iter().cloned();
    let mut timed = parts.next().unwrap();
    parts.for_each(|next| timed.continue_with(next));
    assert_eq!(timed.list("ns").len(), 30_000);
    assert_eq!(timed.list("cpu_ns").len(), 30_000);
    assert_eq!(timed.list("loop"), ["1"]);
    let reference_ns = timed.numbers("reference_ns");
    assert_eq!(reference_ns.len(), 3);
    assert!(reference_ns.iter().all(|ns| *ns > 20e3), "{reference_ns:?}");
}

fn adapts_the_iterations_to_the_time(harness: &TestHarness) {
    if is_timed(harness) {
        // A delay while calibrating the number of iterations leads to too few.
        retry_busy(2, || samples_of_10_ms(harness));
    }
}

fn samples_of_10_ms(harness: &TestHarness) -> Result<(), String> {
    let load = harness.load("a", "answer", "\tvalue.n=10");
    let run = "run\tid=4\tjobs=a\tmode=timed\tsamples=5\tsample_ns=10000000\twarmup_ns=30000000\n"
        .to_owned();
    let ended = harness.converse(&[load, run]);
    let mut times = ended.only("timed").numbers("ns");
    times.sort_by(f64::total_cmp);
    assert!(ended.only("end").number("elapsed_ns") > 30e6);
    assert_eq!(ended.only("metric").list("value").len(), 5, "one value for each sample");
    // A busy machine makes it longer.
    ensure_holds((3e6..60e6).contains(&times[2]), || format!("samples of 10 ms took {times:?} ns"))
}

fn undoes_what_it_prepared_when_the_commands_end(harness: &TestHarness) {
    if !is_timed(harness) {
        return;
    }
    let mut pause_ms = 100;
    retry_busy(1, || {
        // Whatever a busy machine has not prepared by then needs no cleanup.
        let mut talk = harness.start();
        talk.send_lines(&harness.load("a", "sleeps", "\tvalue.ms=20"));
        talk.send_lines("run\tid=4\tjobs=a\tmode=timed\tsamples=100000\tloop=1\twarmup_ns=0\n");
        talk.wait_for_event("loaded");
        std::thread::sleep(Duration::from_millis(pause_ms));
        pause_ms *= 5;
        talk.close();
        let ended = talk.end();
        assert_eq!(ended.code, Some(0));
        ensure_holds(ended.stdout.trim() == "undone", || format!("{ended:#?}"))
    });
}

/// One test of each name for each language.
macro_rules! suite {
    ($($name:ident)*) => {
        suite!(@of node $($name)*);
        suite!(@of bun $($name)*);
        suite!(@of deno $($name)*);
        suite!(@of cpp $($name)*);
        suite!(@of python $($name)*);
    };
    (@of $language:ident $($name:ident)*) => {
        mod $language {
            $(#[test]
            fn $name() {
                if let Some(harness) = super::TestHarness::of(stringify!($language)) {
                    super::$name(&harness);
                }
            })*
        }
    };
}

suite! {
    says_what_it_is
    refuses_another_version_and_ends
    goes_on_after_what_it_does_not_understand
    carries_every_text_unchanged
    describes_without_measuring
    takes_the_values_it_is_given
    splits_long_lists
    refuses_cases_that_are_not_whole
    measures_one_case_once
    goes_on_after_a_job_that_fails
    tells_a_failed_preparation_apart
    dies_with_its_benchmark
    ends_with_the_commands_when_idle
    ends_with_the_commands_in_a_run_without_end
    stops_with_what_it_has
    tells_the_processor_time_of_what_it_measured
    times_a_known_sleep
    records_a_series_with_its_reference_loop
    adapts_the_iterations_to_the_time
    undoes_what_it_prepared_when_the_commands_end
}
