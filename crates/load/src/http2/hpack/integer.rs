//! Integers of HPACK (RFC 7541, section 5.1): a prefix inside the first byte, then groups of seven
//! bits.

/// The largest value that is read. RFC 7541 asks for a limit; no index, length or table size of a
/// block that fits our other limits comes near it.
const MAX: u64 = u32::MAX as u64;

/// Reads an integer whose prefix has so many bits and moves behind it. `None` if the bytes end
/// inside it, or if it is too large or needlessly long.
#[inline]
pub(super) fn decode(bytes: &mut &[u8], prefix_bits: u32) -> Option<u32> {
    let (first, rest) = bytes.split_first()?;
    let mask = (1u32 << prefix_bits) - 1;
    let prefix = u32::from(*first) & mask;
    *bytes = rest;
    if prefix < mask {
        Some(prefix)
    } else {
        continued(bytes, mask)
    }
}

fn continued(bytes: &mut &[u8], mask: u32) -> Option<u32> {
    let mut value = u64::from(mask);
    // Five groups hold 35 bits, more than `MAX` needs; whoever sends more pads with zeros.
    for group in 0..5 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value += u64::from(byte & 0x7f) << (7 * group);
        if byte & 0x80 == 0 {
            return u32::try_from(value.min(MAX + 1)).ok();
        }
    }
    None
}

/// Appends an integer behind the bits of `pattern` that its prefix leaves free.
pub(super) fn encode(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
    let mask = (1usize << prefix_bits) - 1;
    if value < mask {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_7541_appendix_c_1() {
        for (prefix_bits, value, expected) in [
            (5, 10, &[10][..]),
            (5, 1337, &[31, 154, 10]),
            (8, 42, &[42]),
        ] {
            let mut out = Vec::new();
            encode(&mut out, 0, prefix_bits, value);
            assert_eq!(out, expected);
            assert_eq!(decode(&mut &out[..], prefix_bits), Some(value as u32));
        }
    }

    #[test]
    fn every_value_comes_back_and_what_is_too_large_does_not() {
        for value in (0..70_000).chain([u32::MAX as usize - 1, u32::MAX as usize]) {
            for prefix_bits in 4..=7 {
                let mut out = Vec::new();
                encode(&mut out, 0, prefix_bits, value);
                let mut rest = &out[..];
                assert_eq!(decode(&mut rest, prefix_bits), Some(value as u32));
                assert!(rest.is_empty());
                assert_eq!(decode(&mut &out[..out.len() - 1], prefix_bits), None);
            }
        }
        let mut out = Vec::new();
        encode(&mut out, 0, 5, u32::MAX as usize + 1);
        assert_eq!(decode(&mut &out[..], 5), None);
        assert_eq!(decode(&mut &[31, 128, 128, 128, 128, 128, 0][..], 5), None);
    }
}
