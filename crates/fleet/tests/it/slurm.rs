//! The engine of Slurm with a controller and three machines.

use crate::{is_over, names_and_states, session, wait_for, wait_for_text, work};
use speedwell_fixtures::lab;
use speedwell_fleet::{Engine, JobState, MachineState, Slurm};
use speedwell_suite::fleet::SlurmOptions;
use std::io::{Read, Write};

/// A cluster, and the engine for it; nothing where there can be none.
fn lab() -> Option<(lab::Slurm, Engine)> {
    let slurm = lab::Slurm::start();
    let slurm = slurm.inspect_err(|why| eprintln!("skipped: {why}")).ok()?;
    let engine = engine_of(&slurm, "bench");
    Some((slurm, engine))
}

fn engine_of(slurm: &lab::Slurm, partition: &str) -> Engine {
    let options = SlurmOptions {
        partition: Some(partition.into()),
        ..SlurmOptions::default()
    };
    let engine = Slurm::new(options, slurm.folder(), Vec::new());
    Engine::Slurm(engine.with_conf(slurm.conf()))
}

#[test]
fn tasks_of_a_job_are_performed_one_after_the_other_on_their_machine() {
    let Some((slurm, mut engine)) = lab() else {
        return;
    };
    // The machines are one host, so the name is what Slurm calls it; nothing of our environment is there.
    let script = r#"echo "$SLURMD_NODENAME $1 $3 ${CARGO_MANIFEST_DIR-}" >>"$2/done""#;
    let folder = session(&slurm.folder(), script);
    let submitted = engine.submit(&work("n2", &folder, &[7, 9, 2000])).unwrap();
    assert!(submitted.lines.is_none());
    assert_eq!(
        submitted.job.0.split(',').count(),
        2,
        "an array has no index 1993: {submitted:?}"
    );
    assert_eq!(
        wait_for(&mut engine, &submitted.job, is_over),
        JobState::Ended(None)
    );
    let mut done: Vec<String> = std::fs::read_to_string(folder.join("done"))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    done.sort_by_key(|line| line.len());
    assert_eq!(
        done,
        [
            "n2 perform-parcel 7 ",
            "n2 perform-parcel 9 ",
            "n2 perform-parcel 2000 "
        ]
    );
}

#[test]
fn a_job_waits_for_its_machine_is_cancelled_and_says_why_it_failed() {
    let Some((slurm, mut engine)) = lab() else {
        return;
    };
    let script = r#"[ "$3" = 1 ] || exit 3; echo begun >"$2/begun"; exec sleep 600"#;
    let folder = session(&slurm.folder(), script);
    let first = engine.submit(&work("n1", &folder, &[1])).unwrap().job;
    wait_for_text(&folder.join("begun"), "begun\n");
    assert_eq!(
        engine.state(std::slice::from_ref(&first)).unwrap(),
        [JobState::Running]
    );
    let machines = engine.machines().unwrap();
    let states = names_and_states(&machines);
    assert_eq!(states[0], ("n1", &MachineState::Busy));
    assert_eq!(states[1], ("n2", &MachineState::Free));
    // The machine is exclusive, so the second waits.
    let second = engine.submit(&work("n1", &folder, &[2])).unwrap().job;
    let waiting = wait_for(
        &mut engine,
        &second,
        |state| matches!(state, JobState::Waiting(reason) if reason == "Resources" || reason == "Priority"),
    );
    let both = engine.state(&[first.clone(), second.clone()]).unwrap();
    assert_eq!(both[0], JobState::Running, "{waiting:?}");
    engine.cancel(std::slice::from_ref(&first)).unwrap();
    let ended = wait_for(&mut engine, &first, is_over);
    assert!(
        matches!(&ended, JobState::Ended(Some(why)) if why.starts_with("CANCELLED")),
        "{ended:?}"
    );
    let ended = wait_for(&mut engine, &second, is_over);
    assert_eq!(
        ended,
        JobState::Ended(Some("FAILED (NonZeroExitCode)".into()))
    );
    // What is over may be cancelled again.
    engine.cancel(&[first, second]).unwrap();
}

#[test]
fn a_drained_machine_and_an_unknown_partition_are_named_with_slurms_reason() {
    let Some((slurm, mut engine)) = lab() else {
        return;
    };
    slurm.says(
        "scontrol",
        &["update", "nodename=n3", "state=drain", "reason=new fans"],
    );
    let machines = engine.machines().unwrap();
    assert_eq!(
        names_and_states(&machines),
        [
            ("n1", &MachineState::Free),
            ("n2", &MachineState::Free),
            ("n3", &MachineState::Unfit("drained: new fans".into())),
        ]
    );
    assert!(machines.iter().all(|machine| machine.labels == ["lab"]));
    let folder = session(&slurm.folder(), "true");
    let mut other = engine_of(&slurm, "other");
    let refused = other
        .submit(&work("n1", &folder, &[1]))
        .unwrap_err()
        .to_string();
    assert!(
        refused == "sbatch: Batch job submission failed: Invalid partition name specified",
        "{refused}"
    );
    let refused = engine
        .submit(&work("n7", &folder, &[1]))
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "sbatch: Batch job submission failed: Invalid node name specified"
    );
    // A line goes to the machine that is named, and words are what they are.
    let mut line = engine
        .reach(
            "n2",
            &[
                "sh",
                "-c",
                "echo $SLURMD_NODENAME \"$@\"; cat",
                "sh",
                "$(id) 'a b'",
            ],
        )
        .unwrap();
    line.stdin.take().unwrap().write_all(b"ready").unwrap();
    let mut said = String::new();
    line.stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "n2 $(id) 'a b'\nready");
    assert!(line.wait().unwrap().success());
}
