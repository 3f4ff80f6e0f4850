//! Sends the program `speedwell` to a machine that does not have it yet. There, the program is
//! identified by its digest. Start at [`send_program`].

use crate::machines::bundle::hash_reader;
use crate::machines::{FleetEngine, FleetMachine};
use anyhow::{Context, Result, ensure};
use speedwell_machine::worker::last_line;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Child;

/// Creates the fleet folder `$2` if it is missing, and fails if the folder belongs to another user.
/// Prints the digest of the file `$1` if the file exists.
const DIGEST_SCRIPT: &str = r#"umask 077
mkdir -p "$2/programs" || exit 3
[ -O "$2" ] || { echo "the folder $2 belongs to another user" >&2; exit 3; }
[ ! -f "$1" ] || sha256sum <"$1""#;
/// Writes stdin to the file `$1`, atomically.
const RECEIVE_SCRIPT: &str = r#"umask 077
cat >"$1.$$" && chmod 700 "$1.$$" && mv "$1.$$" "$1""#;
/// Number of digits of the digest in the file name. Comparisons use the full digest.
const NAME_DIGITS: usize = 16;

/// Name of the statically linked program, next to the regular one.
const STATIC_NAME: &str = "speedwell-static";

/// Returns the program to send to other machines. `own` is the path of this machine's `speedwell`.
/// If there is a statically linked program next to it, returns that one, because shared libraries
/// on other machines may be older than those on this machine.
pub fn program_to_send(own: &Path) -> PathBuf {
    let static_program = own.with_file_name(STATIC_NAME);
    if static_program.is_file() { static_program } else { own.to_owned() }
}

/// Ensures that the machine has `program`, and returns the program's path there. If the path of a
/// program is configured for the machine, returns the configured path and sends nothing.
///
/// # Errors
/// Fails if the machine cannot be reached or does not let us write.
pub fn send_program(
    engine: &mut FleetEngine,
    machine: &FleetMachine,
    program: &Path,
) -> Result<PathBuf> {
    if let Some(binary) = &machine.binary {
        return Ok(binary.clone());
    }
    let error_context = || format!("cannot read '{}'", program.display());
    let mut bytes = File::open(program).with_context(error_context)?;
    let digest = hash_reader(&mut bytes)?;
    let path = machine.folder.join(program_path(&digest));
    let (remote_path, folder) = (path.to_string_lossy(), machine.folder.to_string_lossy());
    let digest_command = engine.start_command(
        &machine.name,
        &["/bin/sh", "-c", DIGEST_SCRIPT, "look", &remote_path, &folder],
    )?;
    let remote_digest = send_and_read(digest_command, &mut io::empty())?;
    if remote_digest.split_whitespace().next() == Some(digest.as_str()) {
        return Ok(path);
    }
    bytes.rewind()?;
    let receive_command = engine.start_command(
        &machine.name,
        &["/bin/sh", "-c", RECEIVE_SCRIPT, "receive", &remote_path],
    )?;
    send_and_read(receive_command, &mut bytes).context("cannot send the program")?;
    Ok(path)
}

/// Returns the path, relative to the fleet folder, of a program sent by [`send_program`]. Programs
/// in bundles have other paths.
pub(crate) fn program_path(digest: &str) -> PathBuf {
    let name = format!("speedwell-{}", &digest[..NAME_DIGITS]);
    Path::new("programs").join(name)
}

/// Sends input over a connection and returns the output.
///
/// # Errors
/// Fails with the last line of the remote program's stderr if that program fails.
fn send_and_read(mut connection: Child, input: &mut impl Read) -> Result<String> {
    let copied = match connection.stdin.take() {
        Some(mut stdin) => io::copy(input, &mut stdin).and_then(|_| stdin.flush()),
        None => Ok(()),
    };
    let output = connection.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let reason = Some(last_line(&stderr)).filter(|line| !line.is_empty());
    ensure!(output.status.success(), "{}", reason.unwrap_or("the connection ended"));
    copied?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::program_to_send;

    #[test]
    fn the_static_program_is_sent_if_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("speedwell");
        std::fs::write(&own, "own").unwrap();
        assert_eq!(program_to_send(&own), own);
        let beside = folder.path().join("speedwell-static");
        std::fs::write(&beside, "static").unwrap();
        assert_eq!(program_to_send(&own), beside);
    }
}
