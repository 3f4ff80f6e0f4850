//! Renders what surrounds a document on a server's page: navigation, filters, links, and the
//! addresses of the page's style and scripts.
//!
//! The server decides which pages exist, and describes a page's frame as plain data. This module
//! escapes these data. Start with [`ServedFrame`].

use crate::figure::{format_instant, format_moment, join_texts, unless_empty};
use crate::format::html::writer::{ChartsLocation, RowChoice, markup};

/// How a document becomes a page.
#[derive(Debug, Clone, Copy)]
pub enum PageFrame<'f> {
    /// One self-contained file.
    Alone,
    /// A page of a server. A page has no inline style or script, so that a policy can forbid them.
    Served(&'f ServedFrame),
}

/// The frame of a served page.
#[derive(Debug, Clone, Default)]
pub struct ServedFrame {
    /// Pages reachable from everywhere.
    pub navigation: Vec<PageLink>,
    /// The path from the start page to this page, which is the last element.
    pub breadcrumbs: Vec<PageLink>,
    /// Addresses of style and scripts.
    pub assets: AssetPaths,
    /// Address of the page itself.
    pub address: String,
    /// Address of the project's feed; empty if there is none.
    pub feed: String,
    /// Address of the page's data as JSON.
    pub data_link: String,
    /// The same document in other formats.
    pub formats: Vec<PageLink>,
    /// Address of the search. If empty, there is no search box.
    pub search: String,
    /// The filters of this page.
    pub filters: Option<PageForm>,
    /// Forms that change something.
    pub changes: Vec<PageForm>,
    /// The login state, if login is possible.
    pub account: Option<LoginState>,
    /// Related pages.
    pub links: Vec<PageLink>,
    /// Check boxes that select rows of a table, in order to open another page about them.
    pub choice: Option<RowChoice>,
    /// The link that sorts the rows of a comparison, as address and text.
    pub sort_link: Option<(String, String)>,
    /// Address of an event stream that the page follows, if any.
    pub events: Option<String>,
    /// Whether the page reloads periodically if scripts are disabled.
    pub is_reloaded: bool,
    /// Where the charts go if there are too many cases for one page.
    pub charts: ChartsLocation,
    /// The progress of what the page shows, if it is running.
    pub progress: Option<PageProgress>,
}

/// The progress of a measurement, at the top of its page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageProgress {
    /// The completed part, from 0 to 1; `None` if the whole is unknown.
    pub share: Option<f64>,
    /// The name of the progress bar, for screen readers.
    pub label: String,
    /// The title of the browser's tab.
    pub title: String,
    /// When the measurement will probably end, in milliseconds since the Unix epoch.
    pub ends_unix_ms: Option<i64>,
}

/// Addresses of the files that every page needs.
#[derive(Debug, Clone, Default)]
pub struct AssetPaths {
    /// Address of [`SERVED_STYLE`](super::SERVED_STYLE).
    pub style: String,
    /// Address of [`EARLY_SCRIPT`](super::EARLY_SCRIPT).
    pub early_script: String,
    /// Address of [`SERVED_SCRIPT`](super::SERVED_SCRIPT).
    pub script: String,
}

/// A link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageLink {
    /// The address that the link leads to.
    pub href: String,
    /// The link's text.
    pub text: String,
    /// Whether the link leads to the current page or to a page above it.
    pub is_here: bool,
}

impl PageLink {
    /// Creates a link to another page.
    pub fn new(href: impl Into<String>, text: impl Into<String>) -> PageLink {
        PageLink { href: href.into(), text: text.into(), is_here: false }
    }
}

/// The login state.
#[derive(Debug, Clone)]
pub enum LoginState {
    /// Logged out. The link leads to the login.
    Out(PageLink),
    /// Logged in.
    In {
        /// The user's name.
        name: String,
        /// The address for logging out.
        action: String,
    },
}

/// A form. Submitting it opens its address with the values of the fields as the query. A form that
/// changes something posts the values instead.
#[derive(Debug, Clone, Default)]
pub struct PageForm {
    /// The address to which the form sends its values.
    pub action: String,
    /// The form's purpose.
    pub title: String,
    /// The text of the button.
    pub button: String,
    /// The fields.
    pub fields: Vec<FormField>,
    /// Whether a form that filters is never folded.
    pub is_always_open: bool,
    /// Active filters, each with the address of the page without that filter.
    pub set: Vec<PageLink>,
}

/// One field.
#[derive(Debug, Clone, Default)]
pub struct FormField {
    /// The name in the query.
    pub name: &'static str,
    /// The field's label.
    pub label: String,
    /// The field's current value.
    pub value: String,
    /// The meaning of an empty field.
    pub placeholder: String,
    /// Whether the input is hidden.
    pub is_secret: bool,
    /// Whether the field only passes its value on, and is not shown.
    pub is_fixed: bool,
    /// The allowed values with their labels. If empty, any value is allowed.
    pub options: Vec<(String, String)>,
    /// Values that a field without options suggests.
    pub suggestions: Vec<String>,
}

/// Renders everything before the masthead.
pub(super) fn page_head(title: &str, report: &str, frame: &ServedFrame) -> String {
    let title = frame.progress.as_ref().map_or(title, |progress| progress.title.as_str());
    let AssetPaths { style, early_script, script } = &frame.assets;
    let events = frame.events.as_deref().unwrap_or_default();
    let events = unless_empty(events, |address| markup!(" data-events=\"{}\"", address));
    let feed = unless_empty(&*frame.feed, |feed| {
        markup!(
            "<link rel=\"alternate\" type=\"application/atom+xml\" \
             title=\"Open changes and failed sessions\" href=\"{}\">\n",
            feed
        )
    });
    // A page that follows events needs scripts. Without scripts, it reloads, but only if the user
    // opted in: a screen reader starts over at each reload.
    let (refresh, choice) = match (&frame.events, frame.is_reloaded) {
        (None, _) => ("", ""),
        (Some(_), false) => (
            "",
            "<noscript><p class=\"hint\"><a href=\"?every=5\">Refresh this page every 5 \
             seconds</a></p></noscript>\n",
        ),
        (Some(_), true) => (
            "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n",
            "<noscript><p class=\"hint\"><a href=\"?\">Stop auto-refresh</a></p></noscript>\n",
        ),
    };
    let bar = top_bar(frame);
    markup!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n{feed}\
         <title>{} – Speedwell</title>\n<link rel=\"stylesheet\" href=\"{}\">\n\
         <script src=\"{}\"></script>\n\
         <script type=\"module\" src=\"{}\"></script>\n{refresh}</head>\n<body data-report=\"{}\"{events}>\n\
         <a class=\"skip\" href=\"#main\">Skip to the page</a>\n{bar}{choice}",
        title,
        style,
        early_script,
        script,
        report
    )
}

/// Renders the top bar: the navigation, the search box and the login state.
fn top_bar(frame: &ServedFrame) -> String {
    let mut out = String::from("<div class=\"bar\">\n<nav aria-label=\"Pages\"><ul>\n");
    out.extend(frame.navigation.iter().map(|link| format!("<li>{}</li>\n", link_markup(link))));
    out.push_str("</ul></nav>\n");
    out += &unless_empty(&*frame.search, |search| {
        markup!(
            "<form class=\"search\" role=\"search\" aria-label=\"Everything\" action=\"{}\" method=\"get\">\
             <input type=\"search\" name=\"q\" placeholder=\"Search\" \
             aria-label=\"Search benchmarks, sessions, revisions, machines\"></form>\n",
            search
        )
    });
    out.extend(frame.account.as_ref().map(account_markup));
    out + "</div>\n"
}

fn account_markup(account: &LoginState) -> String {
    match account {
        LoginState::Out(link) => format!(
            "<section class=\"account\" aria-label=\"Account\">{}</section>\n",
            link_markup(link)
        ),
        LoginState::In { name, action } => markup!(
            "<form class=\"account\" aria-label=\"Account\" action=\"{}\" method=\"post\"><span>{}</span> \
             <button type=\"submit\">log out</button></form>\n",
            action,
            name
        ),
    }
}

fn link_markup(link: &PageLink) -> String {
    let current_attribute = if link.is_here { " aria-current=\"page\"" } else { "" };
    markup!("<a href=\"{}\"{current_attribute}>{}</a>", link.href, link.text)
}

/// Renders the breadcrumbs in the place where a self-contained page names the kind of report.
pub(super) fn breadcrumbs_markup(frame: &ServedFrame) -> String {
    let crumbs = frame.breadcrumbs.iter().map(|link| format!("<li>{}</li>", link_markup(link)));
    let crumbs: String = crumbs.collect();
    format!("<nav class=\"kind\" aria-label=\"Breadcrumb\"><ol>{crumbs}</ol></nav>\n")
}

/// Renders the links and the filters below the title.
pub(super) fn below_title_markup(frame: &ServedFrame) -> String {
    let mut out = frame.progress.as_ref().map_or_else(String::new, progress_markup);
    let links = join_texts(" ", frame.links.iter().map(link_markup));
    out += &unless_empty(&*links, |links| format!("<p class=\"links\">{links}</p>\n"));
    out.extend(frame.filters.as_ref().map(filters_form));
    out.extend(frame.changes.iter().map(change_form));
    out
}

/// Renders the progress bar and the expected end. A script shows the end in the reader's time zone.
fn progress_markup(progress: &PageProgress) -> String {
    let bar = |share: f64| {
        markup!(
            "<progress max=\"1\" value=\"{share:.4}\" aria-label=\"{}\"></progress>\n",
            progress.label
        )
    };
    let end = |unix_ms: i64| {
        let (instant, moment) = (format_instant(unix_ms), format_moment(unix_ms));
        let (_, time) = moment.split_once(' ')?;
        let time = format!("<time datetime=\"{instant}\">{time} UTC</time>");
        Some(format!("<p class=\"ends\">Ends about {time}</p>\n"))
    };
    progress.share.map(bar).into_iter().chain(progress.ends_unix_ms.and_then(end)).collect()
}

/// Renders a form that changes something. The form is always open. It is submitted with POST,
/// because following a link must not change anything.
fn change_form(form: &PageForm) -> String {
    let fields = form_markup(form, "post");
    markup!("<section class=\"filters change\">\n<h2>{}</h2>\n{fields}</section>\n", form.title)
}

fn form_markup(form: &PageForm, method: &str) -> String {
    let field = |field: &FormField| {
        if field.is_fixed {
            let FormField { name, value, .. } = field;
            return markup!("<input type=\"hidden\" name=\"{}\" value=\"{}\">\n", name, value);
        }
        let control = field_control(field);
        markup!("<label>{} {control}</label>\n", field.label)
    };
    let fields: String = form.fields.iter().map(field).collect();
    markup!(
        "<form action=\"{}\" method=\"{method}\" aria-label=\"{}\">\n{fields}\
         <button type=\"submit\">{}</button>\n</form>\n",
        form.action,
        form.title,
        form.button
    )
}

fn filters_form(form: &PageForm) -> String {
    let fields = form_markup(form, "get");
    let (begin, end) = if form.is_always_open {
        ("<div class=\"filters at-hand\">\n".to_owned(), "</div>\n")
    } else {
        let open = if form.set.is_empty() { "" } else { " open" };
        let begin =
            markup!("<details class=\"filters\"{open}>\n<summary>{}</summary>\n", form.title);
        (begin, "</details>\n")
    };
    let active_filter = |PageLink { href, text, .. }: &PageLink| {
        let remove = "<span aria-label=\"remove\">×</span>";
        markup!("<li><a href=\"{}\">{} {remove}</a></li>", href, text)
    };
    let active: String = form.set.iter().map(active_filter).collect();
    let active = unless_empty(&*active, |items| format!("<ul class=\"set\">{items}</ul>\n"));
    format!("{begin}{fields}{active}{end}")
}

fn field_control(field: &FormField) -> String {
    let FormField { name, value, placeholder, .. } = field;
    if field.options.is_empty() && field.is_secret {
        return markup!(
            "<input type=\"password\" name=\"{}\" autocomplete=\"off\" required placeholder=\"{}\">",
            name,
            placeholder
        );
    }
    if field.options.is_empty() {
        let (list, suggestions) = suggestions_markup(field);
        return markup!(
            "<input name=\"{}\" value=\"{}\" placeholder=\"{}\"{list}>{suggestions}",
            name,
            value,
            placeholder
        );
    }
    let option = |(option_value, label): &(String, String)| {
        let selected = if option_value == value { " selected" } else { "" };
        markup!("<option value=\"{}\"{selected}>{}</option>", option_value, label)
    };
    let options: String = field.options.iter().map(option).collect();
    markup!("<select name=\"{}\">{options}</select>", name)
}

/// Returns the attribute that names a field's list of suggestions, and the list.
fn suggestions_markup(field: &FormField) -> (String, String) {
    if field.suggestions.is_empty() {
        return (String::new(), String::new());
    }
    let id = markup!("{}-suggestions", field.name);
    let option = |text: &String| markup!("<option value=\"{}\">", text);
    let options: String = field.suggestions.iter().map(option).collect();
    (format!(" list=\"{id}\""), format!("<datalist id=\"{id}\">{options}</datalist>"))
}

/// Renders the last part of the page: links to its data for programs.
pub(super) fn raw_data_section(frame: &ServedFrame) -> String {
    let links = join_texts(", ", frame.formats.iter().map(link_markup));
    let others = unless_empty(&*links, |links| format!(" Other formats: {links}."));
    markup!(
        "<section id=\"data\" class=\"data\">\n<h2>Raw data</h2>\n<p>Every number with all its digits: \
         <a href=\"{}\">this page as JSON</a>.{others}</p>\n</section>\n",
        frame.data_link
    )
}

pub(super) const FOOTER: &str = concat!(
    "<footer><p>Speedwell ",
    env!("CARGO_PKG_VERSION"),
    ". Everything here is readable without scripts; with scripts, <kbd>?</kbd> lists keyboard \
     shortcuts.</p></footer>\n"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::format::html::render_page;
    use crate::table::{ColumnKind, ReportCell, ReportColumn, ReportRow, ReportTable};

    const HOSTILE: &str = "</title><script>alert(1)</script>\"'&";

    fn hostile_filters() -> PageForm {
        PageForm {
            action: HOSTILE.into(),
            title: HOSTILE.into(),
            button: HOSTILE.into(),
            fields: vec![
                FormField {
                    name: "a",
                    label: HOSTILE.into(),
                    value: HOSTILE.into(),
                    placeholder: HOSTILE.into(),
                    suggestions: vec![HOSTILE.into()],
                    ..FormField::default()
                },
                FormField {
                    name: "d",
                    value: HOSTILE.into(),
                    is_fixed: true,
                    ..FormField::default()
                },
                FormField {
                    name: "b",
                    options: vec![(HOSTILE.into(), HOSTILE.into())],
                    ..FormField::default()
                },
            ],
            is_always_open: false,
            set: vec![PageLink::new(HOSTILE, HOSTILE)],
        }
    }

    fn hostile_frame() -> ServedFrame {
        let link = PageLink::new(HOSTILE, HOSTILE);
        ServedFrame {
            navigation: vec![link.clone()],
            breadcrumbs: vec![link.clone()],
            links: vec![link.clone()],
            address: HOSTILE.into(),
            feed: HOSTILE.into(),
            data_link: HOSTILE.into(),
            formats: vec![link.clone()],
            search: HOSTILE.into(),
            events: Some(HOSTILE.into()),
            sort_link: Some((HOSTILE.into(), HOSTILE.into())),
            is_reloaded: false,
            filters: Some(hostile_filters()),
            account: Some(LoginState::In { name: HOSTILE.into(), action: HOSTILE.into() }),
            changes: vec![PageForm {
                action: HOSTILE.into(),
                title: HOSTILE.into(),
                fields: vec![FormField {
                    name: "c",
                    is_secret: true,
                    placeholder: HOSTILE.into(),
                    ..FormField::default()
                }],
                ..PageForm::default()
            }],
            choice: Some(RowChoice {
                table: "t",
                action: HOSTILE.into(),
                name: "of",
                button: HOSTILE.into(),
            }),
            progress: Some(PageProgress {
                share: Some(0.5),
                label: HOSTILE.into(),
                title: HOSTILE.into(),
                ends_unix_ms: Some(0),
            }),
            ..ServedFrame::default()
        }
    }

    fn document() -> Document {
        let mut document = Document::new("sessions");
        document.push_headline(HOSTILE);
        document.push_table(ReportTable {
            columns: vec![ReportColumn::new("number", "session", ColumnKind::Figure)],
            rows: vec![ReportRow::Cells(vec![ReportCell::words("@1").with_link(HOSTILE)])],
            ..ReportTable::new("t")
        });
        document
    }

    #[test]
    fn a_page_frame_is_escaped_and_has_no_inline_script_or_style() {
        let frame = hostile_frame();
        let page = render_page(&document(), PageFrame::Served(&frame)).unwrap();
        assert!(!page.contains("<script>"), "{page}");
        assert!(!page.contains("<style") && !page.contains(" style="), "{page}");
        assert_eq!(page.matches("<script").count(), 2, "those of the assets");
        assert!(!page.contains("\"'&\""), "{page}");
    }

    #[test]
    fn rows_are_links_and_can_be_chosen_on_a_served_page_only() {
        let frame = hostile_frame();
        let served = render_page(&document(), PageFrame::Served(&frame)).unwrap();
        assert!(served.contains("<input type=\"checkbox\" name=\"of\" value=\"@1\""));
        let alone = render_page(&document(), PageFrame::Alone).unwrap();
        assert!(!alone.contains("checkbox") && !alone.contains("href=\"&lt;"));
    }
}
