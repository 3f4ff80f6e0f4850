//! HPACK, the compression of header fields (RFC 7541): a whole decoder, and as much of an encoder as
//! requests need, which never uses a dynamic table.
//!
//! It decides what the bytes of a header block say; which fields a response must have is not known
//! here. Start reading at [`Decoder`]; what one representation looks like is in `representation`.

mod decoder;
mod encode;
mod fields;
mod fixed;
mod huffman;
mod integer;
mod representation;
mod table;

pub use decoder::{Decoded, Decoder};
pub(super) use encode::SIZE_UPDATE_ZERO;
pub use encode::encode_field;
pub use fields::Fields;
pub(super) use fixed::ENTRIES;
pub(super) use representation::{Name, Reader, Representation, Text};
