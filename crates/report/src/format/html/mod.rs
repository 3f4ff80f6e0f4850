//! Documents as one HTML page that can be sent around: no network, no other file, every script and style
//! inside.
//!
//! Everything can be read without the script, which only sorts, filters and copies. What would make
//! the page too large is left out, and the page says so (`room.rs`). Start at `page.rs`; blocks are
//! written in `blocks.rs`, tables in `table.rs`, the charts of all cases in `gallery.rs`.

mod blocks;
mod escape;
mod gallery;
mod page;
mod room;
mod table;
mod writer;

use super::Render;
use crate::document::Document;
use std::io::{self, Write};

/// One HTML page.
#[derive(Debug, Clone, Copy, Default)]
pub struct Html;

impl Render for Html {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(page::page(document)?.as_bytes())
    }
}
