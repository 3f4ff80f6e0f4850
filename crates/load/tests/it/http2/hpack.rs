//! Decoder and encoder compared with another implementation, on random and on published blocks.

use super::frames::{END, END_HEADERS, HEADERS, frame, settings};
use super::peer::Client;
use loona_hpack as oracle;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use speedwell_load::http2::hpack::{FieldList, HpackDecoder, encode_field};
use speedwell_load::http2::{Http2Event, Http2Settings, Http2StreamError};

fn below(random: &mut Xoshiro256PlusPlus, end: usize) -> usize {
    random.next_u64() as usize % end
}

const NAMES: [&str; 8] =
    [":status", "server", "date", "content-length", "set-cookie", "x-a", "x-bb", "etag"];

fn random_fields(random: &mut Xoshiro256PlusPlus) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..below(random, 12))
        .map(|_| {
            let name = NAMES[below(random, NAMES.len())].as_bytes().to_vec();
            let length = below(random, 300) / (1 + below(random, 30));
            let value = match below(random, 3) {
                0 => b"200".to_vec(),
                1 => (0..length).map(|_| b"abcdefgh /0123%-"[below(random, 16)]).collect(),
                _ => (0..length).map(|_| random.next_u32() as u8).collect(),
            };
            (name, value)
        })
        .collect()
}

fn pairs(fields: &FieldList) -> Vec<(Vec<u8>, Vec<u8>)> {
    fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

#[test]
fn blocks_of_another_encoder_are_decoded_with_a_dynamic_table() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7541);
    for _ in 0..40 {
        let mut encoder = oracle::Encoder::new();
        let mut decoder = HpackDecoder::new(4096);
        let mut fields = FieldList::default();
        for _ in 0..60 {
            let expected = random_fields(&mut random);
            let borrowed = expected.iter().map(|(name, value)| (&name[..], &value[..]));
            let block = encoder.encode(borrowed);
            assert_eq!(decoder.decode(&block, &mut fields, 1 << 20), Ok(()));
            assert_eq!(pairs(&fields), expected);
        }
    }
}

#[test]
fn what_we_encode_is_read_by_another_decoder_and_by_ours() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9113);
    for _ in 0..2000 {
        let expected = random_fields(&mut random);
        let mut block = Vec::new();
        for (name, value) in &expected {
            encode_field(&mut block, &name.to_ascii_uppercase(), value);
        }
        assert_eq!(oracle::Decoder::new().decode(&block).unwrap(), expected);
        let mut fields = FieldList::default();
        assert_eq!(HpackDecoder::new(0).decode(&block, &mut fields, 1 << 20), Ok(()));
        assert_eq!(pairs(&fields), expected);
    }
}

#[test]
fn another_decoder_reads_every_byte_that_we_encode() {
    for byte in 0..=255u8 {
        let value = [byte; 9];
        let mut ours = Vec::new();
        encode_field(&mut ours, b"a", &value);
        let decoded = oracle::Decoder::new().decode(&ours).unwrap();
        assert_eq!(decoded, [(b"a".to_vec(), value.to_vec())]);
    }
}

/// Decodes damaged blocks. The other decoder does not limit integers and accepts size updates
/// anywhere, so blocks that only it accepts are not compared further.
#[test]
fn damaged_blocks_are_read_as_another_decoder_does_or_refused() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut same, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let fields = random_fields(&mut random);
        let borrowed = fields.iter().map(|(name, value)| (&name[..], &value[..]));
        let mut block = oracle::Encoder::new().encode(borrowed);
        for _ in 0..below(&mut random, 3) {
            if !block.is_empty() {
                let at = below(&mut random, block.len());
                block[at] = random.next_u32() as u8;
            }
        }
        let mut read = FieldList::default();
        match HpackDecoder::new(4096).decode(&block, &mut read, 1 << 20) {
            // RFC 7541 permits a block with only a size update and no fields.
            Ok(()) if read.iter().next().is_none() => {}
            Ok(()) => {
                assert_eq!(oracle::Decoder::new().decode(&block).ok(), Some(pairs(&read)));
                same += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(same > 5000 && refused > 500, "{same} {refused}");
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b' ').collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// RFC 7541, appendix C.5 and C.6: the table has 256 bytes, and entries are evicted.
#[test]
fn the_responses_of_the_rfc_come_over_a_connection_with_a_table() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a \
         3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 \
         677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 \
         553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    let huffman = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e \
         919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 \
         821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed \
         4ee5 b106 3d50 07",
    ];
    let last = [
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
    ];
    for blocks in [plain, huffman] {
        let mut client =
            Client::silent(&Http2Settings { table_size: 256, ..Http2Settings::default() });
        client.feed(&settings(&[]));
        let mut statuses = Vec::new();
        let mut fields = Vec::new();
        for (token, block) in (0..).zip(blocks) {
            client.connection.open_stream(&super::peer::request("GET", None), token);
            let bytes = frame(HEADERS, END_HEADERS | END, token * 2 + 1, &hex(block));
            let on = &mut |event: Http2Event| {
                if let Http2Event::Head { status, block, .. } = event {
                    statuses.push(status);
                    fields = pairs(block.decode_fields(&mut FieldList::default()).unwrap());
                }
            };
            client.connection.feed(&bytes, on).unwrap();
        }
        assert_eq!(statuses, [302, 307, 200]);
        let expected = last.map(|(name, value)| (name.into(), value.into()));
        assert_eq!(fields, expected);
    }
}

#[test]
fn fields_are_checked_on_arrival_if_there_is_a_dynamic_table() {
    for (name, value, expected) in [
        ("A", "b", Some(Http2StreamError::Header)),
        ("a", "b\nc", Some(Http2StreamError::Header)),
        ("content-length", "x", Some(Http2StreamError::Header)),
        ("a", "b", None),
    ] {
        let mut client =
            Client::silent(&Http2Settings { table_size: 4096, ..Http2Settings::default() });
        client.feed(&settings(&[]));
        client.connection.open_stream(&super::peer::request("GET", None), 0);
        let block = oracle::Encoder::new()
            .encode([(&b":status"[..], &b"200"[..]), (name.as_bytes(), value.as_bytes())]);
        let bytes = frame(HEADERS, END_HEADERS | END, 1, &block);
        match expected {
            Some(why) => assert_eq!(client.failed(&bytes), why),
            None => assert_eq!(client.ended(&bytes).status, 200),
        }
    }
}

#[test]
fn blocks_of_streams_that_were_given_up_fill_the_table_as_well() {
    let mut client =
        Client::silent(&Http2Settings { table_size: 4096, ..Http2Settings::default() });
    client.feed(&settings(&[]));
    for token in 0..2 {
        client.connection.open_stream(&super::peer::request("GET", None), token);
    }
    client.connection.cancel_stream(0);
    client.feed(&frame(HEADERS, END_HEADERS | END, 1, b"\x48\x03503"));
    assert_eq!(client.ended(&frame(HEADERS, END_HEADERS | END, 3, &[0xbe])).status, 503);
}
