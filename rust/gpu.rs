// SPDX-License-Identifier: GPL-2.0

//! One per card: the object that owns a bound GPU, and the order in which it comes up and goes
//! down.
//!
//! Whatever a process or an open file keeps of a GPU is an `Arc<Gpu>`, which may outlive the
//! binding. [`Gpu::mmio`] and everything built on it then answers `ENODEV`.

use core::any::Any;

use kernel::{
    device::{self, Core},
    new_mutex,
    pci,
    prelude::*,
    sizes::*,
    sync::{
        aref::ARef,
        atomic::{Acquire, Atomic, Relaxed, Release},
        lock::mutex::MutexGuard,
        Arc,
        Mutex,
        SetOnce, //
    },
    types::ScopeGuard, //
};

use crate::{
    asic::{
        config::{Config, PciInfo},
        discovery,
        mmio::{EarlyMmio, Mmio},
    },
    doorbell::Aperture,
    hw::{self, psp::FirmwareVersions, FlushType, Generation, HubSetup, McLayout},
    kapi::{self, dma::Pages, irq::Irq},
    mmu::{self, Evictable, Spaces},
    ring::{kiq::Kiq, mes::Mes, sdma::Sdma},
};

pub(crate) mod account;
mod clear;
pub(crate) mod dma;
pub(crate) mod gart;
pub(crate) mod hub;
pub(crate) mod irq;
pub(crate) mod memory;
pub(crate) mod psp;
pub(crate) mod registry;
pub(crate) mod reset;
mod suspend;

pub(crate) use registry::list;

use gart::{Buffer, Gart, Window};
use hub::Hub;
use memory::{Vram, VramRange};
use psp::Psp;

/// The BAR of the registers.
const MMIO_BAR: u32 = 5;

/// A GPU.
#[pin_data]
pub(crate) struct Gpu {
    pdev: ARef<pci::Device>,
    id: u32,
    config: Config,
    layout: McLayout,
    hub: Arc<Hub>,
    vram: Arc<Vram>,
    gart: Arc<Gart>,
    /// A page of VRAM for stray accesses.
    _scratch: VramRange,
    #[pin]
    doorbells: Aperture,
    mmio_phys: u64,
    #[pin]
    ih: irq::Ih,
    #[pin]
    irq: Mutex<Option<Irq<irq::Handler>>>,
    /// The security processor, if it is this driver that brings it up.
    psp: Option<Pin<KBox<Psp>>>,
    /// The KIQ while it runs; the lock is that of its ring.
    #[pin]
    kiq: Mutex<Option<Kiq>>,
    /// The rings to MES, from [`Gpu::start`] on, if that is the scheduler.
    mes: SetOnce<Pin<KBox<Mes>>>,
    /// The kernel's rings on the DMA engines, from [`Gpu::start`] on.
    sdma: SetOnce<Pin<KBox<Sdma>>>,
    gone: Atomic<bool>,
    #[pin]
    health: reset::Health,
    gtt_used: Atomic<u64>,
    #[pin]
    evictable: Evictable,
    /// What VRAM held, while the GPU is suspended.
    #[pin]
    image: Mutex<Option<suspend::Image>>,
    #[pin]
    spaces: Spaces,
    /// What the floor above keeps per GPU, see [`Gpu::set_scheduler`].
    scheduler: SetOnce<Arc<dyn Any + Send + Sync>>,
}

impl Gpu {
    /// Finds out what the device is and prepares its memory. Nothing runs on it yet.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<Arc<Self>> {
        let normal: &pci::Device = pdev;
        let mmio_phys = pdev.resource_start(MMIO_BAR)?;
        let early = EarlyMmio::new(pdev.iomap_region(MMIO_BAR, c"rkfd/registers")?)?;
        let bar = Vram::map_bar(pdev)?;
        let found = discovery::read(pdev, &early, &bar)?;
        let generation = found
            .gc_version()
            .ok_or(ENODEV)
            .and_then(hw::select)
            .inspect_err(|_| match found.gc_version() {
                Some(v) => dev_err!(pdev, "no support for compute core version {v}\n"),
                None => dev_err!(pdev, "IP discovery lists no compute core\n"),
            })?;
        kapi::dma::set_mask(pdev, generation.caps.dma_bits)?;

        let mut config = found.config(generation.caps)?;
        if config.num_xcc != 1 {
            // Queues would need an image for each die, and rings a start on each.
            dev_err!(
                pdev,
                "{} compute dies in one partition; rkfd drives one (see Documentation/hardware-status.rst)\n",
                config.num_xcc
            );
            return Err(ENODEV);
        }
        config.pci = PciInfo {
            domain: kapi::pci::domain(pdev),
            bdf: pdev.dev_id(),
            vendor: pdev.vendor_id().as_raw(),
            device: pdev.device_id(),
            subsystem_vendor: pdev.subsystem_vendor_id(),
            subsystem: pdev.subsystem_device_id(),
            revision: pdev.revision_id(),
        };
        let mmio = Arc::pin_init(early.into_mmio(found.instances), GFP_KERNEL)?;
        if generation.psp.is_none() {
            // Nobody else could load it.
            let mes = generation
                .mes
                .map_or(Ok(None), |mes| mes.check_alive(&mmio))?;
            if let Some(why) = generation.gfx.check_alive(&mmio)?.or(mes) {
                dev_err!(pdev, "{why}\n");
                return Err(ENODEV);
            }
        }
        let psp = generation
            .psp
            .map(|hal| Psp::new(pdev.as_ref(), hal, &mmio, config.num_sdma))
            .transpose()?;
        if let Some(psp) = &psp {
            config.mec_fw = psp.versions().mec.version;
            config.sdma_fw = psp.versions().sdma.version;
        }
        let hub = Arc::pin_init(Hub::new(mmio.clone(), generation), GFP_KERNEL)?;
        let layout = generation.gmc.layout(&mmio)?;
        let vram = Vram::new(pdev, bar, found.vram_size)?;
        config.vram_size = vram.size();
        config.vram_visible = vram.visible();

        generation.nbio.start(&mmio, generation.caps.hdp_remap)?;
        config.rev_id = generation.nbio.rev_id(&mmio)?;
        let closing = ScopeGuard::new_with_data(mmio.clone(), |mmio| {
            // The probe has failed already; the path is closed as well as it goes.
            let _ = generation.nbio.stop(&mmio);
        });
        let table = vram.alloc(Gart::TABLE_BYTES, true)?;
        let gart = Gart::new(hub.clone(), &layout, table)?;
        let scratch = vram.alloc(SZ_4K as u64, true)?;
        hub.hdp_flush()?;

        generation.gfx.read_config(&mmio, &mut config)?;
        let id = registry::make_id(&config, 0);
        let dev: &device::Device = normal.as_ref();
        let doorbells = Aperture::new(pdev, generation.caps)?;
        let gpu = Arc::pin_init(
            try_pin_init!(Self {
                pdev: normal.into(),
                id,
                config,
                layout,
                hub,
                vram,
                gart,
                _scratch: scratch,
                doorbells <- doorbells,
                mmio_phys,
                ih <- irq::Ih::new(dev),
                irq <- new_mutex!(None),
                psp,
                kiq <- new_mutex!(None),
                mes: SetOnce::new(),
                sdma: SetOnce::new(),
                gone: Atomic::new(false),
                health <- reset::Health::new(),
                gtt_used: Atomic::new(0),
                evictable <- Evictable::new(),
                image <- new_mutex!(None),
                spaces <- Spaces::new(),
                scheduler: SetOnce::new(),
            }),
            GFP_KERNEL,
        )?;
        closing.dismiss();
        Ok(gpu)
    }

    /// Versions of the firmware that the driver loads; zeroes if the card came with it.
    pub(crate) fn firmware_versions(&self) -> FirmwareVersions {
        self.psp
            .as_ref()
            .map_or_else(FirmwareVersions::default, |psp| psp.versions())
    }

    /// Brings the GPU up for the first time. After an error, and at the end, [`Gpu::stop`] undoes
    /// what was done.
    pub(crate) fn start(self: &Arc<Self>, pdev: &pci::Device<Core<'_>>) -> Result {
        let handler = Arc::new(irq::Handler::new(self.clone()), GFP_KERNEL)?;
        *self.irq.lock() = Some(Irq::new(pdev, c"rkfd", handler)?);
        self.bring_up()?;
        self.vram.attach(self)
    }

    /// Brings bus interface, memory hubs, interrupts, compute core, KIQ and DMA engines up. Nothing
    /// that was there before is relied on, neither registers nor VRAM: so this is also what brings
    /// the GPU back after [`Gpu::take_down`] or a reset. After an error it may be half up.
    pub(crate) fn bring_up(self: &Arc<Self>) -> Result {
        let mmio = self.mmio()?;
        let g = self.generation();
        kapi::pci::set_master(&self.pdev);
        g.nbio.start(mmio, g.caps.hdp_remap)?;
        self.hub.open();
        self.restore_vram()?;
        self.gart.restore()?;
        self.vram
            .bar()
            .zero(usize::try_from(self._scratch.start())?, SZ_4K)?;
        g.gmc.start(
            mmio,
            &HubSetup {
                layout: self.layout,
                gart_table: self.vram_pa(self.gart.table_offset()),
                gart_start: self.gart.start(),
                gart_end: self.gart.end(),
                scratch_pa: self.vram_pa(self._scratch.start()),
                dummy_dma: self.ih.dummy_dma(),
            },
        )?;
        self.hub.hdp_flush()?;
        self.hub.flush_vmid(0, FlushType::Legacy)?;
        self.ih.start(self)?;
        g.nbio.route_doorbells(mmio, g.caps)?;
        if let Some(psp) = &self.psp {
            psp.start(self)?;
        }

        for xcc in 0..self.config.num_xcc {
            g.gfx.start_rlc(mmio, xcc).inspect_err(|_| {
                dev_err!(
                    self.dev(),
                    "the run list controller of XCC {xcc} does not run\n"
                );
            })?;
        }
        if let Some(psp) = &self.psp {
            self.partition(psp)?;
        }
        for xcc in 0..self.config.num_xcc {
            g.gfx.start(mmio, xcc, &self.config)?;
        }
        if g.kiq.is_some() {
            let kiq = Kiq::start(self)?;
            let before = self.kiq.lock().replace(kiq);
            drop(before);
        }
        if g.mes.is_some() {
            match self.mes.as_ref() {
                Some(mes) => mes.restart(self)?,
                None => {
                    self.mes.populate(Mes::start(self)?);
                }
            }
        }
        match self.sdma.as_ref() {
            Some(sdma) => sdma.restart(self)?,
            None => {
                self.sdma.populate(Sdma::start(self)?);
            }
        }
        Ok(())
    }

    /// Makes one partition of all compute dies.
    fn partition(&self, psp: &Psp) -> Result {
        psp.set_partitions(self, 1)?;
        let all = self.config.num_xcc;
        for xcc in 0..all {
            let xccs = self.generation().gfx.partition_xccs(self.mmio()?, xcc)?;
            if xccs != all {
                dev_err!(
                    self.dev(),
                    "XCC {xcc} is in a partition of {xccs}, not of all {all}: power the machine off and on\n"
                );
                return Err(EIO);
            }
        }
        Ok(())
    }

    /// Takes down what [`Gpu::bring_up`] brought up, as far as it got. What is kept in memory stays.
    /// Jobs of the DMA engines that are not done end with an error, and those that come later, until
    /// the GPU is brought up again.
    pub(crate) fn take_down(&self) {
        if let Some(sdma) = self.sdma.as_ref() {
            sdma.halt(self);
        }
        self.take_down_rest();
    }

    /// The same after the DMA engines.
    fn take_down_rest(&self) {
        // A hanging GPU was halted: there is nobody to talk to.
        let kiq = self.kiq.lock().take();
        if let Some(kiq) = kiq {
            self.log_failure("KIQ", kiq.stop(self));
        }
        if let Some(mes) = self.mes.as_ref() {
            self.log_failure("MES", mes.stop(self));
        }
        let g = self.generation();
        let mmio = self.hub.mmio();
        for xcc in 0..self.config.num_xcc {
            self.log_failure("compute core", g.gfx.halt(mmio, xcc));
        }
        if let Some(psp) = &self.psp {
            if self.is_hung() {
                psp.forget();
            } else {
                self.log_failure("security processor", psp.stop(self));
            }
        }
        self.log_failure("interrupt ring", self.ih.stop(self));
        self.log_failure("memory hubs", g.gmc.stop(mmio));
        self.log_failure("doorbells", g.nbio.stop(mmio));
        // Whatever is still on its way must not reach memory that others get now.
        kapi::pci::clear_master(&self.pdev);
    }

    /// Takes down what [`Gpu::start`] brought up, as far as it got. From here on nothing new
    /// starts on the GPU.
    pub(crate) fn stop(&self) {
        self.vram.detach();
        if let Some(sdma) = self.sdma.as_ref() {
            sdma.stop(self);
        }
        self.take_down_rest();
        // Waits for the handler.
        let irq = self.irq.lock().take();
        drop(irq);
        self.gone.store(true, Release);
    }

    fn log_failure(&self, what: &str, result: Result) {
        if let Err(e) = result {
            dev_err!(self.dev(), "{what} did not stop: {e:?}\n");
        }
    }

    /// Lets others find the GPU.
    pub(crate) fn publish(self: &Arc<Self>) -> Result {
        registry::add(self)
    }

    /// Hides the GPU from new users.
    pub(crate) fn withdraw(&self) {
        registry::remove(self);
    }

    /// The id by which user space knows the GPU.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// What the GPU has.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The generation.
    pub(crate) fn generation(&self) -> &'static Generation {
        self.hub.generation()
    }

    /// The PCI device.
    pub(crate) fn pdev(&self) -> &pci::Device {
        &self.pdev
    }

    /// The device, for messages and DMA.
    pub(crate) fn dev(&self) -> &device::Device {
        self.pdev.as_ref()
    }

    /// Registers, or `ENODEV` when the driver has left the device.
    pub(crate) fn mmio(&self) -> Result<&Mmio> {
        if self.gone.load(Acquire) {
            return Err(ENODEV);
        }
        Ok(self.hub.mmio())
    }

    /// The driver has left the device.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Acquire)
    }

    /// The value of the register at dword `address`, if user space may read it.
    pub(crate) fn user_register(&self, address: u32) -> Result<Option<u32>> {
        self.generation().gfx.user_register(self.mmio()?, address)
    }

    /// Bytes of system memory in buffers of processes.
    pub(crate) fn gtt_used(&self) -> u64 {
        self.gtt_used.load(Relaxed)
    }

    /// Counts system memory that a buffer is about to take; it gives back as much when it goes.
    ///
    /// `ENOMEM`, with nothing counted, when that is more than there is: asking the kernel for it
    /// would only wake its killer of processes.
    pub(crate) fn take_gtt(&self, bytes: u64) -> Result {
        let limit = account::gtt_limit();
        // Before anything is counted: the sum of what is asked for at once must not wrap.
        if bytes > limit {
            return Err(ENOMEM);
        }
        let before = self.gtt_used.fetch_add(bytes, Relaxed);
        if before.saturating_add(bytes) > limit {
            self.gtt_given_back(bytes);
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// See [`Self::take_gtt`].
    pub(crate) fn gtt_given_back(&self, bytes: u64) {
        self.gtt_used.fetch_sub(bytes, Relaxed);
    }

    /// The GPU does not answer any more, or is being reset by somebody else, see [`reset`].
    pub(crate) fn is_hung(&self) -> bool {
        self.health.is_bad()
    }

    /// `ENODEV` when gone, `EIO` when hung, or while somebody else resets it.
    pub(crate) fn check_usable(&self) -> Result {
        if self.is_gone() {
            return Err(ENODEV);
        }
        if self.is_hung() {
            return Err(EIO);
        }
        Ok(())
    }

    /// The kernel's rings on the DMA engines. `ENODEV` when the driver has left the device,
    /// `EIO` when it hangs.
    pub(crate) fn sdma(&self) -> Result<&Sdma> {
        self.check_usable()?;
        self.sdma.as_ref().map(|sdma| &**sdma).ok_or(ENODEV)
    }

    /// Memory hubs.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// VRAM.
    pub(crate) fn vram(&self) -> &Arc<Vram> {
        &self.vram
    }

    /// Doorbells.
    pub(crate) fn doorbells(&self) -> &Aperture {
        &self.doorbells
    }

    /// The interrupt ring.
    pub(crate) fn ih(&self) -> &irq::Ih {
        &self.ih
    }

    /// The KIQ, locked; `None` while it does not run.
    pub(crate) fn kiq(&self) -> MutexGuard<'_, Option<Kiq>> {
        self.kiq.lock()
    }

    /// The rings to MES. `ENODEV` when the driver has left the device or the scheduler is another,
    /// `EIO` when it hangs.
    pub(crate) fn mes(&self) -> Result<&Mes> {
        self.check_usable()?;
        self.mes.as_ref().map(|mes| &**mes).ok_or(ENODEV)
    }

    /// Drops a process's translations in all VMIDs that the firmware has given it; complete on
    /// return.
    pub(crate) fn invalidate_pasid(&self, pasid: u32, kind: FlushType) -> Result {
        if let Some(kiq) = &mut *self.kiq.lock() {
            return kiq.invalidate_tlbs(self, pasid, kind);
        }
        let Ok(mes) = self.mes() else {
            return Ok(());
        };
        if let Some(done) = mes.invalidate_tlbs(self, pasid, kind) {
            return done;
        }
        // Only the firmware knows which it is.
        (self.generation().caps.first_user_vmid..hw::VMIDS)
            .try_for_each(|vmid| self.hub.flush_vmid(vmid, kind))
    }

    /// The address that page tables use for the byte of VRAM at `offset`.
    pub(crate) fn vram_pa(&self, offset: u64) -> u64 {
        self.layout.vram_offset + offset
    }

    /// The address of the byte of VRAM at `offset` for kernel queues (VMID 0).
    pub(crate) fn vram_mc(&self, offset: u64) -> u64 {
        self.layout.fb_start + offset
    }

    /// Shows part of `pages` to kernel queues, see [`Gart::window`].
    pub(crate) fn window(&self, pages: &Pages, at: u64, len: u64) -> Result<Window> {
        self.gart.window(pages, at, len)
    }

    /// Buffers in VRAM that could be moved away.
    pub(crate) fn evictable(&self) -> &Evictable {
        &self.evictable
    }

    /// Address spaces.
    pub(crate) fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Kernel memory in system RAM that the GPU reaches through the GART.
    pub(crate) fn system_buffer(&self, size: usize) -> Result<Buffer> {
        self.aligned_buffer(size, 1)
    }

    /// The same at an address, for the GPU, that is a multiple of `align`.
    pub(crate) fn aligned_buffer(&self, size: usize, align: usize) -> Result<Buffer> {
        Buffer::system(&self.gart, self.dev(), size, align)
    }

    /// Kernel memory in VRAM. Buffers make way for it.
    pub(crate) fn vram_buffer(&self, size: usize) -> Result<Buffer> {
        mmu::make_room(self, || {
            Buffer::vram(&self.hub, &self.vram, self.layout.fb_start, size)
        })
    }

    /// Ticks of the GPU's clock counter.
    pub(crate) fn clock_counter(&self) -> Result<u64> {
        self.generation().gfx.clock_counter(self.mmio()?)
    }

    /// CPU physical address of the page with the HDP flush registers for user space.
    pub(crate) fn hdp_remap_phys(&self) -> u64 {
        self.mmio_phys + u64::from(self.generation().caps.hdp_remap)
    }

    /// Keeps the scheduler's state with the GPU. The floor above knows its type.
    pub(crate) fn set_scheduler(&self, scheduler: Arc<dyn Any + Send + Sync>) -> Result {
        if self.scheduler.populate(scheduler) {
            Ok(())
        } else {
            Err(EEXIST)
        }
    }

    /// What [`Gpu::set_scheduler`] was given.
    pub(crate) fn scheduler(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.scheduler.as_ref().map(|s| &**s)
    }
}
