//! `[group.verify]`: what answers must be.

use super::requirement::check_pattern;
use super::service::check_path;
use crate::keys::Keys;
use crate::tree::Content;
use anyhow::Result;
use speedwell_model::assignment::{BodyRule, Verify};
use speedwell_model::load_spec::parse_statuses;

/// Reads the rules; without any, answers must have a status from 200 to 299 and be equally long.
pub fn read(keys: Option<&Keys>) -> Result<Verify> {
    let mut verify = Verify {
        path: None,
        statuses: vec![(200, 299)],
        body: None,
        same_bytes: true,
    };
    let Some(keys) = keys else {
        return Ok(verify);
    };
    if let Some(path) = keys.text("path")? {
        check_path(keys, "path", &path)?;
        verify.path = Some(path);
    }
    if let Some(values) = keys.values("status")? {
        let ranges = values.iter().map(|value| {
            let range = parse_statuses(&value.plain());
            range.map(|range| (*range.start(), *range.end()))
        });
        let ranges: Result<Vec<(u16, u16)>, String> = ranges.collect();
        verify.statuses = ranges.map_err(|why| keys.error("status", why))?;
    }
    verify.body = body(keys)?;
    // A pattern is written for bodies that vary, and so may their lengths.
    let varies = matches!(verify.body, Some(BodyRule::Regex(_)));
    let same = keys.truth("same_bytes_across_variants")?;
    verify.same_bytes = same.unwrap_or(!varies);
    keys.finish()?;
    Ok(verify)
}

fn body(keys: &Keys) -> Result<Option<BodyRule>> {
    let Some(node) = keys.node("body") else {
        return Ok(None);
    };
    if let Content::Text(text) = &node.content {
        return Ok(Some(BodyRule::Contains(text.clone())));
    }
    let Some(inner) = keys.table("body")? else {
        return Ok(None);
    };
    let mut found = Vec::new();
    if let Some(pattern) = inner.text("regex")? {
        check_pattern(&inner, "regex", &pattern)?;
        found.push(BodyRule::Regex(pattern));
    }
    found.extend(inner.text("contains")?.map(BodyRule::Contains));
    found.extend(inner.node("json").map(|node| BodyRule::Json(node.json())));
    found.extend(inner.whole("json_length", 0)?.map(BodyRule::JsonLength));
    found.extend(inner.whole("bytes", 0)?.map(BodyRule::Bytes));
    inner.finish()?;
    match (found.pop(), found.is_empty()) {
        (Some(rule), true) => Ok(Some(rule)),
        _ => Err(keys.error(
            "body",
            "a body has exactly one rule\nhint: it is one of regex, contains, json, json_length, bytes",
        )),
    }
}
