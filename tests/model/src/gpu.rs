// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The card: its parts, and the way of an access from a BAR to the part that answers.

use std::io;
use std::sync::Arc;

use crate::chips::Chip;
use crate::dma::GuestMemory;
use crate::engines::cp::Cp;
use crate::engines::gmc::{Gmc, Hub, VmFault};
use crate::engines::ih::{Entry, Ih, Msix};
use crate::event;
use crate::knobs::Knobs;
use crate::log::Strict;
use crate::regs::{RegisterMap, Selector, Unit};
use crate::strict;
use crate::trace::Trace;
use crate::vram::Vram;

/// Size of the doorbell BAR.
pub const DOORBELL_BAR: u64 = 2 << 20;
/// Size of the register BAR.
pub const REGISTER_BAR: u64 = 2 << 20;

/// A card. Shared by the thread that serves the guest and the engine threads.
pub struct Gpu {
    /// What it is.
    pub chip: &'static Chip,
    /// Rule violations of the guest.
    pub strict: Arc<Strict>,
    /// Event log.
    pub trace: Arc<Trace>,
    /// Fault injection.
    pub knobs: Arc<Knobs>,
    /// Guest memory.
    pub dma: Arc<GuestMemory>,
    /// Video memory.
    pub vram: Arc<Vram>,
    /// Interrupt vectors.
    pub msix: Arc<Msix>,
    /// Address translation.
    pub gmc: Arc<Gmc>,
    /// Interrupt ring.
    pub ih: Ih,
    /// Command processor.
    pub cp: Cp,
    /// Registers.
    pub regs: RegisterMap,
}

/// What a card is made from.
pub struct Options {
    /// Which chip.
    pub chip: &'static Chip,
    /// Bytes of video memory.
    pub vram: u64,
    /// Where violations go.
    pub strict: Arc<Strict>,
    /// Where events go.
    pub trace: Arc<Trace>,
    /// Fault injection.
    pub knobs: Arc<Knobs>,
}

impl Gpu {
    /// A card in power-on state.
    pub fn new(options: Options) -> io::Result<Arc<Self>> {
        let Options {
            chip,
            vram,
            strict,
            trace,
            knobs,
        } = options;
        let vram = Arc::new(Vram::new(vram)?);
        let dma = Arc::new(GuestMemory::default());
        let msix = Arc::new(Msix::default());
        let gmc = Arc::new(Gmc::new(
            strict.clone(),
            trace.clone(),
            vram.clone(),
            dma.clone(),
            chip.fb_location,
        ));
        let ih = Ih::new(
            strict.clone(),
            trace.clone(),
            knobs.clone(),
            gmc.clone(),
            dma.clone(),
            msix.clone(),
        );
        let regs = RegisterMap::build(chip, []).map_err(io::Error::other)?;
        Ok(Arc::new(Self {
            chip,
            strict,
            trace,
            knobs,
            dma,
            vram,
            msix,
            gmc,
            ih,
            cp: Cp::default(),
            regs,
        }))
    }

    /// Power-on state of everything but video memory, as a function-level reset leaves it.
    pub fn reset(&self) {
        event!(self.trace, "gpu", "reset");
        self.cp.reset(self);
        self.ih.reset();
        self.gmc.reset();
        self.regs.reset();
    }

    /// Reads a register by its dword address.
    pub fn reg_read(&self, addr: u32) -> u32 {
        let Some(slot) = self.regs.get(addr) else {
            strict!(self.strict, "regs", "read of undeclared register {addr:#x}");
            return 0;
        };
        let value = match slot.unit {
            Unit::Cp => self.cp.reg_read(self, self.selector(), slot.id),
            Unit::GfxHub => self.gmc.reg_read(Hub::Gfx, slot.id),
            Unit::MmHub => self.gmc.reg_read(Hub::Mm, slot.id),
            Unit::Ih => self.ih.reg_read(slot.id),
            _ => slot.get(),
        };
        if self.trace.wants_registers() {
            event!(
                self.trace,
                "reg",
                "read",
                "{}={value:#x} addr={addr:#x}",
                slot.name
            );
        }
        value
    }

    /// Writes a register by its dword address.
    pub fn reg_write(&self, addr: u32, value: u32) {
        let Some(slot) = self.regs.get(addr) else {
            strict!(
                self.strict,
                "regs",
                "write of {value:#x} to undeclared register {addr:#x}"
            );
            return;
        };
        if self.trace.wants_registers() {
            event!(
                self.trace,
                "reg",
                "write",
                "{}={value:#x} addr={addr:#x}",
                slot.name
            );
        }
        match slot.unit {
            Unit::Cp => self.cp.reg_write(self, self.selector(), slot.id, value),
            Unit::GfxHub => self.gmc.reg_write(Hub::Gfx, slot.id, value),
            Unit::MmHub => self.gmc.reg_write(Hub::Mm, slot.id, value),
            Unit::Ih => self.ih.reg_write(slot.id, value),
            _ => {
                let refused = slot.write(value);
                if refused != 0 {
                    strict!(
                        self.strict,
                        "regs",
                        "{}: {value:#x} changes read-only bits {refused:#x}",
                        slot.name
                    );
                }
            }
        }
    }

    /// The bank that `GRBM_GFX_CNTL` selects.
    pub fn selector(&self) -> Selector {
        Selector::default()
    }

    /// A write to the doorbell BAR.
    pub fn doorbell(&self, offset: u64, value: u64, width: u8) {
        let index = (offset / 4) as u32;
        event!(
            self.trace,
            "doorbell",
            "ring",
            "index={index:#x} value={value:#x} width={width}"
        );
        if self.ih.doorbell(index, value as u32) {
            return;
        }
        self.cp.doorbell(self, index, value, width);
    }

    /// Reports a failed access of `client` (the CID of the fault status register: 4 CPF, 5 CPC,
    /// 8 TCP, 9 SQC instruction, 10 SQC data): status registers, interrupt. True if the access
    /// would go on with the default page.
    pub fn raise_fault(&self, fault: &VmFault, client: u8) -> bool {
        let latched = self.gmc.latch(fault, client);
        event!(
            self.trace,
            "gmc",
            "fault",
            "hub={:?} vmid={} va={:#x} access={:?} kind={:?} client={client}",
            fault.hub,
            fault.vmid,
            fault.va,
            fault.access,
            fault.kind
        );
        if latched.interrupt {
            let write = matches!(
                fault.access,
                crate::engines::gmc::Access::Write | crate::engines::gmc::Access::Atomic
            );
            let mm_hub = fault.hub == Hub::Mm;
            self.ih.post(Entry {
                client_id: if mm_hub { 0x12 } else { 0x1b },
                source_id: 0,
                ring_id: (latched.permission << 3) as u8,
                vmid: fault.vmid,
                mm_hub,
                node_id: if mm_hub { 0 } else { 1 },
                ctx: [
                    (fault.va >> 12) as u32,
                    (fault.va >> 44) as u32 & 0xf | u32::from(write) << 5,
                    0,
                    0,
                ],
            });
        }
        latched.default_page
    }

    /// What scheduler firmware does when it gives a VMID to a process: translation roots,
    /// VMID-to-PASID tables of the interrupt handler.
    pub fn map_vmid(&self, vmid: u8, pasid: u16, page_table_base: u64) {
        self.gmc.map_vmid(vmid, page_table_base);
        self.ih.map_pasid(vmid, pasid);
    }
}
