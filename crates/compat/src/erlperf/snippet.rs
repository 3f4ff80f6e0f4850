//! Converts an argument of the command line to a snippet: Erlang text, a tuple `{M, F, A}`, or a
//! file of recorded calls.
//!
//! The last character decides, as in the original; but what is neither a tuple nor a file counts as
//! text without its final dot. Erlang itself checks the text. A file holds a list of `{Module,
//! Function, Arguments}` in Erlang's external term format ("External Term Format" in the ERTS
//! manual), which is converted to Erlang text; terms without a textual form, such as processes, are
//! rejected. Start at [`read`].

use crate::erlperf::arguments::TypedSnippet;
use speedwell_model::{Language, Snippet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// A snippet ready to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    pub snippet: Snippet,
    /// Name in tables.
    pub label: String,
    /// Title above its source: the code, regardless of the label.
    pub shown: String,
    /// Whether the text lacks its final dot, so it may have been meant as a file name.
    pub lacks_dot: bool,
}

/// Creates a snippet from an argument; files are resolved against `directory`.
///
/// # Errors
/// A file cannot be read, or does not contain calls.
pub fn read(typed: &TypedSnippet, paths: &[PathBuf], directory: &Path) -> Result<Known, String> {
    let word = typed.code.trim();
    let is_text = word.ends_with('.');
    let is_call = word.starts_with('{') && word.ends_with('}');
    let file = directory.join(&typed.code);
    let is_file = !is_text && !is_call && file.is_file();
    let (runner, shown) = if is_file {
        let recording = recording(&typed.code, &file)?;
        (recording.text(), recording.label())
    } else if is_call {
        (word.to_owned(), compact(word))
    } else {
        (typed.code.clone(), typed.code.clone())
    };
    let snippet = Snippet {
        init: typed.init.clone(),
        init_worker: typed.init_runner.clone(),
        done: typed.done.clone(),
        paths: paths.to_vec(),
        ..Snippet::new(Language::Erlang, runner)
    };
    Ok(Known {
        snippet,
        label: typed.label.clone().unwrap_or_else(|| shown.clone()),
        shown,
        lacks_dot: !is_text && !is_call && !is_file,
    })
}

fn recording(name: &str, file: &Path) -> Result<Recording, String> {
    let bytes =
        fs::read(file).map_err(|error| format!("cannot read the file '{name}': {error}"))?;
    Recording::parse(&bytes)
        .map_err(|reason| format!("cannot use the file '{name}' as a recording of calls: {reason}"))
}

/// Formats a tuple as Erlang prints it: without blanks outside of quotes.
fn compact(tuple: &str) -> String {
    let mut quote = None;
    let mut escaped = false;
    let keep = |letter: &char| {
        let inside = quote.is_some();
        match (quote, *letter) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(mark), letter) if letter == mark => quote = None,
            (None, '"' | '\'') => quote = Some(*letter),
            _ => {}
        }
        inside || !letter.is_whitespace()
    };
    tuple.chars().filter(keep).collect()
}

/// First byte of the external term format.
const VERSION: u8 = 131;

/// Maximum nesting of terms; only a damaged file exceeds it.
const DEEPEST: usize = 200;

/// Calls in the order in which they were recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Each `{Module, Function, Arguments}`, as text.
    pub calls: Vec<String>,
}

impl Recording {
    /// Parses the contents of a file.
    ///
    /// # Errors
    /// They are not a list of calls, or contain a term without a textual form.
    pub fn parse(bytes: &[u8]) -> Result<Recording, String> {
        let mut reader = Reader { left: bytes };
        match reader.byte()? {
            VERSION => {}
            _ => return Err("it does not begin like a recording of calls".to_owned()),
        }
        let count = match reader.byte()? {
            b'l' => reader.size(4)?,
            b'P' => {
                return Err("it is compressed\nhint: term_to_binary(Calls) without options".into());
            }
            _ => return Err("it is no list of calls".to_owned()),
        };
        let calls: Result<Vec<String>, String> = (0..count).map(|_| reader.call()).collect();
        Ok(Recording { calls: calls? })
    }

    /// Returns the text of a snippet that makes the calls.
    pub fn text(&self) -> String {
        format!("[{}]", self.calls.join(","))
    }

    /// Formats the calls as in the original's tables.
    pub fn label(&self) -> String {
        match &self.calls[..] {
            [first, _, ..] => format!("[{first}, ...]"),
            _ => self.text(),
        }
    }
}

struct Reader<'a> {
    left: &'a [u8],
}

impl Reader<'_> {
    fn bytes(&mut self, count: usize) -> Result<&[u8], String> {
        let short = || "it ends in the middle of a term".to_owned();
        let (taken, left) = self.left.split_at_checked(count).ok_or_else(short)?;
        self.left = left;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    /// Reads an unsigned big-endian number.
    fn size(&mut self, bytes: usize) -> Result<usize, String> {
        let digits = self.bytes(bytes)?.iter();
        Ok(digits.fold(0, |size, byte| size << 8 | usize::from(*byte)))
    }

    fn call(&mut self) -> Result<String, String> {
        let wrong = || "not every element is a tuple {Module, Function, Arguments}".to_owned();
        let arity = match self.byte()? {
            b'h' => self.size(1)?,
            b'i' => self.size(4)?,
            _ => return Err(wrong()),
        };
        let atoms = [b'd', b's', b'v', b'w'];
        let mut parts = Vec::new();
        for at in 0..3 {
            let tag = self.left.first().copied().unwrap_or(0);
            let fits = match at {
                0 | 1 => atoms.contains(&tag),
                _ => [b'l', b'k', b'j'].contains(&tag),
            };
            if arity != 3 || !fits {
                return Err(wrong());
            }
            parts.push(self.term(0)?);
        }
        Ok(format!("{{{}}}", parts.join(",")))
    }

    fn term(&mut self, depth: usize) -> Result<String, String> {
        if depth > DEEPEST {
            return Err("a term is nested too deeply".to_owned());
        }
        match self.byte()? {
            b'a' => Ok(self.byte()?.to_string()),
            b'b' => {
                let number = self.size(4)? as u32;
                Ok(number.cast_signed().to_string())
            }
            b'F' => self.float(),
            b'd' => self.atom(2, false),
            b's' => self.atom(1, false),
            b'v' => self.atom(2, true),
            b'w' => self.atom(1, true),
            b'h' => self.sequence(1, depth).map(|all| format!("{{{all}}}")),
            b'i' => self.sequence(4, depth).map(|all| format!("{{{all}}}")),
            b'j' => Ok("[]".to_owned()),
            b'k' => self.string(),
            b'l' => self.list(depth),
            b'm' => self.binary(),
            b'n' => self.big(1),
            b'o' => self.big(4),
            b't' => self.map(depth),
            b'X' | b'g' | b'Y' | b'f' | b'e' | b'Z' | b'r' | b'x' | b'p' | b'q' => Err(
                "an argument is a process, a port, a reference or a function, which cannot be written as text"
                    .to_owned(),
            ),
            tag => Err(format!("a term begins with {tag}, which is not understood")),
        }
    }

    fn sequence(&mut self, bytes: usize, depth: usize) -> Result<String, String> {
        let count = self.size(bytes)?;
        let mut all = String::new();
        for at in 0..count {
            all.push_str(if at == 0 { "" } else { "," });
            all.push_str(&self.term(depth + 1)?);
        }
        Ok(all)
    }

    fn list(&mut self, depth: usize) -> Result<String, String> {
        let all = self.sequence(4, depth)?;
        Ok(match self.term(depth + 1)?.as_str() {
            "[]" => format!("[{all}]"),
            tail => format!("[{all}|{tail}]"),
        })
    }

    fn map(&mut self, depth: usize) -> Result<String, String> {
        let count = self.size(4)?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let key = self.term(depth + 1)?;
            pairs.push(format!("{key} => {}", self.term(depth + 1)?));
        }
        Ok(format!("#{{{}}}", pairs.join(",")))
    }

    fn float(&mut self) -> Result<String, String> {
        let bits = self.bytes(8)?.try_into().unwrap_or_default();
        let text = format!("{:?}", f64::from_be_bytes(bits));
        // Erlang requires a decimal point before an exponent.
        Ok(match text.split_once('e') {
            Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
            _ => text,
        })
    }

    /// Reads a big integer as text in base 16, which Erlang can read and which needs no arithmetic.
    fn big(&mut self, bytes: usize) -> Result<String, String> {
        let count = self.size(bytes)?;
        let sign = if self.byte()? == 0 { "" } else { "-" };
        let mut text = format!("{sign}16#0");
        for byte in self.bytes(count)?.iter().rev() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02X}");
        }
        Ok(text)
    }

    /// Reads a list of small numbers, which is how Erlang stores text.
    fn string(&mut self) -> Result<String, String> {
        let count = self.size(2)?;
        let bytes = self.bytes(count)?;
        Ok(quoted(bytes, '"').unwrap_or_else(|| format!("[{}]", numbers(bytes))))
    }

    fn binary(&mut self) -> Result<String, String> {
        let count = self.size(4)?;
        let bytes = self.bytes(count)?;
        let inside = quoted(bytes, '"').unwrap_or_else(|| numbers(bytes));
        Ok(format!("<<{inside}>>"))
    }

    fn atom(&mut self, bytes: usize, is_utf8: bool) -> Result<String, String> {
        let count = self.size(bytes)?;
        let name = self.bytes(count)?;
        let text = if is_utf8 {
            String::from_utf8(name.to_vec()).map_err(|_| "an atom is no text".to_owned())?
        } else {
            name.iter().map(|byte| char::from(*byte)).collect()
        };
        Ok(atom(&text))
    }
}

fn numbers(bytes: &[u8]) -> String {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    numbers.join(",")
}

/// Formats bytes as text if all of them are printable.
fn quoted(bytes: &[u8], mark: char) -> Option<String> {
    let is_text = !bytes.is_empty() && bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
    is_text.then(|| escaped(&String::from_utf8_lossy(bytes), mark))
}

fn escaped(text: &str, mark: char) -> String {
    let mut all = String::from(mark);
    for letter in text.chars() {
        match letter {
            '\\' => all.push_str("\\\\"),
            letter if letter == mark => all.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(all, "\\x{{{:x}}}", u32::from(letter));
            }
            letter => all.push(letter),
        }
    }
    all.push(mark);
    all
}

/// Words that need quotes as atoms: "Reserved Words" in the Erlang reference manual.
const RESERVED: &[&str] = &[
    "after", "and", "andalso", "band", "begin", "bnot", "bor", "bsl", "bsr", "bxor", "case",
    "catch", "cond", "div", "else", "end", "fun", "if", "let", "maybe", "not", "of", "or",
    "orelse", "receive", "rem", "try", "when", "xor",
];

fn atom(name: &str) -> String {
    let is_plain = name.starts_with(|letter: char| letter.is_ascii_lowercase())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "_@".contains(letter));
    if is_plain && !RESERVED.contains(&name) {
        return name.to_owned();
    }
    escaped(name, '\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(code: &str) -> Known {
        let snippet = TypedSnippet {
            code: code.to_owned(),
            ..TypedSnippet::default()
        };
        let golden = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../speedwell/tests/golden/erlperf"
        );
        read(&snippet, &[], Path::new(golden)).unwrap()
    }

    #[test]
    fn the_last_letter_decides_what_a_word_is() {
        let text = known("timer:sleep(1).");
        assert_eq!(
            (&*text.snippet.runner, &*text.label),
            ("timer:sleep(1).", "timer:sleep(1).")
        );
        let call = known("{timer, sleep, [2]}");
        assert_eq!(call.label, "{timer,sleep,[2]}");
        assert_eq!(call.snippet.runner, "{timer, sleep, [2]}");
        let file = known("recorded.bin");
        assert_eq!(file.snippet.runner, "[{timer,sleep,[1]},{timer,sleep,[2]}]");
        assert_eq!(file.label, "[{timer,sleep,[1]}, ...]");
        let forgotten = known("timer:sleep(1)");
        assert!(forgotten.lacks_dot && !text.lacks_dot && !call.lacks_dot && !file.lacks_dot);
        assert_eq!(forgotten.snippet.runner, "timer:sleep(1)");
    }

    #[test]
    fn blanks_inside_quotes_belong_to_a_tuple() {
        assert_eq!(
            compact("{m, f, [\"a b\\\" c\", 'd e', 1]}"),
            "{m,f,[\"a b\\\" c\",'d e',1]}"
        );
    }

    #[test]
    fn a_file_without_calls_is_refused_with_its_name() {
        let snippet = TypedSnippet {
            code: "basic.out".to_owned(),
            ..TypedSnippet::default()
        };
        let golden = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../speedwell/tests/golden/erlperf"
        );
        let reason = read(&snippet, &[], Path::new(golden)).unwrap_err();
        assert!(
            reason.starts_with("cannot use the file 'basic.out'"),
            "{reason}"
        );
    }

    fn golden() -> Vec<u8> {
        let folder = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../speedwell/tests/golden/erlperf"
        );
        std::fs::read(format!("{folder}/recorded.bin")).unwrap()
    }

    #[test]
    fn calls_recorded_by_erlang_become_a_list_of_tuples() {
        let recording = Recording::parse(&golden()).unwrap();
        assert_eq!(recording.text(), "[{timer,sleep,[1]},{timer,sleep,[2]}]");
        assert_eq!(recording.label(), "[{timer,sleep,[1]}, ...]");
    }

    #[test]
    fn every_beginning_of_a_recording_is_refused() {
        let whole = golden();
        // The last byte is the empty tail of the list, so it is not needed to read the calls.
        for length in 0..whole.len() - 1 {
            assert!(
                Recording::parse(&whole[..length]).is_err(),
                "{length} bytes"
            );
        }
        assert!(Recording::parse(b"timer:sleep(1)").is_err());
    }

    /// Erlang itself encodes the terms, and parses their text again.
    #[test]
    fn arguments_of_every_kind_come_back_in_erlang() {
        let terms = "[{m,f,[1,-1,255,256,-70000,1 bsl 70,-(1 bsl 70),1.5,-1.0e300,\"text\\\"\\\\\",[1,2],[a|b],\
                     <<1,2>>,<<\"bin\">>,'Quoted Atom',\"\",'end',#{a => {b,[]},\"k\" => <<>>},{},é,'日本']},{a,b,[]}]";
        let program = format!(
            "T = {terms}, io:put_chars([io_lib:format(\"~2.16.0b\", [B]) || <<B>> <= term_to_binary(T)]), halt()."
        );
        let Some(hex) = erl(&program) else { return };
        let digits = hex.trim().as_bytes().chunks(2);
        let bytes: Vec<u8> = digits
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect();
        let text = Recording::parse(&bytes).unwrap().text();
        let same = erl(&format!(
            "io:put_chars(atom_to_list({text} =:= {terms})), halt()."
        ));
        assert_eq!(same.as_deref(), Some("true"), "{text}");
    }

    fn erl(program: &str) -> Option<String> {
        let words = [
            "+pc",
            "unicode",
            "-noinput",
            "-boot",
            "start_clean",
            "-eval",
            program,
        ];
        match std::process::Command::new("erl").args(words).output() {
            Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
            Err(_) => {
                eprintln!("skipped: there is no program erl");
                None
            }
        }
    }

    #[test]
    fn a_process_among_the_arguments_is_refused_by_name() {
        // [{m,f,[Pid]}], cut off after the tag of the pid.
        let bytes = b"\x83l\0\0\0\x01h\x03w\x01mw\x01fl\0\0\0\x01X";
        let reason = Recording::parse(bytes).unwrap_err();
        assert!(reason.contains("a process"), "{reason}");
    }
}
