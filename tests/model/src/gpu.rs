// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The card: its parts, and the routing of BAR accesses to them.

mod faults;
mod reset;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc, nbio_7_9_0 as nbio_regs};
use rkfd_abi::doorbell::{navi10_routes_to_cp, routes_to_cp, MIRROR};
use rkfd_abi::eeprom::TABLE_AT;
use rkfd_abi::psp::ras_block;

use crate::adversary::Adversary;
use crate::chips::{Chip, Generation, XCCS_PER_AID};
use crate::dma::GuestMemory;
use crate::engines::cp::shared::SharedQueues;
use crate::engines::cp::{Cp, WaveReg};
use crate::engines::doorbells::Doorbells;
use crate::engines::firmware::{Firmware, Fw};
use crate::engines::gc::Gc;
use crate::engines::gmc::l2::Caches;
use crate::engines::gmc::placement::{firmware_regions, Placement};
use crate::engines::gmc::{Gmc, Hub};
use crate::engines::hdp::Hdp;
use crate::engines::ih::{Ih, Msix};
use crate::engines::memory::Memory;
use crate::engines::mes::regs::Pipes;
use crate::engines::nbio::requests::Requests;
use crate::engines::nbio::selfring::SelfRing;
use crate::engines::psp::Psp;
use crate::engines::rom::{self, Rom};
use crate::engines::sdma::Sdma;
use crate::engines::smu::eeprom::row;
use crate::engines::smu::fru::Product;
use crate::engines::smu::{self, Smu};
use crate::engines::{athub, df, ih, nbio};
use crate::event;
use crate::knobs::Knobs;
use crate::log::Strict;
use crate::mem::OutOfBlock;
use crate::regs::{declare, late::Late, Ip, RegId, RegisterMap, Slot, Unit};
use crate::strict;
use crate::trace::{Detail, Trace};
use crate::vram::Vram;

pub use faults::fault_entry;

/// Size of the doorbell BAR in bytes.
pub const DOORBELL_BAR: u64 = 2 << 20;

/// A card. Shared by the thread that serves the guest and the engine threads.
pub struct Gpu {
    /// Chip description.
    pub chip: &'static Chip,
    /// Placement of VRAM.
    pub placement: Placement,
    /// Strict log.
    pub strict: Arc<Strict>,
    /// Event log.
    pub trace: Arc<Trace>,
    /// Fault injection.
    pub knobs: Arc<Knobs>,
    /// The adversary, in adversarial mode.
    pub adversary: Option<Arc<Adversary>>,
    /// Guest memory.
    pub dma: Arc<GuestMemory>,
    /// Video memory.
    pub vram: Arc<Vram>,
    /// The host's path to it.
    pub hdp: Hdp,
    /// Flushes of that path which engines have requested.
    pub hdp_requests: Requests,
    /// Interrupt vectors.
    pub msix: Arc<Msix>,
    /// Doorbells that the GPU itself writes.
    pub selfring: Arc<SelfRing>,
    /// Address translation.
    pub gmc: Arc<Gmc>,
    /// Interrupt ring.
    pub ih: Ih,
    /// XCCs, by instance.
    pub xccs: Vec<Xcc>,
    /// Doorbells of the command processors.
    pub doorbells: Doorbells,
    /// Queues that several XCCs execute.
    pub shared: SharedQueues,
    /// DMA engines.
    pub sdma: Sdma,
    /// Security processor.
    pub psp: Psp,
    /// The board's ROM.
    pub rom: Rom,
    /// Power firmware.
    pub smu: Smu,
    /// Memory partition mode.
    pub memory: Memory,
    /// Firmware load state.
    pub firmware: Firmware,
    /// Registers.
    pub regs: RegisterMap,
    /// Pending values of registers.
    late: Late,
    boot: Boot,
    /// The card was already booted at start: firmware runs.
    warm: AtomicBool,
    /// Configuration space is to be reset too.
    config_lost: AtomicBool,
    /// The last reset has lost the location of VRAM, as `gmc.fb_lost` demands.
    fb_lost: AtomicBool,
    /// Held during a reset.
    resets: Mutex<()>,
    /// Time at which a mode-1 reset ends, in ns of the trace.
    mode1_end: AtomicU64,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    register_reads: AtomicU64,
    register_writes: AtomicU64,
    doorbells: AtomicU64,
    faults: AtomicU64,
}

/// An accelerator complex: command processor and graphics core.
pub struct Xcc {
    /// Physical instance.
    pub instance: u8,
    /// Command processor.
    pub cp: Cp,
    /// The graphics core around the command processor.
    pub gc: Gc,
    /// Pipes of MES.
    pub mes: Pipes,
}

impl Xcc {
    fn new(chip: &Chip, instance: u8, boot: Boot) -> Self {
        Self {
            instance,
            cp: Cp::new(instance, chip.generation, boot),
            gc: Gc::new(instance, chip),
            mes: Pipes::default(),
        }
    }
}

/// State of a card when the guest starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boot {
    /// After power-on: only boot code runs.
    Cold,
    /// After another driver: the secure OS runs and all firmware is loaded.
    Warm,
}

/// Kinds of reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// Power off and on.
    PowerOn,
    /// Function-level reset. Boot code, secure OS and video memory are not part of the function:
    /// the C driver checks for a secure OS that survived it (`soc15_need_reset_on_init` reads
    /// C2PMSG_81 under passthrough, where the hypervisor has done an FLR).
    Flr,
    /// Mode 1 reset of everything including the PSP, by a message to the SMU. The C driver boots
    /// the card again from the first component on, and treats video memory as lost
    /// (`amdgpu_device_check_vram_lost`).
    Mode1,
}

/// Parameters of a card.
pub struct Options {
    /// Chip.
    pub chip: &'static Chip,
    /// Bytes of video memory.
    pub vram: u64,
    /// Position in an xGMI hive, below `HIVE_GPUS`; `None` for a card alone.
    pub hive_node: Option<u8>,
    /// Bytes at the end of video memory that the VBIOS reserves, below the size of that; `None` for
    /// a card of gfx9 without a VBIOS. The VBIOS of gfx12 has its own number.
    pub vbios: Option<u64>,
    /// Bytes of video memory that the firmware of gfx12 uses besides those at the end.
    pub firmware_memory: Option<u64>,
    /// Addresses in video memory whose rows the EEPROM of a card of gfx9 lists as bad; if there are
    /// none, the card has neither that EEPROM nor RAS.
    pub bad_pages: Vec<u64>,
    /// Product data in the FRU EEPROM of the board; `None` for a board without one.
    pub product: Option<Product>,
    /// Boot state.
    pub boot: Boot,
    /// Strict log.
    pub strict: Arc<Strict>,
    /// Event log.
    pub trace: Arc<Trace>,
    /// Fault injection.
    pub knobs: Arc<Knobs>,
    /// Adversarial mode.
    pub adversary: Option<Arc<Adversary>>,
    /// Whether the guest's processors cache all of its memory.
    pub cached_memory: bool,
}

impl Gpu {
    /// Returns a card in power-on state.
    pub fn new(options: Options) -> io::Result<Arc<Self>> {
        let Options {
            chip,
            vram,
            hive_node,
            vbios,
            firmware_memory,
            bad_pages,
            product,
            boot,
            strict,
            trace,
            knobs,
            adversary,
            cached_memory,
        } = options;
        let placement = Placement::new(chip, vram, hive_node);
        // Of the blocks only the memory has RAS.
        let ras = u32::from(!bad_pages.is_empty()) << ras_block::UMC;
        let regs =
            RegisterMap::build(chip, &declare::all(chip, vram, ras)).map_err(io::Error::other)?;
        let firmware = firmware_regions(chip, vram, vbios, firmware_memory);
        let rom = Rom::new(chip, vram, vbios);
        let bad = bad_pages.iter().flat_map(|address| row(*address, vram));
        let bad = bad.collect();
        // Without a VBIOS, which names the address, it is the usual one.
        let bad_pages_at = match vbios {
            Some(_) => rom::BAD_PAGES_AT,
            None => TABLE_AT,
        };
        let smu = Smu::new(bad_pages_at, &bad_pages, product.as_ref(), &knobs);
        let vram = Arc::new(Vram::new(vram)?);
        let dma = Arc::new(GuestMemory::default());
        let msix = Arc::new(Msix::default());
        let selfring = Arc::new(SelfRing::default());
        let l2 = adversary.as_ref().map(|adversary| {
            Arc::new(Caches::new(
                strict.clone(),
                vram.clone(),
                dma.clone(),
                adversary.clone(),
                [Ip::Gc, Ip::Mmhub].map(|ip| chip.span(ip).into()),
            ))
        });
        let gmc = Gmc::new(
            strict.clone(),
            trace.clone(),
            vram.clone(),
            dma.clone(),
            selfring.clone(),
            chip,
            placement,
        );
        let gmc = gmc
            .with_adversary(adversary.clone())
            .with_knobs(knobs.clone())
            .with_l2(l2.clone())
            .with_firmware_regions(firmware)
            .with_bad_pages(bad)
            .with_cached_memory(cached_memory);
        let gmc = Arc::new(gmc);
        let ih = Ih::new(
            chip.generation,
            strict.clone(),
            trace.clone(),
            knobs.clone(),
            gmc.clone(),
            dma.clone(),
            msix.clone(),
        )
        .in_mode(adversary.is_some());
        let gpu = Arc::new(Self {
            chip,
            placement,
            strict,
            trace,
            knobs,
            dma,
            hdp: Hdp::new(vram.clone(), adversary.as_ref(), l2.as_ref()),
            hdp_requests: Requests::new(adversary.clone()),
            vram,
            msix,
            selfring,
            gmc,
            ih,
            xccs: chip
                .instances(Ip::Gc)
                .map(|n| Xcc::new(chip, n, boot))
                .collect(),
            doorbells: Doorbells::new("cp", chip.instances(Ip::Gc).count()),
            shared: SharedQueues::default(),
            sdma: Sdma::new(chip, boot),
            psp: Psp::default(),
            rom,
            smu,
            memory: Memory::default(),
            firmware: Firmware::default(),
            regs,
            late: Late::new(adversary.clone()),
            adversary,
            boot,
            warm: AtomicBool::new(boot == Boot::Warm),
            config_lost: AtomicBool::new(false),
            fb_lost: AtomicBool::new(false),
            resets: Mutex::default(),
            mode1_end: AtomicU64::new(0),
            counters: Counters::default(),
        });
        gpu.firmware.reset(gpu.is_warm());
        gpu.boot(Reset::PowerOn);
        Ok(gpu)
    }

    /// Returns whether the card was already booted at start, and not reset to power-on state since.
    pub fn is_warm(&self) -> bool {
        self.warm.load(Ordering::Acquire)
    }

    /// Returns the XCC of that physical instance.
    pub fn xcc(&self, instance: u8) -> Option<&Xcc> {
        self.xccs.iter().find(|xcc| xcc.instance == instance)
    }

    /// Returns whether the RLC of an XCC runs: without it safe mode requests are not acknowledged.
    pub fn rlc_runs(&self, xcc: u8) -> bool {
        let enabled = |xcc: &Xcc| xcc.gc.rlc_enabled(self);
        self.firmware.loaded(Fw::Rlc(xcc)) && self.xcc(xcc).is_some_and(enabled)
    }

    /// Makes the command processors rescan their queues.
    pub fn rescan(&self) {
        self.xccs.iter().for_each(|xcc| xcc.cp.rescan());
    }

    /// Returns the XCCs of the partition of `xcc`, by logical number (`CP_HYP_XCP_CTL`).
    pub fn partition(&self, xcc: u8) -> &[Xcc] {
        let position = self.xccs.iter().position(|x| x.instance == xcc);
        let Some(position) = position else {
            return &[];
        };
        let alone = &self.xccs[position..=position];
        if self.chip.generation == Generation::Gfx12 {
            return alone;
        }
        let slot = self.regs.of(self.chip, Ip::Gc, xcc, gc::regCP_HYP_XCP_CTL);
        let value = slot.map_or(0, Slot::get);
        let first = position.checked_sub(gc::CP_HYP_XCP_CTL__VIRTUAL_XCC_ID.get(value) as usize);
        let count = gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.get(value) as usize;
        first
            .and_then(|first| self.xccs.get(first..first + count))
            .filter(|members| members.iter().any(|x| x.instance == xcc))
            .unwrap_or(alone)
    }

    /// Returns the number of XCCs of each partition in the mode that the PSP has set.
    pub fn partition_size(&self) -> usize {
        let status = nbio_regs::regBIF_BX_PF0_PARTITION_COMPUTE_STATUS;
        let field = nbio_regs::BIF_BX_PF0_PARTITION_COMPUTE_STATUS__PARTITION_MODE;
        let slot = self.regs.by_id(self.chip, Ip::Nbif, status);
        match field.get(slot.map_or(0, Slot::get)) as usize {
            mode @ 0..=3 if self.chip.generation == Generation::Gfx9 => {
                self.xccs.len() / (mode + 1)
            }
            _ => 1,
        }
    }

    /// Returns the physical instance of the SDMA engine with a number in the partition of `xcc`:
    /// each partition has the same number of them (`__aqua_vanjaram_get_xcp_ip_info`).
    pub fn sdma_engine(&self, xcc: u8, number: u8) -> Option<u8> {
        let members = self.partition(xcc);
        let before = self.xccs.iter().position(|x| {
            let first = members.first().map(|first| first.instance);
            Some(x.instance) == first
        })?;
        let count = self.sdma.instances().len() * members.len() / self.xccs.len();
        let first = before / members.len() * count;
        let own = self.sdma.instances().get(first..first + count)?;
        own.get(usize::from(number)).copied()
    }

    /// Returns whether the scheduler firmware of `xcc` programs the blocks of an AID for its
    /// partition: the first XCC of the partition on the AID does, and for AIDs without an XCC the
    /// first XCC of the partition. Without a scheduler, the driver does it for every XCC
    /// (`kgd_gfx_v9_4_3_set_pasid_vmid_mapping`); in mode CPX two partitions with VMIDs of their
    /// own share an AID (`kgd2kfd_device_init`).
    pub fn serves(&self, xcc: u8, aid: u8) -> bool {
        let on = |x: &&Xcc| x.instance / XCCS_PER_AID == aid;
        let members = self.partition(xcc);
        let server = members.iter().find(on).or_else(|| {
            let bare = !self.xccs.iter().any(|x| on(&x));
            members.first().filter(|_| bare)
        });
        server.is_some_and(|server| server.instance == xcc)
    }

    /// Returns the AIDs that the scheduler firmware of `xcc` programs.
    pub fn served(&self, xcc: u8) -> impl Iterator<Item = u8> + '_ {
        self.chip
            .instances(Ip::Mmhub)
            .filter(move |aid| self.serves(xcc, *aid))
    }

    /// Returns the dword address that an engine of `xcc` accesses: addresses of XCC 0's registers
    /// are those of its own (`soc15.c`, `NORMALIZE_XCC_REG_OFFSET`).
    pub fn local(&self, xcc: u8, addr: u32) -> u32 {
        let same = |seg| {
            let (first, own) = (
                self.chip.base(Ip::Gc, 0, seg)?,
                self.chip.base(Ip::Gc, xcc, seg)?,
            );
            let own = addr.checked_sub(first)?.checked_add(own)?;
            let slot = self.regs.get(own)?;
            (slot.ip == Ip::Gc && slot.instance == xcc && slot.id.seg == seg).then_some(own)
        };
        (0..=1).find_map(same).unwrap_or(addr)
    }

    /// Takes the flag that configuration space was reset.
    pub fn take_config_lost(&self) -> bool {
        self.config_lost.swap(false, Ordering::AcqRel)
    }

    /// Returns the 100 MHz reference clock.
    pub fn clock(&self) -> u64 {
        self.trace.now() / 10
    }

    /// Returns the counters as one line of `key=value`.
    pub fn stats(&self) -> String {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let (entries, messages, retries) = self.ih.counts();
        format!(
            "register_reads={} register_writes={} doorbells={} vm_faults={} ih_entries={entries} \
             ih_messages={messages} retry_faults={retries} strict={} strict_expected={}",
            get(&self.counters.register_reads),
            get(&self.counters.register_writes),
            get(&self.counters.doorbells),
            get(&self.counters.faults),
            self.strict.unexpected(),
            self.strict.expected_count(),
        )
    }

    /// Handles a read of the register BAR.
    pub fn bar_reg_read(&self, addr: u32) -> u32 {
        self.counters.register_reads.fetch_add(1, Ordering::Relaxed);
        match nbio::remapped(self, addr) {
            Some(_) => 0,
            None => self.reg_read(addr),
        }
    }

    /// Handles a write to the register BAR.
    pub fn bar_reg_write(&self, addr: u32, value: u32) {
        self.counters
            .register_writes
            .fetch_add(1, Ordering::Relaxed);
        match nbio::remapped(self, addr) {
            Some(what) => nbio::remapped_write(self, what),
            None => {
                if let Some(slot) = self.regs.on_die(0, addr) {
                    if slot.unit == Unit::MmHub {
                        let hub = Hub::Mm(slot.instance);
                        self.gmc.check_host_write(hub, slot.id);
                    }
                }
                self.reg_write(addr, value);
            }
        }
    }

    /// Reads a register by its dword address.
    pub fn reg_read(&self, addr: u32) -> u32 {
        self.reg_read_on(0, addr)
    }

    /// Reads a register of a die by its dword address.
    pub fn reg_read_on(&self, die: u8, addr: u32) -> u32 {
        let Some(slot) = self.regs.on_die(die, addr) else {
            strict!(
                self.strict,
                "regs",
                "read of undeclared register {addr:#x}{}",
                of_die(die)
            );
            return 0;
        };
        self.late.settle(slot);
        self.check_power(slot);
        let value = match slot.unit {
            Unit::Cp | Unit::Gc | Unit::Mes => self.xcc_read(slot),
            Unit::GfxHub => self.gmc.reg_read(Hub::Gfx(slot.instance), slot.id),
            Unit::MmHub => self.gmc.reg_read(Hub::Mm(slot.instance), slot.id),
            Unit::Ih => self.ih.reg_read(slot.id),
            Unit::Nbio => nbio::reg_read(self, slot),
            Unit::Store | Unit::Hdp | Unit::Athub | Unit::Df => slot.get(),
            Unit::Mp => self.psp.reg_read(self, slot),
            Unit::Rom => self.rom.reg_read(self, slot).unwrap_or(0),
            Unit::Sdma => self.sdma.reg_read(slot),
        };
        if self.trace.detail_enabled(Detail::Registers) {
            event!(
                self.trace,
                "reg",
                "read",
                "{}={value:#x} addr={addr:#x}{}",
                slot.label(),
                of_die(die)
            );
        }
        value
    }

    /// Reports an access during a mode-1 reset, and one to the graphics core of gfx12 before the
    /// RLC has its firmware: it has no power. SPM_MC_CNTL is of the RLC itself
    /// (`gfx_v12_0_update_spm_vmid`, before the PSP).
    fn check_power(&self, slot: &Slot) {
        const OF_RLC: RegId =
            RegId::new(gc12::regRLC_SPM_MC_CNTL.seg, gc12::regRLC_SPM_MC_CNTL.off);
        let core = matches!(slot.ip, Ip::Gc | Ip::Sdma) && slot.id != OF_RLC;
        let dark = self.chip.generation == Generation::Gfx12;
        if core && dark && !self.firmware.loaded(Fw::Rlc(0)) {
            strict!(
                self.strict,
                "regs",
                "access to {} before the autoload: the graphics core has no power",
                slot.name
            );
        }
        if slot.unit != Unit::Mp && self.trace.now() < self.mode1_end.load(Ordering::Acquire) {
            strict!(
                self.strict,
                "regs",
                "access to {} during a mode-1 reset",
                slot.name
            );
        }
    }

    /// Writes a register by its dword address.
    pub fn reg_write(&self, addr: u32, value: u32) {
        self.reg_write_on(0, addr, value);
    }

    /// Writes a register of a die by its dword address.
    pub fn reg_write_on(&self, die: u8, addr: u32, value: u32) {
        let Some(slot) = self.regs.on_die(die, addr) else {
            strict!(
                self.strict,
                "regs",
                "write of {value:#x} to undeclared register {addr:#x}{}",
                of_die(die)
            );
            return;
        };
        self.check_power(slot);
        if self.trace.detail_enabled(Detail::Registers) {
            event!(
                self.trace,
                "reg",
                "write",
                "{}={value:#x} addr={addr:#x}{}",
                slot.label(),
                of_die(die)
            );
        }
        match slot.unit {
            Unit::Cp | Unit::Gc | Unit::Mes => self.xcc_write(slot, value),
            Unit::GfxHub => self.gmc.reg_write(Hub::Gfx(slot.instance), slot.id, value),
            Unit::MmHub => self.gmc.reg_write(Hub::Mm(slot.instance), slot.id, value),
            Unit::Ih => {
                ih::check_route(self, slot.id, value);
                self.ih.reg_write(slot.id, value);
            }
            Unit::Nbio => nbio::reg_write(self, slot, value),
            Unit::Athub => athub::reg_write(self, slot, value),
            Unit::Df => df::reg_write(self, slot, value),
            Unit::Mp if smu::reg_write(self, slot, value) => {}
            Unit::Mp => self.psp.reg_write(self, slot, value),
            Unit::Rom => {
                self.rom.reg_write(self, slot, value);
            }
            Unit::Sdma => self.sdma.reg_write(self, slot, value),
            Unit::Store | Unit::Hdp => {
                self.store(slot, value);
                let gfx9 = self.chip.generation == Generation::Gfx9;
                if let (true, Ip::Mmhub, Some(l2)) = (gfx9, slot.ip, self.gmc.l2()) {
                    l2.hub_register(slot.instance, slot.id, value);
                }
            }
        }
    }

    /// Reads a register of an XCC, or the clock of gfx12 outside it.
    fn xcc_read(&self, slot: &Slot) -> u32 {
        let Some(xcc) = self.xcc(slot.instance) else {
            return 0;
        };
        if let (Unit::Cp, Some(reg)) = (slot.unit, WaveReg::new(self.chip.generation, slot.id)) {
            let (number, se) = (xcc.cp.xcc(), xcc.gc.selected_engine());
            let (sel, all) = (xcc.gc.selector(), self.xccs.iter());
            return match reg {
                WaveReg::Status => all.fold(0, |map, x| map | x.cp.wave_queues(number, se)),
                WaveReg::Count(n) => all.map(|x| x.cp.wave_count(sel, n, number, se)).sum(),
            };
        }
        match slot.unit {
            Unit::Cp => xcc.cp.reg_read(self, xcc.gc.selector(), slot.id),
            Unit::Mes => xcc.mes.reg_read(&self.strict, xcc.gc.selector(), slot.id),
            _ => xcc.gc.reg_read(self, slot),
        }
    }

    fn xcc_write(&self, slot: &Slot, value: u32) {
        let Some(xcc) = self.xcc(slot.instance) else {
            return;
        };
        match slot.unit {
            // Read-only.
            Unit::Cp if WaveReg::new(self.chip.generation, slot.id).is_some() => {}
            Unit::Cp => xcc.cp.reg_write(self, xcc.gc.selector(), slot.id, value),
            Unit::Mes => {
                let missing = |n| {
                    let pieces = [Fw::Mes(n), Fw::MesData(n)];
                    !pieces.iter().all(|fw| self.firmware.loaded(*fw))
                };
                xcc.mes.set_missing([missing(0), missing(1)]);
                xcc.mes
                    .reg_write(&self.strict, xcc.gc.selector(), slot.id, value);
                if xcc.mes.runs(0) || xcc.mes.runs(1) {
                    xcc.cp.enable_doorbells();
                }
                xcc.cp.rescan();
            }
            _ => xcc.gc.reg_write(self, slot, value),
        }
    }

    /// Sets a register to the response of firmware: at once, or later in adversarial mode.
    pub fn respond(&self, slot: &Slot, value: u32) {
        self.late.set(slot, value, Adversary::response_time);
    }

    /// The same for the RLC, which is slow.
    pub fn respond_slowly(&self, slot: &Slot, value: u32) {
        self.late.set(slot, value, Adversary::slow_time);
    }

    /// Returns whether a response to be set by [`respond`](Self::respond) is still to come.
    pub fn awaits_response(&self, slot: &Slot) -> bool {
        self.late.is_pending(slot)
    }

    /// Stores to a plain register; changing read-only bits is a violation.
    pub fn store(&self, slot: &Slot, value: u32) {
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

    /// Stores to VRAM for the host.
    pub fn store_vram(&self, offset: u64, data: &[u8]) -> Result<(), OutOfBlock> {
        self.hdp.write(offset, data)?;
        if self.hdp.is_buffered() && offset % 8 == 0 {
            for (at, word) in (offset..).step_by(8).zip(data.chunks_exact(8)) {
                let word = word.try_into().map_or(0, u64::from_le_bytes);
                let vmids = |xcc| self.xcc(xcc).map_or(0, |xcc| xcc.cp.vmids());
                self.gmc.check_link(&self.hdp, at, word, vmids);
            }
        }
        Ok(())
    }

    /// Handles a write to the doorbell BAR, of the guest or of the GPU itself.
    pub fn doorbell(&self, offset: u64, value: u64, width: u8) {
        let index = (offset / 4) as u32;
        event!(
            self.trace,
            "nbio",
            "doorbell",
            "index={index:#x} value={value:#x} width={width}"
        );
        self.counters.doorbells.fetch_add(1, Ordering::Relaxed);
        if !nbio::doorbells_enabled(self) {
            self.lost_doorbell(index, value, "the doorbell aperture is not enabled");
            return;
        }
        let to_cp = match self.chip.generation {
            Generation::Gfx9 => routes_to_cp(index / 2),
            Generation::Gfx12 => navi10_routes_to_cp(index / 2),
        };
        if to_cp && !nbio::opens_cp_ports(self) {
            self.lost_doorbell(index, value, "not routed to the command processors");
        } else if to_cp {
            nbio::check_fences(self);
            // It reaches the command processors of all XCCs.
            let mut disabled = 0;
            for xcc in &self.xccs {
                if !xcc.cp.doorbell(index, value, width) {
                    disabled += 1;
                }
            }
            if disabled < self.xccs.len() {
                (0..disabled).for_each(|_| self.doorbells.unmapped(index, value));
            } else {
                self.lost_doorbell(index, value, "CP_PQ_STATUS.DOORBELL_ENABLE is 0");
            }
        } else if !self.ih.owns(index) {
            self.sdma_doorbell(index, value, width);
        } else if nbio::routes_to_ih(self, index) {
            self.ih.doorbell(index, value as u32);
        } else {
            self.lost_doorbell(index, value, "not routed to the interrupt handler");
        }
    }

    fn sdma_doorbell(&self, index: u32, value: u64, width: u8) {
        if !self.routes_to_sdma(index) {
            self.lost_doorbell(index, value, "not routed to its SDMA engine");
        } else if !self.sdma.doorbell(self, index, value, width) {
            strict!(
                self.strict,
                "nbio",
                "doorbell {index:#x} = {value:#x}: outside the command processor's part, and \
                 neither an IH ring nor an SDMA ring has this doorbell"
            );
        }
    }

    /// Drops a doorbell that reaches no engine. Those of the first page belong to the kernel, and
    /// are reported. A process may ring its own at any time, also while the card is reset.
    fn lost_doorbell(&self, index: u32, value: u64, why: &str) {
        if index / 2 < MIRROR {
            strict!(
                self.strict,
                "nbio",
                "doorbell {index:#x} = {value:#x}: {why}"
            );
        } else {
            event!(
                self.trace,
                "nbio",
                "doorbell_lost",
                "index={index:#x} value={value:#x} {why}"
            );
        }
    }

    /// Returns whether a doorbell of an SDMA engine reaches it.
    fn routes_to_sdma(&self, index: u32) -> bool {
        let engine = self.sdma.engine_of(index);
        engine.is_none_or(|n| nbio::routes_to_sdma(self, n as u8, index))
    }

    /// Assigns a VMID to a process, as the scheduler firmware of `xcc` does: page-table roots,
    /// VMID-to-PASID tables.
    pub fn map_vmid(&self, xcc: u8, vmid: u8, pasid: u16, page_table_base: u64) {
        let served: Vec<u8> = self.served(xcc).collect();
        let memory = served.iter().map(|aid| Hub::Mm(*aid));
        for hub in [Hub::Gfx(xcc)].into_iter().chain(memory) {
            self.gmc.map_vmid(hub, vmid, page_table_base);
            self.ih.map_pasid(hub, vmid, pasid);
        }
        if self.chip.generation == Generation::Gfx9 {
            athub::map_pasid(self, vmid, pasid);
        }
    }
}

/// Returns the die of a register for the logs; nothing for die 0.
fn of_die(die: u8) -> String {
    match die {
        0 => String::new(),
        n => format!(" die={n}"),
    }
}
