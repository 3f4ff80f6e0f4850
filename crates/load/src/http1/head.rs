//! Reads the head of a response. Parses the status line and the fields, and determines where the
//! body ends (RFC 9112, section 6.3).
//!
//! The lines are found in one pass that can stop at any byte and resume later. A bare LF ends a
//! line (section 2.2), folded fields are unfolded as required of user agents (section 5.2), and
//! control characters are rejected. Only the three fields that affect framing and the connection
//! are interpreted; of the other fields, only the syntax is checked. Start at
//! [`HeadScanner::scan`].

/// Progress of reading a head. Offsets are relative to its first byte.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HeadScanner {
    pub(super) facts: HeadFacts,
    /// The next byte to read.
    position: usize,
    /// Start of the current line, including lines folded into it.
    line: usize,
    /// End of the text of the current line, once the line end is found. The next byte decides
    /// whether the field continues on the next line.
    text_end: Option<usize>,
    fields: usize,
}

impl HeadScanner {
    /// Continues reading; `head` contains everything from the first byte of the head. Returns the
    /// end of the head once it is found. Errors are found at the same byte, no matter in which
    /// pieces the head arrives.
    pub(super) fn scan(
        &mut self,
        head: &[u8],
        max_fields: usize,
        mut watch: Option<&mut ResponseWatch>,
    ) -> Result<Option<usize>, ResponseError> {
        // The first byte may already show that the peer does not speak HTTP.
        if self.line == 0 && !head.iter().zip(b"HTTP/").all(|(byte, expected)| byte == expected) {
            return Err(ResponseError::NotHttp);
        }
        loop {
            if let Some(end) = self.text_end {
                let Some(next) = head.get(self.position) else {
                    return Ok(None);
                };
                self.text_end = None;
                if !matches!(next, b' ' | b'\t') {
                    self.fields += 1;
                    if self.fields > max_fields {
                        return Err(ResponseError::HeadTooLarge);
                    }
                    let (name, value) = parse_field(&head[self.line..end], &mut self.facts)?;
                    if let Some(watch) = watch.as_deref_mut() {
                        watch.add_field(name, value);
                    }
                    self.line = self.position;
                }
            }
            let Some(end) = self.line_end(head)? else {
                return Ok(None);
            };
            if self.line == 0 {
                parse_status_line(&head[..end], &mut self.facts)?;
                self.line = self.position;
            } else if end == self.line {
                return Ok(Some(self.position));
            } else {
                self.text_end = Some(end);
            }
        }
    }

    /// Advances past the next line end. Returns the position at which this line end starts.
    fn line_end(&mut self, head: &[u8]) -> Result<Option<usize>, ResponseError> {
        loop {
            let position = next_control(head, self.position);
            self.position = position;
            match (head.get(position), head.get(position + 1)) {
                (Some(b'\r'), Some(b'\n')) => {
                    self.position = position + 2;
                    return Ok(Some(position));
                }
                (Some(b'\n'), _) => {
                    self.position = position + 1;
                    return Ok(Some(position));
                }
                (Some(b'\t'), _) => self.position = position + 1,
                (None, _) | (Some(b'\r'), None) => return Ok(None),
                _ if self.line == 0 => return Err(ResponseError::StatusLine),
                _ => return Err(ResponseError::Header),
            }
        }
    }
}

/// Returns the position of the next byte that is below 32 or equals 127, or the length if there is
/// none. Works on eight bytes at a time: a head consists mostly of header values, and most of their
/// bytes need no other check.
#[inline(always)]
fn next_control(bytes: &[u8], from: usize) -> usize {
    let rest = &bytes[from.min(bytes.len())..];
    let (words, tail) = rest.as_chunks::<8>();
    for (turn, word) in words.iter().enumerate() {
        let found = mark_controls(u64::from_le_bytes(*word));
        if found != 0 {
            return from + turn * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let is_control = |byte: &u8| *byte < 32 || *byte == 127;
    let found = tail.iter().position(is_control).unwrap_or(tail.len());
    from + words.len() * 8 + found
}

/// Returns a word in which the highest bit of each byte is set if the same byte of `word` is below
/// 32 or equals 127. The highest bit of a byte of `printable` is set if the low seven bits are at
/// least 32. The highest bit of a byte of `delete` is set if the low seven bits are 127. Neither
/// sum carries into the next byte.
#[inline(always)]
fn mark_controls(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let low = word & LOW;
    let printable = low + 0x6060_6060_6060_6060;
    let delete = low + 0x0101_0101_0101_0101;
    (!printable | delete) & !word & !LOW
}

// The code below parses one line of a head: the status line, or a header field.

/// Bytes allowed in a token (RFC 9110, section 5.6.2).
static TOKEN_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut position = 0;
    while position < marks.len() {
        table[marks[position] as usize] = true;
        position += 1;
    }
    table
};

pub(crate) fn is_token_byte(byte: u8) -> bool {
    TOKEN_BYTES[usize::from(byte)]
}

pub(super) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| is_token_byte(*byte))
}

/// Parses a status line such as `HTTP/1.1 200 OK`. A missing blank before an empty reason phrase is
/// common and harmless, so it is tolerated.
pub(super) fn parse_status_line(line: &[u8], facts: &mut HeadFacts) -> Result<(), ResponseError> {
    let (b"HTTP/1.", [minor @ b'0'..=b'9', b' ', a, b, c, reason @ ..]) =
        line.split_at_checked(7).ok_or(ResponseError::StatusLine)?
    else {
        return Err(ResponseError::StatusLine);
    };
    let digits = [a, b, c].map(|byte| byte.wrapping_sub(b'0'));
    let are_digits = digits.iter().all(|digit| *digit < 10);
    if !are_digits || digits[0] == 0 || !matches!(reason.first(), None | Some(b' ')) {
        return Err(ResponseError::StatusLine);
    }
    facts.is_http_1_0 = *minor == b'0';
    facts.status = digits.iter().fold(0, |code, digit| code * 10 + u16::from(*digit));
    Ok(())
}

/// Returns the length of the token at the start of a line. Most names consist of letters and
/// hyphens, so these are checked eight at a time, and other bytes one at a time.
fn token_length(line: &[u8]) -> usize {
    let mut position = 0;
    while let Some(word) = line[position..].first_chunk::<8>() {
        let others = mark_unusual_bytes(u64::from_le_bytes(*word));
        if others == 0 {
            position += 8;
            continue;
        }
        let other = (others.trailing_zeros() / 8) as usize;
        position += other;
        if !is_token_byte(word[other]) {
            return position;
        }
        position += 1;
    }
    let rest = &line[position..];
    let end = rest.iter().position(|byte| !is_token_byte(*byte));
    position + end.unwrap_or(rest.len())
}

/// Returns a word in which the highest bit of each byte is set if the same byte of `word` is
/// neither a letter nor a hyphen. As in [`mark_controls`], no sum carries into the next byte.
fn mark_unusual_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOW: u64 = 0x7f * ONES;
    let lower = (word | (0x20 * ONES)) & LOW;
    let from_a = lower + (0x80 - 0x61) * ONES;
    let behind_z = lower + (0x80 - 0x7b) * ONES;
    let not_hyphen = ((word ^ (0x2d * ONES)) & LOW) + LOW;
    ((!(from_a & !behind_z) & not_hyphen) | word) & !LOW
}

/// Splits a header field at its colon, and records the field if it affects framing or the
/// connection. No blank may precede the colon (RFC 9112, section 5.1). A folded value still
/// contains its line ends, which are treated as blanks (section 5.2).
pub(super) fn parse_field<'a>(
    line: &'a [u8],
    facts: &mut HeadFacts,
) -> Result<(&'a [u8], &'a [u8]), ResponseError> {
    let length = token_length(line);
    if length == 0 || line.get(length) != Some(&b':') {
        return Err(ResponseError::Header);
    }
    let (name, value) = (&line[..length], &line[length + 1..]);
    match length {
        10 if name.eq_ignore_ascii_case(b"connection") => parse_connection(value, facts),
        14 if name.eq_ignore_ascii_case(b"content-length") => parse_content_length(value, facts),
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => parse_codings(value, facts),
        _ => {}
    }
    Ok((name, value))
}

fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim_blanks)
}

fn parse_connection(value: &[u8], facts: &mut HeadFacts) {
    // Fast path: most servers write exactly this.
    if value == b" keep-alive" {
        facts.keep_alive = true;
        return;
    }
    for option in list_elements(value) {
        facts.close |= option.eq_ignore_ascii_case(b"close");
        facts.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
    }
}

/// Combines a Content-Length field with those before it. Repeated equal values are treated as one
/// value (RFC 9112, section 6.3, rule 5).
fn parse_content_length(value: &[u8], facts: &mut HeadFacts) {
    // Fast path: most servers write a single number after a single blank.
    let only = value.strip_prefix(b" ").and_then(parse_number);
    if let (ContentLength::Absent, Some(bytes)) = (facts.length, only) {
        facts.length = ContentLength::Given(bytes);
        return;
    }
    for element in list_elements(value) {
        facts.length = match (facts.length, parse_number(element)) {
            (ContentLength::Conflict, _) => ContentLength::Conflict,
            (ContentLength::Unreadable, _) | (_, None) => ContentLength::Unreadable,
            (ContentLength::Given(known), Some(bytes)) if known != bytes => ContentLength::Conflict,
            (_, Some(bytes)) => ContentLength::Given(bytes),
        };
    }
}

/// Parses a number: digits only, without sign or blanks, and within range.
pub(crate) fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Records the transfer codings. Ignores `identity` (RFC 2616, section 3.6), which RFC 9112 no
/// longer has, but old servers still send.
fn parse_codings(value: &[u8], facts: &mut HeadFacts) {
    for element in list_elements(value) {
        let name = element.split(|byte| *byte == b';').next().map(trim_blanks);
        match name {
            None | Some(b"") => {}
            Some(name) if name.eq_ignore_ascii_case(b"identity") => {}
            Some(name) => {
                facts.codings += 1;
                facts.is_chunked_last = name.eq_ignore_ascii_case(b"chunked");
                facts.chunked_codings += u32::from(facts.is_chunked_last);
            }
        }
    }
}

// The code below determines the end of the body from the header fields. It follows the rules of RFC
// 9112, section 6.3, in their order.

/// How to find the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    Length(u64),
    Chunked,
    UntilEof,
}

/// The combined meaning of all Content-Length fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ContentLength {
    #[default]
    Absent,
    Given(u64),
    Conflict,
    Unreadable,
}

/// The information in a head that affects the framing of the body and the reuse of the connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HeadFacts {
    pub(super) status: u16,
    /// Whether the version is HTTP/1.0; any other 1.x is treated as 1.1 (RFC 9110, section 2.5).
    pub(super) is_http_1_0: bool,
    pub(super) length: ContentLength,
    /// Number of transfer codings, except `identity`.
    pub(super) codings: u32,
    pub(super) chunked_codings: u32,
    pub(super) is_chunked_last: bool,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
}

impl HeadFacts {
    pub(super) fn body_framing(&self, method: MethodKind) -> Result<BodyFraming, ResponseError> {
        if self.has_no_body(method) {
            return Ok(BodyFraming::Length(0));
        }
        if self.codings > 0 {
            return match (self.chunked_codings, self.is_chunked_last) {
                // Chunked must not be applied more than once (section 7.1).
                (2.., _) => Err(ResponseError::Header),
                (_, true) => Ok(BodyFraming::Chunked),
                (_, false) => Ok(BodyFraming::UntilEof),
            };
        }
        match self.length {
            ContentLength::Given(bytes) => Ok(BodyFraming::Length(bytes)),
            ContentLength::Absent => Ok(BodyFraming::UntilEof),
            ContentLength::Conflict => Err(ResponseError::LengthConflict),
            ContentLength::Unreadable => Err(ResponseError::Header),
        }
    }

    fn has_no_body(&self, method: MethodKind) -> bool {
        match method {
            _ if matches!(self.status, 204 | 304) => true,
            MethodKind::Body => false,
            MethodKind::Head => true,
            MethodKind::Connect => self.status / 100 == 2,
        }
    }

    /// Whether the connection persists after a body with this framing (RFC 9112, section 9.3;
    /// `close` takes precedence). A transfer coding in HTTP/1.0 is faulty framing (section 6.1) and
    /// ends the connection. A successful CONNECT turns the connection into a tunnel, which cannot
    /// be used for further HTTP requests.
    pub(super) fn is_reusable(&self, framing: BodyFraming, method: MethodKind) -> bool {
        let persists = !self.close && (!self.is_http_1_0 || self.keep_alive);
        let faulty = self.is_http_1_0 && self.codings > 0;
        let tunnel = method == MethodKind::Connect && self.status / 100 == 2;
        persists && !faulty && !tunnel && framing != BodyFraming::UntilEof
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.codings > 0 && self.length != ContentLength::Absent
    }
}

/// Kind of request that a response belongs to. Responses to some methods have no body, whatever
/// their header fields say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MethodKind {
    /// Any method whose responses may have a body.
    #[default]
    Body,
    /// HEAD: the response never has a body.
    Head,
    /// CONNECT: a successful response has no body, and the connection cannot be used for further
    /// HTTP requests.
    Connect,
}

impl MethodKind {
    /// Returns the kind of a method; methods are case-sensitive (RFC 9110, section 9.1).
    pub fn for_method(method: &str) -> MethodKind {
        match method {
            "HEAD" => MethodKind::Head,
            "CONNECT" => MethodKind::Connect,
            _ => MethodKind::Body,
        }
    }
}

// The types below describe a finished response, or the error that makes its bytes invalid. A load
// test counts each kind of error separately. [`ResponsePhase`] is the part of the response in which
// an error occurred.

/// A finished response, or the part of an unfinished one that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseSummary {
    /// Status code of the final response, 200 to 999; 0 until its head is complete.
    pub status: u16,
    /// Bytes of status lines and header fields, including interim responses.
    pub head_bytes: u64,
    /// Payload bytes, without the framing of the chunked coding.
    pub body_bytes: u64,
    /// Bytes of chunk sizes, chunk extensions, line ends between chunks, and trailers.
    pub framing_bytes: u64,
    /// Number of preceding interim responses (1xx).
    pub interim: u32,
    /// Status of the last interim response; 0 if there was none.
    pub interim_status: u16,
    /// Whether the connection can carry another request (RFC 9112, section 9.3).
    pub reusable: bool,
    /// Whether only the end of the connection marks the end of the body.
    pub until_eof: bool,
    /// Whether both Transfer-Encoding, which was obeyed, and Content-Length were present. RFC 9112
    /// (section 6.1) considers this combination a sign of tampering.
    pub doubtful_framing: bool,
}

impl ResponseSummary {
    /// Total bytes of the response on the connection.
    pub fn wire_bytes(&self) -> u64 {
        self.head_bytes + self.body_bytes + self.framing_bytes
    }
}

/// State of the awaited response when the connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseEnd {
    /// No response was awaited: the peer closed an idle connection.
    Idle,
    /// No byte of the awaited response had arrived.
    BeforeFirstByte,
    /// The connection ended within a head, or after interim responses only.
    InHead(ResponseSummary),
    /// The body is incomplete.
    InBody(ResponseSummary),
    /// The end of the connection completed the body.
    Complete(ResponseSummary),
}

/// Why bytes are not a valid response. The connection can no longer be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResponseError {
    /// The data does not start with `HTTP/`: the peer speaks another protocol.
    NotHttp,
    /// The start is HTTP, but the version, status code or reason phrase is malformed, or the
    /// version is not 1.x.
    StatusLine,
    /// A header field is malformed (RFC 9112, section 5), or the framing fields are invalid.
    Header,
    /// The head exceeds the [`super::HeadLimits`] for its length or number of fields.
    HeadTooLarge,
    /// Content-Length occurs more than once, with different values.
    LengthConflict,
    /// The chunked coding or its trailer section is malformed (RFC 9112, section 7.1).
    Chunk,
    /// 101: the peer switched protocols without being asked.
    Switched,
    /// Bytes arrived before any request was sent on the connection.
    Early,
    /// Bytes arrived after the last response.
    Extra,
}

// The types below keep the parts of a response that a check inspects: the beginning of its body and
// some header fields. Measurements do not need these parts: a [`ResponseReader`] that is fed
// without a [`ResponseWatch`] copies nothing.

/// Keeps the first bytes of a body and the values of the requested fields. Its memory is reused for
/// later responses.
#[derive(Debug, Clone, Default)]
pub struct ResponseWatch {
    body: Vec<u8>,
    max_body_bytes: usize,
    fields: Vec<WatchedField>,
}

#[derive(Debug, Clone)]
struct WatchedField {
    name: &'static str,
    value: Vec<u8>,
    is_present: bool,
}

impl ResponseWatch {
    /// Creates a watch for up to `max_body_bytes` of a body and for fields with these names.
    pub fn new(max_body_bytes: usize, names: &[&'static str]) -> ResponseWatch {
        let fields =
            names.iter().map(|name| WatchedField { name, value: Vec::new(), is_present: false });
        ResponseWatch {
            body: Vec::with_capacity(max_body_bytes.min(64 * 1024)),
            max_body_bytes,
            fields: fields.collect(),
        }
    }

    /// Beginning of the body, without the framing of the chunked coding.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Value of a field without surrounding blanks; the first value if the field is repeated.
    /// `None` if the field is absent or was not requested.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        let field = self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
        field.is_present.then_some(field.value.as_slice())
    }

    /// Clears the data of the last response.
    pub(crate) fn clear(&mut self) {
        self.body.clear();
        for field in &mut self.fields {
            field.is_present = false;
            field.value.clear();
        }
    }

    pub(crate) fn add_field(&mut self, name: &[u8], value: &[u8]) {
        let wanted = |field: &&mut WatchedField| {
            !field.is_present && field.name.as_bytes().eq_ignore_ascii_case(name)
        };
        if let Some(field) = self.fields.iter_mut().find(wanted) {
            field.is_present = true;
            field.value.extend_from_slice(trim_blanks(value));
        }
    }

    pub(crate) fn add_data(&mut self, bytes: &[u8]) {
        let room = self.max_body_bytes - self.body.len();
        self.body.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }
}

/// Strips surrounding blanks, including the line breaks of folded lines.
fn trim_blanks(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let Some(first) = value.iter().position(|byte| !is_blank(byte)) else {
        return &[];
    };
    let last = value.iter().rposition(|byte| !is_blank(byte));
    &value[first..=last.unwrap_or(first)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_only_those_are_found_at_any_position() {
        for byte in 0..=255u8 {
            for at in 0..20 {
                let mut bytes = [b'a'; 20];
                bytes[at] = byte;
                let expected = if byte < 32 || byte == 127 { at } else { 20 };
                assert_eq!(next_control(&bytes, 0), expected, "{byte} at {at}");
                assert_eq!(next_control(&bytes, at), expected, "{byte} at {at}");
            }
        }
        assert_eq!(next_control(b"\x80\xff\xa0\x7e\x20 ~~\xff\xff\xff\xff\xff\xff\xff\n", 0), 15);
    }

    #[test]
    fn a_token_ends_at_the_first_invalid_byte_wherever_it_stands() {
        for byte in 0..=255u8 {
            for at in 0..19 {
                let mut line = *b"Content-Type-Is-Abc";
                line[at] = byte;
                let expected = if is_token_byte(byte) { line.len() } else { at };
                assert_eq!(token_length(&line), expected, "{byte} at {at}");
            }
        }
        assert_eq!(token_length(b""), 0);
    }
}
