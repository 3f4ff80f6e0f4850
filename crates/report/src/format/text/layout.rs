//! Fits a table to the screen width: the columns shown, their widths, and the lines.
//!
//! Rows show their full names while every important column still fits, otherwise their short ones;
//! those are shortened further only if even the required columns do not fit beside them. Expendable
//! columns fill the remaining room. Omissions are stated below the table. Text from outside is
//! printed without terminal control sequences.

use crate::table::{Cell, Column, Emphasis, Kind, Name, Row, Table};
use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Spaces between columns.
const GAP: usize = 2;
/// Columns up to this order are more important than full names.
const IMPORTANT: u8 = 2;
/// Narrowest a name is shortened to; below it, the table becomes too wide instead.
const LEAST_NAME: usize = 8;
/// Indent of rows below a heading.
const INDENT: usize = 2;

/// A column on the screen: its position in the table and its width.
type Placed = (usize, usize);

/// Appends `table` to `out`, at most `room` columns wide if possible.
pub fn table(table: &Table, room: Option<usize>, color: bool, out: &mut String) {
    let page = Page::fit(table, room.unwrap_or(usize::MAX), color);
    if page.layout.is_empty() {
        return;
    }
    page.header(out);
    let mut indent = 0;
    for row in &table.rows {
        match row {
            Row::Group(name) => indent = page.group(name, out),
            Row::Cells(cells) => page.cells(cells, indent, out),
            Row::Remark(text) => page.remark(text, indent + INDENT, out),
        }
    }
    page.left_out(out);
}

struct Page<'a> {
    table: &'a Table,
    room: usize,
    /// Indexes of the columns for people.
    people: Vec<usize>,
    layout: Vec<Placed>,
    /// Whether rows show their short names.
    short: bool,
    color: bool,
}

impl<'a> Page<'a> {
    /// Chooses the columns that fit into `room`.
    fn fit(table: &'a Table, room: usize, color: bool) -> Page<'a> {
        let mut page = Page {
            table,
            room,
            people: table.for_people(),
            layout: Vec::new(),
            short: false,
            color,
        };
        page.layout = page.columns(IMPORTANT);
        page.short = page.width() > room;
        page.layout = page.columns(0);
        let excess = page.width().saturating_sub(room);
        if let Some((_, width)) = page.layout.iter_mut().find(|(at, _)| is_name(table, *at)) {
            *width = (*width).saturating_sub(excess).max(LEAST_NAME.min(*width));
        }
        page.add_expendable();
        page
    }

    /// The columns of order `expendable` or lower; order 0 is required.
    fn columns(&self, expendable: u8) -> Vec<Placed> {
        let shown = self.people.iter().copied();
        let taken = shown.filter(|&at| self.table.columns[at].expendable <= expendable);
        taken.map(|at| (at, self.natural(at))).collect()
    }

    /// Adds the other columns, most important first, while there is room.
    fn add_expendable(&mut self) {
        let columns = &self.table.columns;
        let mut others = self.people.clone();
        others.retain(|&at| columns[at].expendable > 0);
        others.sort_by_key(|&at| columns[at].expendable);
        for at in others {
            let width = self.natural(at);
            if self.width() + GAP + width <= self.room {
                let place = self.layout.partition_point(|&(other, _)| other < at);
                self.layout.insert(place, (at, width));
            }
        }
    }

    /// The width of a column if nothing is shortened.
    fn natural(&self, at: usize) -> usize {
        let mut widest = width(&self.table.columns[at].header);
        let mut indent = 0;
        for row in &self.table.rows {
            match row {
                Row::Group(name) => {
                    indent = if self.name(name).is_empty() {
                        0
                    } else {
                        INDENT
                    }
                }
                Row::Cells(cells) if self.is_first(at) => {
                    widest = widest.max(indent + width(&self.text(&cells[at])));
                }
                Row::Cells(cells) => widest = widest.max(width(&self.text(&cells[at]))),
                Row::Remark(_) => {}
            }
        }
        widest
    }

    fn is_first(&self, at: usize) -> bool {
        self.people.first() == Some(&at)
    }

    /// A name, kept on one line whatever it contains.
    fn name<'n>(&self, name: &'n Name) -> Cow<'n, str> {
        visible_line(if self.short { &name.short } else { &name.full })
    }

    fn text<'c>(&self, cell: &'c Cell) -> Cow<'c, str> {
        visible_line(cell.short().filter(|_| self.short).unwrap_or(&cell.text))
    }

    fn width(&self) -> usize {
        let gaps = self.layout.len().saturating_sub(1) * GAP;
        self.layout.iter().map(|(_, width)| width).sum::<usize>() + gaps
    }

    fn header(&self, out: &mut String) {
        let columns = self
            .layout
            .iter()
            .map(|&(at, width)| header(&self.table.columns[at], width));
        let line = columns.collect::<Vec<_>>().join(&" ".repeat(GAP));
        if line.trim().is_empty() {
            return;
        }
        self.line(line.trim_end(), Emphasis::Strong, out);
        self.line(&"─".repeat(self.width()), Emphasis::Muted, out);
    }

    /// Writes a heading; returns the indent of the rows below it.
    fn group(&self, name: &Name, out: &mut String) -> usize {
        let name = self.name(name);
        if name.is_empty() {
            return 0;
        }
        self.line(&shorten(&name, self.room), Emphasis::Strong, out);
        INDENT
    }

    fn cells(&self, cells: &[Cell], indent: usize, out: &mut String) {
        let mut line = String::new();
        let mut owed = 0;
        for (position, &(at, room)) in self.layout.iter().enumerate() {
            let indent = if position == 0 { indent } else { 0 };
            let mut text = self.text(&cells[at]).into_owned();
            if is_name(self.table, at) {
                text = shorten(&text, room.saturating_sub(indent));
            }
            let text = " ".repeat(indent) + &text;
            let free = room.saturating_sub(width(&text));
            let to_the_right = self.table.columns[at].kind == Kind::Figure;
            let (before, after) = if to_the_right { (free, 0) } else { (0, free) };
            line.push_str(&" ".repeat(owed + before));
            line.push_str(&paint(&text, cells[at].emphasis, self.color));
            owed = after + GAP;
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }

    fn remark(&self, text: &str, margin: usize, out: &mut String) {
        let room = self.room.min(self.width().max(80));
        for line in wrap(text, room.saturating_sub(margin)) {
            out.push_str(&" ".repeat(margin));
            self.line(&line, Emphasis::Muted, out);
        }
    }

    fn left_out(&self, out: &mut String) {
        let shown = |at: &usize| self.layout.iter().any(|(known, _)| known == at);
        let missing = self.people.iter().copied().filter(|at| !shown(at));
        let names: Vec<_> = missing
            .map(|at| self.table.columns[at].header.as_str())
            .collect();
        if !names.is_empty() {
            for line in wrap(&format!("(no room for: {})", names.join(", ")), self.room) {
                self.line(&line, Emphasis::Muted, out);
            }
        }
    }

    fn line(&self, text: &str, emphasis: Emphasis, out: &mut String) {
        out.push_str(&paint(text, emphasis, self.color));
        out.push('\n');
    }
}

fn is_name(table: &Table, at: usize) -> bool {
    table.columns[at].kind == Kind::Label
}

fn header(column: &Column, room: usize) -> String {
    let text = shorten(&column.header, room);
    let free = " ".repeat(room.saturating_sub(width(&text)));
    if column.kind == Kind::Figure {
        free + &text
    } else {
        text + &free
    }
}

/// The display width of `text` in terminal columns.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Wraps `text` at spaces into lines of at most `room` columns. A longer word gets a line of its
/// own, unbroken: ids and paths must stay copyable. Line breaks in the text are kept.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    text.lines()
        .flat_map(|line| wrap_line(line, room))
        .collect()
}

fn wrap_line(line: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(line) {
        let last = lines.len() - 1;
        let used = width(&lines[last]);
        if used > 0 && used + 1 + width(&word) > room {
            lines.push(word);
        } else {
            if used > 0 {
                lines[last].push(' ');
            }
            lines[last].push_str(&word);
        }
    }
    lines
}

/// Splits a line into words. A figure counts as one word: `2 %`, `[+6.9, +9.6]`.
fn words(line: &str) -> Vec<String> {
    /// No interval is longer; a bracket left open for longer does not start one.
    const LONGEST_FIGURE: usize = 24;
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match words.last_mut() {
            Some(last) if last.len() < LONGEST_FIGURE && (open(last) || word.starts_with('%')) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

fn open(word: &str) -> bool {
    word.starts_with('[') && !word.contains(']')
}

/// Shortens `text` to `room` columns by an ellipsis in the middle. Keeps more of the end than of
/// the start, because neighbors usually differ at the end.
pub fn shorten(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    let front = kept * 2 / 5;
    let head = take(text.chars(), front);
    let tail: String = take(text.chars().rev(), kept - width(&head))
        .chars()
        .rev()
        .collect();
    format!("{head}…{tail}")
}

/// The longest prefix of `characters` that fits into `room` columns.
fn take(characters: impl Iterator<Item = char>, room: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|character| {
            used += UnicodeWidthChar::width(*character).unwrap_or(0);
            used <= room
        })
        .collect()
}

/// Colors `text` by `emphasis` if `color` is set; neutralizes control sequences.
pub fn paint(text: &str, emphasis: Emphasis, color: bool) -> String {
    let code = match emphasis {
        Emphasis::None => "",
        Emphasis::Strong => "1",
        Emphasis::Good => "32",
        Emphasis::Bad => "31",
        Emphasis::Caution => "33",
        Emphasis::Muted => "2",
    };
    let text = visible(text);
    if !color || code.is_empty() || text.trim().is_empty() {
        return text.into_owned();
    }
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Shows control characters other than line feed and tab as `\x1b`, and bidirectional controls as
/// `\u{202e}` (ECMA-48; Unicode Standard Annex 9, section 2).
pub fn visible(text: &str) -> Cow<'_, str> {
    shown_where(text, steers)
}

/// Like [`visible`], but also shows line feeds: for names, which take one line each.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    shown_where(text, |letter| steers(letter) || letter == '\n')
}

fn shown_where(text: &str, is_shown: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            _ if !is_shown(letter) => shown.push(letter),
            '\0'..='\u{ff}' => shown.push_str(&format!("\\x{:02x}", u32::from(letter))),
            _ => shown.push_str(&letter.escape_unicode().to_string()),
        }
    }
    Cow::Owned(shown)
}

fn steers(letter: char) -> bool {
    turns(letter) || letter.is_control() && letter != '\n' && letter != '\t'
}

/// Whether a character changes the text direction, or breaks lines where other programs do not.
pub fn turns(letter: char) -> bool {
    matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let columns = vec![
            Column::new("case", "", Kind::Label),
            Column::new("old", "old", Kind::Figure),
            Column::new("p", "p", Kind::Figure).expendable(3),
            Column::new("q", "q", Kind::Figure).expendable(1),
            Column::new("verdict", "verdict", Kind::Words),
        ];
        let row = |full: &str, short: &str| {
            let name = Name {
                full: full.into(),
                short: short.into(),
            };
            Row::Cells(vec![
                Cell::words(full).named(&name),
                Cell::words("1.23"),
                Cell::words("<0.001"),
                Cell::words("0.02"),
                Cell::words("▲ better"),
            ])
        };
        let heading = Name {
            full: "decoder n=5".into(),
            short: "decoder n=5 (encoding, len)".into(),
        };
        let rows = vec![
            Row::Group(heading),
            row("encoding=base64-utf8 len=16", "base64-utf8 16"),
            Row::Remark("mean +9 %".into()),
            Row::Group(Name::default()),
            row("compare", "compare"),
        ];
        Table {
            columns,
            rows,
            ..Table::new("t")
        }
    }

    fn lines(room: Option<usize>) -> Vec<String> {
        let mut out = String::new();
        table(&sample(), room, false, &mut out);
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_table_with_room_shows_everything_aligned() {
        assert_eq!(
            lines(None),
            [
                "                                old       p     q  verdict",
                "───────────────────────────────────────────────────────────",
                "decoder n=5",
                "  encoding=base64-utf8 len=16  1.23  <0.001  0.02  ▲ better",
                "    mean +9 %",
                "compare                        1.23  <0.001  0.02  ▲ better",
            ]
        );
    }

    #[test]
    fn names_stay_whole_if_only_unimportant_columns_have_to_go() {
        let narrow = lines(Some(55));
        assert_eq!(
            narrow[3],
            "  encoding=base64-utf8 len=16  1.23  0.02  ▲ better"
        );
        assert_eq!(narrow[6], "(no room for: p)");
    }

    #[test]
    fn short_names_need_their_longer_heading() {
        let narrow = lines(Some(45));
        assert_eq!(narrow[2], "decoder n=5 (encoding, len)");
        assert_eq!(narrow[3], "  base64-utf8 16  1.23  0.02  ▲ better");
        let narrower = lines(Some(26));
        assert_eq!(narrower[3], "  ba…f8 16  1.23  ▲ better");
        assert!(lines(Some(30)).iter().all(|line| width(line) <= 30));
    }

    #[test]
    fn colours_do_not_change_the_layout() {
        let (mut plain, mut painted) = (String::new(), String::new());
        table(&sample(), Some(60), false, &mut plain);
        table(&sample(), Some(60), true, &mut painted);
        let bare = regex::Regex::new("\x1b\\[[0-9]*m")
            .unwrap()
            .replace_all(&painted, "")
            .into_owned();
        assert!(painted.len() > plain.len());
        assert_eq!(bare, plain);
    }

    #[test]
    fn lines_break_at_blanks_and_long_words_stay_whole() {
        assert_eq!(wrap("is it faster", 5), ["is it", "faster"]);
        assert_eq!(wrap("a bb\nc", 80), ["a bb", "c"]);
        assert_eq!(wrap("", 10), Vec::<String>::new());
    }

    #[test]
    fn figures_are_not_torn_apart() {
        assert_eq!(
            wrap("change: +8 % [+7, +9].", 14),
            ["change: +8 %", "[+7, +9]."]
        );
        assert_eq!(wrap("within 2 % in", 8), ["within", "2 % in"]);
    }

    #[test]
    fn the_middle_is_left_out() {
        assert_eq!(shorten("string-decoder.js len=16", 15), "strin…js len=16");
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(width(&shorten("日本語のベンチマーク", 9)), 9);
        assert_eq!(shorten("abc", 1), "…");
    }

    #[test]
    fn nothing_is_painted_unless_asked() {
        assert_eq!(paint("x", Emphasis::Bad, false), "x");
        assert_eq!(paint("x", Emphasis::Bad, true), "\x1b[31mx\x1b[0m");
        assert_eq!(paint("  ", Emphasis::Bad, true), "  ");
    }

    #[test]
    fn what_could_steer_a_terminal_is_shown_and_nothing_else_changes() {
        for (text, shown) in [
            ("old né ▲\n\tx", "old né ▲\n\tx"),
            ("\u{1b}[2J\0\u{7}\r", "\\x1b[2J\\x00\\x07\\x0d"),
            ("\u{9b}31m\u{7f}", "\\x9b31m\\x7f"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible_line("a\nb\tc\u{202e}"), "a\\x0ab\tc\\u{202e}");
    }

    #[test]
    fn a_name_with_a_line_feed_is_on_one_line_and_as_wide_as_it_is_shown() {
        let columns = vec![
            Column::new("c", "case", Kind::Label),
            Column::new("x", "x", Kind::Figure),
        ];
        let rows = ["a\n\u{1b}b", "abcdefghij"]
            .map(|name| Row::Cells(vec![Cell::words(name), Cell::words("1")]));
        let named = Table {
            columns,
            rows: rows.to_vec(),
            ..Table::new("t")
        };
        let mut out = String::new();
        table(&named, None, false, &mut out);
        let lines: Vec<&str> = out.lines().skip(2).collect();
        assert_eq!(lines, ["a\\x0a\\x1bb  1", "abcdefghij  1"]);
    }
}
