//! `[place]` and `[[service]]`: machines of each role, placeholders that stay until a run begins,
//! and rejected files.

use super::{assignment_of, message_of, read_experiment, service_of};
use speedwell_model::assignment::{BackingService, ServiceScope, StopSignal};

const TOP: &str = r#"
schema = 2
[params]
rows = 100
"#;
const PLACE: &str = r#"
[place]
target = "server & !old"
load = { on = "load", machines = 2 }
ports = "20000-20999"
"#;
const SERVICE: &str = r#"
[[service]]
name = "db"
on = "db"
command = ["db", "-D", "{root}/data", "-p", "{port}", "-h", "{host}", "--rows={rows}"]
ready = { command = "ask -h {host} -p {port}", within = "30s" }
stop = { signal = "SIGINT", grace = "20s" }
scope = "run"
"#;
const GROUP: &str = r#"
[[group]]
name = "web"
kind = "server"
target = { command = "server {port} --on={host} --db={db.host}:{db.port}", cwd = "app" }
load = { path = "/x", requests = 10 }
"#;

/// Returns a complete file: [`TOP`] and these parts.
fn join_parts(parts: &[&str]) -> String {
    [&[TOP], parts].concat().concat()
}

#[test]
fn roles_have_machines_and_runtime_placeholders_stay_unfilled() {
    let found = read_experiment(&join_parts(&[PLACE, SERVICE, GROUP])).unwrap();
    let place = found.place.as_ref().unwrap();
    let roles: Vec<(&str, u32)> =
        (place.roles.iter()).map(|role| (role.name.as_str(), role.machines)).collect();
    assert_eq!(roles, [("target", 1), ("db", 1), ("load", 2)]);
    assert!(place.roles[0].on.matches_machine(&|name| name == "server"));
    assert!(!place.roles[0].on.matches_machine(&|_| true));
    let own = assignment_of(&found, "web", 0, &found.variants[0].name);
    assert_eq!(own.place.ports, Some((20_000, 20_999)));
    let command = own.target.command.join(" ");
    assert_eq!(command, "server {port} --on={host} --db={db.host}:{db.port}");
    assert_eq!(service_of(&own).load.spec.url, "http://{target.host}:{port}/x");
    let BackingService { program, ready, within_ms, stop, .. } = &own.services[0];
    let words = ["db", "-D", "/x/data", "-p", "{port}", "-h", "{host}", "--rows=100"];
    assert_eq!(program.command, words);
    assert_eq!(ready.as_ref().unwrap(), &["ask", "-h", "{host}", "-p", "{port}"]);
    assert_eq!((*within_ms, stop), (30_000, &StopSignal { signal: 2, grace_ms: 20_000 }));
    let blanks = [("db.host", "10.0.0.3"), ("db.port", "5432"), ("target.host", "10.0.0.2")];
    let blanks = blanks.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let own = own.fill_placeholders(&blanks);
    assert_eq!(own.target.command[3], "--db=10.0.0.3:5432");
    assert_eq!(service_of(&own).load.spec.url, "http://10.0.0.2:{port}/x");
}

#[test]
fn without_a_place_all_parts_are_on_one_machine() {
    let service = SERVICE.replace("on = \"db\"\n", "");
    let found = read_experiment(&join_parts(&[&service, GROUP])).unwrap();
    assert_eq!((&found.place, &found.placement), (&None, &None));
    let own = assignment_of(&found, "web", 0, &found.variants[0].name);
    assert_eq!((own.services.len(), own.place.ports), (1, None));
    assert_eq!(service_of(&own).load.spec.url, "http://127.0.0.1:{port}/x");
}

#[test]
fn keys_unsupported_on_several_machines_are_refused_with_a_remedy() {
    let group = |key: &str, with: &str| GROUP.replace(key, with);
    let private = group("cwd = \"app\"", "network = \"private\"");
    let client = group("path = \"/x\"", "client = \"wrk\"");
    let steady = group("requests = 10", "requests = 10, warmup = { until = \"steady\" }");
    let outside = group("cwd = \"app\"", "cwd = \"../app\"");
    let pins = "[plan]\ncpus = { target = \"rest\", load = 1 }\n";
    let command = "[[group]]\nname = \"c\"\nkind = \"command\"\ntarget = { command = \"x\" }\n";
    for (parts, said) in [
        (
            vec![PLACE, SERVICE, &private],
            "network = \"private\" hides the target from other machines",
        ),
        (vec![PLACE, SERVICE, &client], "leave out 'client'"),
        (vec![PLACE, SERVICE, &steady], "warmup = { duration = \"10s\" }"),
        (vec![PLACE, SERVICE, &outside], "is outside the folder of the file"),
        (vec![pins, PLACE, SERVICE, GROUP], "leave out 'cpus' of [plan]"),
        (
            vec![PLACE, SERVICE, GROUP, command],
            "'place' is for servers, but the group 'c' is not a server",
        ),
        (vec![PLACE, GROUP], "unknown placeholder '{db.host}': no [[service]] has that name"),
        (vec![SERVICE, GROUP], "'on' requires [place]"),
    ] {
        let message = message_of(&join_parts(&parts));
        assert!(message.contains(said), "{message}");
    }
    for (key, with, said) in [
        ("server & !old", "server & ", "the key 'target' of [place]"),
        ("20000-20999", "20999-20000", "cannot parse port range"),
        ("scope = \"run\"", "scope = \"case\"", "cannot be 'case'"),
        ("name = \"db\"", "name = \"load\"", "cannot be named 'load'"),
        ("machines = 2", "machines = 0", "machines"),
        ("target = \"server & !old\"", "", "target"),
    ] {
        let message = message_of(&join_parts(&[PLACE, SERVICE, GROUP]).replace(key, with));
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn a_service_lives_for_a_run_a_block_or_the_session() {
    for (word, scope) in [
        ("run", ServiceScope::Run),
        ("block", ServiceScope::Block),
        ("session", ServiceScope::Session),
    ] {
        let service = SERVICE.replace("\"run\"", &format!("\"{word}\""));
        let found = read_experiment(&join_parts(&[PLACE, &service, GROUP])).unwrap();
        let own = assignment_of(&found, "web", 0, &found.variants[0].name);
        assert_eq!(own.services[0].scope, scope);
    }
    let usual = SERVICE.replace("scope = \"run\"\n", "");
    let found = read_experiment(&join_parts(&[PLACE, &usual, GROUP])).unwrap();
    let own = assignment_of(&found, "web", 0, &found.variants[0].name);
    assert_eq!(own.services[0].scope, ServiceScope::Run);
}

#[test]
fn a_shared_service_cannot_depend_on_values_that_differ_between_its_runs() {
    let scoped = |scope: &str| SERVICE.replace("\"run\"", &format!("\"{scope}\""));
    let with = |scope: &str, word: &str| scoped(scope).replace("--rows={rows}", word);
    let cases = format!("{GROUP}parameters = {{ size = [1, 2] }}\n");
    let variants = "[[variant]]\nname = \"old\"\nfill = 1\n[[variant]]\nname = \"new\"\nfill = 2\n";
    let second = SERVICE.replace("\"db\"", "\"cache\"").replace("\"run\"", "\"session\"");
    let private = GROUP.replace("cwd = \"app\"", "network = \"private\"");
    let alone = scoped("block").replace("on = \"db\"\n", "");
    let (size, fill) = ("{size}", "{fill}");
    for (parts, said) in [
        (vec![&with("session", size), &cases], "all runs share the service 'db'"),
        (
            vec![&with("block", fill), &variants.to_owned(), &cases],
            "the runs of all variants share the service 'db'",
        ),
        (vec![&with("session", "{seed}"), &cases], "{seed} differs in each block"),
        (
            vec![&scoped("block"), &second, &cases],
            "this service would outlive 'db', which is above it",
        ),
        (vec![&alone, &private], "the service 'db' lasts longer"),
    ] {
        let place = if parts.contains(&&alone) { "" } else { PLACE };
        let parts: Vec<&str> = parts.into_iter().map(String::as_str).collect();
        let message = message_of(&join_parts(&[&[place], &parts[..]].concat()));
        assert!(message.contains(said), "{message}");
    }
    for (own, variants) in
        [(with("block", size), ""), (with("block", "{seed}"), ""), (with("run", fill), variants)]
    {
        read_experiment(&join_parts(&[PLACE, &own, variants, &cases])).unwrap();
    }
}
