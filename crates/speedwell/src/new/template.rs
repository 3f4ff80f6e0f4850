//! Templates with `@NAME@` in them, and texts as TOML writes them.

use speedwell_suite::escape;

/// The template with its names replaced.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    text
}

/// A text in the quotes of TOML; placeholders stay as they are. JSON's escapes are TOML's, too.
pub fn quoted(text: &str) -> String {
    let is_simple = !text.contains(['\'']) && !text.chars().any(char::is_control);
    if text.contains(['"', '\\']) && is_simple {
        format!("'{text}'")
    } else {
        serde_json::Value::from(text)
            .to_string()
            .replace('\u{7f}', "\\u007f")
    }
}

/// Texts as a list of TOML whose braces are not placeholders.
pub fn list(words: &[String]) -> String {
    let words = words.iter().map(|word| quoted(&escape(word)));
    format!("[{}]", words.collect::<Vec<_>>().join(", "))
}

/// The table of what must be there, or nothing if nothing must.
pub fn requires(lines: &[String]) -> String {
    if lines.is_empty() {
        String::new()
    } else {
        format!(
            "# What must be there. It is checked before anything starts.\n[requires]\n{}\n\n",
            lines.join("\n")
        )
    }
}

/// A requirement for the program that a command begins with, if it is one whose version is known to
/// be told.
pub fn requirement(command: &[String]) -> Option<String> {
    let program = command.first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let known = [
        "node", "nodejs", "python", "python3", "deno", "bun", "ruby", "php",
    ];
    if !known.contains(&name) {
        return None;
    }
    let words = list(&[program.clone(), "--version".to_owned()]);
    Some(format!(
        "{name} = {{ command = {words}, match = '(?P<version>\\d+\\.\\S*)' }}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_from_toml_as_they_were() {
        for text in [
            "a b",
            "a\"b",
            "it's",
            "back\\slash",
            "'\"\\",
            "new\nline",
            "ä😀",
            "\u{7f}\u{1}",
        ] {
            let parsed: toml::Table = format!("x = {}", quoted(text)).parse().unwrap();
            assert_eq!(parsed["x"].as_str(), Some(text), "{text:?}");
        }
    }
}
