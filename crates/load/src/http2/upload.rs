//! Bodies of requests: within the windows of the stream and of the connection, in frames that the
//! peer accepts, and not faster than the output is taken (RFC 9113, section 6.9).

use super::frame::{MIN_MAX_FRAME_BYTES, flag, kind};
use super::stream::Upload;
use super::{Connection, Request, frame};

/// Bodies are put to the output as long as fewer bytes wait there: enough for any send buffer, and
/// little beside the bodies themselves, which are not copied before.
const WAITING_BYTES: usize = 256 * 1024;

impl Connection {
    /// Sends the body of a stream that was just opened, or as much of it as may go now.
    pub(super) fn upload(&mut self, place: u32, request: &Request) {
        let body = request.body();
        let length = body.len() as i64;
        let stream = self.streams.at(place);
        let is_short = body.len() <= MIN_MAX_FRAME_BYTES as usize
            && length <= stream.send_window
            && length <= self.send_window;
        if is_short && self.uploads.is_empty() {
            stream.send_window -= length;
            self.send_window -= length;
            let id = stream.id;
            frame::push(self.output.tail(), kind::DATA, flag::END_STREAM, id, body);
            return;
        }
        stream.upload = Some(Upload {
            body: request.shared_body(),
            at: 0,
        });
        stream.is_queued = true;
        self.uploads.push_back(place);
        self.pump();
    }

    /// Lets a stream go on whose window may have been what held it.
    pub(super) fn resume(&mut self, place: u32) {
        let stream = self.streams.at(place);
        if stream.upload.is_some() && !stream.is_queued && stream.send_window > 0 {
            stream.is_queued = true;
            self.uploads.push_back(place);
        }
    }

    /// Puts frames to the output, one of each stream in turn, as long as something allows it.
    pub(super) fn pump(&mut self) {
        while self.send_window > 0
            && self.output.waiting().len() < WAITING_BYTES
            && let Some(place) = self.uploads.pop_front()
        {
            let stream = self.streams.at(place);
            stream.is_queued = false;
            let Some(upload) = &mut stream.upload else {
                continue;
            };
            let left = upload.body.len() - upload.at;
            let window = stream.send_window.min(self.send_window).max(0);
            // Small frames although the peer may accept larger ones: streams take turns.
            let length = left
                .min(MIN_MAX_FRAME_BYTES as usize)
                .min(usize::try_from(window).unwrap_or(usize::MAX));
            if length == 0 {
                continue;
            }
            let flags = if length == left { flag::END_STREAM } else { 0 };
            let piece = &upload.body[upload.at..upload.at + length];
            frame::push(self.output.tail(), kind::DATA, flags, stream.id, piece);
            upload.at += length;
            stream.send_window -= length as i64;
            self.send_window -= length as i64;
            if length == left {
                stream.upload = None;
            } else {
                self.resume(place);
            }
        }
    }
}

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
