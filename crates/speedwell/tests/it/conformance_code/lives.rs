//! Life cycle of jobs and workers: what runs when, with which values, and which events are sent.

use super::super::busy::{ensure_holds, retry_busy};
use super::super::code_driver::CodeHarness;
use std::time::{Duration, Instant};

pub fn says_what_it_offers(harness: &CodeHarness) {
    let mut talk = harness.start(harness.snippets.empty).unwrap();
    let answer = talk.send_and_wait("hello", &[("proto", "1")]);
    let offered = answer.only("ready").list("caps");
    for ability in ["continuous", "timed", "workers", "monitor"] {
        assert!(offered.iter().any(|one| one == ability), "{ability} in {offered:?}");
    }
    let awaits = offered.iter().any(|one| one == "async");
    assert_eq!(awaits, harness.snippets.awaited_20_ms.is_some());
    harness.reuse(talk);
}

pub fn hands_values_from_hook_to_hook(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.hooks);
    talk.workers("a", 2);
    talk.measure_windows("a", 20, 2);
    let answer = talk.measure_samples("a", 10, 2);
    assert_eq!(answer.verbs(), "timed end", "{answer:?}");
    let (ended, mut trace) = talk.quit();
    assert_eq!(ended.code, Some(0));
    assert_eq!(trace.remove(0), "init", "once and before everything else");
    assert_eq!(trace.pop().as_deref(), Some("done 1000"), "once and at the end");
    trace.sort();
    let of_workers = ["runner 1000", "turn 1000", "turn 1001", "turn 1002"];
    let expected: Vec<&str> = of_workers.iter().flat_map(|line| [*line; 2]).collect();
    assert_eq!(trace, expected);
}

pub fn initialises_new_workers_only(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.keeper);
    let mut known = 0;
    // Requested workers, and workers created so far.
    for (wanted, made) in [(3, 3), (1, 3), (2, 4), (2, 4)] {
        let answer = talk.workers("a", wanted);
        assert_eq!(answer.only("workers").number("n"), f64::from(wanted));
        assert_eq!(
            talk.count_traced("runner"),
            made,
            "init_runner is over when `workers` is answered"
        );
        let answer = talk.measure_windows("a", 20, 1);
        assert_eq!(answer.all("worker").len(), wanted as usize);
        assert_eq!(talk.count_traced("first"), made, "the state of {known} workers was kept");
        known = made;
    }
    let trace = harness.reuse(talk);
    assert_eq!(trace.iter().filter(|line| *line == "done").count(), 1);
}

pub fn keeps_the_workers_of_two_jobs_in_turn(harness: &CodeHarness) {
    if !harness.takes_several() {
        return;
    }
    let mut talk = harness.with(harness.snippets.keeper);
    talk.load("b", harness.snippets.keeper).only("loaded");
    for turn in 0..20 {
        let answer = talk.measure_windows(["a", "b"][turn % 2], 5, 1);
        assert_eq!(answer.verbs(), "worker end");
    }
    assert_eq!((talk.count_traced("runner"), talk.count_traced("first")), (2, 2));
    harness.reuse(talk);
}

pub fn measures_two_jobs_at_the_same_time(harness: &CodeHarness) {
    if !harness.takes_several() {
        return;
    }
    let mut talk = harness.with(harness.snippets.sleep_20_ms);
    talk.load("b", harness.snippets.keeper).only("loaded");
    for job in ["a", "b"] {
        talk.workers(job, 1).only("workers");
    }
    retry_busy(4, || {
        let answer = talk.measure_windows("a,b", 60, 3);
        let workers = answer.all("worker");
        let mut jobs: Vec<String> = workers.iter().map(|worker| worker.text("job")).collect();
        jobs.sort();
        assert_eq!(jobs, ["a", "b"]);
        let end = answer.only("end");
        assert_eq!(end.list("jobs"), ["a", "b"]);
        // Run one after the other, both would have lasted this long together.
        let both_ns: f64 = workers.iter().map(|one| one.numbers("t_ns")[3]).sum();
        let whole_ns = end.number("elapsed_ns");
        ensure_holds(whole_ns < both_ns, || format!("{whole_ns} ns, both {both_ns} ns"))
    });
    let again = talk.measure_samples("b,a", 2, 1);
    assert_eq!(again.verbs(), "timed timed end");
    harness.reuse(talk);
}

pub fn carries_every_text_unchanged(harness: &CodeHarness) {
    let talk = harness.with(harness.snippets.awkward);
    assert_eq!(harness.reuse(talk), ["\t100 %, %41 é😀 a=b,c"]);
}

pub fn finds_modules_where_it_is_told(harness: &CodeHarness) {
    let Some(module) = &harness.snippets.module else {
        return;
    };
    let mut talk = harness.start(module.snippet).unwrap();
    let answer = talk.load_from("a", module.snippet, module.file, module.text);
    answer.only("loaded");
    assert_eq!(harness.reuse(talk), ["answer 42"]);
}

pub fn shows_gauges_while_it_measures(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.keeper);
    let hello = talk.send_and_wait("hello", &[("proto", "1")]);
    let declared = hello.only("ready").list("gauges");
    let names: Vec<&str> =
        declared.iter().map(|gauge| gauge.split_once(':').expect("name:unit").0).collect();
    assert!(!names.is_empty());
    let first = talk.send_and_wait("monitor", &[("interval_ns", "50000000")]);
    let id = first.only("gauge").text("id");
    // A delayed harness skips gauges, and repeats the last value of what it could not count.
    retry_busy(2, || {
        let begin = Instant::now();
        talk.aside.clear();
        talk.measure_windows("a", 200, 2);
        let gauges: Vec<_> = talk.aside.drain(..).filter(|one| one.verb == "gauge").collect();
        for gauge in &gauges {
            assert_eq!(gauge.text("id"), id);
            assert!(names.iter().all(|name| gauge.number(name).is_finite()));
        }
        let counts: Vec<f64> = gauges.iter().map(|gauge| gauge.number("job.a")).collect();
        // Every 50 ms of 400 ms, or of the actual duration.
        let most = begin.elapsed().as_millis() as usize / 50 + 2;
        let is_growing = counts.is_sorted() && counts.first() < counts.last();
        ensure_holds((2..=most).contains(&counts.len()) && is_growing, || {
            format!("{counts:?}, at most {most}")
        })
    });
    talk.send_command("monitor", &[("interval_ns", "0")]);
    talk.workers("a", 1);
    talk.aside.clear();
    std::thread::sleep(Duration::from_millis(150));
    talk.workers("a", 1);
    assert!(talk.aside.iter().all(|event| event.verb != "gauge"), "{:?}", talk.aside);
    harness.reuse(talk);
}

pub fn shows_samples_while_it_measures(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.keeper);
    talk.workers("a", 2);
    let fields = [
        ("jobs", "a"),
        ("mode", "continuous"),
        ("interval_ns", "60000000"),
        ("samples", "3"),
        ("warmup_ns", "60000000"),
        ("stream", "1"),
    ];
    let answer = talk.send_and_wait("run", &fields);
    let samples = answer.all("sample");
    let told: Vec<(f64, f64)> =
        samples.iter().map(|sample| (sample.number("k"), sample.number("workers"))).collect();
    assert_eq!(told, [(0.0, 2.0), (1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]);
    let workers = answer.all("worker");
    for (k, sample) in samples.iter().enumerate() {
        let counted: f64 = workers.iter().map(|worker| worker.numbers("count")[k]).sum();
        assert_eq!(sample.number("count"), counted, "of all workers together");
        assert!(sample.number("t_ns") >= 60e6 && sample.number("late_ns") >= 0.0);
    }
    assert!(workers.iter().all(|worker| worker.numbers("t_ns")[0] >= 60e6), "the warm-up");
    let place = |verb| answer.events.iter().position(|event| event.verb == verb);
    assert!(place("sample") < place("worker"));
    harness.reuse(talk);
}

pub fn undoes_what_is_unloaded(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.hooks);
    talk.measure_windows("a", 10, 1);
    assert_eq!(talk.count_traced("done"), 0);
    assert_eq!(talk.send_and_wait("unload", &[("job", "a")]).verbs(), "unloaded");
    assert_eq!(talk.count_traced("done 1000"), 1);
    let refused = talk.measure_windows("a", 10, 1);
    assert_eq!(refused.only("error").text("stage"), "protocol");
    let (ended, trace) = talk.quit();
    assert_eq!(ended.code, Some(0));
    assert_eq!(trace.iter().filter(|line| line.starts_with("done")).count(), 1);
}
