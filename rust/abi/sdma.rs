// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SDMA packets, in the form of SDMA 4.4.2; [`v7`] has those of SDMA 7.
//!
//! Sources: `amdgpu/vega10_sdma_pkt_open.h` (layouts), `include/vega10_enum.h` (atomic operations),
//! `amdgpu/sdma_v4_4_2.c` (limits, alignment, the wider byte counts of 4.4.x). Indices are in
//! dwords, dword 0 is the header; addresses in packets are in bytes unless a field states
//! otherwise. Ring and write pointers, doorbells included, are in bytes.

use crate::bits::{name_in, uncovered, DwField, Field};
use crate::regs::sdma_4_4_2 as regs;

/// Header: opcode, one of [`op`].
pub const HEADER_OP: Field = Field::span(7, 0);
/// Header: sub-opcode, one of [`sub_op`].
pub const HEADER_SUB_OP: Field = Field::span(15, 8);

/// Returns the header of a packet; opcode-specific bits are zero.
pub const fn header(op: u8, sub_op: u8) -> u32 {
    HEADER_OP.put(op as u32) | HEADER_SUB_OP.put(sub_op as u32)
}

/// One-dword NOP.
pub const NOP_SINGLE: u32 = header(op::NOP, 0);

/// Alignment of an IB, in bytes.
pub const IB_ALIGN: u64 = 32;
/// Alignment of the end of an INDIRECT packet in its ring, in dwords.
pub const INDIRECT_END_ALIGN_DW: usize = 8;
/// Maximum size of a COPY or CONST_FILL, in bytes.
pub const MAX_BYTES: u32 = 1 << 30;
/// User queues (RLC contexts) per engine.
pub const RLC_QUEUES: usize = 8;
/// Dwords between the registers of adjacent RLC contexts.
pub const RLC_REG_STRIDE: u32 = regs::regSDMA_RLC1_RB_CNTL.off - regs::regSDMA_RLC0_RB_CNTL.off;

macro_rules! opcodes {
    ($($name:ident = $value:literal),* $(,)?) => {
        /// Opcodes.
        #[allow(missing_docs)]
        pub mod op {
            $(pub const $name: u8 = $value;)*
            /// All opcodes with their names.
            pub const ALL: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
        }
    };
}

opcodes! {
    NOP = 0,
    COPY = 1,
    WRITE = 2,
    INDIRECT = 4,
    FENCE = 5,
    TRAP = 6,
    SEM = 7,
    POLL_REGMEM = 8,
    COND_EXE = 9,
    ATOMIC = 10,
    CONST_FILL = 11,
    PTEPDE = 12,
    TIMESTAMP = 13,
    SRBM_WRITE = 14,
    PRE_EXE = 15,
    DUMMY_TRAP = 16,
}

macro_rules! sub_opcodes {
    ($($name:ident = $value:literal),* $(,)?) => {
        /// Sub-opcodes, named after their opcode. Opcodes without sub-opcodes use 0.
        #[allow(missing_docs)]
        pub mod sub_op {
            $(pub const $name: u8 = $value;)*
            /// All sub-opcodes with their names.
            pub const ALL: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
        }
    };
}

sub_opcodes! {
    COPY_LINEAR = 0,
    COPY_TILED = 1,
    COPY_SOA = 3,
    COPY_LINEAR_SUB_WIND = 4,
    COPY_TILED_SUB_WIND = 5,
    COPY_T2T_SUB_WIND = 6,
    COPY_DIRTY_PAGE = 7,
    COPY_LINEAR_PHY = 8,
    WRITE_LINEAR = 0,
    WRITE_TILED = 1,
    PTEPDE_GEN = 0,
    PTEPDE_COPY = 1,
    PTEPDE_RMW = 2,
    PTEPDE_COPY_BACKWARDS = 3,
    DATA_FILL_MULTI = 1,
    POLL_REG_WRITE_MEM = 1,
    POLL_DBIT_WRITE_MEM = 2,
    POLL_MEM_VERIFY = 3,
    TIMESTAMP_SET = 0,
    TIMESTAMP_GET = 1,
    TIMESTAMP_GET_GLOBAL = 2,
}

/// Returns the name of an opcode of [`op`].
pub const fn opcode_name(opcode: u8) -> Option<&'static str> {
    name_in(op::ALL, opcode)
}

/// Layout of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// AMD's name of the packet: `SDMA_PKT_<name>_`.
    pub name: &'static str,
    /// Opcode.
    pub op: u8,
    /// Sub-opcode.
    pub sub_op: u8,
    /// Size in dwords, header included; the minimum if a payload follows.
    pub dwords: usize,
    /// First dword of a variable-length payload.
    pub payload: Option<usize>,
    /// All fields except opcode and sub-opcode.
    pub fields: &'static [DwField],
}

impl Packet {
    /// Returns the bits of dword `dw` that the packet does not define.
    pub const fn reserved_mask(&self, dw: usize) -> u32 {
        if let Some(first) = self.payload {
            if dw >= first {
                return 0;
            }
        }
        let bits = uncovered(self.fields, dw);
        if dw == 0 {
            bits & !(HEADER_OP.mask | HEADER_SUB_OP.mask)
        } else {
            bits
        }
    }

    /// Returns the packet's header; opcode-specific bits are zero.
    pub const fn header(&self) -> u32 {
        header(self.op, self.sub_op)
    }
}

/// Declares a packet: a module with one constant per field, the list and the value constants.
macro_rules! packet {
    (
        $(#[$meta:meta])*
        $module:ident = $name:literal, $op:ident, $sub_op:expr,
        $dwords:literal dwords $(, payload from $payload:literal)?;
        $($(#[$fmeta:meta])* $field:ident: $dw:literal [$high:literal : $low:literal];)*
        $(=> values { $($values:item)* })?
    ) => {
        $(#[$meta])*
        pub mod $module {
            use super::{op, Packet};
            #[allow(unused_imports)]
            use super::sub_op;
            use crate::bits::DwField;

            /// The opcode.
            pub const OP: u8 = op::$op;
            /// Size in dwords, header included; the minimum if a payload follows.
            pub const SUB_OP: u8 = $sub_op;
            /// Dwords including the header; the least number when a payload follows.
            pub const DWORDS: usize = $dwords;
            $(
                #[doc = concat!("Dword ", $dw, ", bits ", $high, ":", $low, ".")]
                $(#[$fmeta])*
                pub const $field: DwField = DwField::new(stringify!($field), $dw, $high, $low);
            )*
            /// All fields except opcode and sub-opcode.
            pub const FIELDS: &[DwField] = &[$($field),*];
            /// The header; opcode-specific bits are zero.
            pub const HEADER: u32 = PACKET.header();
            /// Layout of the packet.
            pub const PACKET: Packet = Packet {
                name: $name,
                op: OP,
                sub_op: SUB_OP,
                dwords: DWORDS,
                payload: packet!(@payload $($payload)?),
                fields: FIELDS,
            };
            $($($values)*)?
        }
    };
    (@payload) => { None };
    (@payload $payload:literal) => { Some($payload) };
}

pub mod v7;

packet! {
    /// NOP: skips `COUNT` dwords after the header.
    nop = "NOP", NOP, 0, 1 dwords, payload from 1;
    COUNT: 0 [29:16];
}

packet! {
    /// COPY linear: copies bytes.
    copy_linear = "COPY_LINEAR", COPY, sub_op::COPY_LINEAR, 7 dwords;
    ENCRYPT: 0 [16:16];
    TMZ: 0 [18:18];
    /// 1: the packet is a [`copy_broadcast`](super::copy_broadcast).
    BROADCAST: 0 [27:27];
    /// Bytes - 1: 22 bits in the header file, 30 on 4.4.x.
    COUNT: 1 [29:0];
    /// Byte swap of the destination.
    DST_SW: 2 [17:16];
    /// Byte swap of the source.
    SRC_SW: 2 [25:24];
    SRC_ADDR_LO: 3 [31:0];
    SRC_ADDR_HI: 4 [31:0];
    DST_ADDR_LO: 5 [31:0];
    DST_ADDR_HI: 6 [31:0];
}

packet! {
    /// COPY linear with the broadcast bit: copies bytes to two destinations.
    copy_broadcast = "COPY_BROADCAST_LINEAR", COPY, sub_op::COPY_LINEAR, 9 dwords;
    ENCRYPT: 0 [16:16];
    TMZ: 0 [18:18];
    /// Must be 1.
    BROADCAST: 0 [27:27];
    /// Bytes - 1.
    COUNT: 1 [29:0];
    DST2_SW: 2 [9:8];
    DST1_SW: 2 [17:16];
    SRC_SW: 2 [25:24];
    SRC_ADDR_LO: 3 [31:0];
    SRC_ADDR_HI: 4 [31:0];
    DST1_ADDR_LO: 5 [31:0];
    DST1_ADDR_HI: 6 [31:0];
    DST2_ADDR_LO: 7 [31:0];
    DST2_ADDR_HI: 8 [31:0];
}

packet! {
    /// COPY of a sub-window between two linear volumes. Coordinates, pitches and sizes in elements.
    copy_subwin = "COPY_LINEAR_SUBWIN", COPY, sub_op::COPY_LINEAR_SUB_WIND, 13 dwords;
    TMZ: 0 [18:18];
    /// log2 of the size of an element in bytes, 0 to 4.
    ELEMENTSIZE: 0 [31:29];
    SRC_ADDR_LO: 1 [31:0];
    SRC_ADDR_HI: 2 [31:0];
    SRC_X: 3 [13:0];
    SRC_Y: 3 [29:16];
    SRC_Z: 4 [10:0];
    /// Row pitch - 1.
    SRC_PITCH: 4 [31:13];
    /// Slice pitch - 1.
    SRC_SLICE_PITCH: 5 [27:0];
    DST_ADDR_LO: 6 [31:0];
    DST_ADDR_HI: 7 [31:0];
    DST_X: 8 [13:0];
    DST_Y: 8 [29:16];
    DST_Z: 9 [10:0];
    /// Row pitch - 1.
    DST_PITCH: 9 [31:13];
    /// Slice pitch - 1.
    DST_SLICE_PITCH: 10 [27:0];
    /// Width - 1.
    RECT_X: 11 [13:0];
    /// Height - 1.
    RECT_Y: 11 [29:16];
    /// Depth - 1.
    RECT_Z: 12 [10:0];
    DST_SW: 12 [17:16];
    SRC_SW: 12 [25:24];
}

packet! {
    /// WRITE linear: writes the dwords of the packet to memory.
    write = "WRITE_UNTILED", WRITE, sub_op::WRITE_LINEAR, 5 dwords, payload from 4;
    ENCRYPT: 0 [16:16];
    TMZ: 0 [18:18];
    DST_ADDR_LO: 1 [31:0];
    DST_ADDR_HI: 2 [31:0];
    /// Dwords - 1.
    COUNT: 3 [19:0];
    SW: 3 [25:24];
}

packet! {
    /// INDIRECT: executes an IB. See `IB_ALIGN` and `INDIRECT_END_ALIGN_DW`.
    indirect = "INDIRECT", INDIRECT, 0, 6 dwords;
    VMID: 0 [19:16];
    IB_BASE_LO: 1 [31:0];
    IB_BASE_HI: 2 [31:0];
    /// In dwords.
    IB_SIZE: 3 [19:0];
    /// Address where the engine saves its state when the IB is preempted.
    CSA_ADDR_LO: 4 [31:0];
    CSA_ADDR_HI: 5 [31:0];
}

packet! {
    /// FENCE: writes a dword to memory after all earlier packets complete.
    fence = "FENCE", FENCE, 0, 4 dwords;
    /// A multiple of 4.
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
    DATA: 3 [31:0];
}

packet! {
    /// TRAP: interrupt with source [`SDMA_TRAP`](crate::ih::source::SDMA_TRAP).
    trap = "TRAP", TRAP, 0, 2 dwords;
    /// Interrupt `CONTEXT_ID0`.
    INT_CONTEXT: 1 [27:0];
}

packet! {
    /// SEM: signals or waits for a semaphore in memory.
    semaphore = "SEMAPHORE", SEM, 0, 3 dwords;
    WRITE_ONE: 0 [29:29];
    SIGNAL: 0 [30:30];
    MAILBOX: 0 [31:31];
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
}

packet! {
    /// POLL_REGMEM: polls a register or a dword in memory, or flushes HDP: writes the reference to
    /// the request register and polls the done register.
    poll_regmem = "POLL_REGMEM", POLL_REGMEM, 0, 6 dwords;
    /// 1: `ADDR_LO` and `ADDR_HI` are byte addresses of the done and the request register.
    HDP_FLUSH: 0 [26:26];
    /// One of `FUNC_*`.
    FUNC: 0 [30:28];
    /// 1: memory; 0: register.
    MEM_POLL: 0 [31:31];
    /// Memory: a multiple of 4. Register: its byte address.
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
    /// Reference value.
    VALUE: 3 [31:0];
    /// Mask of the compared bits.
    MASK: 4 [31:0];
    /// Interval between two reads.
    INTERVAL: 5 [15:0];
    /// Number of reads before giving up; all ones: unlimited.
    RETRY_COUNT: 5 [27:16];
    => values {
        /// Always true.
        pub const FUNC_ALWAYS: u32 = 0;
        /// Value < reference.
        pub const FUNC_LESS: u32 = 1;
        /// Value <= reference.
        pub const FUNC_LESS_EQUAL: u32 = 2;
        /// Value == reference.
        pub const FUNC_EQUAL: u32 = 3;
        /// Value != reference.
        pub const FUNC_NOT_EQUAL: u32 = 4;
        /// Value >= reference.
        pub const FUNC_GREATER_EQUAL: u32 = 5;
        /// Value > reference.
        pub const FUNC_GREATER: u32 = 6;
        /// `RETRY_COUNT`: unlimited.
        pub const RETRY_FOR_EVER: u32 = 0xfff;
    }
}

packet! {
    /// COND_EXE: skips the next dwords unless a dword in memory equals the reference.
    cond_exe = "COND_EXE", COND_EXE, 0, 5 dwords;
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
    REFERENCE: 3 [31:0];
    /// Number of dwords to skip.
    EXEC_COUNT: 4 [13:0];
}

packet! {
    /// ATOMIC: an atomic operation on memory.
    atomic = "ATOMIC", ATOMIC, 0, 8 dwords;
    /// Compare-and-swap: loop until it swaps.
    LOOP: 0 [16:16];
    TMZ: 0 [18:18];
    /// One of [`atomic_op`](super::atomic_op) with flags.
    ATOMIC_OP: 0 [31:25];
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
    SRC_DATA_LO: 3 [31:0];
    SRC_DATA_HI: 4 [31:0];
    CMP_DATA_LO: 5 [31:0];
    CMP_DATA_HI: 6 [31:0];
    LOOP_INTERVAL: 7 [12:0];
}

packet! {
    /// CONST_FILL: fills a range with a value.
    const_fill = "CONSTANT_FILL", CONST_FILL, 0, 5 dwords;
    SW: 0 [17:16];
    /// One of `FILLSIZE_*`.
    FILLSIZE: 0 [31:30];
    DST_ADDR_LO: 1 [31:0];
    DST_ADDR_HI: 2 [31:0];
    SRC_DATA: 3 [31:0];
    /// Bytes - 1: 22 bits in the header file, 30 on 4.4.x. The two low bits are ignored in dword
    /// fills.
    COUNT: 4 [29:0];
    => values {
        /// Byte value.
        pub const FILLSIZE_BYTE: u32 = 0;
        /// Dword value.
        pub const FILLSIZE_DWORD: u32 = 2;
    }
}

packet! {
    /// PTEPDE, generate: writes `COUNT` + 1 qwords `MASK | (INIT + n * INCR)`.
    ptepde_gen = "WRITE_INCR", PTEPDE, sub_op::PTEPDE_GEN, 10 dwords;
    /// A multiple of 8.
    DST_ADDR_LO: 1 [31:0];
    DST_ADDR_HI: 2 [31:0];
    /// Flags of each entry.
    MASK_DW0: 3 [31:0];
    MASK_DW1: 4 [31:0];
    /// Address of the first entry.
    INIT_DW0: 5 [31:0];
    INIT_DW1: 6 [31:0];
    /// Increment per entry.
    INCR_DW0: 7 [31:0];
    INCR_DW1: 8 [31:0];
    /// Entries - 1.
    COUNT: 9 [18:0];
}

packet! {
    /// TIMESTAMP set: sets the engine's local counter.
    timestamp_set = "TIMESTAMP_SET", TIMESTAMP, sub_op::TIMESTAMP_SET, 3 dwords;
    INIT_DATA_LO: 1 [31:0];
    INIT_DATA_HI: 2 [31:0];
}

packet! {
    /// TIMESTAMP get: writes the local counter to memory.
    timestamp_get = "TIMESTAMP_GET", TIMESTAMP, sub_op::TIMESTAMP_GET, 3 dwords;
    /// Address bits 31:3.
    WRITE_ADDR_LO: 1 [31:3];
    WRITE_ADDR_HI: 2 [31:0];
}

packet! {
    /// TIMESTAMP get global: writes the GPU reference clock to memory.
    timestamp_get_global = "TIMESTAMP_GET_GLOBAL", TIMESTAMP, sub_op::TIMESTAMP_GET_GLOBAL,
        3 dwords;
    /// Address bits 31:3.
    WRITE_ADDR_LO: 1 [31:3];
    WRITE_ADDR_HI: 2 [31:0];
}

packet! {
    /// SRBM_WRITE: writes a register.
    srbm_write = "SRBM_WRITE", SRBM_WRITE, 0, 3 dwords;
    /// Byte enables.
    BYTE_EN: 0 [31:28];
    /// Dword address. The field of the header has 18 bits, but addresses of the hubs of AIDs 2 and
    /// 3 have 19, and the C driver writes the whole dword (`sdma_v4_4_2_ring_emit_wreg`).
    ADDR: 1 [17:0];
    DATA: 2 [31:0];
}

/// All packets described here. The two lengths of COPY linear differ in the broadcast bit.
pub const PACKETS: &[Packet] = &[
    nop::PACKET,
    copy_linear::PACKET,
    copy_broadcast::PACKET,
    copy_subwin::PACKET,
    write::PACKET,
    indirect::PACKET,
    fence::PACKET,
    trap::PACKET,
    semaphore::PACKET,
    poll_regmem::PACKET,
    cond_exe::PACKET,
    atomic::PACKET,
    const_fill::PACKET,
    ptepde_gen::PACKET,
    timestamp_set::PACKET,
    timestamp_get::PACKET,
    timestamp_get_global::PACKET,
    srbm_write::PACKET,
];

numbers! {
    /// Operations of ATOMIC (`enum TC_OP`): a number with flags.
    #[allow(missing_docs)]
    atomic_op: u32 {
        FCMPSWAP = 0x01,
        FMIN = 0x02,
        FMAX = 0x03,
        SWAP = 0x07,
        CMPSWAP = 0x08,
        ADD = 0x0f,
        SUB = 0x10,
        SMIN = 0x11,
        UMIN = 0x12,
        SMAX = 0x13,
        UMAX = 0x14,
        AND = 0x15,
        OR = 0x16,
        XOR = 0x17,
        INC = 0x18,
        DEC = 0x19,
        => values {
            /// Flag: 64-bit operands.
            pub const QUADWORD: u32 = 0x20;
            /// Flag: the old value is not returned.
            pub const NO_RETURN: u32 = 0x40;
            /// Mask of the number.
            pub const NUMBER_MASK: u32 = 0x1f;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stay_inside_and_do_not_overlap() {
        for p in PACKETS {
            let mut seen = [0u32; 16];
            seen[0] = HEADER_OP.mask | HEADER_SUB_OP.mask;
            for f in p.fields {
                assert!(f.dw < p.dwords, "{}.{}", p.name, f.name);
                assert_eq!(seen[f.dw] & f.field.mask, 0, "{}.{}", p.name, f.name);
                seen[f.dw] |= f.field.mask;
            }
            for (dw, seen) in seen.iter().enumerate().take(p.dwords) {
                if p.payload.is_none_or(|first| dw < first) {
                    assert_eq!(p.reserved_mask(dw), !seen, "{} dword {dw}", p.name);
                }
            }
        }
    }

    #[test]
    fn headers_are_unique() {
        for (i, a) in PACKETS.iter().enumerate() {
            for b in &PACKETS[i + 1..] {
                let broadcast = a.name == "COPY_LINEAR" && b.name == "COPY_BROADCAST_LINEAR";
                assert_eq!(a.header() == b.header(), broadcast, "{} {}", a.name, b.name);
            }
        }
        assert_eq!(opcode_name(op::CONST_FILL), Some("CONST_FILL"));
        assert_eq!(opcode_name(17), None);
    }

    #[test]
    fn byte_counts_reach_max_bytes() {
        assert_eq!(copy_linear::COUNT.field.max(), MAX_BYTES - 1);
        assert_eq!(copy_broadcast::COUNT.field.max(), MAX_BYTES - 1);
        assert_eq!(const_fill::COUNT.field.max(), MAX_BYTES - 1);
    }
}
