//! The Slurm engine with a controller and three machines.

use crate::{
    create_session, is_over, names_and_states, task_batch, wait_for, wait_for_text, wait_until,
};
use speedwell_config::fleet::SlurmOptions;
use speedwell_fixtures::clusters;
use speedwell_remote::machines::{
    FleetEngine, JobState, LeaseComponent, MachineState, SlurmEngine,
};
use std::io::{BufRead, BufReader, Read, Write};

/// A cluster and an engine for it; `None` if Slurm is unavailable.
fn start_cluster() -> Option<(clusters::SlurmCluster, FleetEngine)> {
    let slurm = clusters::SlurmCluster::start();
    let slurm = slurm.inspect_err(|why| eprintln!("skipped: {why}")).ok()?;
    let engine = engine_of(&slurm, "bench");
    Some((slurm, engine))
}

fn engine_of(slurm: &clusters::SlurmCluster, partition: &str) -> FleetEngine {
    let options = SlurmOptions { partition: Some(partition.into()), ..SlurmOptions::default() };
    let engine = SlurmEngine::new(options, slurm.folder(), Vec::new());
    FleetEngine::Slurm(engine.with_conf(slurm.config_path()))
}

#[test]
fn tasks_of_a_job_are_performed_one_after_the_other_on_their_machine() {
    let Some((slurm, mut engine)) = start_cluster() else {
        return;
    };
    // All machines are this host, so print Slurm's node name. Our environment must not be visible.
    let script = r#"echo "$SLURMD_NODENAME $1 $2 $4 ${CARGO_MANIFEST_DIR-}" >>"$3/done""#;
    let folder = create_session(&slurm.folder(), script);
    let submitted = engine.submit(&task_batch("n2", &folder, &[7, 9, 2000])).unwrap();
    assert!(submitted.lines.is_none());
    assert_eq!(submitted.job.0.split(',').count(), 2, "an array has no index 1993: {submitted:?}");
    assert_eq!(wait_for(&mut engine, &submitted.job, is_over), JobState::Ended(None));
    let mut done: Vec<String> =
        std::fs::read_to_string(folder.join("done")).unwrap().lines().map(str::to_owned).collect();
    done.sort_by_key(|line| line.len());
    assert_eq!(done, ["n2 worker shard 7 ", "n2 worker shard 9 ", "n2 worker shard 2000 "]);
}

#[test]
fn waiting_cancelled_and_failed_jobs_report_their_reasons() {
    let Some((slurm, mut engine)) = start_cluster() else {
        return;
    };
    let script = r#"[ "$4" = 1 ] || exit 3; echo begun >"$3/begun"; exec sleep 600"#;
    let folder = create_session(&slurm.folder(), script);
    let first = engine.submit(&task_batch("n1", &folder, &[1])).unwrap().job;
    wait_for_text(&folder.join("begun"), "begun\n");
    assert_eq!(engine.job_states(std::slice::from_ref(&first)).unwrap(), [JobState::Running]);
    let machines = engine.list_machines().unwrap();
    let states = names_and_states(&machines);
    assert_eq!(states[0], ("n1", &MachineState::Busy));
    assert_eq!(states[1], ("n2", &MachineState::Free));
    // The machine is exclusive, so the second job waits.
    let second = engine.submit(&task_batch("n1", &folder, &[2])).unwrap().job;
    let waiting = wait_for(
        &mut engine,
        &second,
        |state| matches!(state, JobState::Waiting(reason) if reason == "Resources" || reason == "Priority"),
    );
    let both = engine.job_states(&[first.clone(), second.clone()]).unwrap();
    assert_eq!(both[0], JobState::Running, "{waiting:?}");
    engine.cancel_jobs(std::slice::from_ref(&first)).unwrap();
    let ended = wait_for(&mut engine, &first, is_over);
    assert!(
        matches!(&ended, JobState::Ended(Some(why)) if why.starts_with("CANCELLED")),
        "{ended:?}"
    );
    let ended = wait_for(&mut engine, &second, is_over);
    assert_eq!(ended, JobState::Ended(Some("FAILED (NonZeroExitCode)".into())));
    // Canceling an ended job is not an error.
    engine.cancel_jobs(&[first, second]).unwrap();
}

#[test]
fn drained_machines_and_refused_jobs_show_the_reason_from_slurm() {
    let Some((slurm, mut engine)) = start_cluster() else {
        return;
    };
    slurm.run_program("scontrol", &["update", "nodename=n3", "state=drain", "reason=new fans"]);
    let machines = engine.list_machines().unwrap();
    assert_eq!(
        names_and_states(&machines),
        [
            ("n1", &MachineState::Free),
            ("n2", &MachineState::Free),
            ("n3", &MachineState::Unfit("drained: new fans".into())),
        ]
    );
    assert!(machines.iter().all(|machine| machine.labels == ["lab"]));
    let folder = create_session(&slurm.folder(), "true");
    let mut other = engine_of(&slurm, "other");
    let refused = other.submit(&task_batch("n1", &folder, &[1])).unwrap_err().to_string();
    assert!(
        refused == "sbatch: Batch job submission failed: Invalid partition name specified",
        "{refused}"
    );
    let refused = engine.submit(&task_batch("n7", &folder, &[1])).unwrap_err().to_string();
    assert_eq!(refused, "sbatch: Batch job submission failed: Invalid node name specified");
    // A connection goes to the named machine, and its words are not interpreted.
    let mut line = engine
        .start_command(
            "n2",
            &["sh", "-c", "echo $SLURMD_NODENAME \"$@\"; cat", "sh", "$(id) 'a b'"],
        )
        .unwrap();
    line.stdin.take().unwrap().write_all(b"ready").unwrap();
    let mut said = String::new();
    line.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "n2 $(id) 'a b'\nready");
    assert!(line.wait().unwrap().success());
}

/// A component with this many machines, some of them named.
fn component(machines: u32, these: &[&str]) -> LeaseComponent {
    LeaseComponent {
        machines,
        named_nodes: these.iter().map(|&name| name.to_owned()).collect(),
        excluded_nodes: Vec::new(),
    }
}

fn jobs_named(slurm: &clusters::SlurmCluster, name: &str) -> String {
    let named = format!("--name={name}");
    slurm.run_program("squeue", &["-h", "-t", "PD,R,CG", "-o", "%T", &named])
}

#[test]
fn one_job_holds_the_machines_of_all_parts_until_its_lease_ends() {
    let Some((slurm, mut engine)) = start_cluster() else {
        return;
    };
    let parts = [component(2, &[]), component(1, &["n2"])];
    let lease = engine.acquire_lease("speedwell-a", &parts, &mut |_| Ok(()));
    let lease = lease.unwrap().unwrap();
    let own: Vec<&str> = lease.machines(0).chain(lease.machines(1)).collect();
    assert_eq!(own, ["n1", "n3", "n2"]);
    assert!(lease.addresses.values().all(|own| own.is_loopback()));
    assert_eq!(lease.addresses.len(), 3);
    // Two concurrent connections share the machine.
    let mut engine = engine.within_allocation(Some(&lease.allocation));
    let words = ["sh", "-c", "echo $SLURMD_NODENAME $SLURM_JOB_ID; cat"];
    let mut lines = ["n2", "n2", "n3"].map(|name| engine.start_command(name, &words).unwrap());
    let heard = lines.each_mut().map(|line| {
        let mut said = String::new();
        let mut from = BufReader::new(line.stdout.take().unwrap());
        from.read_line(&mut said).unwrap();
        said.split(' ').next().unwrap().to_owned()
    });
    assert_eq!(heard, ["n2", "n2", "n3"]);
    for mut line in lines {
        drop(line.stdin.take());
        assert!(line.wait().unwrap().success());
    }
    let allocation = lease.allocation.clone();
    drop(lease);
    wait_until(|| jobs_named(&slurm, "speedwell-a").is_empty());
    assert!(!engine.release_allocation(&allocation).unwrap(), "it is over");
}

#[test]
fn a_lease_waits_for_machines_or_is_refused_with_slurms_reason() {
    let Some((slurm, mut engine)) = start_cluster() else {
        return;
    };
    let words = ["--exclusive", "--nodelist=n2", "-o", "/dev/null"];
    slurm.run_program("sbatch", &[&words[..], &["--wrap", "sleep 600"]].concat());
    wait_until(|| slurm.run_program("squeue", &["-h", "-t", "R", "-o", "%N"]) == "n2");
    let parts = [component(1, &["n1"]), component(1, &["n2"])];
    let mut reasons = Vec::new();
    let ended = engine.acquire_lease("speedwell-b", &parts, &mut |why| {
        reasons.push(why.to_owned());
        if why.is_empty() {
            return Ok(());
        }
        anyhow::bail!("enough")
    });
    assert_eq!(ended.unwrap_err().to_string(), "enough", "{reasons:?}");
    wait_until(|| jobs_named(&slurm, "speedwell-b").is_empty());
    let refused = |engine: &mut FleetEngine, parts: &[LeaseComponent]| {
        let lease = engine.acquire_lease("speedwell-c", parts, &mut |_| Ok(()));
        lease.unwrap_err().to_string()
    };
    let why = refused(&mut engine, &[component(1, &["n7"]), component(1, &[])]);
    assert!(why.contains("Invalid node name"), "{why}");
    let why = refused(&mut engine_of(&slurm, "other"), &parts);
    assert!(why.contains("partition"), "{why}");
    assert_eq!(jobs_named(&slurm, "speedwell-c"), "");
}
