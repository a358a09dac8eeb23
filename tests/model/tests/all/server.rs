// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Driver accesses through a vfio-user socket, with the crate's client in place of QEMU.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{addr, adverse, gpu, route_ih, VRAM};
use gpu_model::chips::mi300x::ONE_XCC;
use gpu_model::gpu::Gpu;
use gpu_model::mem::{sparse_file, Block};
use gpu_model::regs::Ip;
use gpu_model::server::{listen, Device};
use gpu_regs::nbio_7_9_0 as nbio;
use vfio_user::Client;

const CONFIG: u32 = 7;
const MSIX: u32 = 2;
/// VFIO_IRQ_SET_DATA_EVENTFD and VFIO_IRQ_SET_ACTION_TRIGGER.
const EVENTFD: u32 = 1 << 2 | 1 << 5;

struct Bench {
    client: Client,
    gpu: Arc<Gpu>,
    path: PathBuf,
    server: std::thread::JoinHandle<()>,
}

fn bench(name: &str) -> Bench {
    bench_with(name, gpu())
}

fn bench_with(name: &str, gpu: Arc<Gpu>) -> Bench {
    let path = std::env::temp_dir().join(format!("rkfd-{name}-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    gpu.dma.unmap_all();
    gpu.dma.set_atomics(false);
    let server = listen(&path, &gpu).unwrap();
    let card = gpu.clone();
    let server = std::thread::spawn(move || {
        let mut device = Device::new(card);
        server.run(&mut device).unwrap();
        device.disconnect();
    });
    Bench {
        client: Client::new(&path).unwrap(),
        gpu,
        path,
        server,
    }
}

impl Bench {
    fn read32(&mut self, region: u32, offset: u64) -> u32 {
        let mut b = [0; 4];
        self.client.region_read(region, offset, &mut b).unwrap();
        u32::from_le_bytes(b)
    }

    fn write32(&mut self, region: u32, offset: u64, value: u32) {
        self.client
            .region_write(region, offset, &value.to_le_bytes())
            .unwrap();
    }

    /// Enables bus mastering.
    fn set_master(&mut self) {
        self.write32(CONFIG, 4, 1 << 2);
    }

    fn finish(self) -> Arc<Gpu> {
        self.client.shutdown().unwrap();
        self.server.join().unwrap();
        assert!(!self.path.exists(), "socket file not removed");
        self.gpu
    }
}

#[test]
fn regions_and_identity() {
    let mut b = bench("regions");
    let sizes: Vec<u64> = b.client.regions_sizes();
    assert_eq!(sizes[0], VRAM);
    assert_eq!(sizes[2], 2 << 20);
    assert_eq!(sizes[5], 2 << 20);
    assert_eq!(sizes[7], 4096);
    assert_eq!((sizes[1], sizes[3], sizes[4], sizes[6]), (0, 0, 0, 0));
    assert_eq!(b.read32(CONFIG, 0), 0x74a1_1002);
    assert_eq!(b.read32(5, 0xde3 * 4), (VRAM >> 20) as u32);
    assert_eq!(b.client.get_irq_info(MSIX).unwrap().count, 4);
    assert_eq!(b.client.get_irq_info(0).unwrap().count, 0);
    b.finish();
}

#[test]
fn address_of_the_doorbell_bar() {
    let mut b = bench("bar");
    for (at, value) in [(0x18, !0), (0x1c, !0), (0x18, 0x20_000c), (0x1c, 0x38)] {
        b.write32(CONFIG, at, value);
    }
    assert_eq!(b.gpu.selfring.bar(), 0x38_0020_0000);
    b.finish();
}

#[test]
fn atomic_requester_enable() {
    let mut b = bench("atomics");
    assert!(!b.gpu.dma.sends_atomics());
    b.write32(CONFIG, 0x8c, 0x40);
    assert!(b.gpu.dma.sends_atomics());
    b.client.reset().unwrap();
    assert!(!b.gpu.dma.sends_atomics());
    b.finish();
}

#[test]
fn vram_is_shared_memory() {
    let mut b = bench("vram");
    let region = b.client.region(0).unwrap();
    assert_eq!(region.sparse_areas.len(), 1);
    let file = region
        .file_offset
        .as_ref()
        .unwrap()
        .file()
        .try_clone()
        .unwrap();
    let map = Block::map(file, 0, VRAM).unwrap();
    assert_eq!(map.load32(VRAM - (64 << 10)), Ok(0x2821_1407));
    map.write(0x100, &[1, 2, 3, 4]).unwrap();
    assert_eq!(b.read32(0, 0x100), 0x0403_0201);
    b.write32(0, 0x104, 9);
    assert_eq!(map.load32(0x104), Ok(9));
    b.finish();
}

#[test]
fn stores_to_vram_are_buffered_in_adversarial_mode() {
    let mut b = bench_with("hdp", adverse(&ONE_XCC, 1));
    let region = b.client.region(0).unwrap();
    assert!(region.file_offset.is_none() && region.sparse_areas.is_empty());
    b.write32(0, 0x100, 7);
    // GPU_HDP_FLUSH_REQ. Its read waits for posted writes.
    let flush = u64::from(addr(Ip::Nbif, nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ)) * 4;
    let done = u64::from(addr(Ip::Nbif, nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_DONE)) * 4;
    b.read32(5, flush);
    assert_eq!(b.gpu.vram.load32(0x100), Ok(0));
    assert_eq!(b.read32(5, done), 0);
    b.write32(5, flush, 2);
    while b.read32(5, done) == 0 {}
    assert_eq!(b.read32(5, done), 2);
    assert_eq!(b.gpu.vram.load32(0x100), Ok(7));
    // So does a load, which also empties the buffer.
    b.write32(0, 0x104, 9);
    assert_eq!(b.read32(0, 0x100), 7);
    assert_eq!(b.gpu.vram.load32(0x104), Ok(9));
    b.finish();
}

#[test]
fn guest_memory_map_and_unmap() {
    let mut b = bench("dma");
    let ram = sparse_file("ram", 0x20_0000).unwrap();
    b.client
        .dma_map(0x1000, 0x10_0000, 0x10_0000, ram.as_raw_fd())
        .unwrap();
    assert!(b.gpu.dma.write(0x10_0000, &[5; 8]).is_err());
    b.set_master();
    b.gpu.dma.write(0x10_0000, &[5; 8]).unwrap();
    let map = Block::map(ram, 0, 0x20_0000).unwrap();
    assert_eq!(map.load64(0x1000), Ok(0x0505_0505_0505_0505));
    b.client.dma_unmap(0x10_0000, 0x10_0000).unwrap();
    assert!(b.gpu.dma.write(0x10_0000, &[5; 8]).is_err());
    b.finish();
}

#[test]
fn doorbell_to_msi() {
    let mut b = bench("msi");
    let ram = sparse_file("ram", 0x10_0000).unwrap();
    b.client.dma_map(0, 0, 0x10_0000, ram.as_raw_fd()).unwrap();
    b.set_master();
    let flags = rustix::event::EventfdFlags::empty();
    let event = rustix::event::eventfd(0, flags).unwrap();
    b.client
        .set_irqs(MSIX, EVENTFD, 0, 1, &[event.as_raw_fd()])
        .unwrap();
    // IH ring at 0x1_0000, 256 bytes, no rearm.
    let ih = |off: u64| (0x10a0 + off) * 4;
    b.write32(5, ih(0x81), 0x1_0000 >> 8);
    b.write32(
        5,
        ih(0x80),
        1 | 6 << 1 | 1 << 16 | 1 << 17 | 1 << 20 | 1 << 28,
    );
    b.gpu.ih.post(gpu_model::engines::ih::Entry {
        client_id: 0x14,
        source_id: 181,
        ..Default::default()
    });
    let mut count = [0; 8];
    std::fs::File::from(event).read_exact(&mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1);
    assert_eq!(b.read32(5, ih(0x84)), 32);
    // Doorbells: refused while the aperture is disabled, then routed to their block.
    b.client.region_write(2, 0x1a0 * 8, &[0; 4]).unwrap();
    assert_eq!(b.gpu.strict.unexpected(), 1);
    b.write32(5, (0xd20 + 0xc0) * 4, 1);
    route_ih(&b.gpu, 0x340, 8);
    b.write32(5, ih(0x87), 0x340 | 1 << 28);
    b.client
        .region_write(2, 0x1a0 * 8, &32u32.to_le_bytes())
        .unwrap();
    assert_eq!(b.read32(5, ih(0x83)), 32);
    assert_eq!(b.gpu.strict.unexpected(), 1);
    b.finish();
}

#[test]
fn invalid_accesses_are_reported() {
    let mut b = bench("odd");
    let mut byte = [0xff; 1];
    b.client.region_read(5, 1, &mut byte).unwrap();
    assert_eq!(byte, [0]);
    b.client.region_write(5, 2, &[1, 2]).unwrap();
    b.client.region_write(2, 4, &[0; 8]).unwrap();
    let mut pair = [1; 8];
    b.client.region_read(2, 0, &mut pair).unwrap();
    assert_eq!(pair, [0; 8]);
    assert_eq!(b.gpu.strict.unexpected(), 3);
    b.client.region_read(5, 0xde3 * 4, &mut pair).unwrap();
    assert_eq!(pair[..4], ((VRAM >> 20) as u32).to_le_bytes());
    b.finish();
}

#[test]
fn region_of_the_boot_firmware_is_read_only() {
    let mut b = bench("firmware");
    let mut before = [0; 8];
    let table = VRAM - (64 << 10);
    b.client.region_read(0, table, &mut before).unwrap();
    assert_ne!(before, [0; 8]);
    b.client.region_write(0, table, &[0xff; 8]).unwrap();
    let mut after = [0; 8];
    b.client.region_read(0, table, &mut after).unwrap();
    assert_eq!(before, after);
    b.client.region_write(0, VRAM - VRAM / 8, &[1; 4]).unwrap();
    assert_eq!(b.gpu.strict.unexpected(), 2);
    b.client
        .region_write(0, VRAM - VRAM / 8 - 4, &[1; 4])
        .unwrap();
    assert_eq!(b.gpu.strict.unexpected(), 2);
    b.finish();
}

#[test]
fn resets_and_disconnect_restore_power_on_state() {
    let mut b = bench("reset");
    let scratch = u64::from(0xa000u32 + 0x2040) * 4;
    b.write32(5, scratch, 1);
    b.client.reset().unwrap();
    assert_eq!(b.read32(5, scratch), 0);
    b.write32(5, scratch, 2);
    b.write32(CONFIG, 0x6c, 0x8000);
    assert_eq!(b.read32(5, scratch), 0);
    b.write32(5, scratch, 3);
    let gpu = b.finish();
    assert_eq!(gpu.reg_read(0xa000 + 0x2040), 0);
    assert_eq!(gpu.strict.lines(), [""; 0]);
}

/// Region sizes by index.
trait Sizes {
    fn regions_sizes(&self) -> Vec<u64>;
}

impl Sizes for Client {
    fn regions_sizes(&self) -> Vec<u64> {
        (0..9)
            .map(|i| self.region(i).map_or(0, |r| r.size))
            .collect()
    }
}
