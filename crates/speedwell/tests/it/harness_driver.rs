//! The driving side of the harness protocol, for tests: starts a harness, sends and receives lines.
//! It is independent of the code under test, so what it cannot parse is a fault of the harness.

use super::project::{is_current, repository};
use rustix::io::{dup2, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Longer than any conversation takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An installed harness: how to start it, and where its test benchmarks are.
pub struct TestHarness {
    command: Vec<String>,
    folder: PathBuf,
    /// One file with all benchmarks, or the file extension for one file each.
    zoo: Result<&'static str, &'static str>,
}

/// A message with keys and still escaped values.
#[derive(Debug, Clone)]
pub struct HarnessEvent {
    pub verb: String,
    fields: Vec<(String, String)>,
}

pub struct HarnessTalk {
    child: Child,
    commands: Option<File>,
    events: Receiver<HarnessEvent>,
}

/// The remaining events and how it exited.
#[derive(Debug)]
pub struct HarnessEnd {
    pub events: Vec<HarnessEvent>,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
}

impl TestHarness {
    /// Returns the harness of a language; `None` if its tools are missing.
    pub fn of(language: &str) -> Option<TestHarness> {
        let zoo = match language {
            "bun" | "deno" => "node",
            language => language,
        };
        let folder = repository().join("crates/speedwell/tests/conformance");
        let folder = folder.join(zoo);
        let program = |path: &str| repository().join(path).to_string_lossy().into_owned();
        let (command, zoo) = match language {
            "node" | "bun" | "deno" => (javascript(language)?, Err(".js")),
            "python" => (
                vec![
                    find_tool(&["python3"])?,
                    program("crates/adapters/languages/python/harness.py"),
                ],
                Ok("zoo.py"),
            ),
            _ => (vec![compiled(&folder.join("zoo.cpp"))?], Ok("zoo.cpp")),
        };
        Some(TestHarness { command, folder, zoo })
    }

    pub fn start(&self) -> HarnessTalk {
        HarnessTalk::start(&self.command, &[])
    }

    /// The command line that starts it.
    pub fn command_line(&self) -> String {
        self.command.join(" ")
    }

    pub fn file(&self, benchmark: &str) -> PathBuf {
        match self.zoo {
            Ok(file) => self.folder.join(file),
            Err(ending) => self.folder.join("zoo").join(format!("{benchmark}{ending}")),
        }
    }

    /// `describe` of a benchmark's file; `more` are literal further fields.
    pub fn describe(&self, benchmark: &str, more: &str) -> String {
        format!(
            "describe\tid=2\tpath={}\troot={}{more}\n",
            self.file(benchmark).display(),
            self.folder.display()
        )
    }

    /// `load` of a benchmark as job `job`; `values` are literal fields.
    pub fn load(&self, job: &str, benchmark: &str, values: &str) -> String {
        let name = match self.zoo {
            Ok(_) => format!("zoo/{benchmark}"),
            Err(ending) => format!("zoo/{benchmark}{ending}"),
        };
        format!(
            "load\tid=3\tjob={job}\tform=case\tpath={}\troot={}\tbenchmark={name}{values}\n",
            self.file(benchmark).display(),
            self.folder.display()
        )
    }

    /// Sends all commands, then waits for the end.
    pub fn converse(&self, commands: &[String]) -> HarnessEnd {
        let mut talk = self.start();
        talk.send_lines(&commands.concat());
        talk.send_lines("quit\tid=9\n");
        talk.end()
    }
}

impl HarnessTalk {
    /// Starts a program as a harness, with these additional variables.
    pub fn start(words: &[String], variables: &[(&str, &str)]) -> HarnessTalk {
        let (commands_out, commands) = pipe();
        let (events, events_in) = pipe();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .envs(variables.iter().copied())
            .env("SPEEDWELL_FDS", "3,4")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        hand_over(&mut command, [(commands_out, 3), (events_in, 4)]);
        let child = command.spawn().unwrap();
        // The command still holds the harness's ends of the pipes.
        drop(command);
        let (told, heard) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(File::from(events)).split(b'\n') {
                let line = String::from_utf8(line.unwrap()).expect("events are UTF-8");
                assert!(line.len() < 1 << 20, "a line of {} bytes", line.len());
                if told.send(HarnessEvent::read(&line)).is_err() {
                    return;
                }
            }
        });
        HarnessTalk { child, commands: Some(File::from(commands)), events: heard }
    }

    /// The next event; `None` if the harness has closed its pipe.
    pub fn next(&self) -> Option<HarnessEvent> {
        match self.events.recv_timeout(PATIENCE) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing came"),
        }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Writes lines; ignored if the harness is gone.
    pub fn send_lines(&mut self, lines: &str) {
        if let Some(commands) = &mut self.commands {
            let _ = commands.write_all(lines.as_bytes());
        }
    }

    /// Waits for an event with that verb, skipping others.
    pub fn wait_for_event(&self, verb: &str) -> HarnessEvent {
        loop {
            let event = self.events.recv_timeout(PATIENCE);
            let event = event.unwrap_or_else(|_| panic!("no '{verb}' came"));
            if event.verb == verb {
                return event;
            }
        }
    }

    pub fn close(&mut self) {
        self.commands = None;
    }

    /// Receives the rest and waits for the process to exit. The command pipe stays open until then,
    /// unless it was closed before.
    pub fn end(mut self) -> HarnessEnd {
        let mut events = Vec::new();
        while let Ok(event) = self.events.recv_timeout(PATIENCE) {
            events.push(event);
        }
        let deadline = std::time::Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            if std::time::Instant::now() > deadline {
                self.child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let status = self.child.wait().unwrap();
        let mut stdout = String::new();
        let mut pipe = self.child.stdout.take().unwrap();
        pipe.read_to_string(&mut stdout).unwrap();
        HarnessEnd { events, code: status.code(), signal: status.signal(), stdout }
    }
}

/// A failing test leaves no process behind.
impl Drop for HarnessTalk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl HarnessEnd {
    /// The verbs, separated by spaces.
    pub fn verbs(&self) -> String {
        let verbs: Vec<&str> = self.events.iter().map(|event| event.verb.as_str()).collect();
        verbs.join(" ")
    }

    pub fn all(&self, verb: &str) -> Vec<&HarnessEvent> {
        self.events.iter().filter(|event| event.verb == verb).collect()
    }

    #[track_caller]
    pub fn only(&self, verb: &str) -> &HarnessEvent {
        let all = self.all(verb);
        assert_eq!(all.len(), 1, "{verb} in {self:#?}");
        all[0]
    }
}

impl HarnessEvent {
    pub fn read(line: &str) -> HarnessEvent {
        let mut words = line.split('\t');
        let verb = words.next().unwrap_or_default().to_owned();
        let pair = |word: &str| {
            word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        let fields = words
            .map(|word| pair(word).unwrap_or_else(|| panic!("'{word}' is no field")))
            .collect();
        HarnessEvent { verb, fields }
    }

    /// A value, decoded; empty if it is missing.
    pub fn text(&self, key: &str) -> String {
        decode_value(self.raw(key))
    }

    /// A list, decoded.
    pub fn list(&self, key: &str) -> Vec<String> {
        let raw = self.raw(key);
        let items = raw.split(',').filter(|_| !raw.is_empty());
        items.map(decode_value).collect()
    }

    #[track_caller]
    pub fn number(&self, key: &str) -> f64 {
        let text = self.text(key);
        text.parse().unwrap_or_else(|_| panic!("{key}='{text}' in {self:?}"))
    }

    pub fn numbers(&self, key: &str) -> Vec<f64> {
        let of = |text: &String| text.parse().unwrap_or_else(|_| panic!("{key} in {self:?}"));
        self.list(key).iter().map(of).collect()
    }

    /// Merges the lists of the next message into this one, which has `more=1`.
    pub fn continue_with(&mut self, next: HarnessEvent) {
        self.fields.retain(|(key, _)| key != "more");
        for (key, value) in next.fields {
            match self.fields.iter_mut().find(|(known, _)| *known == key) {
                // Anything but a list is the same in both.
                Some((_, list)) if *list == value => {}
                Some((_, list)) => *list = format!("{list},{value}"),
                None => self.fields.push((key, value)),
            }
        }
    }

    fn raw(&self, key: &str) -> &str {
        let found = self.fields.iter().find(|(known, _)| known == key);
        found.map_or("", |(_, value)| value)
    }
}

/// Escapes a value for a line, with `%2C` for a comma, as in a list.
pub fn encode_value(text: &str) -> String {
    let unsafe_byte = |byte: u8| byte < 0x20 || byte == b'%' || byte == b',' || byte == 0x7f;
    let mut made = Vec::new();
    for byte in text.bytes() {
        if unsafe_byte(byte) {
            made.extend(format!("%{byte:02x}").bytes())
        } else {
            made.push(byte)
        }
    }
    String::from_utf8(made).unwrap()
}

fn decode_value(text: &str) -> String {
    let mut made = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(&after[..2]).unwrap();
            made.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &after[2..];
        } else {
            made.push(*first);
            rest = after;
        }
    }
    String::from_utf8(made).unwrap()
}

/// The command line that starts the JavaScript harness with `node`, `bun` or `deno`; `None` without
/// that program.
pub fn javascript(runtime: &str) -> Option<Vec<String>> {
    let script = repository().join("crates/adapters/languages/node/harness.cjs");
    let own: &[&str] = match runtime {
        "deno" => &["run", "-A"],
        _ => &[],
    };
    let mut words = vec![find_tool(&[runtime])?];
    words.extend(own.iter().map(|word| (*word).to_owned()));
    words.push(script.to_string_lossy().into_owned());
    Some(words)
}

/// The first of these programs found in `PATH`; reports that the test is skipped if there is none.
pub fn find_tool(names: &[&str]) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = names.iter().find(|name| folders.iter().any(|folder| folder.join(name).is_file()));
    if found.is_none() {
        eprintln!("skipped: there is no '{}' in PATH", names.join("' or '"));
    }
    found.map(|name| (*name).to_owned())
}

/// Returns whether a program is missing from `PATH`; reports that the test is skipped.
pub fn is_missing(program: &str) -> bool {
    find_tool(&[program]).is_none()
}

/// The test benchmarks of the C++ harness as a program, compiled when they or the harness have
/// changed.
pub fn compiled(file: &Path) -> Option<String> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let compiler = find_tool(&["c++", "g++", "clang++"])?;
    let program = PROGRAM.get_or_init(|| {
        // A static is never dropped, so the program is in Cargo's directory for temporary files.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zoo");
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("zoo");
        let header = repository().join("crates/adapters/languages/cpp");
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/harness_driver.rs");
        if is_current(&program, &[file.to_owned(), header.clone(), own]) {
            return program;
        }
        let unfinished = folder.join(format!("unfinished-{}", std::process::id()));
        let mut command = Command::new(compiler);
        command.args([
            "-std=c++17",
            "-O0",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-pthread",
            "-I",
        ]);
        command.arg(header).arg(file).arg("-o").arg(&unfinished);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(&unfinished, &program).unwrap();
        program
    });
    Some(program.to_string_lossy().into_owned())
}

/// Creates a pipe (read end, write end) with descriptors above those of a harness, not inherited.
pub fn pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let high = |low| fcntl_dupfd_cloexec(low, 10).unwrap();
    (high(read), high(write))
}

/// Passes descriptors to a program under these numbers. They come from [`pipe`], so that none
/// occupies another's number.
pub fn hand_over(command: &mut Command, ends: [(OwnedFd, RawFd); 2]) {
    // SAFETY: between fork and exec only dup2 is called, which is async-signal-safe (POSIX.1-2017,
    // 2.4.3). Whatever had the number before is not used any more, and its new owner is not closed.
    unsafe {
        command.pre_exec(move || {
            for (from, to) in &ends {
                dup2(from, &mut ManuallyDrop::new(OwnedFd::from_raw_fd(*to)))?;
            }
            Ok(())
        });
    }
}
