//! Encodes and decodes the Huffman code of HPACK (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: codes of the same length are consecutive, in the order of their symbols.
//! The lengths alone therefore define the code, and everything else is computed from the lengths at
//! compile time. The decoder is an automaton whose states are the inner nodes of the code tree.
//! Each step takes four bits. No code is shorter than five bits, so a step yields at most one byte.

/// The end-of-string symbol, which must not occur in a string.
const EOS: usize = 256;

/// Code length in bits of each symbol (RFC 7541, appendix B).
#[rustfmt::skip]
static LENGTHS: [u8; 257] = LENGTHS_BY_SYMBOL;
#[rustfmt::skip]
const LENGTHS_BY_SYMBOL: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
const MAX_LENGTH: u8 = 30;

/// The code of each symbol, in the low bits.
const CODES_BY_SYMBOL: [u32; 257] = {
    let mut codes = [0u32; 257];
    let (mut next, mut length) = (0u64, 1);
    while length <= MAX_LENGTH {
        next <<= 1;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS_BY_SYMBOL[symbol] == length {
                codes[symbol] = next as u32;
                next += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    assert!(next == 1 << MAX_LENGTH, "the code is complete");
    codes
};
static CODES: [u32; 257] = CODES_BY_SYMBOL;

/// Number of inner nodes of the tree: one less than the number of leaves.
const STATES: usize = 256;

/// The two children of each inner node, for bit 0 and bit 1. A number below [`STATES`] is an inner
/// node; other numbers are `STATES` + symbol.
const TREE: [[u16; 2]; STATES] = {
    let mut tree = [[0u16; 2]; STATES];
    let (mut used, mut symbol) = (1, 0);
    while symbol < 257 {
        let (code, length) = (CODES_BY_SYMBOL[symbol], LENGTHS_BY_SYMBOL[symbol]);
        let (mut node, mut bit) = (0, length);
        while bit > 1 {
            bit -= 1;
            let way = (code >> bit & 1) as usize;
            if tree[node][way] == 0 {
                tree[node][way] = used as u16;
                used += 1;
            }
            node = tree[node][way] as usize;
        }
        tree[node][(code & 1) as usize] = (STATES + symbol) as u16;
        symbol += 1;
    }
    assert!(used == STATES, "every inner node is used");
    tree
};

/// Result of reading four bits in a state of the decoder.
#[derive(Clone, Copy)]
struct DecoderStep {
    next: u8,
    /// The completed byte, if [`EMITS`] is set.
    byte: u8,
    flags: u8,
}

const EMITS: u8 = 1;
/// The forbidden symbol [`EOS`] was completed.
const FAILS: u8 = 2;
/// A string may end here: fewer than eight bits are pending, all of them ones.
const MAY_END: u8 = 4;

static STEPS: [[DecoderStep; 16]; STATES] = {
    let mut may_end = [false; STATES];
    let (mut node, mut depth) = (0, 0);
    while depth < 8 {
        may_end[node] = true;
        node = TREE[node][1] as usize;
        depth += 1;
    }
    let nothing = DecoderStep { next: 0, byte: 0, flags: 0 };
    let mut steps = [[nothing; 16]; STATES];
    let mut state = 0;
    while state < STATES {
        let mut bits = 0;
        while bits < 16 {
            steps[state][bits] = build_step(state, bits, &may_end);
            bits += 1;
        }
        state += 1;
    }
    steps
};

const fn build_step(state: usize, bits: usize, may_end: &[bool; STATES]) -> DecoderStep {
    let (mut node, mut byte, mut flags, mut bit) = (state, 0, 0, 4);
    while bit > 0 {
        bit -= 1;
        node = TREE[node][bits >> bit & 1] as usize;
        if node == STATES + EOS {
            flags |= FAILS;
            node = 0;
        } else if node >= STATES {
            byte = (node - STATES) as u8;
            flags |= EMITS;
            node = 0;
        }
    }
    if may_end[node] {
        flags |= MAY_END;
    }
    DecoderStep { next: node as u8, byte, flags }
}

/// Decodes a string and passes its bytes to `take`. `None` if the string has invalid padding or
/// contains the forbidden symbol (section 5.2).
#[inline]
pub(super) fn decode(coded: &[u8], mut take: impl FnMut(u8)) -> Option<()> {
    let (mut state, mut flags) = (0, MAY_END);
    for byte in coded {
        for bits in [byte >> 4, byte & 15] {
            let step = &STEPS[usize::from(state)][usize::from(bits)];
            if step.flags & EMITS != 0 {
                take(step.byte);
            }
            if step.flags & FAILS != 0 {
                return None;
            }
            (state, flags) = (step.next, step.flags);
        }
    }
    (flags & MAY_END != 0).then_some(())
}

/// Returns the length in bytes of a string in this code.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Appends a string in this code, padded with ones.
pub(super) fn encode(out: &mut Vec<u8>, text: &[u8]) {
    let (mut pending, mut bits) = (0u64, 0);
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(*byte)]);
        pending = pending << length | u64::from(CODES[usize::from(*byte)]);
        bits += length;
        while bits >= 8 {
            bits -= 8;
            out.push((pending >> bits) as u8);
        }
    }
    if bits > 0 {
        let padding = 8 - bits;
        out.push((pending << padding) as u8 | ((1 << padding) - 1) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_text(coded: &[u8]) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        decode(coded, |byte| text.push(byte)).map(|()| text)
    }

    #[test]
    fn sample_codes_match_the_appendix() {
        let code = |symbol: usize| (CODES[symbol], LENGTHS[symbol]);
        assert_eq!(code(0), (0x1ff8, 13));
        assert_eq!(code(b'0'.into()), (0x0, 5));
        assert_eq!(code(b'Z'.into()), (0xfd, 8));
        assert_eq!(code(b'\\'.into()), (0x7fff0, 19));
        assert_eq!(code(207), (0x1ffffed, 25));
        assert_eq!(code(255), (0x3ffffee, 26));
        assert_eq!(code(EOS), (0x3fff_ffff, 30));
    }

    #[test]
    fn every_pair_of_bytes_comes_back() {
        for first in 0..=255 {
            for second in 0..=255 {
                let text = [first, second, first];
                let mut coded = Vec::new();
                encode(&mut coded, &text);
                assert_eq!(coded.len(), encoded_len(&text));
                assert_eq!(decode_text(&coded).as_deref(), Some(&text[..]));
            }
        }
    }

    #[test]
    fn bad_padding_and_the_forbidden_symbol_are_refused() {
        // `a` is 00011; its padding must be three ones.
        assert_eq!(decode_text(&[0b0001_1111]).as_deref(), Some(&b"a"[..]));
        assert_eq!(decode_text(&[0b0001_1110]), None);
        assert_eq!(decode_text(&[0b0001_1111, 0xff]), None);
        assert_eq!(decode_text(&[0xff; 4]), None);
        assert_eq!(decode_text(&[0b0001_1111, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(decode_text(&[]).as_deref(), Some(&b""[..]));
    }
}
