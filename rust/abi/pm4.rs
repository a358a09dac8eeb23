// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PM4: packets of the command processor, in the form of the gfx9 MEC; [`gfx12`] has the packets
//! that differ there.
//!
//! Sources: `amdgpu/soc15d.h` (`PACKET3_*`), `amdkfd/kfd_pm4_headers_ai.h`,
//! `amdkfd/kfd_pm4_headers_aldebaran.h`, `amdkfd/kfd_pm4_opcodes.h`. Indices and sizes are in
//! dwords, dword 0 is the header; addresses in packets are in bytes unless a field states
//! otherwise. Each packet is a module with its size, fields and undefined bits.

use crate::bits::{name_in, uncovered, DwField, Field};

/// Packet type 3: opcode and body.
pub const TYPE3: u32 = 3;
/// Packet type 2: one-dword filler.
pub const TYPE2: u32 = 2;
/// Packet type 0: consecutive register writes.
pub const TYPE0: u32 = 0;

/// Header: packet type.
pub const HEADER_TYPE: Field = Field::span(31, 30);
/// Header: number of body dwords minus 1.
pub const HEADER_COUNT: Field = Field::span(29, 16);
/// Header: opcode of a type 3 packet.
pub const HEADER_OPCODE: Field = Field::span(15, 8);
/// Header: shader type, set for compute (`PACKET3_COMPUTE`).
pub const HEADER_SHADER_TYPE: Field = Field::span(1, 1);
/// Header: reserved bits of type 3, must be zero.
pub const HEADER_RESERVED: u32 = 0xfc;
/// Count of a NOP without body.
pub const COUNT_NO_BODY: u32 = 0x3fff;
/// One-dword NOP.
pub const NOP_SINGLE: u32 =
    HEADER_TYPE.put(TYPE3) | HEADER_COUNT.put(COUNT_NO_BODY) | HEADER_OPCODE.put(op::NOP as u32);
/// One-dword filler, type 2.
pub const FILLER: u32 = HEADER_TYPE.put(TYPE2);

/// Returns a type 3 header for a packet with `body_dwords` dwords after the header.
pub const fn header(opcode: u8, body_dwords: u32) -> u32 {
    debug_assert!(body_dwords >= 1 && body_dwords <= COUNT_NO_BODY);
    HEADER_TYPE.put(TYPE3) | HEADER_COUNT.put(body_dwords - 1) | HEADER_OPCODE.put(opcode as u32)
}

/// Decoded packet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Writes `body` registers from dword address `reg` on.
    Type0 {
        /// First register.
        reg: u32,
        /// Dwords after the header.
        body: u32,
    },
    /// Undefined since r600.
    Type1,
    /// Filler without body.
    Type2,
    /// Opcode with body.
    Type3 {
        /// Opcode.
        opcode: u8,
        /// Dwords after the header.
        body: u32,
        /// Low byte: shader type, predicate, reserved bits.
        low: u32,
    },
}

/// Decodes a header dword.
pub const fn parse(word: u32) -> Header {
    let count = HEADER_COUNT.get(word);
    match HEADER_TYPE.get(word) {
        TYPE0 => Header::Type0 {
            reg: word & 0xffff,
            body: count + 1,
        },
        1 => Header::Type1,
        TYPE2 => Header::Type2,
        _ => {
            let opcode = HEADER_OPCODE.get(word) as u8;
            let body = if opcode == op::NOP && count == COUNT_NO_BODY {
                0
            } else {
                count + 1
            };
            Header::Type3 {
                opcode,
                body,
                low: word & 0xff,
            }
        }
    }
}

macro_rules! opcodes {
    ($($name:ident = $value:literal),* $(,)?) => {
        /// Opcodes of type 3 packets.
        #[allow(missing_docs)]
        pub mod op {
            $(pub const $name: u8 = $value;)*
            /// All opcodes with their names.
            pub const ALL: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
        }
    };
}

opcodes! {
    NOP = 0x10,
    SET_BASE = 0x11,
    CLEAR_STATE = 0x12,
    DISPATCH_DIRECT = 0x15,
    DISPATCH_INDIRECT = 0x16,
    ATOMIC_GDS = 0x1d,
    ATOMIC_MEM = 0x1e,
    SET_PREDICATION = 0x20,
    REG_RMW = 0x21,
    COND_EXEC = 0x22,
    PRED_EXEC = 0x23,
    CONTEXT_CONTROL = 0x28,
    WRITE_DATA = 0x37,
    MEM_SEMAPHORE = 0x39,
    WAIT_REG_MEM = 0x3c,
    INDIRECT_BUFFER = 0x3f,
    COPY_DATA = 0x40,
    PFP_SYNC_ME = 0x42,
    COND_WRITE = 0x45,
    EVENT_WRITE = 0x46,
    RELEASE_MEM = 0x49,
    DMA_DATA = 0x50,
    ACQUIRE_MEM = 0x58,
    REWIND = 0x59,
    SET_CONFIG_REG = 0x68,
    SET_CONTEXT_REG = 0x69,
    SET_SH_REG = 0x76,
    SET_QUEUE_REG = 0x78,
    SET_UCONFIG_REG = 0x79,
    SWITCH_BUFFER = 0x8b,
    FRAME_CONTROL = 0x90,
    INVALIDATE_TLBS = 0x98,
    SET_RESOURCES = 0xa0,
    MAP_PROCESS = 0xa1,
    MAP_QUEUES = 0xa2,
    UNMAP_QUEUES = 0xa3,
    QUERY_STATUS = 0xa4,
    RUN_LIST = 0xa5,
    RUN_CLEANER_SHADER = 0xd2,
    RUN_CLEANER_SHADER_9_0 = 0xd7,
}

/// Returns the name of an opcode of [`op`].
pub const fn opcode_name(opcode: u8) -> Option<&'static str> {
    name_in(op::ALL, opcode)
}

/// Layout of a type 3 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// AMD's name, in capitals.
    pub name: &'static str,
    /// Opcode.
    pub opcode: u8,
    /// Size in dwords, header included; the minimum if a payload follows.
    pub dwords: usize,
    /// First dword of a variable-length payload.
    pub payload: Option<usize>,
    /// Fields of all forms.
    pub fields: &'static [DwField],
}

impl Packet {
    /// Returns the bits of dword `dw` that no form of the packet defines.
    pub const fn reserved_mask(&self, dw: usize) -> u32 {
        if dw == 0 {
            return HEADER_RESERVED;
        }
        if let Some(first) = self.payload {
            if dw >= first {
                return 0;
            }
        }
        uncovered(self.fields, dw)
    }

    /// Returns the bits of dword `dw` outside `form`, one of the packet's `FORM_*` lists.
    pub const fn reserved_in(&self, form: &[DwField], dw: usize) -> u32 {
        if dw == 0 {
            return HEADER_RESERVED;
        }
        uncovered(form, dw)
    }

    /// Returns the header of a packet of `self.dwords` dwords.
    pub const fn header(&self) -> u32 {
        header(self.opcode, self.dwords as u32 - 1)
    }
}

/// Declares a packet: a module with one constant per field, the lists and the value constants.
macro_rules! packet {
    (
        $(#[$meta:meta])*
        $module:ident = $opcode:ident, $dwords:literal dwords $(, payload from $payload:literal)?;
        $($(#[$fmeta:meta])* $field:ident: $dw:literal [$high:literal : $low:literal];)*
        $(=> forms { $($(#[$ometa:meta])* $form:ident = [$($member:ident),* $(,)?];)* })?
        $(=> values { $($values:item)* })?
    ) => {
        $(#[$meta])*
        pub mod $module {
            use crate::bits::DwField;
            use crate::pm4::{op, Packet};

            /// The opcode.
            pub const OPCODE: u8 = op::$opcode;
            /// Size in dwords, header included; the minimum if a payload follows.
            pub const DWORDS: usize = $dwords;
            $(
                #[doc = concat!("Dword ", $dw, ", bits ", $high, ":", $low, ".")]
                $(#[$fmeta])*
                pub const $field: DwField = DwField::new(stringify!($field), $dw, $high, $low);
            )*
            /// Fields of all forms.
            pub const FIELDS: &[DwField] = &[$($field),*];
            /// Layout of the packet.
            pub const PACKET: Packet = Packet {
                name: stringify!($opcode),
                opcode: OPCODE,
                dwords: DWORDS,
                payload: packet!(@payload $($payload)?),
                fields: FIELDS,
            };
            /// Returns the bits of dword `dw` that no form of the packet defines.
            pub const fn reserved_mask(dw: usize) -> u32 {
                PACKET.reserved_mask(dw)
            }
            $($(
                $(#[$ometa])*
                pub const $form: &[DwField] = &[$($member),*];
            )*)?
            $($($values)*)?
        }
    };
    (@payload) => { None };
    (@payload $payload:literal) => { Some($payload) };
}

mod exec;
pub mod gfx12;
mod sched;

pub use exec::*;
pub use sched::*;

/// All packets described here. MAP_PROCESS and EVENT_WRITE appear in both lengths.
pub const PACKETS: &[Packet] = &[
    nop::PACKET,
    set_base::PACKET,
    dispatch_direct::PACKET,
    dispatch_indirect::PACKET,
    atomic_mem::PACKET,
    cond_exec::PACKET,
    pred_exec::PACKET,
    write_data::PACKET,
    wait_reg_mem::PACKET,
    indirect_buffer::PACKET,
    copy_data::PACKET,
    event_write::PACKET,
    event_write_mem::PACKET,
    release_mem::PACKET,
    dma_data::PACKET,
    acquire_mem::PACKET,
    set_config_reg::PACKET,
    set_sh_reg::PACKET,
    set_uconfig_reg::PACKET,
    invalidate_tlbs::PACKET,
    set_resources::PACKET,
    map_process::PACKET,
    map_process_v9::PACKET,
    map_queues::PACKET,
    unmap_queues::PACKET,
    query_status::PACKET,
    run_list::PACKET,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        for opcode in 0..=255u8 {
            for body in [1u32, 2, 7, 0x3ffe] {
                let word = header(opcode, body);
                let low = 0;
                assert_eq!(parse(word), Header::Type3 { opcode, body, low });
            }
        }
        assert_eq!(NOP_SINGLE, 0xffff_1000);
        let nop = Header::Type3 {
            opcode: op::NOP,
            body: 0,
            low: 0,
        };
        assert_eq!(parse(NOP_SINGLE), nop);
        assert_eq!(parse(FILLER), Header::Type2);
        assert_eq!(parse(0x4000_0000), Header::Type1);
    }

    #[test]
    fn fields_stay_inside_and_forms_do_not_overlap() {
        for p in PACKETS.iter().chain(gfx12::PACKETS) {
            for f in p.fields {
                assert!(f.dw >= 1 && f.dw < p.dwords, "{}.{}", p.name, f.name);
            }
        }
        let forms: &[(&Packet, &[&[DwField]])] = &[
            (
                &map_queues::PACKET,
                &[map_queues::FORM_HWS, map_queues::FORM_KIQ],
            ),
            (&unmap_queues::PACKET, unmap_queues::FORMS),
            (&query_status::PACKET, query_status::FORMS),
        ];
        for (packet, list) in forms {
            for form in *list {
                for dw in 1..packet.dwords {
                    let mut seen = 0u32;
                    for f in form.iter().filter(|f| f.dw == dw) {
                        assert_eq!(seen & f.field.mask, 0, "{}.{}", packet.name, f.name);
                        seen |= f.field.mask;
                    }
                    assert_eq!(packet.reserved_in(form, dw), !seen);
                    assert_eq!(packet.reserved_mask(dw) & seen, 0);
                }
            }
        }
    }

    /// Fields written in any order read back unchanged and leave other bits untouched.
    #[test]
    fn fields_of_a_form_are_independent() {
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 16) as u32
        };
        let forms = [
            (set_resources::PACKET, set_resources::FIELDS),
            (run_list::PACKET, run_list::FIELDS),
            (map_process::PACKET, map_process::FIELDS),
            (map_queues::PACKET, map_queues::FORM_HWS),
            (map_queues::PACKET, map_queues::FORM_KIQ),
            (unmap_queues::PACKET, unmap_queues::FORM_DOORBELL),
            (unmap_queues::PACKET, unmap_queues::FORM_PREEMPT_NO_UNMAP),
            (query_status::PACKET, query_status::FORM_PASID),
            (wait_reg_mem::PACKET, wait_reg_mem::FORM_MEMORY),
            (write_data::PACKET, write_data::FORM_REGISTER),
            (acquire_mem::PACKET, acquire_mem::FIELDS),
            (indirect_buffer::PACKET, indirect_buffer::FIELDS),
            (gfx12::acquire_mem::PACKET, gfx12::acquire_mem::FIELDS),
        ];
        for (packet, form) in forms {
            for _ in 0..200 {
                let mut words = [0u32; 32];
                words[0] = packet.header();
                let start = random() as usize % form.len();
                let mut values = std::collections::HashMap::new();
                for i in 0..form.len() {
                    let f = form[(start + i) % form.len()];
                    let value = random() & f.field.max();
                    f.set(&mut words, value);
                    values.insert(f.name, value);
                }
                for f in form {
                    assert_eq!(f.get(&words), values[f.name], "{}.{}", packet.name, f.name);
                }
                for (dw, word) in words.iter().enumerate() {
                    let outside = packet.reserved_in(form, dw);
                    let payload = packet.payload.is_some_and(|first| dw >= first);
                    assert!(payload || word & outside == 0, "{} dword {dw}", packet.name);
                }
                let Header::Type3 { opcode, body, low } = parse(words[0]) else {
                    panic!("{} is not a type 3 packet", packet.name);
                };
                assert_eq!(
                    (opcode, body as usize + 1, low),
                    (packet.opcode, packet.dwords, 0)
                );
            }
        }
    }

    #[test]
    fn payload_has_no_reserved_bits() {
        assert_eq!(write_data::reserved_mask(4), 0);
        assert_eq!(write_data::reserved_mask(900), 0);
        assert_ne!(write_data::reserved_mask(1), 0);
        assert_eq!(write_data::reserved_mask(0), HEADER_RESERVED);
    }
}
