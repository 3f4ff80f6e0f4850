//! Starts programs in the environment that tests need, and measures what they cost.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// The checkout that this program belongs to.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What an ended program printed and cost.
pub(crate) struct Finished {
    /// Exit status as a shell reports it: 128 and the number of the signal if one ended the
    /// program, 127 if it could not be started.
    pub(crate) status: i32,
    /// Standard output and standard error, in the order of writing.
    pub(crate) output: String,
    /// Standard output, if [`execute_for_data`] read it.
    pub(crate) data: String,
    /// Duration.
    pub(crate) wall: Duration,
    /// User and system time, that of its ended children included.
    pub(crate) cpu: Duration,
}

/// Variables of every program: `None` removes one.
static ENVIRONMENT: LazyLock<Vec<(OsString, Option<OsString>)>> = LazyLock::new(|| {
    let mut changes: Vec<(OsString, Option<OsString>)> = env::vars_os()
        .map(|(name, _)| (name, None))
        .filter(|(name, _)| is_of_cargo(name))
        .collect();
    changes.push(("PATH".into(), Some(search_path())));
    changes.push(("LD_LIBRARY_PATH".into(), library_path()));
    // Node.js reads all these certificates at each start, which takes three times as long with them.
    changes.push(("NODE_EXTRA_CA_CERTS".into(), None));
    if env::var_os("ERL_ZFLAGS").is_none() {
        // Erlang's schedulers spin with sched_yield before they sleep. Each call yields to all
        // other tasks (Linux 6.18), so that a sleep of 1 ms takes half a second on a busy machine:
        // docs/reference/limits.md.
        let flags = "+sbwt none +sbwtdcpu none +sbwtdio none";
        changes.push(("ERL_ZFLAGS".into(), Some(flags.into())));
    }
    changes
});

/// Whether `cargo run` sets this variable for this program: others shall not think that they belong
/// to this package.
fn is_of_cargo(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "OUT_DIR"].contains(&&*name)
        || name.starts_with("CARGO_PKG_")
}

/// The search path, with the tools that scripts/install-test-tools puts into the cache folder, and
/// the interpreter of Python: if `python3` is a shim that looks up the version to execute, each start
/// takes 50 ms longer.
fn search_path() -> OsString {
    let given = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&given).collect();
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or(".".into())).join(".cache");
    let cache = env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty());
    folders.push(
        cache.map_or_else(home, PathBuf::from).join("speedwell/test-tools/node_modules/.bin"),
    );
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let python = asked.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned());
    if let Some(folder) = python.ok().as_deref().and_then(|path| Path::new(path).parent())
        && folder.is_absolute()
        && !folders.iter().any(|known| known == folder)
    {
        folders.insert(0, folder.to_owned());
    }
    env::join_paths(folders).unwrap_or(given)
}

/// The search path of libraries without the folders that `cargo run` puts in front.
fn library_path() -> Option<OsString> {
    let toolchain = env::var_os("CARGO").map(PathBuf::from);
    let libraries =
        toolchain.as_deref().and_then(|cargo| Some(cargo.parent()?.parent()?.join("lib")));
    let program = env::current_exe().ok();
    let built = program.as_deref().and_then(Path::parent).map(Path::to_owned);
    let of_cargo: Vec<PathBuf> = libraries.into_iter().chain(built).collect();
    let given = env::var_os("LD_LIBRARY_PATH")?;
    let kept: Vec<PathBuf> = env::split_paths(&given)
        .filter(|folder| !of_cargo.iter().any(|added| folder.starts_with(added)))
        .collect();
    env::join_paths(kept).ok().filter(|path| !path.is_empty())
}

/// A program to be started at the root of the checkout.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(ROOT);
    for (name, value) in ENVIRONMENT.iter() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Cargo with clippy as the compiler; a separate build for the lints would double the time.
pub(crate) fn linting_cargo() -> Command {
    let mut cargo = command("cargo");
    cargo.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    cargo
}

/// Whether a program is in the search path of [`command`].
pub(crate) fn is_installed(program: &str) -> bool {
    let path =
        ENVIRONMENT.iter().find(|(name, _)| name == "PATH").and_then(|(_, path)| path.clone());
    env::split_paths(&path.unwrap_or_default()).any(|folder| folder.join(program).is_file())
}

/// Executes a program without input to its end, copying its output to `screen`.
pub(crate) fn execute(command: &mut Command, screen: &mut dyn Write) -> Finished {
    finish(command, screen, false)
}

/// Like [`execute`] for a program whose standard output is for programs: it is not shown and
/// becomes [`Finished::data`].
pub(crate) fn execute_for_data(command: &mut Command, screen: &mut dyn Write) -> Finished {
    finish(command, screen, true)
}

fn finish(command: &mut Command, screen: &mut dyn Write, is_data_apart: bool) -> Finished {
    let begin = Instant::now();
    let attempted = attempt(command, screen, is_data_apart);
    let (status, output, data, cpu) = attempted.unwrap_or_else(|error| {
        let sentence = format!("cannot execute {:?}: {error}\n", command.get_program());
        // A closed screen must not end the tests.
        let _ = screen.write_all(sentence.as_bytes());
        (127, sentence.into_bytes(), Vec::new(), Duration::ZERO)
    });
    let [output, data] = [output, data].map(|text| String::from_utf8_lossy(&text).into_owned());
    Finished { status, output, data, wall: begin.elapsed(), cpu }
}

/// Returns the status, the shown output, the data, and the processor time.
fn attempt(
    command: &mut Command,
    screen: &mut dyn Write,
    is_data_apart: bool,
) -> io::Result<(i32, Vec<u8>, Vec<u8>, Duration)> {
    let (mut reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stderr(writer.try_clone()?);
    if is_data_apart {
        command.stdout(Stdio::piped());
        drop(writer);
    } else {
        command.stdout(writer);
    }
    let started = command.spawn();
    // The end of the output is seen only if this process has no writer.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = started?;
    let data = child.stdout.take().map(|mut stdout| {
        thread::spawn(move || {
            let mut data = Vec::new();
            stdout.read_to_end(&mut data).map(|_| data)
        })
    });
    let (mut output, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let count = match reader.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0 {
            break;
        }
        output.extend_from_slice(&buffer[..count]);
        let _ = screen.write_all(&buffer[..count]).and_then(|()| screen.flush());
    }
    let data = data.map(|reading| reading.join().unwrap_or_else(|_| Ok(Vec::new())));
    let (status, cpu) = wait(child.id())?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok((code, output, data.transpose()?.unwrap_or_default(), cpu))
}

/// Waits for a child; returns its status and processor time. The standard library does not report
/// the latter.
fn wait(pid: u32) -> io::Result<(ExitStatus, Duration)> {
    let mut status = 0;
    // SAFETY: an all-zero `rusage` is valid: it has only numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to variables that outlive the call.
    while unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, 0, &raw mut usage) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |spent: libc::timeval| {
        Duration::from_secs(spent.tv_sec as u64) + Duration::from_micros(spent.tv_usec as u64)
    };
    Ok((ExitStatus::from_raw(status), time(usage.ru_utime) + time(usage.ru_stime)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Finished {
        execute(command("sh").args(["-c", script]), &mut io::sink())
    }

    #[test]
    fn the_output_of_both_streams_is_copied_in_its_order() {
        let mut screen = Vec::new();
        let script = "echo one; echo two >&2; echo three; exit 3";
        let done = execute(command("sh").args(["-c", script]), &mut screen);
        assert_eq!((done.status, &*done.output), (3, "one\ntwo\nthree\n"));
        assert_eq!(screen, done.output.as_bytes());
    }

    #[test]
    fn data_is_not_shown() {
        let mut screen = Vec::new();
        let script = "echo data; echo progress >&2";
        let done = execute_for_data(command("sh").args(["-c", script]), &mut screen);
        assert_eq!((&*done.data, &*screen), ("data\n", "progress\n".as_bytes()));
    }

    #[test]
    fn a_program_that_died_or_is_absent_has_the_status_of_a_shell() {
        assert_eq!(shell("kill -9 $$").status, 128 + 9);
        let absent = execute(&mut command("/no/such/program"), &mut io::sink());
        assert_eq!(absent.status, 127);
        assert!(absent.output.starts_with("cannot execute \"/no/such/program\": "));
    }

    #[test]
    fn the_processor_time_of_ended_children_counts() {
        let done = shell("sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done'; true");
        assert!(done.cpu > Duration::from_millis(5), "{:?}", done.cpu);
        assert!(done.wall >= Duration::from_millis(5), "{:?}", done.wall);
    }

    #[test]
    fn programs_do_not_see_what_cargo_says_about_this_one() {
        assert_eq!(shell("echo ${CARGO_MANIFEST_DIR-none} $CARGO_PKG_NAME").output, "none\n");
        assert!(shell("echo $ERL_ZFLAGS").output.starts_with('+'));
        assert!(!is_installed("no-such-program") && is_installed("sh"));
    }
}
