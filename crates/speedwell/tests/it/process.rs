//! Misbehaving children: each leaves a clear record and nothing else.

use super::busy::wait_until;
use rustix::time::{ClockId, clock_gettime};
use speedwell_machine::process::{
    ChannelKind, ChildConversation, NextStep, OutputStream, ProcessEnd, ProcessSpec,
    ServiceProcess, WaitClock, run_child,
};
use std::time::{Duration, Instant};

fn shell(script: &str) -> ProcessSpec {
    let mut spec = ProcessSpec::new("sh").args(["-c", script]);
    spec.limit = Duration::from_secs(120);
    spec
}

fn run_to_end(spec: &ProcessSpec) -> ProcessEnd {
    run_child(spec, &mut ()).unwrap().ended
}

fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn pid_in(text: &str) -> i32 {
    text.trim().parse().unwrap_or_else(|_| panic!("no pid in {text:?}"))
}

#[test]
fn status_and_signal_are_told_apart() {
    assert_eq!(run_to_end(&shell("exit 0")), ProcessEnd::Exit(0));
    assert_eq!(run_to_end(&shell("exit 3")), ProcessEnd::Exit(3));
    assert_eq!(run_to_end(&shell("kill -SEGV $$")), ProcessEnd::Signal(11));
}

#[test]
fn a_program_that_is_not_there_is_an_error_at_once() {
    assert!(run_child(&ProcessSpec::new("/no/such/program"), &mut ()).is_err());
}

#[test]
fn a_child_that_never_ends_is_ended_at_its_limit() {
    let mut spec = shell("trap '' TERM; echo here; while :; do sleep 0.05; done");
    spec.clock = WaitClock::movable();
    let mut child = OutOfTime::by(spec.clock, spec.limit);
    assert_eq!(run_child(&spec, &mut child).unwrap().ended, ProcessEnd::Timeout);
}

/// Advances the clock by this much when the child has written something.
struct OutOfTime {
    clock: WaitClock,
    by: Duration,
    has_spoken: bool,
}

impl OutOfTime {
    fn by(clock: WaitClock, by: Duration) -> OutOfTime {
        OutOfTime { clock, by, has_spoken: false }
    }
}

impl ChildConversation for OutOfTime {
    fn handle_line(&mut self, _: &[u8]) -> NextStep {
        self.has_spoken = true;
        // It has reported, and now has this long to exit.
        NextStep::Linger(self.by)
    }
    fn observe_output(&mut self, _: OutputStream, _: &[u8]) {
        self.has_spoken = true;
    }
    fn overdue_bytes(&mut self) -> Option<Vec<u8>> {
        if self.has_spoken {
            self.clock.advance(self.by);
        }
        None
    }
}

#[test]
fn a_child_that_lingers_after_its_report_is_ended_after_a_grace_period() {
    let mut spec = shell("echo report >&3; while :; do sleep 0.05; done");
    spec.channel = ChannelKind::Pipe("LINE_FD");
    spec.clock = WaitClock::movable();
    spec.limit = Duration::from_secs(7200);
    let mut child = OutOfTime::by(spec.clock, Duration::from_secs(3600));
    assert_eq!(run_child(&spec, &mut child).unwrap().ended, ProcessEnd::Lingered);
}

#[test]
fn a_service_that_ignores_termination_is_killed_after_a_grace_period() {
    let folder = tempfile::tempdir().unwrap();
    let (ready, asked) = (folder.path().join("ready"), folder.path().join("asked"));
    let mut spec = shell(&format!(
        "trap 'touch {}' TERM; touch {}; while :; do sleep 0.05; done",
        asked.display(),
        ready.display()
    ));
    spec.clock = WaitClock::movable();
    spec.shutdown.grace = Duration::from_secs(3600);
    let clock = spec.clock;
    let service = ServiceProcess::start(spec).unwrap();
    wait_until(|| ready.exists());
    let outcome = std::thread::scope(|scope| {
        let stopping = scope.spawn(|| service.stop_and_wait().unwrap());
        wait_until(|| asked.exists());
        assert!(!stopping.is_finished(), "it has an hour");
        clock.advance(Duration::from_secs(3600));
        stopping.join().unwrap()
    });
    assert!(outcome.shutdown.unwrap().was_killed, "{outcome:?}");
}

#[test]
fn stdout_and_stderr_stay_separate_even_with_massive_output() {
    let flood = "yes complaint | head -c 5000000 >&2; echo answer; echo last >&2";
    let outcome = run_child(&shell(flood), &mut ()).unwrap();
    assert_eq!(outcome.stdout.text(), "answer\n");
    assert_eq!(outcome.stderr.last_lines(1), "last");
    assert_eq!(outcome.stderr.total_bytes(), 5_000_005);
}

#[test]
fn children_left_in_the_group_are_ended() {
    let outcome = run_child(&shell("sleep 600 >/dev/null 2>&1 & echo $!"), &mut ()).unwrap();
    assert_eq!(outcome.ended, ProcessEnd::Exit(0));
    let pid = pid_in(&outcome.stdout.text());
    let deadline = Instant::now() + Duration::from_secs(60);
    while is_alive(pid) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!is_alive(pid), "{pid} is still there");
}

#[test]
fn a_grandchild_that_keeps_streams_open_does_not_block_the_run() {
    let begin = Instant::now();
    let outcome = run_child(&shell("sleep 600 & echo done"), &mut ()).unwrap();
    assert_eq!(outcome.stdout.text(), "done\n");
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_child_that_closes_its_streams_causes_no_busy_waiting() {
    let usage = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let before = usage();
    assert_eq!(run_to_end(&shell("exec >&- 2>&-; sleep 0.5")), ProcessEnd::Exit(0));
    assert!(
        usage() - before < Duration::from_millis(200),
        "the listening thread was busy while nothing happened"
    );
}

#[test]
fn the_childs_time_and_memory_are_accounted() {
    let outcome =
        run_child(&shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"), &mut ()).unwrap();
    assert!(outcome.usage.user_ns > 1_000_000);
    assert!(outcome.usage.max_rss_bytes > 100_000);
    assert!(outcome.wall_ns >= outcome.usage.user_ns / 2);
}

/// Echoes its input and records every line.
struct EchoTalk(Vec<String>);

impl ChildConversation for EchoTalk {
    fn opening_bytes(&mut self) -> Vec<u8> {
        b"hello\n".to_vec()
    }
    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        self.0.push(String::from_utf8_lossy(line).into_owned());
        match self.0.len() {
            1 => NextStep::Send(b"more\n".to_vec()),
            _ => NextStep::Wait,
        }
    }
}

#[test]
fn commands_and_events_travel_on_descriptors_of_their_own() {
    let script = r#"
        test "$SPEEDWELL_FDS" = 3,4 || exit 9
        echo noise; read a <&3; echo "got $a" >&4; read b <&3; printf 'got %s' "$b" >&4"#;
    let mut spec = shell(script);
    spec.channel = ChannelKind::Harness;
    let mut talk = EchoTalk(Vec::new());
    let outcome = run_child(&spec, &mut talk).unwrap();
    assert_eq!(outcome.ended, ProcessEnd::Exit(0));
    assert_eq!(talk.0, ["got hello", "got more"], "the last line has no line feed");
    assert_eq!(outcome.stdout.text(), "noise\n");
}

#[test]
fn a_line_longer_than_any_pipe_arrives_whole() {
    let mut spec =
        shell("head -c 1000000 /dev/zero | tr '\\0' x >&3; echo >&3; printf 'a\\nb\\nc\\n' >&3");
    spec.channel = ChannelKind::Pipe("LINE_FD");
    let mut lines = EchoTalk(vec![String::new()]);
    run_child(&spec, &mut lines).unwrap();
    assert_eq!(lines.0[1].len(), 1_000_000);
    assert_eq!(lines.0[2..], ["a", "b", "c"]);
}

#[test]
fn pinning_reaches_the_child() {
    let mut spec = shell("grep Cpus_allowed_list /proc/self/status");
    spec.pin = Some("0".parse().unwrap());
    let outcome = run_child(&spec, &mut ()).unwrap();
    assert_eq!(outcome.stdout.text().trim(), "Cpus_allowed_list:\t0");
}
