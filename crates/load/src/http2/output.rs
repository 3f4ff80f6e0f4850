//! Bytes that wait to be sent.

/// A queue of bytes: appended behind, taken away in front.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// How many of the first bytes have been sent.
    start: usize,
}

impl Output {
    #[inline]
    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Where to append. What was sent is given up when it is the larger part, so that moving the
    /// rest costs no more than appending it did.
    #[inline]
    pub(super) fn tail(&mut self) -> &mut Vec<u8> {
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }
}
