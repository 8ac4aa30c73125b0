//! Splits what a watch sends into events.

use super::super::encoding::{Answer, Encoding, Message};
use super::super::object::Malformed;
use super::Lines;

/// The bytes of a watch, from which events are taken.
#[derive(Debug)]
pub struct Events(Splitter);

#[derive(Debug)]
enum Splitter {
    /// Nothing has arrived.
    Undecided {
        answer: Answer,
        longest: usize,
    },
    /// What has arrived is no watch. The reason is reported once.
    Lost(Option<Malformed>),
    Lines(Lines),
    Frames(Frames),
}

/// Frames of protobuf: four bytes with the length, and as many bytes.
#[derive(Debug)]
struct Frames {
    buffer: Vec<u8>,
    longest: usize,
    /// Whether what has arrived is no frame, so that it is unknown where the next one begins.
    are_lost: bool,
}

impl Events {
    /// Lines longer than this number of bytes are dropped. The API server has no object that makes such a frame, so its
    /// bytes are something else.
    pub fn new(encoding: Encoding, longest: usize) -> Self {
        Self(match encoding {
            Encoding::Json => Splitter::Lines(Lines::new(longest)),
            Encoding::Protobuf => Splitter::Frames(Frames { buffer: Vec::new(), longest, are_lost: false }),
        })
    }

    /// The events in an answer, in the encoding in which it begins.
    pub fn of(answer: Answer, longest: usize) -> Self {
        Self(Splitter::Undecided { answer, longest })
    }

    pub fn push(&mut self, bytes: &[u8]) {
        if let (Splitter::Undecided { answer, longest }, false) = (&self.0, bytes.is_empty()) {
            self.0 = match answer.encoding_of_watch(bytes) {
                Ok(encoding) => Self::new(encoding, *longest).0,
                Err(malformed) => Splitter::Lost(Some(malformed)),
            };
        }
        match &mut self.0 {
            Splitter::Undecided { .. } | Splitter::Lost(_) => {}
            Splitter::Lines(lines) => lines.push(bytes),
            Splitter::Frames(frames) => frames.push(bytes),
        }
    }

    /// Whether no more events can be read.
    pub fn have_lost_place(&self) -> bool {
        match &self.0 {
            Splitter::Lost(_) => true,
            Splitter::Frames(frames) => frames.are_lost,
            Splitter::Undecided { .. } | Splitter::Lines(_) => false,
        }
    }

    /// The next complete event.
    pub fn next_event(&mut self) -> Option<Result<Message, Malformed>> {
        match &mut self.0 {
            Splitter::Undecided { .. } => None,
            Splitter::Lost(reason) => reason.take().map(Err),
            Splitter::Lines(lines) => lines.next_line().map(|line| line.map(Message::Json)),
            Splitter::Frames(frames) => frames.next_frame().map(|frame| frame.map(Message::Protobuf)),
        }
    }
}

impl Frames {
    fn push(&mut self, bytes: &[u8]) {
        if !self.are_lost {
            self.buffer.extend_from_slice(bytes);
        }
    }

    fn next_frame(&mut self) -> Option<Result<Vec<u8>, Malformed>> {
        let (head, rest) = self.buffer.split_first_chunk()?;
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.longest {
            (self.buffer, self.are_lost) = (Vec::new(), true);
            return Some(Err(Malformed(format!(
                "it has an event of {length} bytes, more than {}: it may be something else than protobuf",
                self.longest
            ))));
        }
        let frame = rest.get(..length)?.to_vec();
        self.buffer.drain(..head.len() + length);
        Some(Ok(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_frames_however_the_bytes_arrive() {
        let frame = |bytes: &[u8]| [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
        let mut bytes = [frame(b"one"), frame(b""), frame(&[0xff; 10]), frame(b"last")].concat();
        bytes.extend(b"\0\0\0\x05open");
        for size in 1..=bytes.len() {
            let mut events = Events::new(Encoding::Protobuf, 10);
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                events.push(piece);
                while let Some(event) = events.next_event() {
                    found.push(event.map_err(|_| ()));
                }
            }
            let frame = |bytes: &[u8]| Ok(Message::Protobuf(bytes.to_vec()));
            let expected = [frame(b"one"), frame(b""), frame(&[0xff; 10]), frame(b"last")];
            assert_eq!((&found[..], events.have_lost_place()), (&expected[..], false), "{size}");
        }
    }

    #[test]
    fn nothing_is_read_or_kept_after_a_frame_that_is_too_long() {
        let mut events = Events::new(Encoding::Protobuf, 1000);
        events.push(&1001_u32.to_be_bytes());
        let error = events.next_event().unwrap().unwrap_err();
        assert!(error.0.starts_with("it has an event of 1001 bytes, more than 1000"), "{error}");
        assert!(events.have_lost_place());
        for _ in 0..1000 {
            events.push(&[0; 1000]);
            assert_eq!(events.next_event(), None);
        }
        let Splitter::Frames(frames) = events.0 else { unreachable!() };
        assert!(frames.buffer.capacity() < 10_000, "{}", frames.buffer.capacity());
    }
}
