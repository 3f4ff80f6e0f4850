//! Header blocks on one connection, compared with another implementation. Each starts with its
//! length in one byte. The decoded fields are encoded again and must decode to the same.

#![no_main]

use loona_hpack as oracle;
use speedwell_load::http2::hpack::{FieldList, HpackDecoder, encode_field};

fn pairs(fields: &FieldList) -> Vec<(Vec<u8>, Vec<u8>)> {
    let owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    fields.iter().map(owned).collect()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut ours = HpackDecoder::new(4096);
    let mut theirs = oracle::Decoder::new();
    let mut fields = FieldList::default();
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first() {
        let (block, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        if ours.decode(block, &mut fields, 1 << 16).is_err() {
            return;
        }
        let read = pairs(&fields);
        match theirs.decode(block) {
            Ok(expected) => assert_eq!(read, expected),
            // The other decoder rejects a size update at the end of a block, which RFC 7541 allows.
            Err(oracle::decoder::DecoderError::SizeUpdateAtEnd) if read.is_empty() => {}
            Err(error) => panic!("{error:?}: {block:x?} was read as {read:?}"),
        }
        let mut again = Vec::new();
        for (name, value) in fields.iter() {
            encode_field(&mut again, name, value);
        }
        assert_eq!(HpackDecoder::new(0).decode(&again, &mut fields, usize::MAX), Ok(()));
        let lower = |(name, value): (Vec<u8>, Vec<u8>)| (name.to_ascii_lowercase(), value);
        let read: Vec<_> = read.into_iter().map(lower).collect();
        assert_eq!(pairs(&fields), read);
    }
});
