//! `speedwell fleet`: machines are listed, selected and checked, by ssh and by Slurm.

use super::project::TempProject;
use serde_json::Value;
use speedwell_fixtures::clusters::{SlurmCluster, SshdServer};

/// Three machines by ssh, which use the tested program.
fn by_ssh(sshd: &SshdServer) -> TempProject {
    let program = env!("CARGO_BIN_EXE_speedwell");
    let machine = |name: &str, labels: &str| {
        format!("[[machine]]\nname = \"{name}\"\nlabels = [{labels}]\nbinary = \"{program}\"\n")
    };
    let file = format!(
        "engine = \"ssh\"\nssh_config = \"{}\"\nfolder = \"{}\"\n{}{}{}",
        sshd.ssh_config().display(),
        sshd.folder().display(),
        machine("m1", "\"lab\", \"zen4\""),
        machine("m2", "\"lab\""),
        machine("m3", "\"load\""),
    );
    TempProject::new().with("fleet.toml", &file)
}

/// A column of the table of machines.
fn column(json: &Value, key: &str) -> Vec<String> {
    let rows = json["tables"]["machines"].as_array().or_else(|| json["machines"].as_array());
    let rows = rows.unwrap_or_else(|| panic!("{json:#}"));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    rows.iter().map(|row| text(&row[key])).collect()
}

#[test]
fn machines_by_ssh_are_listed_chosen_and_checked() {
    let sshd = match SshdServer::start() {
        Ok(sshd) => sshd,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let project = by_ssh(&sshd);
    let json = project.run(&["fleet", "--format", "json"]).expect_status(0).json();
    assert_eq!(column(&json, "name"), ["m1", "m2", "m3"]);
    // All three are this host, on which other tests may be measuring right now.
    let states = column(&json, "state");
    assert!(states.iter().all(|own| own == "free" || own == "busy"), "{states:?}");
    let chosen = project.run(&["fleet", "lab & !zen4", "--format", "csv"]).expect_status(0);
    assert!(chosen.stdout.contains("m2,lab") && !chosen.stdout.contains("m1"), "{chosen:?}");
    let unknown = project.run(&["fleet", "zen5"]).expect_status(2);
    assert!(
        unknown.stderr.contains("unknown machine or label 'zen5'\nhint: did you mean 'zen4'?"),
        "{unknown:?}"
    );

    let checked = project.run(&["fleet", "check", "m1 | m2", "--format", "json"]);
    assert!(checked.status < 2, "{checked:?}");
    let json = checked.json();
    let ids = column(&json, "id");
    assert!(ids[0].len() == 16 && ids[0] == ids[1], "they are one host: {ids:?}");
    assert!(column(&json, "notes")[1].contains("same /etc/machine-id as m1"), "{json:#}");
    assert!(column(&json, "class")[0].contains("GiB"), "{json:#}");
    for key in ["offset_ns", "uncertainty_ns", "integer_ns", "memory_ns"] {
        let figures = column(&json, key);
        assert!(figures.iter().all(|figure| figure.parse::<f64>().is_ok()), "{key}: {figures:?}");
    }
    // The clock is the same, so the offset is zero within its uncertainty.
    let [offset, uncertainty] =
        ["offset_ns", "uncertainty_ns"].map(|key| column(&json, key)[0].parse::<f64>().unwrap());
    assert!(offset.abs() <= uncertainty, "{offset} +- {uncertainty}");
}

#[test]
fn a_machine_that_does_not_answer_or_cannot_run_the_program_is_unfit() {
    let sshd = match SshdServer::start() {
        Ok(sshd) => sshd,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let file = format!(
        "engine = \"ssh\"\nssh_config = \"{}\"\nfolder = \"{}\"\n[[machine]]\nname = \"m1\"\nbinary = \"/no/such/speedwell\"\n\
         [[machine]]\nname = \"nowhere.invalid\"\n",
        sshd.ssh_config().display(),
        sshd.folder().display(),
    );
    let project = TempProject::new().with("fleet.toml", &file);
    let checked = project.run(&["fleet", "check"]).expect_status(1);
    assert!(checked.stdout.contains("the program does not run on the machine: "), "{checked:?}");
    assert!(checked.stdout.contains("nowhere.invalid"), "{checked:?}");
    assert_eq!(checked.stdout.matches("unfit").count(), 2, "{checked:?}");
}

#[test]
fn nodes_of_slurm_are_machines_with_their_features_as_labels() {
    let slurm = match SlurmCluster::start() {
        Ok(slurm) => slurm,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    slurm.run_program("scontrol", &["update", "nodename=n2", "state=drain", "reason=new fans"]);
    let program = env!("CARGO_BIN_EXE_speedwell");
    let file = format!(
        "engine = \"slurm\"\nfolder = \"{}\"\npartition = \"bench\"\n[[machine]]\nname = \"n3\"\nlabels = [\"zen4\"]\nbinary = \"{program}\"\n",
        slurm.folder().display()
    );
    let project = TempProject::new().with("fleet.toml", &file);
    let run = |words: &[&str]| {
        let mut command = project.command(words);
        super::project::CommandResult::from(
            command.env("SLURM_CONF", slurm.config_path()).output().unwrap(),
        )
    };
    let listed = run(&["fleet", "--format", "json"]).expect_status(0).json();
    assert_eq!(column(&listed, "state"), ["free", "unfit", "free"]);
    assert_eq!(column(&listed, "labels"), ["lab", "lab", "zen4 lab"]);
    assert_eq!(column(&listed, "notes")[1], "drained: new fans");
    let checked = run(&["fleet", "check", "zen4", "--format", "json"]);
    assert!(checked.status < 2, "{checked:?}");
    assert_eq!(column(&checked.json(), "name"), ["n3"]);
    assert_eq!(column(&checked.json(), "id")[0].len(), 16);
}

#[test]
fn a_missing_fleet_file_names_its_path_and_a_mistake_its_line() {
    let project = TempProject::new();
    let mut command = project.command(&["fleet"]);
    let home = project.path("home");
    let answer = command.env("HOME", &home).env_remove("XDG_CONFIG_HOME").output().unwrap();
    let answer = super::project::CommandResult::from(answer).expect_status(2);
    let place = home.join(".config/speedwell/fleet.toml");
    assert!(
        answer.stderr.contains("found no 'fleet.toml'")
            && answer.stderr.contains(&*place.to_string_lossy()),
        "{answer:?}"
    );
    let project = project.with("fleet.toml", "engine = \"ssh\"\n[[machine]]\nnmae = \"a\"\n");
    let answer = project.run(&["fleet"]).expect_status(2);
    for expected in ["fleet.toml'", "line 3", "did you mean 'name'?"] {
        assert!(answer.stderr.contains(expected), "{expected}: {answer:?}");
    }
}
