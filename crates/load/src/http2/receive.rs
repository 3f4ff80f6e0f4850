//! Cuts what arrives into frames. A frame that lies in one piece is read in place; one that is cut
//! is kept until the rest of it arrives, except for DATA, which is handed on piece by piece.

use super::frame::{HEAD_BYTES, Head, flag, kind};
use super::{Connection, ConnectionError, Event};

impl Connection {
    pub(super) fn read(
        &mut self,
        mut bytes: &[u8],
        on: &mut impl FnMut(Event),
    ) -> Result<(), ConnectionError> {
        while !bytes.is_empty() {
            bytes = if self.incoming.is_some() {
                self.payload(bytes, on)?
            } else if self.carry.is_empty() {
                self.frame(bytes, on)?
            } else {
                self.rest_of_frame(bytes, on)?
            };
        }
        Ok(())
    }

    /// A frame from its first byte; gives what is behind it.
    #[inline]
    fn frame<'a>(
        &mut self,
        bytes: &'a [u8],
        on: &mut impl FnMut(Event),
    ) -> Result<&'a [u8], ConnectionError> {
        let Some((start, behind)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            self.carry.extend_from_slice(bytes);
            return Ok(&[]);
        };
        let head = Head::read(start);
        self.check(&head, start)?;
        match behind.split_at_checked(head.length as usize) {
            Some((payload, behind)) => {
                match head.kind {
                    kind::HEADERS => self.headers(&head, payload, on)?,
                    kind::DATA if !head.has(flag::PADDED) => self.whole_data(&head, payload, on)?,
                    _ if is_streamed(head.kind) => {
                        self.begin_payload(&head, on)?;
                        self.payload(payload, on)?;
                    }
                    _ => self.dispatch(&head, payload, on)?,
                }
                Ok(behind)
            }
            None if is_streamed(head.kind) => {
                self.begin_payload(&head, on)?;
                Ok(behind)
            }
            None => {
                self.carry.extend_from_slice(bytes);
                Ok(&[])
            }
        }
    }

    /// Completes the frame that is kept as far as the bytes go; gives what is behind it.
    fn rest_of_frame<'a>(
        &mut self,
        bytes: &'a [u8],
        on: &mut impl FnMut(Event),
    ) -> Result<&'a [u8], ConnectionError> {
        let had_head = self.carry.len() >= HEAD_BYTES;
        let bytes = self.fill_carry(HEAD_BYTES, bytes);
        let Some(start) = self.carry.first_chunk::<HEAD_BYTES>().copied() else {
            return Ok(bytes);
        };
        let head = Head::read(&start);
        if !had_head {
            self.check(&head, &start)?;
            if is_streamed(head.kind) {
                self.carry.clear();
                self.begin_payload(&head, on)?;
                return Ok(bytes);
            }
        }
        let whole = HEAD_BYTES + head.length as usize;
        let bytes = self.fill_carry(whole, bytes);
        if self.carry.len() == whole {
            let carry = std::mem::take(&mut self.carry);
            let done = self.dispatch(&head, &carry[HEAD_BYTES..], on);
            self.carry = carry;
            self.carry.clear();
            done?;
        }
        Ok(bytes)
    }

    /// Makes what is kept so long, if there are bytes enough; gives those that are left.
    fn fill_carry<'a>(&mut self, length: usize, bytes: &'a [u8]) -> &'a [u8] {
        let missing = length.saturating_sub(self.carry.len()).min(bytes.len());
        let (piece, behind) = bytes.split_at(missing);
        self.carry.extend_from_slice(piece);
        behind
    }

    /// What the first bytes of a frame must be, whatever follows.
    #[inline]
    fn check(&self, head: &Head, start: &[u8; HEAD_BYTES]) -> Result<(), ConnectionError> {
        if !self.has_peer_settings {
            if start.starts_with(b"HTTP/") {
                return Err(ConnectionError::NotHttp2);
            }
            if head.kind != kind::SETTINGS || head.flags & 1 != 0 {
                return Err(ConnectionError::NoSettings);
            }
        }
        if head.length > self.settings.max_frame_bytes {
            return Err(ConnectionError::FrameSize);
        }
        let continues = head.kind == kind::CONTINUATION;
        match &self.pending {
            None if continues => Err(ConnectionError::Continuation),
            Some(pending) if !continues || pending.stream != head.stream => {
                Err(ConnectionError::Continuation)
            }
            _ => Ok(()),
        }
    }

    fn dispatch(
        &mut self,
        head: &Head,
        payload: &[u8],
        on: &mut impl FnMut(Event),
    ) -> Result<(), ConnectionError> {
        match head.kind {
            kind::HEADERS => self.headers(head, payload, on),
            kind::CONTINUATION => self.continuation(head, payload, on),
            _ => self.control(head, payload, on),
        }
    }

    /// Checks that a stream was opened by us at some time (RFC 9113, section 5.1: frames on idle
    /// streams are errors; so are those on streams of the peer, which cannot open any).
    pub(super) fn check_opened(&self, stream: u32) -> Result<(), ConnectionError> {
        if stream % 2 == 1 && stream < self.next_id {
            Ok(())
        } else {
            Err(ConnectionError::Stream)
        }
    }
}

/// Frames whose payload is not kept: DATA, and those of unknown types (section 4.1).
fn is_streamed(kind: u8) -> bool {
    kind == kind::DATA || kind > kind::CONTINUATION
}
