// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PM4 packets: fetch from a ring or an IB, and format checks.

use rkfd_abi::bits::DwField;
use rkfd_abi::pm4::{self, Header, Packet as Shape};

use super::env::Env;
use super::error::PacketError;
use crate::chips::Generation;
use crate::engines::gmc::VmFault;
use crate::regs::PACKET_ADDRESS;

/// A source of packets in memory: the ring or an IB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Address space.
    pub vmid: u8,
    /// First byte.
    pub base: u64,
    /// Size in dwords after which it wraps (the ring); `None` for an IB.
    pub wrap: Option<u64>,
    /// Next dword.
    pub pos: u64,
    /// End, in dwords.
    pub end: u64,
}

impl Stream {
    /// Reads `count` dwords from `at`, wrapping at the end of the ring.
    fn read(&self, env: &dyn Env, at: u64, count: u64) -> Result<Vec<u32>, VmFault> {
        let Some(size) = self.wrap else {
            return env.read_dwords(self.vmid, self.base.wrapping_add(at * 4), count as usize);
        };
        let start = at & (size - 1);
        let first = count.min(size - start);
        let mut words =
            env.read_dwords(self.vmid, self.base.wrapping_add(start * 4), first as usize)?;
        if first < count {
            let rest = (count - first) as usize;
            words.extend(env.read_dwords(self.vmid, self.base, rest)?);
        }
        Ok(words)
    }

    /// Fetches the packet at `pos` without advancing.
    pub fn fetch(&self, env: &dyn Env) -> Result<Fetched, VmFault> {
        let left = self.end.wrapping_sub(self.pos);
        if left == 0 {
            return Ok(Fetched::End);
        }
        let header = self.read(env, self.pos, 1)?[0];
        let (opcode, body) = match pm4::parse(header) {
            Header::Type2 => return Ok(Fetched::Filler),
            Header::Type3 { body: 0, .. } => return Ok(Fetched::Filler),
            Header::Type3 { opcode, body, .. } => (opcode, u64::from(body)),
            Header::Type0 { .. } => return Ok(Fetched::Bad(header, PacketError::Type0)),
            Header::Type1 => return Ok(Fetched::Bad(header, PacketError::Type1)),
        };
        if 1 + body > left {
            return Ok(Fetched::Short {
                header,
                need: 1 + body,
                left,
            });
        }
        let words = self.read(env, self.pos, 1 + body)?;
        Ok(Fetched::Packet(Packet { opcode, words }))
    }
}

/// The packet at the front of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// The stream is empty.
    End,
    /// One dword of padding.
    Filler,
    /// A complete packet.
    Packet(Packet),
    /// The body extends beyond the end.
    Short {
        /// First dword.
        header: u32,
        /// Dwords of the packet.
        need: u64,
        /// Dwords available.
        left: u64,
    },
    /// Not a packet.
    Bad(u32, PacketError),
}

/// A type 3 packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Opcode.
    pub opcode: u8,
    /// Header and body.
    pub words: Vec<u32>,
}

impl Packet {
    /// Returns the value of a field.
    pub fn get(&self, field: DwField) -> u32 {
        field.get(&self.words)
    }

    /// Returns whether the field is not zero.
    pub fn has(&self, field: DwField) -> bool {
        self.get(field) != 0
    }

    /// Returns two dword fields as one 64-bit value.
    pub fn join(&self, lo: DwField, hi: DwField) -> u64 {
        rkfd_abi::bits::join(self.get(lo), self.get(hi))
    }

    /// Returns an address from a low field without the alignment bits and a high field.
    pub fn address(&self, lo: DwField, hi: DwField) -> u64 {
        let low = self.words[lo.dw] & lo.field.mask;
        rkfd_abi::bits::join(low, self.get(hi))
    }

    /// Returns the dwords from `first` on.
    pub fn payload(&self, first: usize) -> &[u32] {
        self.words.get(first..).unwrap_or(&[])
    }

    /// Returns the number of dwords with the header.
    pub fn len(&self) -> u64 {
        self.words.len() as u64
    }

    /// Returns false: a packet has a header.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns whether the packet has the length that `shape` requires.
    pub fn length_fits(&self, shape: &Shape) -> bool {
        match shape.payload {
            Some(_) => self.words.len() >= shape.dwords,
            None => self.words.len() == shape.dwords,
        }
    }

    /// Returns bits set outside the fields of `form`: (dword, bits). The header is always checked,
    /// the upper bits of the fields in `cut` never.
    pub fn reserved_bits(
        &self,
        shape: &Shape,
        form: &[DwField],
        addresses: &[DwField],
        cut: &[DwField],
    ) -> Option<(usize, u32)> {
        let end = shape.payload.unwrap_or(self.words.len());
        (0..end.min(self.words.len())).find_map(|dw| {
            let address = |field: &&DwField| field.dw == dw && addresses.contains(field);
            let whole = |field: &DwField| field.dw == dw && cut.contains(field);
            let known = match form.iter().any(whole) {
                true => u32::MAX,
                false => form.iter().find(address).map_or(0, |_| PACKET_ADDRESS),
            };
            let bits = self.words[dw] & shape.reserved_in(form, dw) & !known;
            (bits != 0).then_some((dw, bits))
        })
    }
}

/// Returns the shape of an opcode's packet, if the opcode is known.
pub fn shape(generation: Generation, opcode: u8, dwords: usize) -> Option<&'static Shape> {
    let own = match generation {
        Generation::Gfx9 => &[],
        Generation::Gfx12 => pm4::gfx12::PACKETS,
    };
    if let Some(shape) = own.iter().find(|s| s.opcode == opcode) {
        return Some(shape);
    }
    let mut shapes = pm4::PACKETS.iter().filter(|s| s.opcode == opcode);
    let first = shapes.clone().next()?;
    // MAP_PROCESS has two lengths.
    Some(shapes.find(|s| s.dwords == dwords).unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::cp::testing::Mock;

    fn ring(mock: &Mock, words: &[u32], start: u64) -> Stream {
        for (i, word) in words.iter().enumerate() {
            let at = (start + i as u64) & 63;
            mock.put32(0x1000 + at * 4, *word);
        }
        Stream {
            vmid: 0,
            base: 0x1000,
            wrap: Some(64),
            pos: start,
            end: start + words.len() as u64,
        }
    }

    #[test]
    fn packets_wrap_at_every_ring_offset() {
        for start in 0..200 {
            let mock = Mock::default();
            let words = [
                pm4::FILLER,
                pm4::NOP_SINGLE,
                pm4::header(pm4::op::WRITE_DATA, 4),
                5 << 8,
                0x2000,
                0,
                0x1234,
            ];
            let mut stream = ring(&mock, &words, start);
            assert_eq!(stream.fetch(&mock).unwrap(), Fetched::Filler);
            stream.pos += 1;
            assert_eq!(stream.fetch(&mock).unwrap(), Fetched::Filler);
            stream.pos += 1;
            let Fetched::Packet(packet) = stream.fetch(&mock).unwrap() else {
                panic!("not a packet");
            };
            assert_eq!(packet.words, words[2..]);
            stream.pos += packet.len();
            assert_eq!(stream.fetch(&mock).unwrap(), Fetched::End);
        }
    }

    #[test]
    fn short_packets_and_other_types_are_distinguished() {
        let mock = Mock::default();
        let stream = ring(&mock, &[pm4::header(pm4::op::NOP, 3), 0], 0);
        assert!(matches!(
            stream.fetch(&mock).unwrap(),
            Fetched::Short {
                need: 4,
                left: 2,
                ..
            }
        ));
        let stream = ring(&mock, &[0x0001_0000, 0, 0], 0);
        assert!(matches!(stream.fetch(&mock).unwrap(), Fetched::Bad(..)));
        let stream = ring(&mock, &[1 << 30], 0);
        assert!(matches!(stream.fetch(&mock).unwrap(), Fetched::Bad(..)));
    }

    #[test]
    fn reserved_bits_of_all_packets_are_reported() {
        for shape in pm4::PACKETS.iter().chain(pm4::gfx12::PACKETS) {
            for dw in 0..shape.dwords {
                for bit in 0..32 {
                    let mut words = vec![0; shape.dwords.max(2)];
                    words[dw] = 1 << bit;
                    let packet = Packet {
                        opcode: shape.opcode,
                        words,
                    };
                    let reserved = shape.reserved_mask(dw) >> bit & 1 != 0;
                    let found = packet.reserved_bits(shape, shape.fields, &[], &[]);
                    assert_eq!(found.is_some(), reserved, "{} {dw} {bit}", shape.name);
                }
            }
        }
    }
}
