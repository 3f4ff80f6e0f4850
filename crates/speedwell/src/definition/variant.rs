//! `[variant.NAME]`: what one side of a comparison changes.
//!
//! A variant reaches the server alone. What sends the load is the same for all of them, or the
//! instrument would be compared together with its object.

use super::keys::Keys;
use crate::model::Variant;
use anyhow::Result;

/// A variant, and what it puts in the place of what benchmarks say.
#[derive(Debug, Clone)]
pub struct Patch {
    /// Name, program, arguments and variables.
    pub variant: Variant,
    /// Another command that starts the server.
    pub serve: Option<String>,
    /// Another address.
    pub url: Option<String>,
}

/// Reads one variant.
pub fn read(keys: &Keys) -> Result<Patch> {
    let mut variant = Variant::plain(&keys.name);
    variant.program = keys.text("program")?.map(Into::into);
    let arguments = keys.values("args")?.unwrap_or_default();
    variant.arguments = arguments.iter().map(|value| value.plain()).collect();
    if let Some(variables) = keys.table("env")? {
        for name in variables.names() {
            let value = variables.value(&name)?;
            variant
                .environment
                .extend(value.map(|value| (name, value.plain())));
        }
    }
    let patch = Patch {
        variant,
        serve: keys.text("serve")?,
        url: keys.text("url")?,
    };
    keys.finish()?;
    Ok(patch)
}
