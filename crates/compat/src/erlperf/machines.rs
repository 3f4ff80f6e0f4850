//! Erlang VMs and the snippets measured in them: one VM for all, or one for each.
//!
//! Decides what is sent to the harness, and which snippets are lost on an error: a snippet that
//! fails affects no other, a VM that ends takes its snippets along. Knows nothing of what samples
//! are for. Start at [`Machines::start`].

use crate::erlperf::arguments::Request;
use crate::erlperf::monitor::{INTERVAL, Monitor};
use crate::erlperf::snippet::Known;
use crate::erlperf::table::{on_one_line, width};
use anyhow::Result;
use speedwell_harness::Message;
use speedwell_harness::snippet::{self, Answer, Gone, Live};
use speedwell_model::{Length, Samples, SnippetTiming, Variant};
use speedwell_process::{Spec, interrupted};
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Upper bound of a VM's lifetime.
const LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Allowance for a runner whose iterations are longer than its samples.
const SLOW_RUNNER: Duration = Duration::from_secs(100);

/// Time limit for a fixed number of iterations, whose duration is unknown.
const SLOW_LOOP: Duration = Duration::from_secs(24 * 3600);

/// A snippet in its VM.
pub struct Job {
    /// Name of the snippet in the protocol.
    name: String,
    machine: usize,
    pub known: Known,
    /// Current number of workers.
    pub workers: u32,
    pub faults: Vec<Fault>,
    /// Cost of an empty iteration in the snippet's VM, in nanoseconds.
    pub empty_ns: Option<f64>,
    /// What the harness said when it had loaded the snippet.
    pub loaded: Option<Message>,
}

impl Job {
    /// Whether it can be measured.
    pub fn is_sound(&self) -> bool {
        self.faults.iter().all(|fault| fault.is_afterwards)
    }
}

/// What a snippet gave when it was measured once.
pub struct Visit {
    /// Its place among the snippets.
    pub job: usize,
    /// Its samples.
    pub timing: SnippetTiming,
    /// How long after its time a sample ended at most, of all snippets that were measured together, in nanoseconds.
    pub late_ns: f64,
}

/// All VMs and snippets.
pub struct Machines {
    machines: Vec<Option<Live>>,
    /// Snippets in the order typed.
    pub jobs: Vec<Job>,
    /// The first VM's `ready` message.
    pub ready: Option<Message>,
    monitor: Option<Monitor>,
}

impl Machines {
    /// Starts VMs and loads snippets; with `verbose`, prints the sources on the way.
    ///
    /// # Errors
    /// `out` is closed.
    pub fn start(
        request: &Request,
        snippets: Vec<Known>,
        directory: &Path,
        out: &mut dyn Write,
    ) -> Result<Machines> {
        let jobs: Vec<Job> = snippets
            .into_iter()
            .enumerate()
            .map(|(at, known)| Job {
                name: format!("code{at}"),
                machine: if request.isolated { at } else { 0 },
                known,
                workers: 0,
                faults: Vec::new(),
                empty_ns: None,
                loaded: None,
            })
            .collect();
        let names = jobs.iter().map(|job| job.name.clone()).collect();
        let mut machines = Machines {
            machines: Vec::new(),
            jobs,
            ready: None,
            monitor: request.verbose.then(|| Monitor::new(names)),
        };
        for at in 0..machines.jobs.len() {
            if machines.jobs[at].machine == machines.machines.len() && !interrupted() {
                machines.start_one(at, directory);
            }
            machines.load(at, request.verbose, out)?;
        }
        machines.watch(out)?;
        Ok(machines)
    }

    fn start_one(&mut self, job: usize, directory: &Path) {
        let machine = self.machines.len();
        let started = started(&self.jobs[job].known, directory);
        match started {
            Ok((live, ready)) => {
                self.machines.push(Some(live));
                let ready = ready.first("ready").cloned();
                self.ready = self.ready.take().or(ready);
            }
            Err(gone) => {
                self.machines.push(None);
                self.lose(machine, &gone);
            }
        }
    }

    /// Makes all VMs report gauges, if monitor lines are requested.
    fn watch(&mut self, out: &mut dyn Write) -> io::Result<()> {
        for machine in 0..self.machines.len() {
            if self.monitor.is_none() {
                return Ok(());
            }
            let answer = self.with(machine, out, |live, _| live.monitor(INTERVAL))?;
            let events = answer.map_or(Vec::new(), |answer| answer.events);
            for event in &events {
                if let Some(monitor) = &mut self.monitor {
                    monitor.hear(machine, event, out)?;
                }
            }
        }
        Ok(())
    }

    fn load(&mut self, job: usize, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
        let (name, snippet) = (
            self.jobs[job].name.clone(),
            self.jobs[job].known.snippet.clone(),
        );
        let machine = self.jobs[job].machine;
        let answer = self.with(machine, out, |live, _| live.load(&name, &snippet))?;
        let Some(answer) = answer.filter(|_| self.jobs[job].is_sound()) else {
            return Ok(());
        };
        self.note_faults(&answer);
        self.jobs[job].loaded = answer.first("loaded").cloned();
        if let Some(loaded) = answer.first("loaded").filter(|_| verbose) {
            let source = loaded.get("source").unwrap_or_default();
            write_framed(&self.jobs[job].known.shown, &source, out)?;
            out.flush()?;
        }
        if self.jobs[job].is_sound() {
            let empty = self.with(machine, out, |live, _| live.empty_ns(&name))?;
            self.jobs[job].empty_ns = empty.flatten();
        }
        Ok(())
    }

    /// Sets the number of workers of a snippet.
    ///
    /// # Errors
    /// `out` is closed.
    pub fn set_workers(&mut self, job: usize, count: u32, out: &mut dyn Write) -> io::Result<()> {
        if !self.jobs[job].is_sound() {
            return Ok(());
        }
        let (name, machine) = (self.jobs[job].name.clone(), self.jobs[job].machine);
        self.jobs[job].workers = count;
        let answer = self.with(machine, out, |live, _| live.workers(&name, count))?;
        if let Some(answer) = answer {
            self.note_faults(&answer);
        }
        Ok(())
    }

    /// Measures snippets of one VM at the same time; returns the timing of each.
    ///
    /// # Errors
    /// `out` is closed.
    pub fn run(
        &mut self,
        jobs: &[usize],
        samples: &Samples,
        out: &mut dyn Write,
    ) -> io::Result<Vec<Visit>> {
        let sound: Vec<usize> = jobs
            .iter()
            .copied()
            .filter(|job| self.jobs[*job].is_sound())
            .collect();
        let Some(machine) = sound.first().map(|job| self.jobs[*job].machine) else {
            return Ok(Vec::new());
        };
        let names: Vec<String> = sound
            .iter()
            .map(|job| self.jobs[*job].name.clone())
            .collect();
        let limit = limit(samples);
        let answer = self.with(machine, out, |live, hear| {
            live.run(&names, samples, false, Some(limit), hear)
        })?;
        let Some(answer) = answer else {
            return Ok(Vec::new());
        };
        self.note_faults(&answer);
        let late_ns = answer
            .first("end")
            .and_then(|end| end.number("max_late_ns"));
        let mut given = Vec::new();
        for (job, name) in sound.iter().zip(&names) {
            match answer.timing(name, samples) {
                Some(timing) if !timing.windows.is_empty() => given.push(Visit {
                    job: *job,
                    timing,
                    late_ns: late_ns.unwrap_or(0.0),
                }),
                _ if self.jobs[*job].is_sound() && !interrupted() => {
                    self.jobs[*job].faults.push(Fault::without_samples());
                }
                _ => {}
            }
        }
        Ok(given)
    }

    /// Runs the cleanup hooks in every VM and waits for its exit.
    pub fn end(&mut self) {
        for machine in 0..self.machines.len() {
            let Some(live) = self.machines[machine].take() else {
                continue;
            };
            match live.end() {
                Ok(answer) => self.note_faults(&answer),
                // The measurements of a VM that does not exit by itself stay valid.
                Err(gone) if !interrupted() => self.note_end(machine, &gone, true),
                Err(_) => {}
            }
        }
    }

    /// Sends a request to a VM while the monitor listens; `None` if the VM is gone.
    fn with<T>(
        &mut self,
        machine: usize,
        out: &mut dyn Write,
        ask: impl FnOnce(&mut Live, &mut dyn FnMut(&Message)) -> Result<T, Gone>,
    ) -> io::Result<Option<T>> {
        let Some(Some(live)) = self.machines.get_mut(machine) else {
            return Ok(None);
        };
        let mut written = Ok(());
        let monitor = &mut self.monitor;
        let answer = ask(live, &mut |event| {
            if let (Some(monitor), Ok(())) = (monitor.as_mut(), &written) {
                written = monitor.hear(machine, event, out);
            }
        });
        written?;
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(gone) => {
                self.lose(machine, &gone);
                Ok(None)
            }
        }
    }

    fn lose(&mut self, machine: usize, gone: &Gone) {
        self.machines[machine] = None;
        // The interrupt reached the VM as well as us.
        if !interrupted() {
            self.note_end(machine, gone, false);
        }
    }

    fn note_end(&mut self, machine: usize, gone: &Gone, is_afterwards: bool) {
        let fault = Fault {
            is_afterwards,
            ..Fault::of_end(gone)
        };
        let own = self.jobs.iter_mut().filter(|job| job.machine == machine);
        for job in own.filter(|job| job.is_sound()) {
            job.faults.push(fault.clone());
        }
    }

    fn note_faults(&mut self, answer: &Answer) {
        for event in answer.events.iter().filter(|event| event.verb == "error") {
            let of = event.get("job").unwrap_or_default();
            let fault = Fault::of_event(event);
            for job in self.jobs.iter_mut().filter(|job| job.name == of) {
                if !job.faults.contains(&fault) {
                    job.faults.push(fault.clone());
                }
            }
        }
    }
}

fn started(known: &Known, directory: &Path) -> Result<(Live, Answer), Gone> {
    let program = snippet::usual_program(known.snippet.language);
    let variant = Variant::plain("erlperf");
    let spec = snippet::start(&known.snippet, &program, &variant)?;
    Live::start(Spec {
        directory: Some(directory.to_owned()),
        limit: LIFE,
        ..spec
    })
}

/// Returns the time limit of a run.
fn limit(samples: &Samples) -> Duration {
    match samples.length {
        Length::TimeNs(ns) => {
            let ns = ns.saturating_mul(samples.count.into());
            Duration::from_nanos(ns.saturating_add(samples.warmup_ns)) + SLOW_RUNNER
        }
        Length::Iterations(_) => SLOW_LOOP,
    }
}

/// An error of a snippet or a VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Sentence fragment without a full stop.
    pub reason: String,
    /// Stack trace, the innermost call first.
    pub calls: Vec<String>,
    /// Whether measurements taken before stay valid.
    pub is_afterwards: bool,
}

impl Fault {
    /// Creates the fault of an `error` event.
    pub fn of_event(event: &Message) -> Fault {
        let get = |key: &str| event.get(key).unwrap_or_default();
        let (stage, class, message) = (get("stage"), get("class"), get("msg"));
        let part = match get("part") {
            part if part.is_empty() => "runner".to_owned(),
            part => part,
        };
        let line = event.number::<u32>("line");
        let line = line.map_or(String::new(), |line| format!(" (line {line})"));
        let message = message.trim_end();
        let reason = match &*stage {
            "parse" => format!("parse error for {part}: {message}{line}"),
            "compile" if class == "signature" => message.to_owned(),
            "compile" if part == "runner" => format!("compile error: {message}{line}"),
            "compile" => format!("compile error in {part}: {message}{line}"),
            "init" | "init_runner" | "done" => {
                format!("exception while executing '{stage}': {class}:{message}{line}")
            }
            "run" => format!("the runner failed: {}{line}", thrown(&class, message)),
            _ => message.to_owned(),
        };
        let calls = get("stack");
        Fault {
            reason,
            calls: calls.lines().map(str::to_owned).collect(),
            is_afterwards: stage == "done",
        }
    }

    /// Creates the fault of a run that was stopped for taking far too long, without a sample.
    fn without_samples() -> Fault {
        Fault {
            reason: "no sample was taken: iterations are longer than samples, or workers had to wait too long for a \
                     processor; a greater -d gives some"
                .to_owned(),
            calls: Vec::new(),
            is_afterwards: false,
        }
    }

    /// Creates the fault of a VM that ended.
    pub fn of_end(gone: &Gone) -> Fault {
        Fault {
            reason: gone.cause.to_string(),
            calls: gone.stderr_tail.lines().map(str::to_owned).collect(),
            is_afterwards: false,
        }
    }
}

/// Formats an exception as in the exit reason of a process.
fn thrown(class: &str, message: &str) -> String {
    match class {
        "throw" => format!("{{nocatch,{message}}}"),
        "exit" => format!("exit:{message}"),
        _ => message.to_owned(),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.reason)?;
        for call in &self.calls {
            write!(out, "\n    in {call}")?;
        }
        Ok(())
    }
}

/// Columns for the snippet above a source.
const ROOM: usize = 32;

/// Prints the source of a snippet.
///
/// # Errors
/// `out` is closed.
fn write_framed(snippet: &str, source: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut title = String::new();
    for letter in on_one_line(snippet).chars() {
        title.push(letter);
        if width(&title) > ROOM {
            title.pop();
            break;
        }
    }
    let padding = ROOM - width(&title);
    writeln!(out, "{} {title}{:padding$} ", ">".repeat(15), "")?;
    writeln!(out, "{}\n", source.trim_end())?;
    writeln!(out, "{} ", "<".repeat(15))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_text(line: &str) -> String {
        Fault::of_event(&Message::parse(line.as_bytes()).unwrap()).to_string()
    }

    #[test]
    fn errors_are_told_in_the_words_of_the_original_with_their_line() {
        let parse =
            "error\tstage=parse\tclass=syntax\tmsg=syntax error before: '.'\tline=1\tpart=runner";
        assert_eq!(
            fault_text(parse),
            "parse error for runner: syntax error before: '.' (line 1)"
        );
        let compile =
            "error\tstage=compile\tclass=compile\tmsg=variable 'X' is unbound\tline=2\tpart=runner";
        assert_eq!(
            fault_text(compile),
            "compile error: variable 'X' is unbound (line 2)"
        );
        let missing = "error\tstage=compile\tclass=signature\tmsg=done/1 requires init function defined\tpart=done";
        assert_eq!(fault_text(missing), "done/1 requires init function defined");
        let run = "error\tstage=run\tclass=error\tmsg=undef\tstack=nomod:nofun/0%0ajob_1:batch/2 (runner:1)";
        assert_eq!(
            fault_text(run),
            "the runner failed: undef\n    in nomod:nofun/0\n    in job_1:batch/2 (runner:1)"
        );
        let ball = "error\tstage=run\tclass=throw\tmsg=ball";
        assert_eq!(fault_text(ball), "the runner failed: {nocatch,ball}");
        let normal = "error\tstage=run\tclass=exit\tmsg=normal";
        assert_eq!(fault_text(normal), "the runner failed: exit:normal");
    }

    fn framed(snippet: &str) -> String {
        let mut out = Vec::new();
        write_framed(snippet, "-module(benchmark).\n", &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn arrows_and_padding_are_those_of_the_original() {
        let golden = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../speedwell/tests/golden/erlperf"
        );
        for (name, snippet) in [
            ("verbose", "timer:sleep(1)."),
            ("verbose_state2", "r(I, S) -> timer:sleep(I), S + 1."),
        ] {
            let recorded = std::fs::read_to_string(format!("{golden}/{name}.out")).unwrap();
            let own = framed(snippet);
            assert_eq!(own.lines().next(), recorded.lines().next());
            let end = recorded.lines().find(|line| line.starts_with('<'));
            assert_eq!(own.lines().last(), end);
        }
    }

    #[test]
    fn wide_letters_are_not_cut_in_half() {
        let own = framed(&"日".repeat(40));
        assert_eq!(width(own.lines().next().unwrap()), 16 + ROOM + 1);
    }
}
