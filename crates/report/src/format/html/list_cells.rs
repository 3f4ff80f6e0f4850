//! Renders the cells of lists on served pages: moments, and small forms.

use crate::cell::CellForm;
use crate::figure::{format_instant, format_moment};
use crate::format::html::writer::escape_html;
use std::fmt::Write as _;

/// Marks a text, which is already escaped, as the name of a moment. The tooltip has its date.
pub fn moment_markup(text: &str, unix_ms: i64) -> String {
    match format_moment(unix_ms) {
        moment if moment.is_empty() => text.to_owned(),
        moment => format!(
            "<time datetime=\"{}\" title=\"{moment} UTC\">{text}</time>",
            format_instant(unix_ms)
        ),
    }
}

/// Renders a form of a row. `address` is the address of the page, to which the server returns.
pub fn form_markup(form: &CellForm, address: &str) -> String {
    let [action, title] = [&form.action, &form.title].map(|text| escape_html(text));
    let mut out = format!(
        "<form class=\"row-form\" action=\"{action}\" method=\"post\" aria-label=\"{title}\">"
    );
    let page = ("to", address.to_owned());
    for (name, value) in form.hidden.iter().chain([&page]) {
        let _ = write!(
            out,
            "<input type=\"hidden\" name=\"{}\" value=\"{}\">",
            escape_html(name),
            escape_html(value)
        );
    }
    let (note, label) = (escape_html(form.note.0), escape_html(&form.note.1));
    let _ = write!(
        out,
        "<input name=\"{note}\" placeholder=\"{note}\" aria-label=\"{label}\" maxlength=\"1000\">"
    );
    for (value, text) in &form.buttons {
        let _ = write!(
            out,
            " <button type=\"submit\" name=\"{}\" value=\"{}\">{}</button>",
            escape_html(form.name),
            escape_html(value),
            escape_html(text)
        );
    }
    out + "</form>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_its_date_for_programs_and_for_people() {
        assert_eq!(
            moment_markup("3 h ago", 1_769_868_300_000),
            "<time datetime=\"2026-01-31T14:05:00Z\" title=\"2026-01-31 14:05 UTC\">3 h ago</time>"
        );
        assert_eq!(moment_markup("never", i64::MAX), "never");
    }

    #[test]
    fn a_form_in_a_row_is_escaped_and_names_its_page() {
        let hostile = "\"><script>'&";
        let form = CellForm {
            action: hostile.into(),
            title: hostile.into(),
            hidden: vec![("change", hostile.into())],
            note: ("note", hostile.into()),
            name: "triage",
            buttons: vec![("wrong", "wrong"), ("open", "reopen")],
        };
        let markup = form_markup(&form, hostile);
        assert!(!markup.contains("<script") && !markup.contains("\"\""), "{markup}");
        assert_eq!(markup.matches("<input type=\"hidden\"").count(), 2, "{markup}");
        assert!(markup.contains("name=\"to\" value=\"&quot;&gt;"), "{markup}");
        assert!(
            markup
                .contains("<button type=\"submit\" name=\"triage\" value=\"open\">reopen</button>"),
            "{markup}"
        );
    }
}
