//! `env`: changes of the environment of a target.

use crate::keys::Keys;
use anyhow::Result;
use speedwell_model::assignment::Change;

/// Reads the changes below a key, in order.
pub fn read(keys: &Keys, key: &str) -> Result<Vec<Change>> {
    let Some(variables) = keys.table(key)? else {
        return Ok(Vec::new());
    };
    let names = variables.names();
    names.iter().map(|name| one(&variables, name)).collect()
}

fn one(variables: &Keys, name: &str) -> Result<Change> {
    let is_name = !name.is_empty() && !name.contains(['=', '\0']);
    if !is_name {
        return Err(variables.error(name, format!("'{name}' cannot be the name of a variable")));
    }
    let is_table = variables
        .node(name)
        .is_some_and(|node| node.table().is_some());
    if !is_table {
        let value = variables.value(name)?;
        let value = value.map(|value| value.plain()).unwrap_or_default();
        return Ok(Change::Set(name.to_owned(), value));
    }
    let Some(how) = variables.table(name)? else {
        return Ok(Change::Unset(name.to_owned()));
    };
    let text = |key: &str| Ok::<_, anyhow::Error>(how.value(key)?.map(|value| value.plain()));
    let mut changes = Vec::new();
    changes.extend(text("set")?.map(|value| Change::Set(name.to_owned(), value)));
    changes.extend(text("append")?.map(|value| Change::Append(name.to_owned(), value)));
    changes.extend(text("prepend")?.map(|value| Change::Prepend(name.to_owned(), value)));
    if how.truth("unset")? == Some(true) {
        changes.push(Change::Unset(name.to_owned()));
    }
    how.finish()?;
    match (changes.pop(), changes.is_empty()) {
        (Some(change), true) => Ok(change),
        _ => Err(variables.error(
            name,
            format!(
                "the variable '{name}' has not exactly one change\n\
                 hint: it is one of {{ set = \"x\" }}, {{ append = \"x\" }}, {{ prepend = \"x\" }}, \
                 {{ unset = true }}"
            ),
        )),
    }
}
