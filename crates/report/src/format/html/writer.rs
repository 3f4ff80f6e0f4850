//! The page being written: its text so far, what its table of contents will list, and where each case will
//! be found.

use super::escape::escape;
use crate::document::Emphasis;
use std::collections::HashMap;
use std::fmt::Write as _;

/// A page being written.
#[derive(Debug, Default)]
pub struct Writer {
    /// The text so far.
    pub out: String,
    /// The title of the page where that is the caption of its only table: neither that nor the only chart needs one.
    pub subject: Option<String>,
    /// Anchors and titles for the table of contents, in order.
    pub contents: Vec<(String, String)>,
    /// The anchor of each case that has one, by its id.
    anchors: HashMap<String, String>,
    /// What is drawn of each case that has an anchor, by its id.
    drawings: HashMap<String, String>,
    /// Ids given so far, so that none is given twice.
    ids: usize,
}

impl Writer {
    /// Gives a case an anchor, to which its rows will lead, and keeps what will be shown there.
    pub fn expect(&mut self, case: &str, anchor: String, drawing: String) {
        self.anchors.insert(case.to_owned(), anchor);
        self.drawings.insert(case.to_owned(), drawing);
    }

    /// The anchor of the case of that id, if it has one.
    pub fn anchor(&self, case: &str) -> Option<&str> {
        self.anchors.get(case).map(String::as_str)
    }

    /// The anchor and the drawing of a case, to be shown now; once only.
    pub fn take(&mut self, case: &str) -> Option<(String, String)> {
        let drawing = self.drawings.remove(case)?;
        Some((self.anchors.get(case)?.clone(), drawing))
    }

    /// An id that no other element has.
    pub fn new_id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}-{}", self.ids)
    }

    /// Appends markup.
    pub fn raw(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// Appends an element with text as its only content.
    pub fn element(&mut self, tag: &str, class: &str, text: &str) {
        let class = if class.is_empty() {
            String::new()
        } else {
            format!(" class=\"{class}\"")
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.out, "<{tag}{class}>{}</{tag}>", escape(text));
    }
}

/// The class by which a style makes text stand out; empty for ordinary text.
pub fn class_of(emphasis: Emphasis) -> &'static str {
    match emphasis {
        Emphasis::None => "",
        Emphasis::Strong => "strong",
        Emphasis::Good => "good",
        Emphasis::Bad => "bad",
        Emphasis::Caution => "caution",
        Emphasis::Muted => "muted",
    }
}
