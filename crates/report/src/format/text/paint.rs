//! Emphasis as ANSI escape sequences (ECMA-48, "select graphic rendition").

use crate::document::Emphasis;
use crate::visible;

/// `text` in the colour of `emphasis`, if colours are wanted at all. What others wrote steers no terminal.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_painted_unless_asked() {
        assert_eq!(paint("x", Emphasis::Bad, false), "x");
        assert_eq!(paint("x", Emphasis::Bad, true), "\x1b[31mx\x1b[0m");
        assert_eq!(paint("  ", Emphasis::Bad, true), "  ");
    }
}
