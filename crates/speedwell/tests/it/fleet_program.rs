//! Variants of the program under test that send little to the machines of a fleet.
//!
//! The debug build has 180 MB, most of which are symbols. A fleet hashes, copies and hashes it again
//! for each machine, which takes longer than everything else in such a test. The machines of tests
//! are this one, so a script that starts the built program does there what the program would do.
//! Tests of sending send the program itself, without symbols.

use speedwell_fixtures::write_program;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program that cargo built.
pub const BUILT_PROGRAM: &str = env!("CARGO_BIN_EXE_speedwell");

/// Returns a program that sends a script to machines, which starts [`BUILT_PROGRAM`].
pub fn sending_script() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = create_folder("fleet-script");
        let program = folder.join("speedwell");
        replace_file(&program, link_or_copy);
        // A program sends the file of this name if there is one beside it.
        let script = format!("#!/bin/sh\nexec '{BUILT_PROGRAM}' \"$@\"\n");
        replace_file(&folder.join("speedwell-static"), |new| write_program(new, &script));
        program
    })
}

/// Returns a program without symbols, which sends itself to machines.
pub fn sending_itself() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = create_folder("fleet-itself").join("speedwell");
        if !is_newer(&program) {
            replace_file(&program, |new| {
                let stripped = Command::new("strip").arg("-o").arg(new).arg(BUILT_PROGRAM).status();
                if !stripped.is_ok_and(|status| status.success()) {
                    link_or_copy(new);
                }
            });
        }
        program
    })
}

fn create_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn is_newer(copy: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    changed(copy) > changed(Path::new(BUILT_PROGRAM))
}

/// Replaces a file at once: another test program may be using it.
fn replace_file(file: &Path, write: impl FnOnce(&Path)) {
    let new = file.with_extension(std::process::id().to_string());
    write(&new);
    fs::rename(&new, file).unwrap();
    // If both were links to one file, rename(2) has left them alone.
    let _ = fs::remove_file(new);
}

/// Copies the built program. This process never has the copy open for writing: see
/// [`write_program`].
fn link_or_copy(new: &Path) {
    if fs::hard_link(BUILT_PROGRAM, new).is_err() {
        let copied = Command::new("cp").arg(BUILT_PROGRAM).arg(new).status();
        assert!(copied.unwrap().success());
    }
}
