//! Splits what a watch sends into events.

use super::super::encoding::{Encoding, Message};
use super::super::object::Malformed;
use super::Lines;

/// The bytes of a watch, from which events are taken.
#[derive(Debug)]
pub struct Events(Splitter);

#[derive(Debug)]
enum Splitter {
    Lines(Lines),
    Frames(Frames),
}

/// Frames of protobuf: four bytes with the length, and as many bytes.
#[derive(Debug)]
struct Frames {
    buffer: Vec<u8>,
    longest: usize,
    /// How many bytes are still to be dropped of a frame that is too long.
    skips: usize,
}

impl Events {
    /// Events longer than this number of bytes are dropped.
    pub fn new(encoding: Encoding, longest: usize) -> Self {
        Self(match encoding {
            Encoding::Json => Splitter::Lines(Lines::new(longest)),
            Encoding::Protobuf => Splitter::Frames(Frames { buffer: Vec::new(), longest, skips: 0 }),
        })
    }

    pub fn push(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Splitter::Lines(lines) => lines.push(bytes),
            Splitter::Frames(frames) => frames.push(bytes),
        }
    }

    /// The next complete event.
    pub fn next_event(&mut self) -> Option<Result<Message, Malformed>> {
        match &mut self.0 {
            Splitter::Lines(lines) => lines.next_line().map(|line| line.map(Message::Json)),
            Splitter::Frames(frames) => frames.next_frame().map(|frame| frame.map(Message::Protobuf)),
        }
    }
}

impl Frames {
    fn push(&mut self, bytes: &[u8]) {
        let skipped = self.skips.min(bytes.len());
        self.skips -= skipped;
        self.buffer.extend_from_slice(&bytes[skipped..]);
    }

    fn next_frame(&mut self) -> Option<Result<Vec<u8>, Malformed>> {
        let (head, rest) = self.buffer.split_first_chunk()?;
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.longest {
            let arrived = length.min(rest.len());
            self.skips = length - arrived;
            self.buffer.drain(..head.len() + arrived);
            return Some(Err(Malformed(format!("an event of more than {} bytes", self.longest))));
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
        let mut bytes =
            [frame(b"one"), frame(b""), frame(&[0; 11]), frame(&[0xff; 10]), frame(&[1; 300])].concat();
        bytes.extend([frame(b"last"), b"\0\0\0\x05open".to_vec()].concat());
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
            let expected = [frame(b"one"), frame(b""), Err(()), frame(&[0xff; 10]), Err(()), frame(b"last")];
            assert_eq!(found, expected, "{size}");
        }
    }

    #[test]
    fn a_frame_that_claims_gigabytes_takes_no_memory() {
        let mut events = Events::new(Encoding::Protobuf, 1000);
        events.push(&u32::MAX.to_be_bytes());
        assert!(events.next_event().unwrap().is_err());
        for _ in 0..1000 {
            events.push(&[0; 1000]);
            assert_eq!(events.next_event(), None);
        }
        let Splitter::Frames(frames) = events.0 else { unreachable!() };
        assert!(frames.buffer.capacity() < 10_000, "{}", frames.buffer.capacity());
    }
}
