//! `[benchmark.NAME]` with `kind = "load"`: the short form of a group that is an HTTP load.
//!
//! It says in one table what `[[group]]` says in several, and its server is a line for a shell or runs already. It
//! becomes the [`LoadSpec`] that `speedwell load` carries out. Its parameters are read once, with [`read`]; everything
//! else for each case, with its blanks filled, with [`load`].

use super::cases::{self, Parameters};
use super::group::{Group, Kind, Seed};
use super::params::Settings;
use super::traffic;
use crate::keys::Keys;
use anyhow::Result;
use speedwell_model::load_spec::{Client, LoadSpec, parse_statuses};
use speedwell_model::{Case, Value};
use std::path::Path;

/// Requests in flight where nothing is said, as for `speedwell load`.
pub const CONCURRENCY: u32 = 10;

/// Names that no parameter can have.
const RESERVED: [&str; 4] = ["concurrency", "rate", "port", "program"];

/// Keys that say what cases there are, not what one of them does.
pub const OF_A_CASE: [&str; 4] = ["kind", "parameters", "concurrency", "rate"];

/// Reads what differs between the cases of a benchmark of the experiment `experiment`.
pub fn read(keys: &Keys, experiment: &str, settings: &Settings) -> Result<Group> {
    check_kind(keys)?;
    let client = traffic::client(keys)?;
    let parameters = parameters(keys, settings)?;
    let rows = Case::combinations(&parameters);
    let rows = rows.map_err(|error| keys.error("parameters", error))?;
    let cases = rows.into_iter().map(|mut values| {
        // Figures of different clients are different measurements.
        if client != Client::Builtin {
            values.push(("client".to_owned(), Value::Text(client.name().to_owned())));
        }
        Case::new(format!("{experiment}/{}", keys.name), values)
    });
    Ok(Group {
        cases: cases.collect(),
        parameters,
        ..Group::new(&keys.name, Kind::Load, Seed::PerRun, keys)
    })
}

fn check_kind(keys: &Keys) -> Result<()> {
    match keys.choice("kind", &["load"])? {
        Some(_) => Ok(()),
        None => Err(keys.wrong_table("does not say of which kind it is\nhint: kind = \"load\"")),
    }
}

/// Declared ones first, then what every load has.
fn parameters(keys: &Keys, settings: &Settings) -> Result<Parameters> {
    let mut found = Vec::new();
    if let Some(own) = keys.table("parameters")? {
        for name in own.names() {
            if RESERVED.contains(&name.as_str()) {
                let message = format!("{} cannot have a parameter '{name}'", own.place);
                let why = "that name has a meaning of its own";
                return Err(own.error(&name, format!("{message}: {why}")));
            }
            if let Some(values) = own.values(&name)? {
                found.push((name, values));
            }
        }
    }
    let rate = numbers(keys, "rate")?;
    let concurrency = numbers(keys, "concurrency")?;
    let usual = || {
        rate.is_none()
            .then(|| vec![Value::Number(f64::from(CONCURRENCY))])
    };
    let concurrency = concurrency.or_else(usual);
    found.extend(rate.map(|values| ("rate".to_owned(), values)));
    found.extend(concurrency.map(|values| ("concurrency".to_owned(), values)));
    for (name, values) in &mut found {
        *values = cases::chosen(name, std::mem::take(values), settings);
    }
    Ok(found)
}

fn numbers(keys: &Keys, key: &str) -> Result<Option<Vec<Value>>> {
    let values = keys.values(key)?;
    let is_number = |value: &Value| matches!(value, Value::Number(n) if *n > 0.0);
    if values.iter().flatten().any(|value| !is_number(value)) {
        let place = &keys.place;
        let message =
            format!("the key '{key}' of {place} is not a number above 0 or a list of such");
        return Err(keys.error(key, format!("{message} numbers")));
    }
    Ok(values)
}

/// Everything else about the load of a case, whose files are below `root`. Its address is empty where only variants
/// have one.
pub fn load(keys: &Keys, case: &Case, root: &Path) -> Result<LoadSpec> {
    for key in OF_A_CASE {
        keys.node(key);
    }
    let (time, count) = traffic::end(keys)?;
    let mut spec = LoadSpec {
        client: traffic::client(keys)?,
        serve: keys.text("serve")?,
        url: keys.text("url")?.unwrap_or_default(),
        time,
        count,
        warmup: keys.time("warmup")?,
        serve_timeout: keys.time("ready")?,
        ..traffic::request(keys, root)?
    };
    if let Some(expect) = keys.table("expect")? {
        for status in expect.values("status")?.unwrap_or_default() {
            let statuses = parse_statuses(&status.plain());
            let statuses = statuses.map_err(|why| expect.error("status", why))?;
            spec.expect_status.push(statuses);
        }
        spec.expect_body = expect.text("body")?;
        spec.expect_length = expect.count("length")?.map(u64::from);
        expect.finish()?;
    }
    keys.finish()?;
    pace(keys, case, &mut spec)?;
    Ok(spec)
}

/// How many requests are in flight, or due: parameters of every case.
fn pace(keys: &Keys, case: &Case, spec: &mut LoadSpec) -> Result<()> {
    let number = |name| case.value(name).and_then(Value::as_number);
    if let Some(number) = number("concurrency") {
        let is_whole = number.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&number);
        if !is_whole {
            let message = format!("a concurrency is a whole number of at least 1, not {number}");
            return Err(keys.error("concurrency", message));
        }
        spec.concurrency = Some(number as u32);
    }
    spec.rate = number("rate");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::experiment::tests::{assigned, ids, read, told};
    use speedwell_model::assignment::Work;

    const GOOD: &str = r#"
        name = "servers"
        program = "node"
        [variant.plain]
        [variant.slow]
        env = { SLOW = "1" }
        [benchmark.hello]
        kind = "load"
        serve = "{program} server.js --port={port} --size={size}"
        url = "http://127.0.0.1:{port}/?size={size}"
        concurrency = [1, 10]
        duration = "500ms"
        headers = { accept = "text/plain" }
        expect = { status = 200, body = "hello" }
        parameters = { size = [1, 1000] }
    "#;

    #[test]
    fn a_benchmark_is_a_group_with_parameters_and_variants() {
        let found = read(GOOD).unwrap();
        let cases = [
            "servers/hello concurrency=1 size=1",
            "servers/hello concurrency=10 size=1",
            "servers/hello concurrency=1 size=1000",
            "servers/hello concurrency=10 size=1000",
        ];
        assert_eq!(ids(&found, "hello"), cases);
        let slow = assigned(&found, "hello", 1, "slow");
        let Work::Load(spec) = &slow.work else {
            panic!("{slow:?}");
        };
        assert_eq!(
            spec.to_args(),
            [
                "http://127.0.0.1:{port}/?size=1",
                "--concurrency=10",
                "--time=500ms",
                "--header=accept: text/plain",
                "--expect-status=200",
                "--expect-body=hello",
                "--serve=node server.js --port={port} --size=1"
            ]
        );
        let variables = slow.target.plain_environment();
        assert_eq!(variables, [("SLOW".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn a_benchmark_may_stand_beside_groups_and_be_judged_as_they_are() {
        let found = read(&format!(
            "{GOOD}\n[[claim]]\nexpr = \"rps(slow) < rps(plain)\"
             [[group]]\nname = \"tool\"\nkind = \"command\"\ntarget = {{ command = [\"true\"] }}"
        ));
        assert_eq!(found.unwrap().groups.len(), 2);
    }

    #[test]
    fn an_unknown_key_is_an_error_with_the_nearest_known_one() {
        let wrong = GOOD.replace("concurrency", "concurency");
        assert_eq!(
            told(&wrong),
            "line 11: [benchmark.hello] has a key 'concurency' that is not known\nhint: did you mean \
             'concurrency'?"
        );
        assert!(told(&GOOD.replace("env =", "environ =")).contains("[variant.slow] has a key"));
        assert!(told(&format!("colour = 1\n{GOOD}")).contains("the file has a key 'colour'"));
        let inner = GOOD.replace("body =", "bodi =");
        assert!(told(&inner).contains("[benchmark.hello.expect]"));
    }

    #[test]
    fn a_blank_that_nobody_fills_is_an_error() {
        let told = told(&GOOD.replace("?size={size}", "?size={siez}"));
        assert!(
            told.starts_with("line 10: ") && told.contains("'{siez}'"),
            "{told}"
        );
        assert!(told.contains("did you mean 'size'?"), "{told}");
        assert!(read(&GOOD.replace("{program} ", "PORT=${PORT} {program} ")).is_ok());
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let one = |wrong: &str| told(&GOOD.replace("duration = \"500ms\"", wrong));
        assert!(one("duration = \"5 parsecs\"").contains("not a duration"));
        assert!(one("duration = \"1s\"\nrequests = 5").contains("either"));
        assert!(one("rate = true").contains("'rate'"));
        assert!(told(&GOOD.replace("\"load\"", "\"laod\"")).contains("did you mean 'load'?"));
        assert!(told(&GOOD.replace("[1, 10]", "2.5")).contains("a whole number of at least 1"));
        assert!(told("name = \"x\"").contains("[benchmark.NAME]"));
        assert!(told("[benchmark.a]\nkind = \"load\"").contains("no key 'url'"));
        let unserved = GOOD.replace("serve =", "# serve =");
        assert!(told(&unserved).contains("changes the server, but [benchmark.hello] starts none"));
        let named = GOOD.replace("env = { SLOW = \"1\" }", "args = [\"--slow\"]");
        let named = named.replace("{program} server", "node server");
        assert!(told(&named).contains("does not start '{program}'"));
        let proven = GOOD.replace("env = {", "assert = { stderr = \"slow\" }\n        env = {");
        assert!(told(&proven).contains("no group checks the 'assert' of the variant 'slow'"));
    }
}
