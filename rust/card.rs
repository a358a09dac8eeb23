// SPDX-License-Identifier: GPL-2.0

//! The card, one PCI device: registers, discovery, VRAM, GART, memory hubs, interrupt ring,
//! doorbell BAR and PSP; everything below the rings.
//!
//! Processes and open files keep a card by `Arc<Card>`, which may outlive the binding.
//! [`Card::mmio`] and everything built on it returns `ENODEV` then.

use kernel::{
    device::{self, Core},
    new_mutex,
    page::PAGE_SIZE,
    pci,
    prelude::*,
    sizes::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc,
        Mutex, //
    },
    types::ScopeGuard, //
};
use rkfd_abi::mmio::BAR_REGISTER;

use crate::{
    asic::{
        config::Config,
        discovery::{self, Listed},
        mmio::{EarlyMmio, Mmio},
        partition::{NpsMode, NpsModes},
        vbios::Vbios,
        xcc::XccList,
    },
    hw::{psp::FirmwareVersions, smu::SmuFacts, Generation, McLayout},
    kapi::{
        self,
        dma, //
    },
    trace,
};

pub(crate) mod account;
pub(crate) mod aperture;
pub(crate) mod clear;
pub(crate) mod copy_window;
pub(crate) mod gart;
pub(crate) mod health;
pub(crate) mod hub;
mod identify;
pub(crate) mod ih;
pub(crate) mod limits;
pub(crate) mod memory;
mod page_map;
mod pool;
pub(crate) mod psp;
pub(crate) mod smu;
pub(crate) mod vram;

use aperture::Aperture;
use copy_window::CopyWindows;
use gart::{Buffer, Gart, GartMapping};
use health::{Cause, Health};
use hub::Hub;
use ih::Ih;
use psp::{Psp, PspContext};
use smu::Smu;
use vram::{Vram, VramRange, VramUser};

/// Pages of the GART that BOs of user space may take: half, so that queues, evictions and resets
/// have room.
const WINDOWS: usize = Gart::PAGES / 2;

/// Handles a hang of a card; implemented by the device above it.
pub(crate) trait HangHandler: Send + Sync {
    /// Returns whether the card is going to be reset after a hang.
    fn will_reset(&self) -> bool;

    /// Records the state of the card, which hangs because of `why`. Called with any locks held but
    /// those of the DMA rings.
    fn before_halt(&self, why: &str);

    /// Ends all jobs, notifies processes and schedules a reset. Called once per hang, with any
    /// locks held.
    fn on_hang(&self);
}

/// A card.
#[pin_data]
pub(crate) struct Card {
    pdev: ARef<pci::Device>,
    dma: Arc<dma::Device>,
    id: u32,
    config: Config,
    /// Instances of IP blocks in the discovery table.
    listed: KVec<Listed>,
    xccs: XccList,
    layout: McLayout,
    /// Memory partition modes at the probe; `None` for a card without partitions.
    nps: Option<NpsModes>,
    vbios: Option<Vbios>,
    hub: Arc<Hub>,
    vram: Arc<Vram>,
    gart: Arc<Gart>,
    copy_windows: Arc<CopyWindows>,
    /// A page of VRAM for stray accesses of the hubs.
    scratch: VramRange,
    #[pin]
    doorbells: Aperture,
    mmio_phys: u64,
    hdp_remap: dma::Registers,
    #[pin]
    ih: Ih,
    psp: Pin<KBox<Psp>>,
    /// `None` if the driver does not manage power firmware.
    smu: Option<Pin<KBox<Smu>>>,
    health: Health,
    /// A leaf.
    #[pin]
    hang_handler: Mutex<Option<Arc<dyn HangHandler>>>,
    /// Bytes of system memory in BOs of this card.
    gtt_used: Atomic<u64>,
    /// Pages of the GART that BOs of user space have taken.
    windows: Atomic<usize>,
}

impl Card {
    /// Identifies the device and prepares its memory. Nothing runs on it yet.
    ///
    /// `make_id` returns the gpu_id of the card's first node. `ENODEV` when the card is not
    /// supported, `EINVAL` for a bad discovery table or firmware file; each with a message.
    pub(crate) fn new(
        pdev: &pci::Device<Core<'_>>,
        make_id: impl FnOnce(&Config, &XccList) -> u32,
    ) -> Result<Arc<Self>> {
        let normal: &pci::Device = pdev;
        let mmio_phys = pdev.resource_start(BAR_REGISTER)?;
        let early = EarlyMmio::new(pdev.iomap_region(BAR_REGISTER, c"rkfd/registers")?)?;
        kapi::pci::remove_boot_display(pdev)?;
        let bar = Vram::map_bar(pdev)?;
        let found = discovery::read(pdev, &early, &bar)?;
        let generation = identify::generation(pdev, &found)?;
        let dma = dma::Device::new(pdev, generation.caps.dma_bits)?;

        let mut config = found.config(generation.caps);
        config.pci = identify::pci_info(pdev);
        let window = |nbif: &_| generation.nbio.window(nbif);
        let mmio = early.into_mmio(found.instances()?, found.gc0, window)?;
        config.rev_id = identify::revision(pdev, generation, &mmio)?;
        let xccs = mmio.instances().xccs()?;
        let psp = Psp::new(
            pdev.as_ref(),
            generation.psp,
            &mmio,
            config.num_sdma,
            config.pci.device,
        )?;
        config.mec_fw = psp.versions().mec.version;
        config.sdma_fw = psp.versions().sdma.version;
        config.entries = psp.entries();
        if psp.needs_reset(&mmio)? {
            dev_info!(pdev, "the secure OS is running; resetting the card\n");
            reset(pdev, &mmio, &psp)?;
        }
        if let Some(ras) = generation.ras {
            config.ras_blocks = ras.blocks(&mmio)?;
        }
        let smu = generation.smu.map(Smu::new).transpose()?;
        config.pci_atomics = identify::enable_atomics(pdev, generation, &config)?;
        let nps = identify::nps_modes(pdev, generation, &mmio, || reset(pdev, &mmio, &psp))?;
        let hub = Arc::pin_init(Hub::new(mmio.clone(), generation), GFP_KERNEL)?;
        let layout = generation.gmc.layout(&mmio).inspect_err(|_| {
            dev_err!(
                pdev,
                "the registers of the frame buffer aperture are not valid\n"
            );
        })?;
        let table = match nps {
            Some(_) => discovery::read_memory(pdev, &mmio, &bar, found.vram_size)?,
            None => None,
        };
        let ranges = memory::ranges(
            pdev,
            nps.as_ref(),
            table.as_ref(),
            layout.vram_offset,
            found.vram_size,
        )?;
        let (vbios, reserved) = identify::vbios(pdev, generation, &mmio);
        let size = found.vram_size;
        let vram = Vram::new(pdev, bar, size, ranges, reserved, generation.caps)?;
        config.vram_size = vram.size();
        config.vram_visible = vram.visible();

        let closing = ScopeGuard::new_with_data(mmio.clone(), |mmio| {
            // The probe has failed already: its error is returned.
            let _ = generation.nbio.stop(&mmio);
        });
        hub.open(&layout)?;
        config.board = generation.nbio.board(&mmio)?;
        config.vram_vendor = generation.nbio.vram_vendor(&mmio)?;
        let table = vram.alloc(Gart::TABLE_BYTES, VramUser::Driver)?;
        let gart = Gart::new(hub.clone(), dma.clone(), &layout, table)?;
        let copy_windows = CopyWindows::new(gart.clone())?;
        let scratch = vram.alloc(SZ_4K as u64, VramUser::Driver)?;

        let id = make_id(&config, &xccs);
        let dev: &device::Device = normal.as_ref();
        let remap = mmio_phys + u64::from(generation.caps.hdp_remap);
        let hdp_remap = dma::Registers::new(&dma, pdev, remap, PAGE_SIZE)?;
        let doorbells = Aperture::new(pdev, generation.caps)?;
        let ih = Ih::new(dev, dma.clone(), hub.clone());
        let card = Arc::pin_init(
            try_pin_init!(Self {
                pdev: normal.into(),
                dma,
                id,
                config,
                listed: found.listed,
                xccs,
                layout,
                nps,
                vbios,
                vram,
                gart,
                copy_windows,
                scratch,
                doorbells <- doorbells,
                mmio_phys,
                hdp_remap,
                ih <- ih,
                hub,
                psp,
                smu,
                health: Health::new(),
                hang_handler <- new_mutex!(None, "rkfd_hang_handler"),
                gtt_used: Atomic::new(0),
                windows: Atomic::new(0),
            }),
            GFP_KERNEL,
        )?;
        closing.dismiss();
        Ok(card)
    }

    /// Undoes what [`Card::new`] has done to the bus interface, for a probe that fails before
    /// anything runs.
    pub(crate) fn close_bus(&self) {
        // The error of the probe is returned.
        let _ = self.generation().nbio.stop(self.hub.raw_mmio());
    }

    /// Returns the id of the card, for messages and trace events: the gpu_id of its node in SPX.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Returns the properties of the card.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the instances of IP blocks in the order of the discovery table.
    pub(crate) fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// Returns the memory partition modes; `None` for a card without partitions.
    pub(crate) fn nps(&self) -> Option<&NpsModes> {
        self.nps.as_ref()
    }

    /// Returns the VBIOS, `None` if the card has none.
    pub(crate) fn vbios(&self) -> Option<&Vbios> {
        self.vbios.as_ref()
    }

    /// Reads the memory partition mode, `None` if it is unknown. `ENODEV` when the device is
    /// unplugged.
    pub(crate) fn nps_mode(&self) -> Result<Option<NpsMode>> {
        let modes = self.generation().nbio.nps_modes(self.mmio()?)?;
        Ok(modes.and_then(|modes| modes.current))
    }

    /// Requests a memory partition mode, which the next probe sets by a reset. An error of the PSP.
    pub(crate) fn request_nps_mode(&self, mode: NpsMode) -> Result {
        self.psp.request_nps_mode(&self.psp_context()?, mode)
    }

    /// Returns all XCCs of the card.
    pub(crate) fn xccs(&self) -> &XccList {
        &self.xccs
    }

    /// Returns the generation.
    pub(crate) fn generation(&self) -> &'static Generation {
        self.hub.generation()
    }

    /// Returns the position of VRAM in the address space of VMID 0.
    pub(crate) fn layout(&self) -> &McLayout {
        &self.layout
    }

    /// Returns the PCI device.
    pub(crate) fn pdev(&self) -> &pci::Device {
        &self.pdev
    }

    /// Returns the device, for messages and DMA.
    pub(crate) fn dev(&self) -> &device::Device {
        self.pdev.as_ref()
    }

    /// Returns the registers, see [`Hub::mmio`].
    pub(crate) fn mmio(&self) -> Result<&Mmio> {
        self.hub.mmio()
    }

    /// Returns whether the device is unplugged: the driver was unbound.
    pub(crate) fn is_unplugged(&self) -> bool {
        self.hub.is_unplugged()
    }

    /// Returns the health.
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// Returns whether the card is hung, or under reset by another task.
    pub(crate) fn is_hung(&self) -> bool {
        self.health.is_unusable()
    }

    /// Returns `ENODEV` when the device is unplugged.
    pub(crate) fn check_plugged(&self) -> Result {
        match self.is_unplugged() {
            true => Err(ENODEV),
            false => Ok(()),
        }
    }

    /// Returns `ENODEV` when the device is unplugged, `EIO` when the card is hung or under reset by
    /// another task.
    pub(crate) fn check_usable(&self) -> Result {
        self.check_plugged()?;
        if self.is_hung() {
            return Err(EIO);
        }
        Ok(())
    }

    /// Calls `f` with a usable card. `unusable` if it is not, also for an error of `f` if it is not
    /// afterwards: a reset that begins meanwhile makes all accesses fail.
    pub(crate) fn while_usable<T>(
        &self,
        unusable: Error,
        f: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let check = || self.check_usable().map_err(|_| unusable);
        check()?;
        f().map_err(|e| check().err().unwrap_or(e))
    }

    /// Returns the value of the register at dword `address`, or `None` if user space may not read
    /// it. 0 during a card reset, `ENODEV` when the device is unplugged.
    pub(crate) fn user_register(&self, address: u32) -> Result<Option<u32>> {
        let gfx = self.generation().gfx;
        let read = self
            .hub
            .with_core(|mmio| gfx.user_register(mmio, address))?;
        Ok(read.unwrap_or(Some(0)))
    }

    /// Returns the bytes of system memory of BOs.
    pub(crate) fn gtt_used(&self) -> u64 {
        self.gtt_used.load(Relaxed)
    }

    /// Accounts for `bytes` of system memory of a BO, until [`Card::put_gtt`].
    ///
    /// `ENOMEM` if those of all cards are beyond `limit`, rather than to invoke the OOM killer.
    pub(crate) fn take_gtt(&self, bytes: u64, limit: u64) -> Result {
        account::take_gtt(bytes, limit)?;
        self.gtt_used.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Undoes [`Self::take_gtt`].
    pub(crate) fn put_gtt(&self, bytes: u64) {
        self.gtt_used.fetch_sub(bytes, Relaxed);
        account::put_gtt(bytes);
    }

    /// Counts a page of the GART for a BO of user space, until [`Card::put_window`]. `ENOMEM` when
    /// such BOs have half of the GART.
    pub(crate) fn take_window(&self) -> Result {
        if self.windows.fetch_add(1, Relaxed) >= WINDOWS {
            self.put_window();
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// Undoes [`Self::take_window`].
    pub(crate) fn put_window(&self) {
        self.windows.fetch_sub(1, Relaxed);
    }

    /// Returns the memory hubs.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Returns the VRAM.
    pub(crate) fn vram(&self) -> &Arc<Vram> {
        &self.vram
    }

    /// Returns the GART.
    pub(crate) fn gart(&self) -> &Arc<Gart> {
        &self.gart
    }

    /// Returns the page of VRAM for stray accesses.
    pub(crate) fn scratch(&self) -> &VramRange {
        &self.scratch
    }

    /// Returns the doorbell BAR.
    pub(crate) fn doorbells(&self) -> &Aperture {
        &self.doorbells
    }

    /// Returns the interrupt ring.
    pub(crate) fn ih(&self) -> &Ih {
        &self.ih
    }

    /// Returns the PSP.
    pub(crate) fn psp(&self) -> &Psp {
        &self.psp
    }

    /// Returns the SMU, or `None` if the driver does not manage power firmware.
    pub(crate) fn smu(&self) -> Option<&Smu> {
        self.smu.as_deref()
    }

    /// Returns the properties that power firmware reports; zeroes without an SMU.
    pub(crate) fn smu_facts(&self) -> SmuFacts {
        self.smu
            .as_ref()
            .map_or_else(SmuFacts::default, |smu| smu.facts())
    }

    /// Returns whether the SMU resets a hung SDMA queue with its engine only: both of its firmware
    /// and that of the scheduler must do it (`sdma_v4_4_2_update_reset_mask`).
    pub(crate) fn smu_resets_sdma_queues(&self) -> bool {
        self.smu_facts().resets_sdma
            && self.config().mec_fw >= self.generation().caps.sdma_reset_mec_fw
    }

    /// Returns the resources that the PSP uses. `ENODEV` when the device is unplugged.
    pub(crate) fn psp_context(&self) -> Result<PspContext<'_>> {
        Ok(PspContext {
            dev: self.dev(),
            mmio: self.mmio()?,
            gart: &self.gart,
            in_hive: self.layout.in_hive,
        })
    }

    /// Returns the versions of the firmware that the driver loads.
    pub(crate) fn firmware_versions(&self) -> FirmwareVersions {
        self.psp.versions()
    }

    /// Returns the address that PTEs use for the byte of VRAM at `offset`.
    pub(crate) fn vram_pa(&self, offset: u64) -> u64 {
        self.layout.vram_offset + offset
    }

    /// Returns the address in VMID 0 of the byte of VRAM at `offset`.
    pub(crate) fn vram_mc(&self, offset: u64) -> u64 {
        self.layout.vram_start + offset
    }

    /// Returns the DMA side of the device.
    pub(crate) fn dma(&self) -> &Arc<dma::Device> {
        &self.dma
    }

    /// Maps part of `pages` in VMID 0, see [`Gart::map_pages`].
    pub(crate) fn map_pages(
        &self,
        pages: &impl dma::Runs,
        at: u64,
        len: u64,
    ) -> Result<GartMapping> {
        self.gart.map_pages(pages, at, len)
    }

    /// Returns the GART windows of copies.
    pub(crate) fn copy_windows(&self) -> &Arc<CopyWindows> {
        &self.copy_windows
    }

    /// Allocates a zeroed buffer in system memory, see [`Buffer::system`].
    pub(crate) fn system_buffer(&self, size: usize) -> Result<Buffer> {
        Buffer::system(&self.gart, size, 1)
    }

    /// Returns the GPU clock counter in ticks. 0 during a card reset, `ENODEV` when the device is
    /// unplugged.
    pub(crate) fn clock_counter(&self) -> Result<u64> {
        let gfx = self.generation().gfx;
        let read = self.hub.with_core(|mmio| gfx.clock_counter(mmio))?;
        Ok(read.unwrap_or(0))
    }

    /// Returns the CPU physical address of the remapped HDP flush registers.
    pub(crate) fn hdp_remap_phys(&self) -> u64 {
        self.mmio_phys + u64::from(self.generation().caps.hdp_remap)
    }

    /// Returns the DMA address of the remapped HDP flush registers for the card itself.
    pub(crate) fn hdp_remap_dma(&self) -> u64 {
        self.hdp_remap.dma_address()
    }

    /// Sets the handler that is called after a hang.
    pub(crate) fn set_hang_handler(&self, handler: Option<Arc<dyn HangHandler>>) {
        let before = core::mem::replace(&mut *self.hang_handler.lock(), handler);
        drop(before);
    }

    /// Cuts the card off from memory, marks it as hung because of `why`, halts its engines, and
    /// calls the hang handler. Idempotent: the card is cut off on return. Without effect after an
    /// unbind. May be called with any locks held but those of the SDMA rings and of the list of
    /// processes.
    pub(crate) fn wedge(&self, why: &str) {
        self.hang(why, true);
    }

    /// Marks the card as one that hangs because of `why` and will not be reset, see
    /// [`Self::wedge`].
    pub(crate) fn lose(&self, why: &str) {
        self.hang(why, false);
        self.health.give_up();
    }

    fn hang(&self, why: &str, may_reset: bool) {
        let cut_off = || kapi::pci::clear_master(&self.pdev);
        if self.is_unplugged() || !self.health.mark_hung(cut_off) {
            return;
        }
        let handler = self.hang_handler.lock().clone();
        let prospect = if may_reset && handler.as_ref().is_some_and(|h| h.will_reset()) {
            "resetting it"
        } else {
            self.health.give_up();
            "its queues stay stopped until the driver is bound again"
        };
        dev_err!(self.dev(), "the GPU hangs ({why}); {prospect}\n");
        trace::gpu_hang(self.id);
        if let Some(handler) = &handler {
            handler.before_halt(why);
        }
        self.halt_core();
        if let Some(handler) = handler {
            handler.on_hang();
        }
    }

    /// Marks the card as hung because of its scheduler, see [`Self::wedge`].
    pub(crate) fn wedge_by_scheduler(&self, why: &str) {
        self.health.set_cause(Cause::Scheduler);
        self.wedge(why);
    }

    /// Disables bus mastering and halts MES and all XCCs: memory is about to be freed without
    /// confirmation from the scheduler that it is unused.
    pub(crate) fn halt_engines(&self) {
        kapi::pci::clear_master(&self.pdev);
        self.halt_core();
    }

    /// Halts MES and all XCCs.
    fn halt_core(&self) {
        if !self.hub.has_core() || self.hub.is_frozen() {
            return;
        }
        let mmio = self.hub.raw_mmio();
        if let Some(mes) = self.generation().mes {
            if let Err(e) = mes.halt(mmio) {
                dev_err!(self.dev(), "MES was not halted: {e:?}\n");
            }
        }
        for xcc in self.xccs.iter() {
            if let Err(e) = self.generation().gfx.halt(mmio, *xcc) {
                dev_err!(self.dev(), "XCC {} was not halted: {e:?}\n", xcc.logical);
            }
        }
    }

    /// Stops register access other than by the task that resets the card, and doorbells of the
    /// interrupt rings.
    pub(crate) fn close(&self) {
        self.hub.close();
        self.ih.close();
        self.vram.begin_loss();
    }

    /// Resets the card, whose PCI device is `pdev` (mode 1). Firmware, VRAM contents and registers
    /// are lost. `ETIMEDOUT` when the boot loader does not come back, `ENODEV` if the card has left
    /// the bus, `EIO` while its link does not work.
    pub(crate) fn mode1_reset(&self, pdev: &pci::Device<Core<'_>>) -> Result {
        self.begin_mode1_reset(pdev)?;
        self.psp.wait_for_reset(self.hub.raw_mmio())
    }

    /// The same without a wait for the boot loader, for a card that is not used afterwards.
    pub(crate) fn begin_mode1_reset(&self, pdev: &pci::Device<Core<'_>>) -> Result {
        if self.hub.is_frozen() {
            return Err(EIO);
        }
        self.clear_firmware_state();
        begin_reset(pdev, self.hub.raw_mmio(), &self.psp)
    }

    /// Records that PSP and SMU were reset.
    pub(crate) fn clear_firmware_state(&self) {
        self.psp.clear_state();
        if let Some(smu) = &self.smu {
            smu.clear_state();
        }
    }
}

/// Resets a card, see [`Card::mode1_reset`].
fn reset(pdev: &pci::Device<Core<'_>>, mmio: &Mmio, psp: &Psp) -> Result {
    begin_reset(pdev, mmio, psp)?;
    psp.wait_for_reset(mmio)
}

/// Resets a card, see [`Card::begin_mode1_reset`].
fn begin_reset(pdev: &pci::Device<Core<'_>>, mmio: &Mmio, psp: &Psp) -> Result {
    if !kapi::pci::is_present(pdev) {
        return Err(ENODEV);
    }
    kapi::pci::save_state(pdev)?;
    kapi::pci::clear_master(pdev);
    psp.mode1_reset(mmio)?;
    kapi::pci::restore_state(pdev);
    kapi::pci::rearm_msix(pdev);
    Ok(())
}
