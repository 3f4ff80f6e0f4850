//! Asks a program for its version, in the words that it understands, and never waits for long.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// No program needs longer to say its name; one that does has begun to do its work.
const LIMIT: Duration = Duration::from_secs(5);
/// Nor does it need more words than come in this many readings of up to 4096 bytes.
const LIMIT_READS: usize = 16;

/// What a program says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramVersion {
    /// The line with the version; `None` if the program did not answer.
    pub text: Option<String>,
    /// Versions of the parts inside, where it tells them (for Node.js: engine, libraries).
    pub parts: BTreeMap<String, String>,
}

/// Starts the program, once, and asks for its version. Takes at most 5 seconds: then the program
/// and all its children are killed, and counted as having said nothing.
pub fn program_version(path: &Path) -> ProgramVersion {
    version_within(path, LIMIT)
}

fn version_within(path: &Path, limit: Duration) -> ProgramVersion {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let question = question(&name);
    let answer = ask(path, question.arguments, limit);
    let answer = answer.filter(|answer| question.any_status || answer.success);
    match answer {
        Some(answer) if question.json => node_version(&answer.output),
        Some(answer) => ProgramVersion {
            text: version_line(&answer.output, &name)
                .or_else(|| version_line(&answer.errors, &name)),
            ..ProgramVersion::default()
        },
        None => ProgramVersion::default(),
    }
}

/// How a program is asked.
struct Question {
    arguments: &'static [&'static str],
    /// Whether the answer counts even if the program says that it failed.
    any_status: bool,
    /// Whether the answer is Node's table of versions.
    json: bool,
}

fn question(name: &str) -> Question {
    let arguments: &[&str] = match name {
        "go" => &["version"],
        "ab" => &["-V"],
        "wrk" => &["-v"],
        "erl" => &[
            "-noinput",
            "-eval",
            "io:put_chars(erlang:system_info(system_version)), halt().",
        ],
        _ if is_node(name) => &["-p", "JSON.stringify(process.versions)"],
        _ => &["--version"],
    };
    Question {
        arguments,
        any_status: name == "wrk",
        json: is_node(name),
    }
}

/// `node`, `node22`, `node-20.1`, `node_g`; but not `node_exporter`.
fn is_node(name: &str) -> bool {
    name == "node_g"
        || name.strip_prefix("node").is_some_and(|rest| {
            rest.chars()
                .all(|c| c.is_ascii_digit() || "-.v".contains(c))
        })
}

fn node_version(output: &str) -> ProgramVersion {
    let parts: BTreeMap<String, String> = serde_json::from_str(output.trim()).unwrap_or_default();
    ProgramVersion {
        text: parts.get("node").map(|version| format!("v{version}")),
        parts,
    }
}

/// The first line that names the program (Elixir first tells what it runs on), or else the first
/// that says anything.
fn version_line(text: &str, name: &str) -> Option<String> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let name = name.to_lowercase();
    let line = lines()
        .find(|line| line.to_lowercase().starts_with(&name))
        .or(lines().next())?;
    Some(line.chars().take(200).collect())
}

struct Answer {
    success: bool,
    output: String,
    errors: String,
}

/// Runs the program with its input closed, in a process group of its own.
fn ask(path: &Path, arguments: &[&str], limit: Duration) -> Option<Answer> {
    let deadline = Instant::now() + limit;
    let mut command = Command::new(path);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = start(command.process_group(0), deadline)?;
    let output = listen(child.stdout.take());
    let errors = listen(child.stderr.take());
    let status = wait(&mut child, deadline)?;
    Some(Answer {
        success: status.success(),
        output: heard(&output),
        errors: heard(&errors),
    })
}

/// Starts a program, patiently where it has only just been written: as long as some process of
/// ours stands between fork and exec it holds a copy of the descriptor that wrote it, and the
/// kernel refuses to execute a file that is open for writing.
fn start(command: &mut Command, deadline: Instant) -> Option<Child> {
    loop {
        match command.spawn() {
            Err(error)
                if error.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(2));
            }
            result => return result.ok(),
        }
    }
}

/// Reads on a thread of its own, so that a full pipe never holds the program up. A program that
/// goes on talking is cut off with a broken pipe.
fn listen(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (told, words) = channel();
    thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut room = [0; 4096];
        for _ in 0..LIMIT_READS {
            match pipe.read(&mut room) {
                Ok(length @ 1..) if told.send(room[..length].to_vec()).is_ok() => {}
                _ => return,
            }
        }
    });
    words
}

/// What was said until the pipe was closed, or until nothing more comes: a child of the program
/// may keep the pipe open after the program itself has ended.
fn heard(words: &Receiver<Vec<u8>>) -> String {
    let mut bytes = Vec::new();
    while let Ok(more) = words.recv_timeout(Duration::from_millis(200)) {
        bytes.extend(more);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until `deadline`; then kills the whole group. `None` if it had to be killed.
fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            _ => break,
        }
    }
    let group = -i32::try_from(child.id()).ok()?;
    // SAFETY: no memory is involved. The child leads its group and has not been waited for, so
    // the number cannot have passed to another group.
    unsafe { libc::kill(group, libc::SIGKILL) };
    // It has been killed: waiting only removes it from the process table.
    let _ = child.wait();
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use tempfile::TempDir;

    /// A program that is a shell script.
    fn program(name: &str, script: &str) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    }

    fn says(name: &str, script: &str) -> Option<String> {
        let (_folder, path) = program(name, script);
        program_version(&path).text
    }

    #[test]
    fn the_first_line_counts_unless_another_names_the_program() {
        assert_eq!(
            says("tool", "echo; echo 'Tool 1.2'; echo more").as_deref(),
            Some("Tool 1.2")
        );
        let elixir = "echo 'Erlang/OTP 25'; echo; echo 'Elixir 1.14.0 (compiled with 25)'";
        assert_eq!(
            says("elixir", elixir).as_deref(),
            Some("Elixir 1.14.0 (compiled with 25)")
        );
        assert_eq!(
            says("java", "echo 'openjdk 17' >&2").as_deref(),
            Some("openjdk 17")
        );
    }

    #[test]
    fn each_program_is_asked_in_its_own_words() {
        let go = r#"[ "$*" = version ] && echo "go version go1.22 linux/amd64""#;
        assert_eq!(
            says("go", go).as_deref(),
            Some("go version go1.22 linux/amd64")
        );
        let wrk = r#"[ "$*" = -v ] && echo "wrk 4.1.0 [epoll]"; exit 1"#;
        assert_eq!(says("wrk", wrk).as_deref(), Some("wrk 4.1.0 [epoll]"));
        assert_eq!(
            says("tool", "echo 'unknown option --version'; exit 2"),
            None
        );
    }

    #[test]
    fn node_tells_everything_in_one_start() {
        let script = r#"echo start >> "$0.starts"; echo '{"node":"20.1.0","v8":"11.3"}'"#;
        let (_folder, path) = program("node-20", script);
        let version = program_version(&path);
        assert_eq!(version.text.as_deref(), Some("v20.1.0"));
        assert_eq!(version.parts["v8"], "11.3");
        let starts = fs::read_to_string(path.with_file_name("node-20.starts")).unwrap();
        assert_eq!(starts.lines().count(), 1);
    }

    #[test]
    fn names_that_merely_begin_like_node_are_not_node() {
        for (name, expected) in [
            ("node", true),
            ("node22", true),
            ("node-v20.1", true),
            ("node_exporter", false),
        ] {
            assert_eq!(is_node(name), expected, "{name}");
        }
    }

    #[test]
    fn a_program_that_starts_working_instead_is_killed_with_its_children() {
        let (_folder, path) = program("server", "sleep 60 & echo $! > \"$0.pid\"; wait");
        let begun = Instant::now();
        let version = version_within(&path, Duration::from_millis(150));
        assert_eq!(version, ProgramVersion::default());
        assert!(begun.elapsed() < Duration::from_secs(3));

        let child = fs::read_to_string(path.with_file_name("server.pid")).unwrap();
        // The kernel takes a moment, and the dead stay in its table until they are collected.
        let is_alive = || {
            fs::read_to_string(format!("/proc/{}/stat", child.trim()))
                .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
        };
        let deadline = Instant::now() + Duration::from_secs(2);
        while is_alive() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!is_alive(), "the child lives on");
    }

    #[test]
    fn a_daemon_left_behind_does_not_hold_us_up() {
        let begun = Instant::now();
        let text = says("daemon", "echo 'daemon 3'; sleep 4 &");
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "the pipe stays open for 4 s"
        );
        assert_eq!(text.as_deref(), Some("daemon 3"));
    }

    #[test]
    fn endless_words_are_cut_off() {
        let (_folder, path) = program("chatty", "yes chatty 1.0");
        assert_eq!(version_within(&path, Duration::from_secs(2)).text, None);
    }

    #[test]
    fn what_is_no_program_says_nothing() {
        assert_eq!(
            program_version(Path::new("/nonexistent/x")),
            ProgramVersion::default()
        );
    }
}
