// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Interrupt vector entries of the IH ring.
//!
//! Sources: `amdgpu/amdgpu_ih.c` and `amdkfd/soc15_int.h` (entry), `include/soc15_ih_clientid.h`,
//! `include/ivsrcid/` (source ids), `amdgpu/amdgpu_gmc.h`, `amdkfd/kfd_int_process_v9.c` and
//! `amdkfd/kfd_int_process_v11.c` (context words). Ring pointers are in bytes.

use crate::bits::{DwField, Field};

/// Size of an entry, in bytes.
pub const ENTRY_SIZE: usize = 32;
/// Size of an entry, in dwords.
pub const ENTRY_DWORDS: usize = 8;

/// Client: the IP block that raised the interrupt, one of [`client`].
pub const CLIENT_ID: DwField = DwField::new("CLIENT_ID", 0, 7, 0);
/// Cause within the client, one of [`source`].
pub const SOURCE_ID: DwField = DwField::new("SOURCE_ID", 0, 15, 8);
/// Ring within the client.
pub const RING_ID: DwField = DwField::new("RING_ID", 0, 23, 16);
/// VMID.
pub const VMID: DwField = DwField::new("VMID", 0, 27, 24);
/// Hub of the VMID: 0 graphics hub, 1 memory hub.
pub const VMID_TYPE: DwField = DwField::new("VMID_TYPE", 0, 31, 31);
/// Timestamp, bits 31:0.
pub const TIMESTAMP_LO: DwField = DwField::new("TIMESTAMP_LO", 1, 31, 0);
/// Timestamp, bits 47:32.
pub const TIMESTAMP_HI: DwField = DwField::new("TIMESTAMP_HI", 2, 15, 0);
/// Clock source of the timestamp.
pub const TIMESTAMP_SRC: DwField = DwField::new("TIMESTAMP_SRC", 2, 31, 31);
/// PASID.
pub const PASID: DwField = DwField::new("PASID", 3, 15, 0);
/// Die, see [`node`].
pub const NODE_ID: DwField = DwField::new("NODE_ID", 3, 23, 16);
/// Context word 0.
pub const CONTEXT_ID0: DwField = DwField::new("CONTEXT_ID0", 4, 31, 0);
/// Context word 1.
pub const CONTEXT_ID1: DwField = DwField::new("CONTEXT_ID1", 5, 31, 0);
/// Context word 2.
pub const CONTEXT_ID2: DwField = DwField::new("CONTEXT_ID2", 6, 31, 0);
/// Context word 3.
pub const CONTEXT_ID3: DwField = DwField::new("CONTEXT_ID3", 7, 31, 0);
/// All fields of an entry.
pub const FIELDS: &[DwField] = &[
    CLIENT_ID,
    SOURCE_ID,
    RING_ID,
    VMID,
    VMID_TYPE,
    TIMESTAMP_LO,
    TIMESTAMP_HI,
    TIMESTAMP_SRC,
    PASID,
    NODE_ID,
    CONTEXT_ID0,
    CONTEXT_ID1,
    CONTEXT_ID2,
    CONTEXT_ID3,
];

/// Client ids (`enum soc15_ih_clientid`).
pub mod client {
    #![allow(missing_docs)]
    pub const IH: u32 = 0x00;
    pub const ATHUB: u32 = 0x02;
    pub const BIF: u32 = 0x03;
    pub const RLC: u32 = 0x07;
    pub const SDMA0: u32 = 0x08;
    pub const SDMA1: u32 = 0x09;
    pub const SDMA2: u32 = 0x01;
    pub const SDMA3: u32 = 0x04;
    pub const SE0SH: u32 = 0x0a;
    pub const SE1SH: u32 = 0x0b;
    pub const SE2SH: u32 = 0x0c;
    pub const SE3SH: u32 = 0x0d;
    pub const VMC: u32 = 0x12;
    pub const GRBM_CP: u32 = 0x14;
    pub const DF: u32 = 0x17;
    pub const UTCL2: u32 = 0x1b;
    pub const MP0: u32 = 0x1e;
    pub const MP1: u32 = 0x1f;
    /// Client of SDMA engine n of an AID.
    pub const SDMA: [u32; 4] = [SDMA0, SDMA1, SDMA2, SDMA3];
}

/// Client ids of gfx12 (those of `enum soc21_ih_clientid` that differ from [`client`] or that are
/// used here).
pub mod soc21 {
    #![allow(missing_docs)]
    pub const IH: u32 = 0x00;
    pub const ATHUB: u32 = 0x02;
    pub const BIF: u32 = 0x03;
    pub const RLC: u32 = 0x07;
    /// Graphics core except the CP: SDMA, graphics hub, SQ.
    pub const GFX: u32 = 0x0a;
    pub const VMC: u32 = 0x12;
    pub const GRBM_CP: u32 = 0x14;
    pub const DF: u32 = 0x17;
    /// gfx12.1 only; gfx12.0 reports graphics hub faults as [`GFX`].
    pub const UTCL2: u32 = 0x1b;
    pub const MP0: u32 = 0x1e;
    pub const MP1: u32 = 0x1f;
}

/// Source ids of gfx12's client [`soc21::GFX`]; those of GRBM_CP and VMC are as in [`source`].
pub mod gfx12 {
    /// Graphics hub: page fault.
    pub const VM_FAULT: u32 = 0;
    /// SDMA: an atomic with return completed.
    pub const SDMA_ATOMIC_RTN_DONE: u32 = 48;
    /// SDMA: TRAP packet.
    pub const SDMA_TRAP: u32 = 49;
    /// SDMA: write to a protected register.
    pub const SDMA_SRBMWRITE: u32 = 50;
    /// SDMA: a context ran empty.
    pub const SDMA_CTXEMPTY: u32 = 51;
    /// SDMA: a new runlist.
    pub const SDMA_PREEMPT: u32 = 52;
    /// SDMA: an IB was preempted within a command.
    pub const SDMA_IB_PREEMPT: u32 = 53;
    /// SDMA: invalid doorbell byte enables.
    pub const SDMA_DOORBELL_INVALID: u32 = 54;
    /// SDMA: queue hang or command timeout.
    pub const SDMA_QUEUE_HANG: u32 = 55;
    /// SDMA: timeout of an atomic compare-and-swap loop.
    pub const SDMA_ATOMIC_TIMEOUT: u32 = 56;
    /// SDMA: timeout of a register poll.
    pub const SDMA_POLL_TIMEOUT: u32 = 57;
    /// SDMA: timeout of translation retries.
    pub const SDMA_PAGE_TIMEOUT: u32 = 58;
    /// SDMA: null page.
    pub const SDMA_PAGE_NULL: u32 = 59;
    /// SDMA: page fault.
    pub const SDMA_PAGE_FAULT: u32 = 60;
    /// SDMA: address in the hole of the address space.
    pub const SDMA_VM_HOLE: u32 = 61;
    /// SDMA: ECC error.
    pub const SDMA_ECC: u32 = 62;
    /// SDMA: the engine is frozen.
    pub const SDMA_FROZEN: u32 = 63;
    /// SDMA: SRAM ECC error.
    pub const SDMA_SRAM_ECC: u32 = 64;
    /// SDMA: timeout of an incomplete semaphore.
    pub const SDMA_SEM_INCOMPLETE_TIMEOUT: u32 = 65;
    /// SDMA: timeout of a semaphore wait.
    pub const SDMA_SEM_WAIT_FAIL_TIMEOUT: u32 = 66;
    /// SDMA: user fence.
    pub const SDMA_FENCE: u32 = 70;
}

/// Source ids (`include/ivsrcid/`).
pub mod source {
    /// GRBM_CP: end of pipe.
    pub const CP_END_OF_PIPE: u32 = 181;
    /// GRBM_CP: reserved bits set in a packet.
    pub const CP_PM4_RESERVED_BIT: u32 = 180;
    /// GRBM_CP: unknown opcode.
    pub const CP_BAD_OPCODE: u32 = 183;
    /// GRBM_CP: privileged register.
    pub const CP_PRIV_REG_FAULT: u32 = 184;
    /// GRBM_CP: privileged instruction.
    pub const CP_PRIV_INSTR_FAULT: u32 = 185;
    /// GRBM_CP: interrupt requested by QUERY_STATUS.
    pub const CP_COMPUTE_QUERY_STATUS: u32 = 199;
    /// GRBM_CP: doorbell of no mapped queue.
    pub const CP_VM_DOORBELL: u32 = 200;
    /// MP1: message of the power firmware (`IH_INTERRUPT_ID_TO_DRIVER`).
    pub const SMU_TO_DRIVER: u32 = 0xfe;
    /// GRBM_CP or SEnSH: shader message.
    pub const SQ_INTERRUPT_MSG: u32 = 239;
    /// IH: new entries in the ring of the entry's ring id (`vega20_ih_self_irq`).
    pub const RING: u32 = 0;
    /// VMC and UTCL2: page fault.
    pub const VM_FAULT: u32 = 0;
    /// VMC and UTCL2: poison in a page table (`SOC15_INTSRC_VMC_UTCL2_POISON`, `soc15_int.h`).
    pub const UTCL2_POISON: u32 = 1;
    /// VMC and UTCL2: retry, on other chips.
    pub const VM_RETRY: u32 = 1;
    /// SDMA: an atomic with return completed.
    pub const SDMA_ATOMIC_RTN_DONE: u32 = 217;
    /// SDMA: timeout of an atomic compare-and-swap loop.
    pub const SDMA_ATOMIC_TIMEOUT: u32 = 218;
    /// SDMA: an IB was preempted within a command.
    pub const SDMA_IB_PREEMPT: u32 = 219;
    /// SDMA: ECC error.
    pub const SDMA_ECC: u32 = 220;
    /// SDMA: page fault.
    pub const SDMA_PAGE_FAULT: u32 = 221;
    /// SDMA: null page.
    pub const SDMA_PAGE_NULL: u32 = 222;
    /// SDMA: timeout of translation retries.
    pub const SDMA_XNACK: u32 = 223;
    /// SDMA: TRAP packet.
    pub const SDMA_TRAP: u32 = 224;
    /// SDMA: timeout of an incomplete semaphore.
    pub const SDMA_SEM_INCOMPLETE_TIMEOUT: u32 = 225;
    /// SDMA: timeout of a semaphore wait.
    pub const SDMA_SEM_WAIT_FAIL_TIMEOUT: u32 = 226;
    /// SDMA: SRAM ECC error.
    pub const SDMA_SRAM_ECC: u32 = 228;
    /// SDMA: a new runlist.
    pub const SDMA_PREEMPT: u32 = 240;
    /// SDMA: address in the hole of the address space.
    pub const SDMA_VM_HOLE: u32 = 242;
    /// SDMA: a context ran empty.
    pub const SDMA_CTXEMPTY: u32 = 243;
    /// SDMA: invalid doorbell byte enables.
    pub const SDMA_DOORBELL_INVALID: u32 = 244;
    /// SDMA: the engine is frozen.
    pub const SDMA_FROZEN: u32 = 245;
    /// SDMA: timeout of a register poll.
    pub const SDMA_POLL_TIMEOUT: u32 = 246;
    /// SDMA: write to a protected register.
    pub const SDMA_SRBMWRITE: u32 = 247;
}

/// `RING_ID` fields of GRBM_CP interrupts.
pub mod cp_ring {
    use super::Field;

    /// Pipe.
    pub const PIPE: Field = Field::span(1, 0);
    /// ME; 1 and 2 are the MECs.
    pub const ME: Field = Field::span(3, 2);
    /// Queue.
    pub const QUEUE: Field = Field::span(6, 4);
}

/// `NODE_ID` on GC 9.4.3: four ids per AID (`amdgpu/soc15.h`, `gfx_v9_4_3_ih_to_xcc_inst`).
pub mod node {
    /// Ids per AID.
    pub const PER_AID: u32 = 4;
    /// The AID, added to `PER_AID * aid`.
    pub const AID: u32 = 0;
    /// First XCD of the AID.
    pub const XCD0: u32 = 1;
    /// Second XCD of the AID.
    pub const XCD1: u32 = 2;
}

/// Context words of a page fault (VMC, UTCL2).
pub mod fault {
    use crate::bits::{DwField, Field};

    /// Page number, bits 31:0: all of `CONTEXT_ID0`.
    pub const ADDR_LO: DwField = DwField::new("ADDR_LO", 4, 31, 0);
    /// Page number, bits 35:32.
    pub const ADDR_HI: DwField = DwField::new("ADDR_HI", 5, 3, 0);
    /// The access was an instruction fetch.
    pub const EXE: DwField = DwField::new("EXE", 5, 4, 4);
    /// The access was a write.
    pub const WRITE: DwField = DwField::new("WRITE", 5, 5, 5);
    /// The access was a read.
    pub const READ: DwField = DwField::new("READ", 5, 6, 6);
    /// The access is retried until the fault is resolved.
    pub const RETRY: DwField = DwField::new("RETRY", 5, 7, 7);
    /// Slot in the retry CAM.
    pub const CAM_INDEX: DwField = DwField::new("CAM_INDEX", 6, 9, 0);
    /// `RING_ID`: the translation was invalid.
    pub const RING_PROT_VALID: Field = Field::span(3, 3);
    /// `RING_ID`: read permission missing.
    pub const RING_PROT_READ: Field = Field::span(4, 4);
    /// `RING_ID`: write permission missing.
    pub const RING_PROT_WRITE: Field = Field::span(5, 5);
}

/// Context words of a shader message (SQ) on gfx9 (`kfd_int_process_v9.c`).
pub mod sq {
    use crate::bits::DwField;

    /// One of `ENCODING_*`.
    pub const ENCODING: DwField = DwField::new("ENCODING", 4, 27, 26);
    /// Message data, bits 11:0.
    pub const DATA: DwField = DwField::new("DATA", 4, 11, 0);
    /// Message data, bits 15:12.
    pub const DATA_MID: DwField = DwField::new("DATA_MID", 4, 31, 28);
    /// Message data, bits 23:16.
    pub const DATA_HI: DwField = DwField::new("DATA_HI", 5, 7, 0);
    /// Shader array.
    pub const SH_ID: DwField = DwField::new("SH_ID", 4, 12, 12);
    /// The wave was privileged (in the trap handler).
    pub const PRIV: DwField = DwField::new("PRIV", 4, 13, 13);
    /// Wave slot.
    pub const WAVE_ID: DwField = DwField::new("WAVE_ID", 4, 17, 14);
    /// SIMD.
    pub const SIMD_ID: DwField = DwField::new("SIMD_ID", 4, 19, 18);
    /// CU.
    pub const CU_ID: DwField = DwField::new("CU_ID", 4, 23, 20);
    /// Shader engine.
    pub const SE_ID: DwField = DwField::new("SE_ID", 4, 25, 24);
    /// 24-bit message of a trap handler: mask of the queue's doorbell.
    pub const REPORT_DOORBELL_MASK: u32 = 0x3ff;
    /// 24-bit message of a trap handler: shift of the exception bits.
    pub const REPORT_EXCEPTIONS_SHIFT: u32 = 10;
    /// 24-bit message of a trap handler: mask of the exception bits, after the shift.
    pub const REPORT_EXCEPTIONS_MASK: u32 = 0x1ff;
    /// Automatic message, such as thread trace.
    pub const ENCODING_AUTO: u32 = 0;
    /// `s_sendmsg` of a wave.
    pub const ENCODING_INST: u32 = 1;
    /// Error message.
    pub const ENCODING_ERROR: u32 = 2;
    /// Error message: shift of the type in the message data
    /// (`KFD_SQ_INT_DATA__ERR_TYPE__SHIFT`, `kfd_int_process_v9.c`).
    pub const ERROR_TYPE_SHIFT: u32 = 20;
    /// Error message: mask of the type, after the shift.
    pub const ERROR_TYPE_MASK: u32 = 0xf;
    /// Type of an error: illegal instruction (`SQ_INTERRUPT_ERROR_TYPE_ILLEGAL_INST`).
    pub const ERROR_ILLEGAL_INSTRUCTION: u32 = 1;
    /// Type of an error: memory violation (`SQ_INTERRUPT_ERROR_TYPE_MEMVIOL`).
    pub const ERROR_MEMORY_VIOLATION: u32 = 2;
    /// Type of an error: data with an uncorrectable error was read
    /// (`SQ_INTERRUPT_ERROR_TYPE_EDC_FED`).
    pub const ERROR_FATAL_DATA: u32 = 3;
}

/// Context words of a shader message (SQ) from gfx11 on (`kfd_int_process_v11.c`).
pub mod sq_v11 {
    pub use super::sq::{ENCODING_AUTO, ENCODING_ERROR, ENCODING_INST};
    use crate::bits::DwField;

    /// Message data, 24 bits.
    pub const DATA: DwField = DwField::new("DATA", 4, 23, 0);
    /// Shader array.
    pub const SH_ID: DwField = DwField::new("SH_ID", 4, 25, 25);
    /// The wave was privileged (in the trap handler).
    pub const PRIV: DwField = DwField::new("PRIV", 4, 26, 26);
    /// Wave slot.
    pub const WAVE_ID: DwField = DwField::new("WAVE_ID", 4, 31, 27);
    /// SIMD.
    pub const SIMD_ID: DwField = DwField::new("SIMD_ID", 5, 1, 0);
    /// WGP.
    pub const WGP_ID: DwField = DwField::new("WGP_ID", 5, 5, 2);
    /// One of `ENCODING_*`.
    pub const ENCODING: DwField = DwField::new("ENCODING", 5, 7, 6);
    /// Error message: detail.
    pub const ERROR_DETAIL: DwField = DwField::new("ERROR_DETAIL", 4, 20, 0);
    /// Error message: type.
    pub const ERROR_TYPE: DwField = DwField::new("ERROR_TYPE", 4, 24, 21);
    /// 24-bit message of a trap handler: mask of the queue's doorbell.
    pub const REPORT_DOORBELL_MASK: u32 = 0x3ff;
    /// 24-bit message of a trap handler: shift of the exception bits.
    pub const REPORT_EXCEPTIONS_SHIFT: u32 = 10;
    /// 24-bit message of a trap handler: mask of the exception bits, in place.
    pub const REPORT_EXCEPTIONS_MASK: u32 = 0x00ff_fc00;
}

/// Context word of `CP_BAD_OPCODE`.
pub mod bad_opcode {
    use crate::bits::DwField;

    /// Doorbell of the queue, relative to the process's doorbell slice.
    pub const DOORBELL: DwField = DwField::new("DOORBELL", 4, 9, 0);
    /// Exception code (`enum kfd_dbg_trap_exception_code`).
    pub const CODE: DwField = DwField::new("CODE", 4, 25, 10);
}

/// Width of the (partial) event id that KFD takes from the interrupt context, in bits, by source.
pub mod event_bits {
    /// CP end of pipe: `CONTEXT_ID0`.
    pub const CP_END_OF_PIPE: u32 = 32;
    /// SDMA trap: `CONTEXT_ID0`.
    pub const SDMA_TRAP: u32 = 28;
    /// SQ message: the 24 data bits.
    pub const SQ_MSG: u32 = 24;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::uncovered;

    #[test]
    fn entry_fields_do_not_overlap() {
        for dw in 0..ENTRY_DWORDS {
            let mut seen = 0;
            for f in FIELDS.iter().filter(|f| f.dw == dw) {
                assert_eq!(seen & f.field.mask, 0, "{}", f.name);
                seen |= f.field.mask;
            }
            assert_eq!(uncovered(FIELDS, dw), !seen);
        }
    }
}
