//! Manages the fleet folder on a machine. The folder has a content-addressed store of objects,
//! bundles made from the objects, one folder per session, and the program `speedwell`, which
//! [`send_program`] sends to a machine that does not have it yet.
//!
//! An object is written to a temporary file, synced, verified and renamed, so every object in the
//! store is complete. Its digest is verified again before the object becomes part of a bundle.
//! [`send_bundle`] and [`receive_bundle`] are the two ends of a connection. Only missing objects
//! are transferred. Start at [`ContentStore`].

use crate::machines::bundle::{
    BundleEntry, FLEET_SUBFOLDERS, FileBundle, bundle_id, hash_reader, validate_entries,
};
use crate::machines::{FleetEngine, FleetMachine};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use speedwell_machine::worker::{last_line, read_message, write_message};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Child;

/// Name of the symlink from a session's folder to its bundle.
pub const BUNDLE_LINK: &str = "bundle";

/// The fleet folder of a machine. Several machines may share a folder.
#[derive(Debug, Clone)]
pub struct ContentStore {
    folder: PathBuf,
}

impl ContentStore {
    /// Opens the folder, creates it if it is missing, and restricts access to the current user.
    ///
    /// # Errors
    /// Fails if the folder cannot be created or belongs to another user.
    pub fn open(folder: &Path) -> Result<ContentStore> {
        create_private_folder(folder)?;
        for subfolder in FLEET_SUBFOLDERS {
            create_private_folder(&folder.join(subfolder))?;
        }
        // The folder may be inside a git checkout.
        let ignore = folder.join(".gitignore");
        if !ignore.exists() {
            fs::write(&ignore, "*\n")
                .with_context(|| format!("cannot write '{}'", ignore.display()))?;
        }
        Ok(ContentStore { folder: folder.to_owned() })
    }

    /// Returns the folder of a session, and creates it if it is missing.
    ///
    /// # Errors
    /// Fails if the ID is invalid or the folder cannot be created.
    pub fn session_folder(&self, id: &str) -> Result<PathBuf> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        ensure!(
            !id.is_empty() && id.bytes().all(is_allowed),
            "invalid session id '{}'",
            id.escape_debug()
        );
        let folder = self.folder.join("sessions").join(id);
        for subfolder in ["", "bin", "orders", "spools"] {
            create_private_folder(&folder.join(subfolder))?;
        }
        Ok(folder)
    }

    fn object_path(&self, sha256: &str) -> PathBuf {
        let (prefix, suffix) = sha256.split_at(2);
        self.folder.join("objects").join(prefix).join(suffix)
    }

    /// Returns the entries whose objects are missing, one for each digest, sorted by digest.
    pub fn missing_objects<'e>(&self, entries: &'e [BundleEntry]) -> Vec<&'e BundleEntry> {
        let is_missing = |entry: &&BundleEntry| {
            let metadata = fs::metadata(self.object_path(&entry.sha256));
            metadata.map(|metadata| metadata.len()).ok() != Some(entry.bytes)
        };
        let mut missing: Vec<&BundleEntry> = entries.iter().filter(is_missing).collect();
        missing.sort_by_key(|entry| &entry.sha256);
        missing.dedup_by(|left, right| left.sha256 == right.sha256);
        missing
    }

    /// Adds objects that are hard links to the programs that [`send_program`] sent earlier. The
    /// content of these objects is verified before they become part of a bundle.
    fn adopt_programs(&self, entries: &[BundleEntry]) {
        for entry in entries.iter().filter(|entry| entry.is_program) {
            let sent_program = self.folder.join(program_path(&entry.sha256));
            let object = self.object_path(&entry.sha256);
            let object_folder = object.parent().unwrap_or(&self.folder);
            if sent_program.is_file() && create_private_folder(object_folder).is_ok() {
                // If the link cannot be created, the program is treated as missing and is sent.
                let _ = fs::hard_link(sent_program, object);
            }
        }
    }

    /// Stores an object with this digest and size.
    ///
    /// # Errors
    /// Fails if the content does not match or cannot be written.
    pub fn put_object(&self, sha256: &str, bytes: u64, from: &mut dyn Read) -> Result<()> {
        let path = self.object_path(sha256);
        create_private_folder(path.parent().unwrap_or(&self.folder))?;
        let temporary = path.with_extension(format!("{}.part", std::process::id()));
        let mut store = || -> Result<()> {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true);
            let mut file = options.mode(0o600).open(&temporary)?;
            let copied = io::copy(&mut from.take(bytes), &mut file)?;
            ensure!(copied == bytes, "it ends after {copied} of {bytes} bytes");
            file.sync_data()?;
            let stored_digest = hash_reader(&mut File::open(&temporary)?)?;
            ensure!(stored_digest == sha256, "its digest is {stored_digest}");
            Ok(fs::rename(&temporary, &path)?)
        };
        store().map_err(|error| {
            // Remove the incomplete file: a retry starts from scratch.
            let _ = fs::remove_file(&temporary);
            error.context(format!("cannot store object {sha256}"))
        })
    }

    /// Lays out a bundle and returns its folder. An existing folder is used as it is.
    ///
    /// # Errors
    /// Fails if the list is invalid, an object is missing or damaged, or the disk fails.
    pub fn lay_out_bundle(&self, entries: &[BundleEntry]) -> Result<PathBuf> {
        validate_entries(entries)?;
        let target = self.folder.join("bundles").join(bundle_id(entries));
        if target.is_dir() {
            return Ok(target);
        }
        let temporary = target.with_extension(format!("{}.part", std::process::id()));
        if temporary.exists() {
            fs::remove_dir_all(&temporary)?;
        }
        create_private_folder(&temporary)?;
        for entry in entries {
            let error_context = || format!("cannot lay out '{}'", entry.path);
            self.lay_out_entry(entry, &temporary).with_context(error_context)?;
        }
        match fs::rename(&temporary, &target) {
            // Another process has laid out the same bundle in the meantime.
            Err(_) if target.is_dir() => fs::remove_dir_all(&temporary)?,
            renamed => renamed?,
        }
        Ok(target)
    }

    fn lay_out_entry(&self, entry: &BundleEntry, folder: &Path) -> Result<()> {
        let object = self.object_path(&entry.sha256);
        let actual_digest = hash_reader(&mut File::open(&object)?)?;
        if actual_digest != entry.sha256 {
            fs::remove_file(&object)?;
            bail!("its object is damaged: the digest is {actual_digest}");
        }
        let path = folder.join(&entry.path);
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(folder))?;
        let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        // Hard-link programs: they are large, and nothing writes to them.
        if entry.is_program && fs::hard_link(&object, &path).is_ok() {
            return Ok(set_mode(0o700)?);
        }
        // Copy other files: a benchmark that writes to its files must not change the object.
        fs::copy(&object, &path)?;
        Ok(set_mode(if entry.is_program { 0o700 } else { 0o600 })?)
    }

    /// Lays out the bundle and links the folder of its session to it. Returns both folders.
    fn link_bundle(&self, session: PathBuf, entries: &[BundleEntry]) -> Result<(PathBuf, PathBuf)> {
        let bundle = self.lay_out_bundle(entries)?;
        let (link, temporary) = (session.join(BUNDLE_LINK), session.join("bundle.part"));
        let name = bundle.file_name().unwrap_or_default();
        let target = Path::new("../../bundles").join(name);
        let _ = fs::remove_file(&temporary);
        std::os::unix::fs::symlink(target, &temporary)
            .and_then(|()| fs::rename(&temporary, &link))
            .with_context(|| format!("cannot make '{}'", link.display()))?;
        Ok((session, bundle))
    }
}

/// Creates a folder if it is missing, and restricts access to the current user. Rejects a folder of
/// another user.
fn create_private_folder(folder: &Path) -> Result<()> {
    let error_context = || format!("cannot use the folder '{}'", folder.display());
    DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(error_context)?;
    let metadata = fs::symlink_metadata(folder).with_context(error_context)?;
    let user_id = rustix::process::geteuid().as_raw();
    ensure!(
        metadata.is_dir() && metadata.uid() == user_id,
        "the folder '{}' belongs to another user",
        folder.display()
    );
    if metadata.permissions().mode() & 0o077 != 0 {
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(folder, private).with_context(error_context)?;
    }
    Ok(())
}

/// First message of the sender.
#[derive(Serialize, Deserialize)]
struct BundleOffer {
    session: String,
    entries: Vec<BundleEntry>,
}

/// Reply of the receiver.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReceiverReply {
    /// Send the objects with these digests, in this order.
    Missing(Vec<String>),
    /// The bundle is laid out. Contains the folders of the session and of the bundle.
    Ready(PathBuf, PathBuf),
    Refused(String),
}

/// Sends the missing objects of a bundle. Returns the remote folders of the session and the bundle.
///
/// # Errors
/// Fails if the connection breaks or the receiver rejects the bundle.
pub fn send_bundle(
    bundle: &FileBundle,
    session: &str,
    writer: &mut dyn Write,
    reader: &mut dyn BufRead,
) -> Result<(PathBuf, PathBuf)> {
    let offer = BundleOffer { session: session.to_owned(), entries: bundle.entries.clone() };
    write_message(writer, &offer)?;
    loop {
        match read_message::<ReceiverReply>(reader)? {
            ReceiverReply::Missing(missing) => {
                for sha256 in &missing {
                    io::copy(&mut bundle.open_content(sha256)?, writer)
                        .context("connection lost")?;
                }
                writer.flush().context("connection lost")?;
            }
            ReceiverReply::Ready(session, bundle) => return Ok((session, bundle)),
            ReceiverReply::Refused(reason) => bail!("{reason}"),
        }
    }
}

/// Receives a bundle from [`send_bundle`]: stores the missing objects and lays out the bundle in
/// `folder`. Calls `before_reply` with the folders of the session and the bundle before reporting
/// success.
///
/// # Errors
/// Fails if the connection breaks. All other errors are reported to the sender.
pub fn receive_bundle(
    folder: &Path,
    reader: &mut dyn BufRead,
    writer: &mut dyn Write,
    before_reply: &dyn Fn(&Path, &Path) -> Result<()>,
) -> Result<()> {
    let received = receive_objects(folder, reader, writer).and_then(|(session, bundle)| {
        before_reply(&session, &bundle)?;
        Ok((session, bundle))
    });
    let refused = |error: anyhow::Error| ReceiverReply::Refused(format!("{error:#}"));
    let ready = |(session, bundle)| ReceiverReply::Ready(session, bundle);
    write_message(writer, &received.map_or_else(refused, ready))
}

fn receive_objects(
    folder: &Path,
    reader: &mut dyn BufRead,
    writer: &mut dyn Write,
) -> Result<(PathBuf, PathBuf)> {
    let offer: BundleOffer = read_message(reader)?;
    validate_entries(&offer.entries)?;
    let store = ContentStore::open(folder)?;
    let session = store.session_folder(&offer.session)?;
    store.adopt_programs(&offer.entries);
    let missing = store.missing_objects(&offer.entries);
    let digests = missing.iter().map(|entry| entry.sha256.clone()).collect();
    write_message(writer, &ReceiverReply::Missing(digests))?;
    for entry in missing {
        store.put_object(&entry.sha256, entry.bytes, reader)?;
    }
    store.link_bundle(session, &offer.entries)
}

/// Lays out a bundle in a directly accessible folder, such as a shared folder. Returns the folders
/// of the session and the bundle.
///
/// # Errors
/// See [`ContentStore::put_object`] and [`ContentStore::lay_out_bundle`].
pub fn lay_out_locally(
    bundle: &FileBundle,
    session: &str,
    folder: &Path,
) -> Result<(PathBuf, PathBuf)> {
    let store = ContentStore::open(folder)?;
    let session = store.session_folder(session)?;
    for BundleEntry { sha256, bytes, .. } in store.missing_objects(&bundle.entries) {
        store.put_object(sha256, *bytes, &mut *bundle.open_content(sha256)?)?;
    }
    store.link_bundle(session, &bundle.entries)
}

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
    let look = ["/bin/sh", "-c", DIGEST_SCRIPT, "look", &remote_path, &folder];
    let digest_command = engine.start_command(&machine.name, &look)?;
    let remote_digest = send_and_read(digest_command, &mut io::empty())?;
    if remote_digest.split_whitespace().next() == Some(digest.as_str()) {
        return Ok(path);
    }
    bytes.rewind()?;
    let receive = ["/bin/sh", "-c", RECEIVE_SCRIPT, "receive", &remote_path];
    let receive_command = engine.start_command(&machine.name, &receive)?;
    send_and_read(receive_command, &mut bytes).context("cannot send the program")?;
    Ok(path)
}

/// Returns the path, relative to the fleet folder, of a program sent by [`send_program`]. Programs
/// in bundles have other paths.
fn program_path(digest: &str) -> PathBuf {
    Path::new("programs").join(format!("speedwell-{}", &digest[..NAME_DIGITS]))
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
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::{
        BundleOffer, ContentStore, ReceiverReply, lay_out_locally, receive_bundle, send_bundle,
    };
    use crate::machines::bundle::{BundleEntry, BundleSource, FileBundle, bundle_id};
    use std::fs;
    use std::io::{BufReader, Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    fn text_bundle(texts: &[(&str, &str)]) -> FileBundle {
        let wanted = texts
            .iter()
            .map(|(to, text)| BundleSource::Text { text: (*text).into(), to: (*to).into() });
        FileBundle::gather(&wanted.collect::<Vec<_>>()).unwrap()
    }

    /// Sends a bundle over a socket. Returns the result and the number of bytes sent.
    fn send_over_socket(
        bundle: &FileBundle,
        folder: &Path,
    ) -> (anyhow::Result<std::path::PathBuf>, usize) {
        let (here, there) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut to = there.try_clone().unwrap();
                receive_bundle(folder, &mut BufReader::new(&there), &mut to, &|_, _| Ok(()))
                    .unwrap();
            });
            let mut counted = CountingWriter(here.try_clone().unwrap(), 0);
            let done = send_bundle(bundle, "0-a", &mut counted, &mut BufReader::new(&here));
            (done.map(|(_, bundle)| bundle), counted.1)
        })
    }

    struct CountingWriter(UnixStream, usize);

    impl Write for CountingWriter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1 += bytes.len();
            self.0.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            self.0.flush()
        }
    }

    #[test]
    fn only_missing_objects_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let large = "x".repeat(100_000);
        let first = text_bundle(&[("a", &large), ("b/c", "small")]);
        let (place, bytes) = send_over_socket(&first, folder.path());
        let place = place.unwrap();
        assert_eq!(fs::read_to_string(place.join("b/c")).unwrap(), "small");
        assert_eq!(place.file_name().unwrap().to_str().unwrap(), bundle_id(&first.entries));
        assert!(bytes > 100_000);
        let second = text_bundle(&[("a", &large), ("b/c", "other"), ("d", &large)]);
        let (other, bytes) = send_over_socket(&second, folder.path());
        assert!(bytes < 1_000, "{bytes}");
        let other = other.unwrap();
        assert_eq!(fs::read_to_string(other.join("d")).unwrap(), large);
        assert_ne!(other, place);
        // Sending over a connection and laying out locally give the same result.
        assert_eq!(lay_out_locally(&second, "0-b", folder.path()).unwrap().1, other);
    }

    #[test]
    fn changes_made_by_a_benchmark_stay_within_its_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let (_, place) =
            lay_out_locally(&text_bundle(&[("a", "text")]), "0", folder.path()).unwrap();
        fs::write(place.join("a"), "changed").unwrap();
        let (_, other) =
            lay_out_locally(&text_bundle(&[("a", "text"), ("b", "")]), "0", folder.path()).unwrap();
        assert_eq!(fs::read_to_string(other.join("a")).unwrap(), "text");
    }

    #[test]
    fn a_damaged_object_is_refused_and_sent_anew() {
        let folder = tempfile::tempdir().unwrap();
        let first = text_bundle(&[("a", "text")]);
        lay_out_locally(&first, "0", folder.path()).unwrap();
        let sha256 = first.entries[0].sha256.clone();
        let object = folder.path().join("objects").join(&sha256[..2]).join(&sha256[2..]);
        fs::write(&object, "tixt").unwrap();
        let second = text_bundle(&[("a", "text"), ("b", "")]);
        let refusal = send_over_socket(&second, folder.path()).0.unwrap_err().to_string();
        assert!(refusal.contains("'a': its object is damaged"), "{refusal}");
        assert!(send_over_socket(&second, folder.path()).0.is_ok());
    }

    #[test]
    fn a_hostile_offer_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("fleet");
        let hostile = |session: &str, path: &str, content: &str| {
            let offer = BundleOffer {
                session: session.into(),
                entries: vec![BundleEntry {
                    path: path.into(),
                    is_program: false,
                    sha256: "0".repeat(64),
                    bytes: content.len() as u64,
                }],
            };
            let mut line = serde_json::to_string(&offer).unwrap();
            line.push('\n');
            line.push_str(content);
            let mut answers = Vec::new();
            receive_bundle(&inner, &mut line.as_bytes(), &mut answers, &|_, _| Ok(())).unwrap();
            let answers = String::from_utf8(answers).unwrap();
            let last = answers.lines().last().unwrap().to_owned();
            match serde_json::from_str(&last).unwrap() {
                ReceiverReply::Refused(reason) => reason,
                _ => panic!("the offer was accepted: {last}"),
            }
        };
        assert!(hostile("0", "../x", "text").contains("an invalid path '../x'"));
        assert!(!inner.exists(), "nothing was made for it");
        assert!(hostile("../0", "x", "text").contains("invalid session id"));
        assert!(hostile("0", "x", "text").contains("its digest is"));
        let left: Vec<_> = fs::read_dir(inner.join("objects/00")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn the_folders_are_for_their_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("fleet");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        let depot = ContentStore::open(&inner).unwrap();
        let session = depot.session_folder("0-a").unwrap();
        for path in [&inner, &session, &session.join("orders")] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn a_lost_connection_is_an_error_at_both_ends() {
        let folder = tempfile::tempdir().unwrap();
        let refusal =
            send_bundle(&text_bundle(&[("a", "text")]), "0", &mut Vec::new(), &mut "".as_bytes());
        assert_eq!(refusal.unwrap_err().to_string(), "connection lost");
        let mut answers = Vec::new();
        receive_bundle(
            folder.path(),
            &mut "{\"session\":\"0\"".as_bytes(),
            &mut answers,
            &|_, _| Ok(()),
        )
        .unwrap();
        let mut text = String::new();
        answers.as_slice().read_to_string(&mut text).unwrap();
        assert!(text.contains("connection lost"), "{text}");
    }
}

#[cfg(test)]
mod program_tests {
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
