//! The peer's decoder stream: what it has received and decoded (RFC 9204 §4.4).

use std::mem;

use super::Encoder;
use crate::qpack::instruction::DecoderInstruction;
use crate::qpack::{Malformed, QpackError};

impl Encoder {
    /// Takes bytes of the peer's decoder stream, cut anywhere.
    ///
    /// # Errors
    ///
    /// [`QpackError::DecoderStream`] for an invalid instruction.
    pub fn on_decoder_stream(&mut self, data: &[u8]) -> Result<(), QpackError> {
        self.partial.extend_from_slice(data);
        let mut input = mem::take(&mut self.partial);
        let mut consumed = 0;
        loop {
            let mut rest = &input[consumed..];
            match DecoderInstruction::read(&mut rest) {
                Ok(instruction) => self.execute(instruction)?,
                Err(Malformed::Incomplete) => break,
                Err(Malformed::Invalid(reason)) => return Err(QpackError::DecoderStream(reason)),
            }
            consumed = input.len() - rest.len();
        }
        input.drain(..consumed);
        self.partial = input;
        Ok(())
    }

    fn execute(&mut self, instruction: DecoderInstruction) -> Result<(), QpackError> {
        match instruction {
            DecoderInstruction::SectionAcknowledgment(stream_id) => self.acknowledge(stream_id),
            DecoderInstruction::StreamCancellation(stream_id) => {
                self.unacknowledged
                    .retain(|section| section.stream_id != stream_id);
                Ok(())
            }
            DecoderInstruction::InsertCountIncrement(increment) => self.increment(increment),
        }
    }

    fn acknowledge(&mut self, stream_id: u64) -> Result<(), QpackError> {
        let position = self
            .unacknowledged
            .iter()
            .position(|section| section.stream_id == stream_id);
        let section = position
            .and_then(|position| self.unacknowledged.remove(position))
            .ok_or(QpackError::DecoderStream(
                "no section of the stream is unacknowledged",
            ))?;
        self.known_received = self.known_received.max(section.required_insert_count);
        Ok(())
    }

    fn increment(&mut self, increment: u64) -> Result<(), QpackError> {
        if increment == 0 {
            return Err(QpackError::DecoderStream("an increment is zero"));
        }
        // No overflow: neither exceeds 63 bits.
        let known_received = self.known_received + increment;
        if known_received > self.table.inserted() {
            return Err(QpackError::DecoderStream(
                "an increment exceeds the insertions",
            ));
        }
        self.known_received = known_received;
        Ok(())
    }
}
