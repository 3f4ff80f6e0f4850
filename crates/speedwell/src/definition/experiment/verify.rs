//! `[group.verify]`: what answers must be.

use super::requirement::check_pattern;
use super::service::check_path;
use crate::definition::keys::Keys;
use crate::definition::tree::Content;
use crate::model::Value;
use crate::model::assignment::{BodyRule, Verify};
use anyhow::Result;

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
        let ranges: Option<Vec<(u16, u16)>> = values.iter().map(range).collect();
        let wrong = || {
            let hint = "200, \"2xx\", \"200-204\" or a list of them";
            keys.error(
                "status",
                format!("this is not a status of HTTP\nhint: {hint}"),
            )
        };
        verify.statuses = ranges.ok_or_else(wrong)?;
    }
    verify.body = body(keys)?;
    // A pattern is written for bodies that vary, and so may their lengths.
    let varies = matches!(verify.body, Some(BodyRule::Regex(_)));
    let same = keys.truth("same_bytes_across_variants")?;
    verify.same_bytes = same.unwrap_or(!varies);
    keys.finish()?;
    Ok(verify)
}

/// `200`, `2xx`, `200-204`.
fn range(value: &Value) -> Option<(u16, u16)> {
    let text = value.plain();
    let (from, to) = match (text.strip_suffix("xx"), text.split_once('-')) {
        (Some(hundred), _) => {
            let from = hundred.parse::<u16>().ok()?.checked_mul(100)?;
            (from, from.checked_add(99)?)
        }
        (None, Some((from, to))) => (from.trim().parse().ok()?, to.trim().parse().ok()?),
        (None, None) => (text.parse().ok()?, text.parse().ok()?),
    };
    (from >= 100 && to < 600 && from <= to).then_some((from, to))
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
