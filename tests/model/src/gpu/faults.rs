// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Translation faults of the card: reports, interrupts, and whether an access is retried.

use std::sync::atomic::Ordering;

use gpu_regs::gc_9_4_3 as gc;
use rkfd_abi::ih::{client, fault, gfx12, soc21, source};

use super::{Gpu, Xcc};
use crate::chips::Generation;
use crate::engines::gmc::hub::permission;
use crate::engines::gmc::{Access, FaultKind, Hub, VmFault};
use crate::engines::ih::{aid_node, xcc_node, Entry};
use crate::{event, strict};

impl Gpu {
    /// Reports a failed access of client `cid` (CID of the fault status register: 4 CPF, 5 CPC, 8
    /// TCP, 9 SQC instruction, 10 SQC data; SDMA engine n is 256 + n of the AID's memory hub on
    /// gfx9, 13 + n of the graphics hub on gfx12): status registers, interrupt. Returns whether the
    /// access continues with the default page.
    pub fn raise_fault(&self, fault: &VmFault, cid: u16) -> bool {
        // Memory of processes is freed when the card is cut off, while waves run.
        if fault.is_refused() || fault.vmid != 0 && !self.dma.is_master() {
            event!(self.trace, "gmc", "refused", "{fault} cid={cid}");
            return false;
        }
        let latched = self.gmc.latch(fault, cid);
        self.counters.faults.fetch_add(1, Ordering::Relaxed);
        event!(
            self.trace,
            "gmc",
            "fault",
            "hub={:?} vmid={} va={:#x} access={:?} kind={:?} cid={cid}",
            fault.hub,
            fault.vmid,
            fault.va,
            fault.access,
            fault.kind
        );
        // The kernel's own VMID: a bug of the driver, or of its page tables.
        let whose = if fault.vmid == 0 {
            "kernel fault"
        } else {
            "fault"
        };
        strict!(self.strict, "gmc", "{whose} of client {cid}: {fault}");
        if latched.interrupt {
            let entry = fault_entry(self.chip.generation, fault, latched.permission);
            self.ih.post(entry);
        }
        latched.default_page
    }

    /// Raises the interrupt of an access that is retried. Nothing is latched.
    pub fn raise_retry(&self, fault: &VmFault, cid: u16) {
        let access = match fault.access {
            Access::Write | Access::Atomic => permission::WRITE,
            Access::Read => permission::READ,
            Access::Execute => permission::EXECUTE,
        };
        let valid = matches!(fault.kind, FaultKind::Pde(_) | FaultKind::NotPresent);
        let permission = access | if valid { permission::VALID } else { 0 };
        event!(self.trace, "gmc", "retry", "{fault} cid={cid}");
        self.ih
            .post_retry(fault_entry(self.chip.generation, fault, permission));
    }

    /// Returns whether a VMID of an XCC waits for faults to be resolved: `SH_MEM_CONFIG`.
    pub fn waits_for_faults(&self, xcc: &Xcc, vmid: u8) -> bool {
        let config = xcc.gc.vmid_reg(vmid, gc::regSH_MEM_CONFIG);
        self.chip.generation == Generation::Gfx9
            && vmid != 0
            && !gc::SH_MEM_CONFIG__RETRY_DISABLE.is_set(config)
    }

    /// The same for a hub: a memory hub has the VMIDs of the XCCs that it serves.
    pub fn hub_waits_for_faults(&self, hub: Hub, vmid: u8) -> bool {
        self.xccs.iter().any(|xcc| {
            let is_of_hub = match hub {
                Hub::Gfx(n) => xcc.instance == n,
                Hub::Mm(aid) => self.serves(xcc.instance, aid),
            };
            is_of_hub && self.waits_for_faults(xcc, vmid)
        })
    }
}

/// Returns the interrupt entry of a translation fault.
pub fn fault_entry(generation: Generation, f: &VmFault, permission: u32) -> Entry {
    let (client_id, source_id, node_id) = match (generation, f.hub) {
        (Generation::Gfx9, Hub::Mm(n)) => (client::VMC, source::VM_FAULT, aid_node(n)),
        (Generation::Gfx9, Hub::Gfx(n)) => (client::UTCL2, source::VM_FAULT, xcc_node(n)),
        (Generation::Gfx12, Hub::Mm(_)) => (soc21::VMC, source::VM_FAULT, 0),
        (Generation::Gfx12, Hub::Gfx(_)) => (soc21::GFX, gfx12::VM_FAULT, 0),
    };
    let access = match f.access {
        Access::Read => fault::READ,
        Access::Execute => fault::EXE,
        Access::Write | Access::Atomic => fault::WRITE,
    };
    Entry {
        client_id: client_id as u8,
        source_id: source_id as u8,
        // Bits 3 and up are "not valid", "not readable", "not writable".
        ring_id: (permission << 3) as u8,
        vmid: f.vmid,
        mm_hub: matches!(f.hub, Hub::Mm(_)),
        node_id,
        ctx: [
            (f.va >> 12) as u32,
            fault::ADDR_HI.field.put((f.va >> 44) as u32 & 0xf) | access.field.mask,
            0,
            0,
        ],
    }
}
