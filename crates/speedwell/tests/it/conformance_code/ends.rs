//! How measurements end: by errors of the code, by command, by end of input, by a signal.

use super::super::busy::{ensure_holds, retry_busy};
use super::super::code_driver::{CodeAnswer, CodeHarness};
use super::super::code_snippets::{TestFault, TestSnippet};
use super::super::harness_driver::HarnessEvent;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Proceeds to the first error: a language may detect a fault at `load` or later.
fn first_error(harness: &CodeHarness, fault: &TestFault) -> HarnessEvent {
    let found = |answer: &CodeAnswer| answer.all("error").first().map(|error| (*error).clone());
    let mut talk = match harness.start(fault.snippet) {
        Ok(talk) => talk,
        Err(refused) => return refused.only("error").clone(),
    };
    let loaded = talk.load("a", fault.snippet);
    let error = found(&loaded).or_else(|| found(&talk.workers("a", 1))).or_else(|| {
        let answer = talk.measure_windows("a", 10, 1);
        assert_eq!(answer.only("end").list("jobs"), ["a"], "a failed job is named as well");
        found(&answer)
    });
    let error = error.unwrap_or_else(|| panic!("no error of {:?}", fault.snippet));
    let hello = talk.send_and_wait("hello", &[("proto", "1")]);
    assert_eq!(hello.verbs(), "ready", "the conversation goes on");
    harness.reuse(talk);
    error
}

pub fn tells_where_code_is_wrong(harness: &CodeHarness) {
    for fault in harness.snippets.faults {
        let error = first_error(harness, fault);
        let told = (error.text("stage"), error.text("job"));
        assert_eq!(told, (fault.stage.into(), "a".into()), "{:?}: {error:?}", fault.snippet);
        assert!(error.text("msg").contains(fault.message), "{error:?}");
        assert!(!error.text("class").is_empty(), "{error:?}");
        if let Some(line) = fault.line {
            assert_eq!(error.text("line"), line.to_string(), "{:?}: {error:?}", fault.snippet);
        }
    }
}

pub fn goes_on_after_a_job_that_fails(harness: &CodeHarness) {
    if !harness.takes_several() {
        return;
    }
    let mut talk = harness.with(harness.snippets.failing);
    talk.load("b", harness.snippets.keeper).only("loaded");
    talk.workers("a", 2);
    let answer = talk.measure_windows("a,b", 30, 3);
    let error = answer.only("error");
    let told = ["job", "stage", "msg"].map(|key| error.text(key));
    assert_eq!([&*told[0], &*told[1]], ["a", "run"], "told once: {error:?}");
    assert!(told[2].contains("bad luck"), "{error:?}");
    let worker = answer.only("worker");
    assert_eq!((worker.text("job").as_str(), worker.numbers("count").len()), ("b", 4));
    assert_eq!(answer.only("end").list("jobs"), ["a", "b"]);
    let timed = talk.measure_samples("b", 3, 2);
    assert_eq!(timed.verbs(), "timed end", "the other job is as good as before");
    let (ended, trace) = talk.quit();
    assert_eq!(ended.code, Some(0));
    let undone = trace.iter().filter(|line| *line == "done").count();
    assert_eq!(undone, 2, "what was prepared for the failed job is undone, too");
}

pub fn keeps_its_figures_when_undoing_fails(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.failing_done);
    assert_eq!(talk.measure_windows("a", 10, 2).verbs(), "worker end");
    let answer = talk.send_and_wait("unload", &[("job", "a")]);
    let error = answer.only("error");
    assert_eq!((error.text("stage"), error.text("job")), ("done".into(), "a".into()));
    assert!(error.text("msg").contains("no room"), "{error:?}");
    harness.reuse(talk);
}

pub fn stops_with_what_it_has(harness: &CodeHarness) {
    for snippet in [harness.snippets.sleep_20_ms, harness.snippets.pure] {
        let mut pause_ms = 50;
        retry_busy(1, || {
            // On a busy machine a worker may wait for longer than a window.
            pause_ms *= 3;
            stopped_after(pause_ms, harness, snippet)
        });
    }
}

fn stopped_after(pause_ms: u64, harness: &CodeHarness, snippet: TestSnippet) -> Result<(), String> {
    let mut talk = harness.with(snippet);
    talk.workers("a", 2);
    let begin = Instant::now();
    let run = talk.send_windows("a", 40, 100_000);
    std::thread::sleep(Duration::from_millis(pause_ms));
    let stop = talk.send_command("stop", &[("job", "a")]);
    let answer = talk.answer_to(&run, "run");
    // Without the stop, the run would take more than an hour.
    let whole_ms = begin.elapsed().as_secs_f64() * 1e3;
    let said = talk.aside.iter().find(|event| event.verb == "stopped");
    assert_eq!(said.expect("'stopped' comes before 'end'").text("id"), stop);
    // On a busy machine, a worker may stand still until the harness gives it up.
    let given_up = answer.all("error");
    ensure_holds(given_up.is_empty(), || format!("{given_up:?}"))?;
    assert_eq!(talk.measure_windows("a", 20, 1).verbs(), "worker worker end", "it can go on");
    let workers = answer.all("worker");
    assert_eq!(workers.len(), 2);
    for worker in workers {
        let points = worker.numbers("t_ns");
        assert_eq!(points.len(), worker.numbers("count").len());
        assert!((points.len() as f64) < whole_ms / 40.0 + 2.0, "{points:?}");
        ensure_holds(points.len() >= 2, || format!("{points:?}"))?;
    }
    harness.reuse(talk);
    Ok(())
}

pub fn gives_up_a_runner_that_never_ends(harness: &CodeHarness) {
    let mut pause_ms = 100;
    retry_busy(1, || {
        let given_up = given_up_after(pause_ms, harness);
        pause_ms *= 5;
        given_up
    });
}

fn given_up_after(pause_ms: u64, harness: &CodeHarness) -> Result<(), String> {
    // Seconds of computing would prove no more.
    let snippets = harness.snippets;
    let endless = if harness.is_patient() { snippets.endless_sleep } else { snippets.endless };
    let mut talk = harness.with(endless);
    talk.workers("a", 1);
    let run = talk.send_windows("a", 50, 2);
    std::thread::sleep(Duration::from_millis(pause_ms));
    let begin = Instant::now();
    talk.send_command("stop", &[("job", "a")]);
    let answer = talk.answer_to(&run, "run");
    assert!(begin.elapsed() < Duration::from_secs(30));
    // If a busy machine has not started the runner yet, there is nothing to abort.
    ensure_holds(!answer.all("error").is_empty(), || format!("{answer:#?}"))?;
    let error = answer.only("error");
    assert_eq!((error.text("stage"), error.text("job")), ("timeout".into(), "a".into()));
    assert_eq!(talk.send_and_wait("hello", &[("proto", "1")]).verbs(), "ready");
    let (ended, trace) = talk.quit();
    assert_eq!((ended.code, trace.as_slice()), (Some(0), &["done".to_owned()][..]));
    Ok(())
}

pub fn undoes_when_the_commands_end(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.hooks);
    talk.close();
    let (ended, trace) = talk.end();
    assert_eq!((ended.code, trace.last().map(String::as_str)), (Some(0), Some("done 1000")));

    let mut talk = harness.with(harness.snippets.keeper);
    talk.workers("a", 2);
    talk.send_windows("a", 600_000, 6);
    while talk.count_traced("first") < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    talk.close();
    let (ended, trace) = talk.end();
    let undone = trace.iter().filter(|line| *line == "done").count();
    assert_eq!((ended.code, undone), (Some(0), 1));
}

pub fn leaves_a_runner_that_never_ends_when_the_commands_end(harness: &CodeHarness) {
    // What computes without end is given up in `gives_up_a_runner_that_never_ends`.
    let snippets = harness.snippets;
    let endless = if harness.is_patient() { snippets.endless } else { snippets.endless_sleep };
    let mut talk = harness.with(endless);
    talk.workers("a", 1);
    talk.send_windows("a", 50, 2);
    std::thread::sleep(Duration::from_millis(100));
    talk.close();
    let begin = Instant::now();
    let (ended, trace) = talk.end();
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert_eq!((ended.code, trace.as_slice()), (Some(0), &["done".to_owned()][..]));
}

pub fn is_seen_to_be_killed(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.keeper);
    // Too long for a window to complete before the end, however busy the machine is.
    talk.send_windows("a", 600_000, 6);
    while talk.count_traced("first") < 1 {
        std::thread::sleep(Duration::from_millis(5));
    }
    talk.kill();
    let (ended, _) = talk.end();
    assert_eq!((ended.signal, ended.verbs().as_str()), (Some(Signal::KILL.as_raw()), ""));
}

pub fn takes_no_print_for_a_message(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.prints);
    let answer = talk.measure_windows("a", 40, 2);
    assert_eq!(answer.verbs(), "worker end");
    let counted = answer.only("worker").numbers("count")[2];
    let (ended, _) = talk.quit();
    assert_eq!(ended.code, Some(0));
    let printed = ended.stdout.matches("end\tid=1\tjobs=a").count();
    assert!(printed as f64 >= counted, "{printed} of {counted} lines were printed");
}
