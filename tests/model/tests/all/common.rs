// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Test card: small VRAM, guest memory at bus address 0, silent strict log, and the first register
//! writes of a driver.

pub mod process;
pub mod sdma;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_model::adversary::Adversary;
use gpu_model::chips::mi300x::{CHIP, ONE_XCC};
use gpu_model::chips::{Chip, Generation};
use gpu_model::engines::gmc::Hub;
use gpu_model::gpu::{Boot, Gpu, Options};
use gpu_model::knobs::Knobs;
use gpu_model::log::Strict;
use gpu_model::mem::sparse_file;
use gpu_model::regs::Ip;
use gpu_model::trace::Trace;
use gpu_regs::{gc_9_4_3 as gc, hdp_4_4_2 as hdp, nbio_7_9_0 as nbio, Reg};
use rkfd_abi::mqd::v9::Mqd;

/// VRAM size, in bytes.
pub const VRAM: u64 = 256 << 20;
/// Guest memory size, in bytes.
pub const RAM: u64 = 64 << 20;
/// MC address of VRAM.
pub const FB: u64 = (ONE_XCC.fb_location as u64) << 24;

/// Returns a card in power-on state with guest memory.
pub fn gpu() -> Arc<Gpu> {
    gpu_with(Knobs::default())
}

/// Returns such a card with knobs set.
pub fn gpu_with(knobs: Knobs) -> Arc<Gpu> {
    card(&ONE_XCC, knobs)
}

/// Returns a warm card of any chip.
pub fn card(chip: &'static Chip, knobs: Knobs) -> Arc<Gpu> {
    booted(chip, knobs, Boot::Warm)
}

/// Returns a cold card.
pub fn cold() -> Arc<Gpu> {
    booted(&ONE_XCC, Knobs::default(), Boot::Cold)
}

/// Returns a card of any chip, warm or cold.
pub fn booted(chip: &'static Chip, knobs: Knobs, boot: Boot) -> Arc<Gpu> {
    placed(chip, knobs, boot, None)
}

/// The same at a position in an xGMI hive.
pub fn placed(chip: &'static Chip, knobs: Knobs, boot: Boot, hive_node: Option<u8>) -> Arc<Gpu> {
    with_options(chip, knobs, boot, hive_node, None)
}

/// Writes the MQD of a KIQ at an offset in VRAM, and behind it the masks of CUs and render
/// backends.
pub fn put_kiq_mqd(gpu: &Gpu, at: u64) {
    let masks = at + 0x800;
    let mut mqd = Mqd::zeroed();
    mqd.dynamic_cu_mask_addr_lo = (FB + masks) as u32;
    mqd.dynamic_cu_mask_addr_hi = ((FB + masks) >> 32) as u32;
    for (n, word) in (0..).zip(mqd.dwords()) {
        gpu.vram.write(at + n * 4, &word.to_le_bytes()).unwrap();
    }
    gpu.vram.write(masks, &[0xff; 8]).unwrap();
}

/// Waits as drivers do after the request of a mode-1 reset.
pub fn wait_for_mode1(generation: Generation) {
    std::thread::sleep(std::time::Duration::from_millis(match generation {
        Generation::Gfx9 => 500,
        Generation::Gfx12 => 1000,
    }));
}

/// Returns a warm card in adversarial mode.
pub fn adverse(chip: &'static Chip, seed: u64) -> Arc<Gpu> {
    let adversary = Arc::new(Adversary::new(seed));
    with_options(chip, Knobs::default(), Boot::Warm, None, Some(adversary))
}

fn with_options(
    chip: &'static Chip,
    knobs: Knobs,
    boot: Boot,
    hive_node: Option<u8>,
    adversary: Option<Arc<Adversary>>,
) -> Arc<Gpu> {
    let gpu = Gpu::new(Options {
        chip,
        vram: VRAM,
        hive_node,
        vbios: None,
        firmware_memory: None,
        bad_pages: Vec::new(),
        product: None,
        boot,
        strict: Arc::new(Strict::quiet()),
        trace: Arc::new(Trace::off()),
        knobs: Arc::new(knobs),
        adversary,
        cached_memory: false,
    })
    .unwrap();
    let ram = sparse_file("ram", RAM).unwrap();
    gpu.dma.map(0, RAM, Some((ram, 0)), true, true).unwrap();
    gpu.dma.set_atomics(true);
    if boot == Boot::Warm && chip.generation == Generation::Gfx9 {
        start_rlcs(&gpu);
    }
    if chip.generation == Generation::Gfx9 {
        fence_doorbells(&gpu);
    }
    gpu
}

/// Sets which XCCs the doorbells of a card wait for, as its driver does.
fn fence_doorbells(gpu: &Gpu) {
    let xccs = gpu.chip.instances(Ip::Gc).fold(0, |mask, n| mask | 1 << n);
    let fence = addr_of(Ip::Nbif, 0, nbio::regXCC_DOORBELL_FENCE);
    gpu.reg_write(fence, 0xff & !xccs);
    for aid in (1..4).filter(|aid| gpu.chip.has_aid(*aid)) {
        let slave = nbio::XCC_DOORBELL_FENCE__SHUB_SLV_MODE.mask;
        gpu.reg_write_on(aid, fence, slave);
    }
}

/// Starts the RLCs of a warm card, which the driver before has stopped.
fn start_rlcs(gpu: &Gpu) {
    let reg = gc::regRLC_CNTL;
    for instance in 0..8 {
        let base = gpu.chip.base(Ip::Gc, instance, reg.seg);
        let addr = base.map(|base| base + reg.off);
        if let Some(addr) = addr.filter(|addr| gpu.regs.get(*addr).is_some()) {
            gpu.reg_write(addr, gc::RLC_CNTL__RLC_ENABLE_F32.mask);
        }
    }
}

/// Waits until `done`; fails with the violations of the card after 20 s.
pub fn until(gpu: &Gpu, what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        let late = since.elapsed() > Duration::from_secs(20);
        assert!(!late, "{what}: {:#?}", gpu.strict.lines());
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Runs the command processors of a card during a test.
pub fn with_cp(gpu: &Gpu, test: impl FnOnce()) {
    struct Stop<'a>(&'a Gpu);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.xccs.iter().for_each(|xcc| xcc.cp.stop());
        }
    }
    std::thread::scope(|scope| {
        for xcc in &gpu.xccs {
            scope.spawn(move || xcc.cp.run(gpu));
        }
        let _stop = Stop(gpu);
        test();
    });
}

/// Returns the dword address of a register of an IP block's instance 0.
pub fn addr(ip: Ip, reg: Reg) -> u32 {
    addr_of(ip, 0, reg)
}

/// Returns the dword address of a register of an instance on a card with 8 XCCs, where instance 0
/// is as on a card with one.
pub fn addr_of(ip: Ip, instance: u8, reg: Reg) -> u32 {
    CHIP.base(ip, instance, reg.seg).unwrap() + reg.off
}

/// Returns the dword address of a hub register, given by its GC constant.
fn hub_addr(gpu: &Gpu, hub: Hub, reg: Reg) -> u32 {
    let reg = match hub {
        Hub::Gfx(_) => reg,
        Hub::Mm(_) => reg.at(0x340),
    };
    let (ip, instance) = hub.block();
    gpu.chip.base(ip, instance, reg.seg).unwrap() + reg.off
}

/// Writes a hub register, given by its GC constant.
pub fn hub_write(gpu: &Gpu, hub: Hub, reg: Reg, value: u32) {
    gpu.reg_write(hub_addr(gpu, hub, reg), value);
}

/// Reads a hub register, given by its GC constant.
pub fn hub_read(gpu: &Gpu, hub: Hub, reg: Reg) -> u32 {
    gpu.reg_read(hub_addr(gpu, hub, reg))
}

/// Maps the BAR to VRAM in the HDP and enables its flush.
pub fn init_hdp(gpu: &Gpu) {
    gpu.reg_write(addr(Ip::Hdp, hdp::regHDP_MISC_CNTL), 1);
    gpu.reg_write(addr(Ip::Hdp, hdp::regHDP_NONSURFACE_BASE), (FB >> 8) as u32);
    gpu.reg_write(
        addr(Ip::Hdp, hdp::regHDP_NONSURFACE_BASE_HI),
        (FB >> 40) as u32,
    );
}

/// Enables the L1 TLB and the system aperture over VRAM in both hubs of a card with one XCC.
pub fn open_aperture(gpu: &Gpu) {
    open_apertures(gpu, [Hub::Gfx(0), Hub::Mm(0)]);
}

/// The same in these hubs.
pub fn open_apertures(gpu: &Gpu, hubs: impl IntoIterator<Item = Hub>) {
    for hub in hubs {
        let top = FB + VRAM - 1;
        hub_write(
            gpu,
            hub,
            gc::regMC_VM_SYSTEM_APERTURE_LOW_ADDR,
            (FB >> 18) as u32,
        );
        hub_write(
            gpu,
            hub,
            gc::regMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
            (top >> 18) as u32,
        );
        hub_write(gpu, hub, gc::regMC_VM_MX_L1_TLB_CNTL, 1 | 3 << 3 | 1 << 6);
    }
}

/// Routes `size` doorbells from `first` on (dwords on the BAR) to the interrupt handler, or none.
pub fn route_ih(gpu: &Gpu, first: u32, size: u32) {
    use nbio::{
        regDOORBELL0_CTRL_ENTRY_0, regS2A_DOORBELL_ENTRY_1_CTRL,
        DOORBELL0_CTRL_ENTRY_0__BIF_DOORBELL0_RANGE_OFFSET_ENTRY as OFFSET,
        DOORBELL0_CTRL_ENTRY_0__BIF_DOORBELL0_RANGE_SIZE_ENTRY as SIZE,
        S2A_DOORBELL_ENTRY_1_CTRL__S2A_DOORBELL_PORT1_ENABLE as ENABLE,
    };
    let range = OFFSET.put(first) | SIZE.put(size);
    gpu.reg_write(addr(Ip::Nbif, regDOORBELL0_CTRL_ENTRY_0), range);
    let port = regS2A_DOORBELL_ENTRY_1_CTRL.at(2);
    gpu.reg_write(addr(Ip::Nbif, port), ENABLE.put((size != 0).into()));
}

/// Lets all invalidation engines of a hub invalidate all addresses.
pub fn open_invalidations(gpu: &Gpu, hub: Hub) {
    for engine in 0..18 {
        let range = gc::regVM_INVALIDATE_ENG0_ADDR_RANGE_LO32.at(2 * engine);
        hub_write(gpu, hub, range, !0);
        hub_write(gpu, hub, range.at(1), 0x1f);
    }
}

/// Enables the context of `vmid` with `depth` directory levels over all addresses; faults are
/// reported and redirected.
pub fn enable_context(gpu: &Gpu, hub: Hub, vmid: u32, depth: u32, block_size: u32, root: u64) {
    open_invalidations(gpu, hub);
    let base = gc::regVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.at(2 * vmid);
    hub_write(gpu, hub, base, root as u32);
    hub_write(gpu, hub, base.at(1), (root >> 32) as u32);
    let end = gc::regVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.at(2 * vmid);
    hub_write(gpu, hub, end, !0);
    hub_write(gpu, hub, end.at(1), 0xf);
    let cntl = 1 | depth << 1 | block_size << 3 | 0x01ff_fe00;
    hub_write(gpu, hub, gc::regVM_CONTEXT0_CNTL.at(vmid), cntl);
}
