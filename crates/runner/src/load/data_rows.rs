//! A table whose rows fill the blanks of requests: CSV with a header line, or JSON lines.

use anyhow::{Context, bail, ensure};
use serde_json::Value as Json;
use speedwell_load::load::Rows;
use speedwell_results::formats::node_csv::record::{Scan, scan};
use std::path::Path;

/// Reads a table; the kind follows from the ending of the file's name.
///
/// # Errors
/// It cannot be read, is of another kind, or has rows that do not fit.
pub fn read(file: &Path) -> anyhow::Result<Rows> {
    let shown = file.display();
    let bytes = std::fs::read(file).with_context(|| format!("cannot read rows from '{shown}'"))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let ending = file.extension().and_then(|ending| ending.to_str());
    let rows = match ending {
        Some("csv") => csv(bytes),
        Some("jsonl" | "ndjson") => json_lines(bytes),
        _ => bail!("'{shown}' is neither a .csv nor a .jsonl file"),
    };
    let rows = rows.with_context(|| format!("in the rows of '{shown}'"))?;
    ensure!(!rows.values.is_empty(), "'{shown}' has no rows");
    Ok(rows)
}

fn csv(bytes: &[u8]) -> anyhow::Result<Rows> {
    let mut rows = Rows::default();
    let (mut rest, mut fields, mut number) = (bytes, Vec::new(), 0);
    while !rest.is_empty() {
        let Scan::Record(length) = scan(rest, true, &mut fields) else {
            bail!("record {} cannot be read: is a quote missing?", number + 1);
        };
        let record: Vec<String> = fields
            .iter()
            .map(|field| field.text(rest).into_owned())
            .collect();
        rest = &rest[length.max(1)..];
        if record.iter().all(String::is_empty) {
            continue;
        }
        number += 1;
        if rows.names.is_empty() {
            rows.names = record;
            continue;
        }
        ensure!(
            record.len() == rows.names.len(),
            "record {number} has {} fields, but there are {} columns",
            record.len(),
            rows.names.len()
        );
        rows.values.push(record);
    }
    Ok(rows)
}

/// An object a line; the first one names the columns.
fn json_lines(bytes: &[u8]) -> anyhow::Result<Rows> {
    let text = std::str::from_utf8(bytes).context("it is not UTF-8 text")?;
    let mut rows = Rows::default();
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let object: serde_json::Map<String, Json> = serde_json::from_str(line)
            .with_context(|| format!("line {number} is no JSON object"))?;
        if rows.names.is_empty() {
            rows.names = object.keys().cloned().collect();
        }
        let row = rows.names.iter().map(|name| match object.get(name) {
            Some(Json::String(text)) => Ok(text.clone()),
            Some(value) => Ok(value.to_string()),
            None => bail!("line {number} has no '{name}'"),
        });
        let row = row.collect::<anyhow::Result<_>>()?;
        rows.values.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_header_and_quotes() {
        let rows = csv(b"id,name\r\n1,\"a, b\"\r\n2,\"say \"\"x\"\"\"\n").unwrap();
        assert_eq!(rows.names, ["id", "name"]);
        assert_eq!(rows.values, [["1", "a, b"], ["2", "say \"x\""]]);
        let error = csv(b"a,b\n1\n").unwrap_err().to_string();
        assert_eq!(error, "record 2 has 1 fields, but there are 2 columns");
    }

    #[test]
    fn json_lines_name_their_columns() {
        let rows = json_lines(b"{\"id\":1,\"n\":\"x\"}\n\n{\"n\":\"y\",\"id\":[2]}\n").unwrap();
        assert_eq!(rows.names, ["id", "n"]);
        assert_eq!(rows.values, [["1", "x"], ["[2]", "y"]]);
        let error = json_lines(b"{\"id\":1}\n{\"x\":1}\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2 has no 'id'");
    }
}
