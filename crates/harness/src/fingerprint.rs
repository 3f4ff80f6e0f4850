//! A short text for a long one: FNV-1a with 64 bits. It tells apart what differs by accident, and protects from nobody.

/// The fingerprint of several texts, each with its length, so that no two lists of texts run together.
#[derive(Debug)]
pub(super) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Adds a text.
    pub fn add(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The fingerprint of all that was added.
    pub fn value(&self) -> u64 {
        self.0
    }
}
