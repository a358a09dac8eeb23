// SPDX-License-Identifier: GPL-2.0

//! IH entries: decoded form, and fields shared by all versions.

use rkfd_abi::ih::{self, client, fault, source, sq};

/// Kind of an access of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Instruction fetch.
    Execute,
}

/// A VM fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmFault {
    /// Address of the faulting page.
    pub(crate) addr: u64,
    /// From GFXHUB; else MMHUB.
    pub(crate) gfx: bool,
    /// The access.
    pub(crate) kind: AccessKind,
    /// Retry fault.
    pub(crate) retry: bool,
    /// Slot in the retry CAM, of a retry fault.
    pub(crate) cam: u32,
    /// The page has no valid mapping.
    pub(crate) not_present: bool,
    /// The page's mapping lacks the permission to read.
    pub(crate) no_read: bool,
    /// The page's mapping lacks the permission to write.
    pub(crate) no_write: bool,
}

/// Sender of an SQ interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqSender {
    /// s_sendmsg of a program.
    Program,
    /// s_sendmsg of the trap handler.
    TrapHandler(Report),
    /// SQ error.
    Error,
    /// Other SQ interrupts.
    Hardware,
}

/// Exception report of the trap handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Doorbell id of the queue within the process.
    pub(crate) doorbell: u32,
    /// Exceptions: bit n stands for `EC_*` n + 1 of `kfd_ioctl.h`.
    pub(crate) exceptions: u64,
}

/// Meaning of an IH entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IhEvent {
    /// CP end of pipe: RELEASE_MEM or AQL completion signal.
    CpEop {
        /// Context word of the packet; KFD event id.
        ctx0: u32,
    },
    /// CP bad opcode.
    CpBadOpcode {
        /// Doorbell id of the queue.
        doorbell: u32,
        /// `EC_*` of `kfd_ioctl.h`.
        code: u32,
    },
    /// CP privileged register or instruction fault.
    CpPrivileged {
        /// Doorbell id of the queue.
        doorbell: u32,
    },
    /// SQ interrupt message.
    SqMessage {
        /// 24 bits.
        data: u32,
        /// Sender.
        from: SqSender,
    },
    /// SDMA trap.
    SdmaTrap {
        /// Context word of the packet.
        ctx0: u32,
        /// Logical number of the engine.
        engine: u32,
        /// From the kernel ring or an IB that it executes.
        kernel: bool,
    },
    /// VM fault.
    VmFault(VmFault),
    /// Message of the power firmware: context words 0 and 1.
    Smu(u32, u32),
    /// A block read data with an uncorrectable error.
    Poison,
    /// Ring 1 has new entries.
    RetryRing,
    /// Not handled.
    Other,
}

/// A decoded IH entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IhEntry {
    /// Client id.
    pub(crate) client: u8,
    /// Source id.
    pub(crate) source: u8,
    /// Ring id: engine and queue, as the client encodes them.
    pub(crate) ring: u8,
    /// VMID.
    pub(crate) vmid: u8,
    /// PASID, 0 for none.
    pub(crate) pasid: u16,
    /// IH node id (physical).
    pub(crate) node: u8,
    /// First context word, for the trace.
    pub(crate) ctx0: u32,
    /// Decoded event.
    pub(crate) event: IhEvent,
}

/// Dwords of an IH entry.
pub(crate) const IH_ENTRY_DWORDS: usize = ih::ENTRY_DWORDS;
/// Bytes of an entry.
pub(crate) const IH_ENTRY_BYTES: u32 = IH_ENTRY_DWORDS as u32 * 4;

/// A raw IH entry.
pub(crate) struct RawEntry<'a> {
    /// All dwords.
    pub(crate) words: &'a [u32; IH_ENTRY_DWORDS],
    /// Client id.
    pub(crate) client: u32,
    /// Source id.
    pub(crate) source: u32,
    /// Ring id: engine and queue, as the client encodes them.
    pub(crate) ring: u32,
    /// IH node id (physical).
    pub(crate) node: u32,
    /// First context word.
    pub(crate) ctx0: u32,
}

impl<'a> RawEntry<'a> {
    pub(super) fn new(words: &'a [u32; IH_ENTRY_DWORDS]) -> Self {
        Self {
            words,
            client: ih::CLIENT_ID.get(words),
            source: ih::SOURCE_ID.get(words),
            ring: ih::RING_ID.get(words),
            node: ih::NODE_ID.get(words),
            ctx0: ih::CONTEXT_ID0.get(words),
        }
    }

    /// Decodes the entry; `other` decodes sources other than the CP.
    pub(super) fn decode(&self, other: impl FnOnce(&Self) -> IhEvent) -> IhEntry {
        let event = match (self.client, self.source) {
            (client::GRBM_CP, source::CP_END_OF_PIPE) => IhEvent::CpEop { ctx0: self.ctx0 },
            (client::GRBM_CP, source::CP_BAD_OPCODE) => IhEvent::CpBadOpcode {
                doorbell: ih::bad_opcode::DOORBELL.get(self.words),
                code: ih::bad_opcode::CODE.get(self.words),
            },
            (client::GRBM_CP, source::CP_PRIV_REG_FAULT | source::CP_PRIV_INSTR_FAULT) => {
                IhEvent::CpPrivileged {
                    doorbell: ih::bad_opcode::DOORBELL.get(self.words),
                }
            }
            _ => other(self),
        };
        IhEntry {
            client: self.client as u8,
            source: self.source as u8,
            ring: self.ring as u8,
            vmid: ih::VMID.get(self.words) as u8,
            pasid: ih::PASID.get(self.words) as u16,
            node: self.node as u8,
            ctx0: self.ctx0,
            event,
        }
    }
}

/// Returns the event of an SQ message; `exceptions` applies to messages of a trap handler.
pub(crate) fn shader_message(
    data: u32,
    encoding: u32,
    privileged: bool,
    exceptions: u32,
) -> IhEvent {
    let from = match encoding {
        sq::ENCODING_INST if privileged => SqSender::TrapHandler(Report {
            doorbell: data & sq::REPORT_DOORBELL_MASK,
            exceptions: exceptions.into(),
        }),
        sq::ENCODING_INST => SqSender::Program,
        sq::ENCODING_ERROR => SqSender::Error,
        _ => SqSender::Hardware,
    };
    IhEvent::SqMessage { data, from }
}

/// Returns the event of a VM fault of GFXHUB or MMHUB.
pub(crate) fn page_fault(entry: &RawEntry<'_>, gfx: bool) -> IhEvent {
    let (words, ring) = (entry.words, entry.ring);
    let kind = match (fault::EXE.get(words) != 0, fault::WRITE.get(words) != 0) {
        (true, _) => AccessKind::Execute,
        (false, true) => AccessKind::Write,
        (false, false) => AccessKind::Read,
    };
    IhEvent::VmFault(VmFault {
        addr: u64::from(fault::ADDR_LO.get(words)) << 12
            | u64::from(fault::ADDR_HI.get(words)) << 44,
        gfx,
        kind,
        retry: fault::RETRY.get(words) != 0,
        cam: fault::CAM_INDEX.get(words),
        not_present: fault::RING_PROT_VALID.is_set(ring),
        no_read: fault::RING_PROT_READ.is_set(ring),
        no_write: fault::RING_PROT_WRITE.is_set(ring),
    })
}
