//! Converts an argument of the command line to a snippet: Erlang code, a tuple `{M, F, A}`, or a
//! file of recorded calls.
//!
//! As in erlperf, the end of an argument decides what it is: code ends with a dot, a tuple with a
//! brace, and any other argument names a file. Unlike in erlperf, an argument that names no
//! existing file is treated as code whose final dot is missing. Erlang itself checks the code. A
//! file contains a list of `{Module, Function, Arguments}` in Erlang's external term format
//! ("External Term Format" in the ERTS manual). The list is converted to Erlang code; terms without
//! a textual form, such as processes, are rejected. Start at [`parse_snippet`].

use crate::erlperf::arguments::TypedSnippet;
use speedwell_model::Snippet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// A snippet ready to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct ErlangSnippet {
    pub snippet: Snippet,
    /// Name in tables.
    pub label: String,
    /// Title of the snippet's source listing: the code, even if there is a label.
    pub shown: String,
    /// Whether the code lacks its final dot. The user may then have meant the name of a file.
    pub lacks_dot: bool,
}

/// Creates a snippet from an argument; files are resolved against `directory`.
///
/// # Errors
/// Fails if a file cannot be read, or does not contain calls.
pub fn parse_snippet(
    typed: &TypedSnippet,
    paths: &[PathBuf],
    directory: &Path,
) -> Result<ErlangSnippet, String> {
    let typed_code = &typed.snippet.runner;
    let code = typed_code.trim();
    let is_text = code.ends_with('.');
    let is_call = code.starts_with('{') && code.ends_with('}');
    let file = directory.join(typed_code);
    let is_file = !is_text && !is_call && file.is_file();
    let (runner, shown) = if is_file {
        read_recording(typed_code, &file)?
    } else if is_call {
        (code.to_owned(), compact_tuple(code))
    } else {
        (typed_code.clone(), typed_code.clone())
    };
    Ok(ErlangSnippet {
        snippet: Snippet { runner, paths: paths.to_vec(), ..typed.snippet.clone() },
        label: typed.label.clone().unwrap_or_else(|| shown.clone()),
        shown,
        lacks_dot: !is_text && !is_call && !is_file,
    })
}

fn read_recording(name: &str, file: &Path) -> Result<(String, String), String> {
    let bytes =
        fs::read(file).map_err(|error| format!("cannot read the file '{name}': {error}"))?;
    parse_recording(&bytes)
        .map_err(|reason| format!("cannot use the file '{name}' as a recording of calls: {reason}"))
}

/// Formats a tuple as Erlang prints it: without spaces outside of quotes.
fn compact_tuple(tuple: &str) -> String {
    let mut quote = None;
    let mut escaped = false;
    let is_kept = |character: &char| {
        let was_quoted = quote.is_some();
        match (quote, *character) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(mark), character) if character == mark => quote = None,
            (None, '"' | '\'') => quote = Some(*character),
            _ => {}
        }
        was_quoted || !character.is_whitespace()
    };
    tuple.chars().filter(is_kept).collect()
}

/// First byte of the external term format.
const TERM_FORMAT_VERSION: u8 = 131;

/// Maximum nesting of terms; only a damaged file exceeds it.
const MAX_TERM_DEPTH: usize = 200;

/// Parses the contents of a file. Returns the code of a snippet that makes the recorded calls, and
/// the name of the snippet in tables.
///
/// # Errors
/// Fails if the contents are not a list of calls, or contain a term without a textual form.
fn parse_recording(bytes: &[u8]) -> Result<(String, String), String> {
    let mut reader = TermReader { remaining: bytes };
    if reader.take_byte()? != TERM_FORMAT_VERSION {
        return Err("it does not start like a recording of calls".to_owned());
    }
    let count = match reader.take_byte()? {
        b'l' => reader.read_size(4)?,
        b'P' => {
            let hint = "write it with term_to_binary(Calls), without options";
            return Err(format!("it is compressed\nhint: {hint}"));
        }
        _ => return Err("it is not a list of calls".to_owned()),
    };
    let calls: Vec<String> = (0..count).map(|_| reader.read_call()).collect::<Result<_, _>>()?;
    let code = format!("[{}]", calls.join(","));
    let label = match &calls[..] {
        [first, _, ..] => format!("[{first}, ...]"),
        _ => code.clone(),
    };
    Ok((code, label))
}

struct TermReader<'a> {
    remaining: &'a [u8],
}

impl TermReader<'_> {
    fn take_bytes(&mut self, count: usize) -> Result<&[u8], String> {
        let error = || "it ends in the middle of a term".to_owned();
        let (taken, remaining) = self.remaining.split_at_checked(count).ok_or_else(error)?;
        self.remaining = remaining;
        Ok(taken)
    }

    fn take_byte(&mut self) -> Result<u8, String> {
        self.take_bytes(1).map(|bytes| bytes[0])
    }

    /// Reads an unsigned big-endian number.
    fn read_size(&mut self, bytes: usize) -> Result<usize, String> {
        let digits = self.take_bytes(bytes)?.iter();
        Ok(digits.fold(0, |size, byte| size << 8 | usize::from(*byte)))
    }

    fn read_call(&mut self) -> Result<String, String> {
        let error = || "not every element is a tuple {Module, Function, Arguments}".to_owned();
        let arity = match self.take_byte()? {
            b'h' => self.read_size(1)?,
            b'i' => self.read_size(4)?,
            _ => return Err(error()),
        };
        // Two atoms and a list.
        let mut parts = Vec::new();
        for tags in [&b"dsvw"[..], &b"dsvw"[..], &b"lkj"[..]] {
            let fits = self.remaining.first().is_some_and(|tag| tags.contains(tag));
            if arity != 3 || !fits {
                return Err(error());
            }
            parts.push(self.read_term(0)?);
        }
        Ok(format!("{{{}}}", parts.join(",")))
    }

    fn read_term(&mut self, depth: usize) -> Result<String, String> {
        if depth > MAX_TERM_DEPTH {
            return Err("a term is nested too deeply".to_owned());
        }
        match self.take_byte()? {
            b'a' => Ok(self.take_byte()?.to_string()),
            b'b' => Ok((self.read_size(4)? as u32).cast_signed().to_string()),
            b'F' => self.read_float(),
            b'd' => self.read_atom(2, false),
            b's' => self.read_atom(1, false),
            b'v' => self.read_atom(2, true),
            b'w' => self.read_atom(1, true),
            b'h' => self.read_sequence(1, depth).map(|elements| format!("{{{elements}}}")),
            b'i' => self.read_sequence(4, depth).map(|elements| format!("{{{elements}}}")),
            b'j' => Ok("[]".to_owned()),
            b'k' => self.read_string(),
            b'l' => self.read_list(depth),
            b'm' => self.read_binary(),
            b'n' => self.read_big(1),
            b'o' => self.read_big(4),
            b't' => self.read_map(depth),
            b'X' | b'g' | b'Y' | b'f' | b'e' | b'Z' | b'r' | b'x' | b'p' | b'q' => {
                let kinds = "a process, a port, a reference or a function";
                Err(format!("an argument is {kinds}, which cannot be written as text"))
            }
            tag => Err(format!("unknown term tag {tag}")),
        }
    }

    fn read_sequence(&mut self, bytes: usize, depth: usize) -> Result<String, String> {
        let count = self.read_size(bytes)?;
        let elements = (0..count).map(|_| self.read_term(depth + 1));
        Ok(elements.collect::<Result<Vec<String>, String>>()?.join(","))
    }

    fn read_list(&mut self, depth: usize) -> Result<String, String> {
        let elements = self.read_sequence(4, depth)?;
        Ok(match self.read_term(depth + 1)?.as_str() {
            "[]" => format!("[{elements}]"),
            tail => format!("[{elements}|{tail}]"),
        })
    }

    fn read_map(&mut self, depth: usize) -> Result<String, String> {
        let count = self.read_size(4)?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let key = self.read_term(depth + 1)?;
            pairs.push(format!("{key} => {}", self.read_term(depth + 1)?));
        }
        Ok(format!("#{{{}}}", pairs.join(",")))
    }

    fn read_float(&mut self) -> Result<String, String> {
        let bits = self.take_bytes(8)?.try_into().unwrap_or_default();
        let text = format!("{:?}", f64::from_be_bytes(bits));
        // Erlang requires a decimal point before an exponent.
        Ok(match text.split_once('e') {
            Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
            _ => text,
        })
    }

    /// Reads a big integer and formats it in base 16. Erlang accepts this base, and the conversion
    /// needs no arithmetic.
    fn read_big(&mut self, bytes: usize) -> Result<String, String> {
        let count = self.read_size(bytes)?;
        let sign = if self.take_byte()? == 0 { "" } else { "-" };
        let mut text = format!("{sign}16#0");
        for byte in self.take_bytes(count)?.iter().rev() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02X}");
        }
        Ok(text)
    }

    /// Reads a list of small numbers. Erlang stores text in this form.
    fn read_string(&mut self) -> Result<String, String> {
        let count = self.read_size(2)?;
        let bytes = self.take_bytes(count)?;
        Ok(quote_printable(bytes).unwrap_or_else(|| format!("[{}]", format_bytes(bytes))))
    }

    fn read_binary(&mut self) -> Result<String, String> {
        let count = self.read_size(4)?;
        let bytes = self.take_bytes(count)?;
        let content = quote_printable(bytes).unwrap_or_else(|| format_bytes(bytes));
        Ok(format!("<<{content}>>"))
    }

    fn read_atom(&mut self, bytes: usize, is_utf8: bool) -> Result<String, String> {
        let count = self.read_size(bytes)?;
        let name = self.take_bytes(count)?;
        let text = if is_utf8 {
            String::from_utf8(name.to_vec()).map_err(|_| "an atom is not valid UTF-8".to_owned())?
        } else {
            name.iter().map(|byte| char::from(*byte)).collect()
        };
        Ok(format_atom(&text))
    }
}

fn format_bytes(bytes: &[u8]) -> String {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    numbers.join(",")
}

/// Formats bytes as text if all of them are printable.
fn quote_printable(bytes: &[u8]) -> Option<String> {
    let is_text = !bytes.is_empty() && bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
    is_text.then(|| escape_text(&String::from_utf8_lossy(bytes), '"'))
}

fn escape_text(text: &str, mark: char) -> String {
    let mut escaped = String::from(mark);
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            character if character == mark => escaped.extend(['\\', character]),
            character if character.is_control() => {
                let _ = write!(escaped, "\\x{{{:x}}}", u32::from(character));
            }
            character => escaped.push(character),
        }
    }
    escaped.push(mark);
    escaped
}

/// Words that need quotes if they are used as atoms ("Reserved Words" in the Erlang reference
/// manual).
const RESERVED_WORDS: &[&str] = &[
    "after", "and", "andalso", "band", "begin", "bnot", "bor", "bsl", "bsr", "bxor", "case",
    "catch", "cond", "div", "else", "end", "fun", "if", "let", "maybe", "not", "of", "or",
    "orelse", "receive", "rem", "try", "when", "xor",
];

fn format_atom(name: &str) -> String {
    let is_plain = name.starts_with(|character: char| character.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_@".contains(c));
    if is_plain && !RESERVED_WORDS.contains(&name) {
        return name.to_owned();
    }
    escape_text(name, '\'')
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::SnippetLanguage;

    fn parse_typed(code: &str) -> Result<ErlangSnippet, String> {
        let snippet = Snippet::new(SnippetLanguage::Erlang, code);
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/erlperf");
        parse_snippet(&TypedSnippet { snippet, label: None }, &[], Path::new(golden))
    }

    fn known(code: &str) -> ErlangSnippet {
        parse_typed(code).unwrap()
    }

    #[test]
    fn the_last_character_decides_how_a_snippet_is_read() {
        let text = known("timer:sleep(1).");
        assert_eq!((&*text.snippet.runner, &*text.label), ("timer:sleep(1).", "timer:sleep(1)."));
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
    fn spaces_in_a_tuple_are_kept_only_inside_quotes() {
        assert_eq!(
            compact_tuple("{m, f, [\"a b\\\" c\", 'd e', 1]}"),
            "{m,f,[\"a b\\\" c\",'d e',1]}"
        );
    }

    #[test]
    fn a_file_without_calls_is_refused_with_its_name() {
        let reason = parse_typed("basic.out").unwrap_err();
        assert!(reason.starts_with("cannot use the file 'basic.out'"), "{reason}");
    }

    fn golden() -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/erlperf");
        std::fs::read(format!("{folder}/recorded.bin")).unwrap()
    }

    #[test]
    fn calls_recorded_by_erlang_become_a_list_of_tuples() {
        let (code, label) = parse_recording(&golden()).unwrap();
        assert_eq!(code, "[{timer,sleep,[1]},{timer,sleep,[2]}]");
        assert_eq!(label, "[{timer,sleep,[1]}, ...]");
    }

    #[test]
    fn truncated_recordings_are_refused() {
        let whole = golden();
        // The last byte is the empty tail of the list. The calls can be read without it.
        for length in 0..whole.len() - 1 {
            assert!(parse_recording(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(parse_recording(b"timer:sleep(1)").is_err());
    }

    /// Erlang encodes the terms, we convert them to text, and Erlang parses this text and compares
    /// the result with the terms.
    #[test]
    fn recorded_terms_survive_a_round_trip_through_erlang() {
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
        let (text, _) = parse_recording(&bytes).unwrap();
        let same = erl(&format!("io:put_chars(atom_to_list({text} =:= {terms})), halt()."));
        assert_eq!(same.as_deref(), Some("true"), "{text}");
    }

    fn erl(program: &str) -> Option<String> {
        let words = ["+pc", "unicode", "-noinput", "-boot", "start_clean", "-eval", program];
        match std::process::Command::new("erl").args(words).output() {
            Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
            Err(_) => {
                eprintln!("skipped: 'erl' is not installed");
                None
            }
        }
    }

    #[test]
    fn a_process_among_the_arguments_is_refused_by_name() {
        // [{m,f,[Pid]}], cut off after the tag of the pid.
        let bytes = b"\x83l\0\0\0\x01h\x03w\x01mw\x01fl\0\0\0\x01X";
        let reason = parse_recording(bytes).unwrap_err();
        assert!(reason.contains("a process"), "{reason}");
    }
}
