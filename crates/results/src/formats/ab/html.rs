//! The report of `ab -w` as the text that it would have been.
//!
//! Every row of the table is a line of the source, so lines stay lines. Start at [`as_text`].

/// Characters that are written as names.
const ENTITIES: [(&str, &str); 5] = [
    ("&nbsp;", " "),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    // Last, so that what it gives is not read again.
    ("&amp;", "&"),
];

/// Whether a text is a page, not a report as text.
pub fn is_page(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim_start().starts_with("<table"))
}

/// The lines without tags; cells stay apart.
pub fn as_text(page: &str) -> String {
    page.split_inclusive('\n').map(line_as_text).collect()
}

fn line_as_text(line: &str) -> String {
    let end = if line.ends_with('\n') { "\n" } else { "" };
    let mut text = String::with_capacity(line.len());
    for (at, piece) in line.split('<').enumerate() {
        match piece.split_once('>') {
            Some((_, behind)) if at > 0 => {
                text.push(' ');
                text.push_str(behind);
            }
            _ if at > 0 => {}
            _ => text.push_str(piece),
        }
    }
    for (name, letter) in ENTITIES {
        text = text.replace(name, letter);
    }
    format!("{}{end}", text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lines_and_cells_words() {
        let page = "<table >\n<tr ><th colspan=2>Server Software:</th><td>a &lt;b&gt; &amp;lt;</td></tr>\n\
                    <tr ><th>Connect:</th><td>    0</td><td>   1</td></tr>";
        assert!(is_page(page));
        let words: Vec<String> = as_text(page)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(words, ["", "Server Software: a <b> &lt;", "Connect: 0 1"]);
        assert!(!as_text(page).ends_with('\n'));
        assert!(!is_page("Document Path:          /<table\n"));
    }
}
