// SPDX-License-Identifier: GPL-2.0

//! Entries of the interrupt ring: what they tell, and the words that mean the same to all versions.

use rkfd_abi::ih::{self, client, fault, source, sq};

/// The read-permission facts of a VM fault entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmFault {
    /// The faulting page's address.
    pub(crate) addr: u64,
    /// From the graphics hub; else from a memory hub.
    pub(crate) gfx: bool,
    /// The access was a write.
    pub(crate) write: bool,
    /// The hardware retries the access until the page is there.
    pub(crate) retry: bool,
    /// The page has no valid mapping.
    pub(crate) not_present: bool,
    /// The page's mapping lacks the permission to read.
    pub(crate) no_read: bool,
    /// The page's mapping lacks the permission to write.
    pub(crate) no_write: bool,
}

/// Who sends messages of shaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqSender {
    /// An instruction of a program.
    Program,
    /// An instruction of a trap handler.
    TrapHandler(Report),
    /// The hardware, as a wave did something that it cannot.
    Error,
    /// The hardware, for other reasons.
    Hardware,
}

/// What a trap handler says about its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Which of the process's doorbells the queue has.
    pub(crate) doorbell: u32,
    /// What happened, bit n for the `EC_*` n + 1 of the user space interface.
    pub(crate) exceptions: u64,
}

/// What an interrupt entry tells.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IhEvent {
    /// End of pipe: a release packet or the signal of an AQL packet.
    CpEop {
        /// Data of the packet, for KFD the event id.
        ctx0: u32,
    },
    /// The CP met a packet that it does not know.
    CpBadOpcode {
        /// Which of the process's doorbells, or of the kernel's, the queue has.
        doorbell: u32,
        /// What is wrong, an `EC_*` of the user space interface.
        code: u32,
    },
    /// A queue touched a privileged register or used a privileged instruction.
    CpPrivileged,
    /// A shader sent a message.
    SqMessage {
        /// 24 bits.
        data: u32,
        /// Who sent it.
        from: SqSender,
    },
    /// An SDMA queue trapped.
    SdmaTrap {
        /// Data of the packet.
        ctx0: u32,
        /// The engine.
        engine: u32,
        /// By the kernel's ring of the engine, or an indirect buffer that it called.
        kernel: bool,
    },
    /// Address translation failed.
    VmFault(VmFault),
    /// Nothing that the driver handles.
    Other,
}

/// A decoded interrupt entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IhEntry {
    /// Who raised it.
    pub(crate) client: u8,
    /// Why.
    pub(crate) source: u8,
    /// Engine and queue encoding of the client.
    pub(crate) ring: u8,
    /// The address space.
    pub(crate) vmid: u8,
    /// The process's PASID, 0 for none.
    pub(crate) pasid: u16,
    /// The die that raised it.
    pub(crate) node: u8,
    /// First context word, for the trace.
    pub(crate) ctx0: u32,
    /// What it means.
    pub(crate) event: IhEvent,
}

/// 32-bit words of an entry of the interrupt ring.
pub(crate) const IH_ENTRY_DWORDS: usize = 8;

/// An entry as it is in the ring.
pub(crate) struct RawEntry<'a> {
    /// All of it.
    pub(crate) words: &'a [u32; IH_ENTRY_DWORDS],
    /// Who raised it.
    pub(crate) client: u32,
    /// Why.
    pub(crate) source: u32,
    /// Engine and queue encoding of the client.
    pub(crate) ring: u32,
    /// The die that raised it.
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

    /// The entry, with the meaning that `other` knows if it is none of the command processor's own.
    pub(super) fn decode(&self, other: impl FnOnce(&Self) -> IhEvent) -> IhEntry {
        let event = match (self.client, self.source) {
            (client::GRBM_CP, source::CP_END_OF_PIPE) => IhEvent::CpEop { ctx0: self.ctx0 },
            (client::GRBM_CP, source::CP_BAD_OPCODE) => IhEvent::CpBadOpcode {
                doorbell: ih::bad_opcode::DOORBELL.get(self.words),
                code: ih::bad_opcode::CODE.get(self.words),
            },
            (client::GRBM_CP, source::CP_PRIV_REG_FAULT | source::CP_PRIV_INSTR_FAULT) => {
                IhEvent::CpPrivileged
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

/// A message of a shader; `exceptions` is what its data says if it comes from a trap handler.
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

/// A page fault, of the graphics hub or a memory hub.
pub(crate) fn page_fault(entry: &RawEntry<'_>, gfx: bool) -> IhEvent {
    let (words, ring) = (entry.words, entry.ring);
    IhEvent::VmFault(VmFault {
        addr: u64::from(fault::ADDR_LO.get(words)) << 12
            | u64::from(fault::ADDR_HI.get(words)) << 44,
        gfx,
        write: fault::WRITE.get(words) != 0,
        retry: fault::RETRY.get(words) != 0,
        not_present: fault::RING_PROT_VALID.is_set(ring),
        no_read: fault::RING_PROT_READ.is_set(ring),
        no_write: fault::RING_PROT_WRITE.is_set(ring),
    })
}
