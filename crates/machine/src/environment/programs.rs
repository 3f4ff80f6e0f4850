//! Finds programs, records which file a name refers to, and queries versions. Each query has a time
//! limit and uses options that the program understands. Start at [`describe_program`] and
//! [`program_version`].

use crate::environment::file_tree::FileTree;
use crate::process::{
    ProcessEnd, ProcessOutcome, ProcessSpec, WaitClock, resolve_program, run_child,
};
use speedwell_model::MeasuredProgram;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Finds the first executable file of this name in the folders of `search` (a `PATH`).
pub(super) fn find_executable(tree: &FileTree, search: &OsStr, name: &str) -> Option<PathBuf> {
    env::split_paths(search)
        .map(|folder| tree.resolve(folder).join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns facts about a measured program, given by its name or path. They include size and
/// modification time, because different builds often report the same version.
pub(super) fn describe_program(
    variant: &str,
    path: &Path,
    version: Option<&str>,
) -> MeasuredProgram {
    let found = resolve_program(path).unwrap_or_else(|_| path.to_owned());
    let path = found.canonicalize().unwrap_or(found);
    let file = path.metadata().ok();
    let modified = file.as_ref().and_then(|file| file.modified().ok());
    MeasuredProgram {
        variant: variant.to_owned(),
        size_bytes: file.as_ref().map(|file| file.len()),
        modified_unix_ms: modified.map(|time| match time.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_millis() as i64,
            Err(before) => -(before.duration().as_millis() as i64),
        }),
        version: version.map(str::to_owned),
        versions: Default::default(),
        path,
    }
}

/// Time limit for a query. A program that takes longer has probably started its real work.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Version information reported by a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramVersion {
    /// Version line; `None` if the program did not report one.
    pub text: Option<String>,
    /// Versions of the program's components, such as the engine and the libraries of Node.js, if it
    /// reports them.
    pub parts: BTreeMap<String, String>,
}

/// Starts the program once and queries its version. After 5 seconds, the program and its children
/// are killed, and the result is empty.
pub fn program_version(path: &Path) -> ProgramVersion {
    version_with_clock(WaitClock::REAL, path)
}

fn version_with_clock(clock: WaitClock, path: &Path) -> ProgramVersion {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let arguments: &[&str] = match &*name {
        "go" => &["version"],
        "ab" => &["-V"],
        "wrk" => &["-v"],
        "erl" => {
            &["-noinput", "-eval", "io:put_chars(erlang:system_info(system_version)), halt()."]
        }
        "deno" => &["eval", "-p", VERSION_TABLE_SCRIPT],
        _ if name == "bun" || is_node(&name) => &["-p", VERSION_TABLE_SCRIPT],
        _ => &["--version"],
    };
    // The program gets no input and a process group of its own. The outcome includes all output
    // that it writes before it ends, even if we read it later. Children that keep the streams open
    // after the program ends are killed.
    let spec = ProcessSpec {
        limit: VERSION_TIMEOUT,
        clock,
        ..ProcessSpec::new(path).args(arguments.iter().copied())
    };
    let has_answered = |outcome: &ProcessOutcome| match outcome.ended {
        ProcessEnd::Exit(0) => true,
        // wrk prints its version and exits with a failure status.
        ProcessEnd::Exit(_) | ProcessEnd::Signal(_) => name == "wrk",
        ProcessEnd::Timeout | ProcessEnd::Lingered | ProcessEnd::Interrupted => false,
    };
    let Some(outcome) = start_with_retry(&spec).filter(has_answered) else {
        return ProgramVersion::default();
    };
    let output = outcome.stdout.text();
    if arguments.contains(&VERSION_TABLE_SCRIPT) {
        let table = serde_json::from_str(output.trim()).unwrap_or_default();
        return ProgramVersion::from_version_table(table);
    }
    let line = version_line(&output, &name);
    ProgramVersion {
        text: line.or_else(|| version_line(&outcome.stderr.text(), &name)),
        ..ProgramVersion::default()
    }
}

/// JavaScript expression for the version table.
const VERSION_TABLE_SCRIPT: &str = "JSON.stringify(process.versions)";

/// Recognizes `node`, `node22`, `node-20.1`, `node_g`; but not `node_exporter`.
fn is_node(name: &str) -> bool {
    name == "node_g"
        || name
            .strip_prefix("node")
            .is_some_and(|suffix| suffix.chars().all(|c| c.is_ascii_digit() || "-.v".contains(c)))
}

impl ProgramVersion {
    /// Extracts the version of Node.js, Bun or Deno from its version table. The tables of Bun and
    /// Deno also contain the version of Node.js that they emulate.
    pub fn from_version_table(parts: BTreeMap<String, String>) -> ProgramVersion {
        let version_text =
            |key: &str, name: &str| parts.get(key).map(|version| format!("{name}{version}"));
        let names = [("bun", "Bun "), ("deno", "Deno "), ("node", "v")];
        let text = names.into_iter().find_map(|(key, name)| version_text(key, name));
        ProgramVersion { text, parts }
    }
}

/// Returns the first line that starts with the program's name, or else the first nonempty line.
/// Elixir, for example, first prints the version of Erlang.
fn version_line(text: &str, name: &str) -> Option<String> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let name = name.to_lowercase();
    let line = lines().find(|line| line.to_lowercase().starts_with(&name)).or(lines().next())?;
    Some(line.chars().take(200).collect())
}

/// Starts a program. Retries while the kernel refuses because the file is open for writing. This
/// happens if we have just written the program: another process of ours, between fork and exec,
/// still has a copy of the descriptor.
fn start_with_retry(spec: &ProcessSpec) -> Option<ProcessOutcome> {
    let clock = spec.clock;
    let deadline = clock.now() + spec.limit;
    loop {
        match run_child(spec, &mut ()) {
            Err(error)
                if error.kind() == ErrorKind::ExecutableFileBusy && clock.now() < deadline =>
            {
                clock.wait(Duration::from_millis(2));
            }
            result => return result.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::file_tree::fake::machine;
    use speedwell_fixtures::write_program;
    use std::fs;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::thread;
    use tempfile::TempDir;

    #[test]
    fn only_executable_files_are_programs() {
        let machine = machine(&[("/a/tool", "text"), ("/b/tool", "program")]);
        fs::set_permissions(machine.resolve("/b/tool"), Permissions::from_mode(0o755)).unwrap();
        let found = find_executable(&machine, OsStr::new("/nowhere:/a:/b"), "tool");
        assert_eq!(found, Some(machine.resolve("/b/tool")));
        assert_eq!(find_executable(&machine, OsStr::new("/a"), "tool"), None);
    }

    #[test]
    fn a_link_is_followed_to_the_build_it_stands_for() {
        let machine = machine(&[("/real/node-22", "12345")]);
        let link = machine.resolve("/node");
        symlink(machine.resolve("/real/node-22"), &link).unwrap();
        let noted = describe_program("new", &link, Some("v22.1.0"));
        assert_eq!(noted.path, machine.resolve("/real/node-22").canonicalize().unwrap());
        assert_eq!(noted.size_bytes, Some(5));
        assert!(noted.modified_unix_ms.is_some_and(|time| time > 1_500_000_000_000));
        assert_eq!((noted.variant.as_str(), noted.version.as_deref()), ("new", Some("v22.1.0")));
    }

    #[test]
    fn a_bare_name_is_looked_up_and_an_unknown_one_kept() {
        assert!(describe_program("a", Path::new("sh"), None).path.is_absolute());
        let unknown = describe_program("a", Path::new("no-such-program"), None);
        assert_eq!(unknown.path, Path::new("no-such-program"));
        assert_eq!(unknown.size_bytes, None);
    }

    fn fake_program(name: &str, script: &str) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        write_program(&path, &format!("#!/bin/sh\n{script}\n"));
        (folder, path)
    }

    fn version_of(name: &str, script: &str) -> Option<String> {
        let (_folder, path) = fake_program(name, script);
        // This clock never advances, so a slow machine does not matter.
        version_with_clock(WaitClock::movable(), &path).text
    }

    /// Starts to query the version, waits until `until` holds, and then lets the time run out.
    fn out_of_time(path: &Path, until: impl Fn() -> bool) -> ProgramVersion {
        let clock = WaitClock::movable();
        thread::scope(|scope| {
            let query = scope.spawn(|| version_with_clock(clock, path));
            wait_until(until);
            // `until` may hold before the query thread has read the clock, so the clock is advanced
            // repeatedly.
            while !query.is_finished() {
                clock.advance(VERSION_TIMEOUT);
                thread::sleep(Duration::from_millis(2));
            }
            query.join().unwrap()
        })
    }

    fn wait_until(is_done: impl Fn() -> bool) {
        let tries = (0..30_000).find(|_| {
            thread::sleep(Duration::from_millis(2));
            is_done()
        });
        assert!(tries.is_some(), "the condition was never met");
    }

    #[test]
    fn the_first_line_counts_unless_another_names_the_program() {
        assert_eq!(
            version_of("tool", "echo; echo 'Tool 1.2'; echo more").as_deref(),
            Some("Tool 1.2")
        );
        let elixir = "echo 'Erlang/OTP 25'; echo; echo 'Elixir 1.14.0 (compiled with 25)'";
        assert_eq!(
            version_of("elixir", elixir).as_deref(),
            Some("Elixir 1.14.0 (compiled with 25)")
        );
        assert_eq!(version_of("java", "echo 'openjdk 17' >&2").as_deref(), Some("openjdk 17"));
    }

    #[test]
    fn each_program_gets_its_own_version_option() {
        let go = r#"[ "$*" = version ] && echo "go version go1.22 linux/amd64""#;
        assert_eq!(version_of("go", go).as_deref(), Some("go version go1.22 linux/amd64"));
        let wrk = r#"[ "$*" = -v ] && echo "wrk 4.1.0 [epoll]"; exit 1"#;
        assert_eq!(version_of("wrk", wrk).as_deref(), Some("wrk 4.1.0 [epoll]"));
        assert_eq!(version_of("tool", "echo 'unknown option --version'; exit 2"), None);
    }

    #[test]
    fn node_tells_everything_in_one_start() {
        let script = r#"echo start >> "$0.starts"; echo '{"node":"20.1.0","v8":"11.3"}'"#;
        let (_folder, path) = fake_program("node-20", script);
        let version = program_version(&path);
        assert_eq!(version.text.as_deref(), Some("v20.1.0"));
        assert_eq!(version.parts["v8"], "11.3");
        let starts = fs::read_to_string(path.with_file_name("node-20.starts")).unwrap();
        assert_eq!(starts.lines().count(), 1);
    }

    #[test]
    fn bun_and_deno_report_their_own_version_not_that_of_node() {
        let table =
            |product: &str| format!("echo '{{\"node\":\"26.3.0\",\"{product}\":\"1.4.5\"}}'");
        let script_for = |words: &str, product: &str| {
            format!("[ \"$1 $2\" = '{words}' ] || exit 1; {}", table(product))
        };
        let bun = script_for("-p JSON.stringify(process.versions)", "bun");
        assert_eq!(version_of("bun", &bun).as_deref(), Some("Bun 1.4.5"));
        let deno = script_for("eval -p", "deno");
        assert_eq!(version_of("deno", &deno).as_deref(), Some("Deno 1.4.5"));
    }

    #[test]
    fn names_that_merely_begin_like_node_are_not_node() {
        for (name, expected) in
            [("node", true), ("node22", true), ("node-v20.1", true), ("node_exporter", false)]
        {
            assert_eq!(is_node(name), expected, "{name}");
        }
    }

    #[test]
    fn a_program_that_ignores_the_version_option_is_killed_with_children() {
        let (_folder, path) = fake_program("server", "sleep 600 & echo $! > \"$0.pid\"; wait");
        let child = path.with_file_name("server.pid");
        let pid = || fs::read_to_string(&child).ok()?.trim().parse::<i32>().ok();
        let version = out_of_time(&path, || pid().is_some());
        assert_eq!(version, ProgramVersion::default());
        let child = pid().expect("it started its child");
        // The kernel takes a moment to end the child. A dead process stays in the kernel's table
        // until its parent collects it.
        wait_until(|| {
            fs::read_to_string(format!("/proc/{child}/stat"))
                .map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X "))
        });
    }

    #[test]
    fn a_daemon_left_behind_does_not_hold_us_up() {
        // The pipe stays open for 600 s.
        let text = version_of("daemon", "echo 'daemon 3'; sleep 600 &");
        assert_eq!(text.as_deref(), Some("daemon 3"));
    }

    #[test]
    fn all_output_before_the_exit_is_read() {
        // The output is more than a pipe holds, so there is something to read until the very end.
        let long = "head -c 100000 /dev/zero | tr '\\0' ' ' >&2; echo; echo 'Tool 1.2'; head -c 60000 /dev/zero >&2";
        for _ in 0..5 {
            assert_eq!(version_of("tool", long).as_deref(), Some("Tool 1.2"));
        }
    }

    #[test]
    fn a_program_with_endless_output_is_killed_and_has_no_version() {
        let (_folder, path) = fake_program("chatty", "touch \"$0.here\"; yes chatty 1.0");
        let started_file = path.with_file_name("chatty.here");
        assert_eq!(out_of_time(&path, || started_file.exists()).text, None);
    }

    #[test]
    fn a_nonexistent_program_has_no_version() {
        assert_eq!(program_version(Path::new("/nonexistent/x")), ProgramVersion::default());
    }
}
