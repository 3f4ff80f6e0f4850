//! What a session and the doctor detect about this machine.

use speedwell_machine::environment::{
    CheckState, capture_environment, check_free_disk, program_version, run_all_checks,
};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn this_machine_gets_all_checks() {
    let found = run_all_checks(Path::new("/"));
    for name in [
        "cpu governor",
        "turbo",
        "smt",
        "processors",
        "cpu quota",
        "virtual machine",
        "load",
        "cpu pressure",
        "memory pressure",
        "io pressure",
        "stolen time",
        "free memory",
        "swap",
        "noise",
        "clock source",
        "clock cost",
        "timer lateness",
        "aslr",
        "performance counters",
        "open files",
        "toolchain node",
        "toolchain perf",
    ] {
        assert!(found.iter().any(|check| check.name == name), "{name} is missing");
    }
    assert_ne!(check_free_disk(Path::new(".")).state, CheckState::Unknown);
}

#[test]
fn the_processor_count_matches_the_processors_available_to_a_child() {
    let Ok(nproc) = Command::new("nproc").env_remove("OMP_NUM_THREADS").output() else {
        println!("skipped: there is no nproc here");
        return;
    };
    let seen: u32 = String::from_utf8_lossy(&nproc.stdout).trim().parse().unwrap();
    let captured = capture_environment(&[]);
    // A CPU quota lowers only our count.
    if captured.facts.contains_key("cpu_quota") {
        assert!(captured.cpus.unwrap() <= seen)
    } else {
        assert_eq!(captured.cpus, Some(seen))
    }
}

#[test]
fn a_session_can_name_the_build_of_every_program() {
    let rustc = PathBuf::from(env!("CARGO")).with_file_name("rustc");
    if !rustc.exists() {
        println!("skipped: no rustc beside cargo");
        return;
    }
    let version = program_version(&rustc);
    assert!(version.text.as_deref().is_some_and(|text| text.starts_with("rustc 1.")));
    let environment = capture_environment(&[("old".into(), rustc, version.text.clone())]);
    assert_eq!(environment.programs[0].version, version.text);
    assert!(environment.programs[0].path.is_absolute());
}
