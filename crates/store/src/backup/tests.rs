//! A backup stays readable: the last unreleased version wrote the file beside this one.

use super::*;
use crate::back_end_tests::test_backends;

const STORED: &str = include_str!("version-3.jsonl");

/// Returns the lines of a backup without the headers of sessions: these may gain keys.
fn lasting_lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with("{\"speedwell\":\"session\"")).collect()
}

#[test]
fn a_backup_of_version_3_is_restored_without_loss() {
    for backend in test_backends() {
        let mut store = backend.open();
        let mut lines = BackupLines::new(STORED.as_bytes()).unwrap();
        assert_eq!(lines.next_project().unwrap(), Some((String::new(), false)));
        store.restore_project(&mut lines).unwrap();
        assert_eq!(lines.next_project().unwrap(), None);

        let session = store.load_session(1).unwrap();
        assert_eq!(session.id, "a");
        assert_eq!(session.tags, ["first"]);
        let mut written = Vec::new();
        store.write_backup(("", false), &mut written).unwrap();
        let written = String::from_utf8(written).unwrap();
        let stored = lasting_lines(STORED);
        assert_eq!(lasting_lines(&written), stored[1..stored.len() - 1]);
    }
}

#[test]
fn backups_of_other_versions_are_refused() {
    for (version, expected) in [
        (2, "by an unreleased version of speedwell (format 2)"),
        (4, "by a newer speedwell (format 4"),
    ] {
        let text = STORED.replacen("\"version\":3", &format!("\"version\":{version}"), 1);
        let refused = BackupLines::new(text.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains(expected) && refused.contains("\nhint: "), "{refused}");
    }
}
