//! Text that cannot be taken for markup or script, whatever it holds: names of benchmarks and what
//! programs write on stderr are not ours.

/// Text for the content of an element or a quoted attribute. Letters that HTML does not allow (C0 without
/// tab and line feed, DEL, C1: "HTML Living Standard", section 13.2.3.5) become a replacement character.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(letter),
            _ if letter.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// JSON for the content of a script element. A less-than sign occurs in strings only, where its escape
/// means the same, and without one nothing can end the element or begin a comment.
pub fn escape_json(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_that_could_be_markup() {
        assert_eq!(
            escape("</script>&\"'\u{1b}[1m\u{0}é\n"),
            "&lt;/script&gt;&amp;&quot;&#39;\u{fffd}[1m\u{fffd}é\n"
        );
    }

    #[test]
    fn json_means_the_same_and_cannot_end_its_element() {
        let json = r#"{"case":"</script><!--"}"#;
        let escaped = escape_json(json);
        assert!(!escaped.contains('<'));
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&escaped), value(json));
    }
}
