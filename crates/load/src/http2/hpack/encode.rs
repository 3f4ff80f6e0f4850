//! Header fields of requests as bytes. Nothing refers to a dynamic table, so the bytes mean the
//! same on every connection at any time, and can be sent again and again.

use super::{fixed, huffman, integer};

/// Tells the peer that our encoder's dynamic table has size zero from now on (RFC 7541, section
/// 6.3). It must begin the first block after the peer made the table smaller (section 4.2).
pub(crate) const SIZE_UPDATE_ZERO: u8 = 0x20;

/// Literals that no intermediary shall keep (section 7.1.3).
const NEVER_INDEXED: u8 = 0x10;
const WITHOUT_INDEXING: u8 = 0;
const INDEXED: u8 = 0x80;

/// Appends a field; its name is put into lower case.
pub fn encode_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    // Only short names are in the static table, so that a name that does not fit is not there.
    let mut buffer = [0; 64];
    let lower = buffer.get_mut(..name.len()).map(|lower| {
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        &*lower
    });
    let found = lower.and_then(|lower| fixed::find(lower, value));
    if let Some((index, true)) = found {
        integer::encode(out, INDEXED, 7, index);
        return;
    }
    let pattern = match lower {
        Some(b"authorization" | b"cookie" | b"proxy-authorization") => NEVER_INDEXED,
        _ => WITHOUT_INDEXING,
    };
    match found {
        Some((index, _)) => integer::encode(out, pattern, 4, index),
        None => {
            out.push(pattern);
            match lower {
                Some(lower) => text(out, lower),
                None => text(out, &name.to_ascii_lowercase()),
            }
        }
    }
    text(out, value);
}

/// A string, in the Huffman code where that is shorter.
fn text(out: &mut Vec<u8>, text: &[u8]) {
    let coded_bytes = huffman::encoded_bytes(text);
    if coded_bytes < text.len() {
        integer::encode(out, 0x80, 7, coded_bytes);
        huffman::encode(out, text);
    } else {
        integer::encode(out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
}
