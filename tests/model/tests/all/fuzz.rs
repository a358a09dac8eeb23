// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Random accesses to everything that a guest can reach: the model reports them and does not panic.

use crate::common::{card, enable_context, gpu, open_aperture, FB, RAM, VRAM};
use gpu_model::chips::Chip;
use gpu_model::engines::gmc::{Access, Hub, Rmw};
use gpu_model::engines::ih::Entry;
use gpu_model::knobs::Knobs;
use gpu_model::server::Device;
use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend};

/// xorshift64*, deterministic.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number with few or many bits, often next to a power of two.
    fn odd(&mut self) -> u64 {
        let value = self.next() >> (self.next() % 64);
        match self.next() % 4 {
            0 => u64::MAX >> value.leading_zeros().min(63),
            1 => !value,
            _ => value,
        }
    }
}

#[test]
fn random_bar_and_config_accesses() {
    for chip in Chip::all() {
        random_accesses(chip);
    }
}

fn random_accesses(chip: &'static Chip) {
    let gpu = card(chip, Knobs::default());
    let mut device = Device::new(gpu.clone());
    let mut random = Random(0x1234_5678_9abc_def1);
    let listing = gpu.regs.listing();
    let declared: Vec<u64> = listing
        .lines()
        .filter_map(|l| u64::from_str_radix(&l[2..9], 16).ok())
        .filter(|a| a * 4 < chip.register_bar)
        .collect();
    assert!(declared.len() > 1000);
    let mut buf = [0; 8];
    for _ in 0..100_000 {
        let region = [0, 2, 5, 5, 5, 7, 8][random.next() as usize % 7];
        let offset = match random.next() % 4 {
            0 => random.odd(),
            1 => random.next() % 0x20_0000,
            _ => declared[random.next() as usize % declared.len()] * 4,
        };
        let len = [1, 2, 4, 4, 4, 8][random.next() as usize % 6];
        if random.next() % 2 == 0 {
            device.region_read(region, offset, &mut buf[..len]).unwrap();
        } else {
            let value = random.odd().to_le_bytes();
            device.region_write(region, offset, &value[..len]).unwrap();
        }
        if random.next() % 64 == 0 {
            gpu.ih.post(Entry {
                client_id: random.next() as u8,
                vmid: random.next() as u8,
                node_id: random.next() as u8,
                ..Entry::default()
            });
        }
    }
    assert!(gpu.strict.unexpected() > 0);
}

#[test]
fn random_page_tables() {
    let gpu = gpu();
    open_aperture(&gpu);
    let mut random = Random(0xfeed_0000_beef_0001);
    let mut reached = 0;
    for round in 0..3000u64 {
        let depth = (random.next() % 4) as u32;
        let block = (random.next() % 16) as u32;
        for _ in 0..32 {
            // Plausible entries: low addresses, common flags.
            let entry = match random.next() % 4 {
                0 => random.odd(),
                _ => (random.next() % RAM & !0xfff) | random.next() & 0x77 | 1,
            };
            let at = (random.next() % 0x4000) & !7;
            gpu.vram.write(at, &entry.to_le_bytes()).unwrap();
            gpu.dma.write(at, &entry.to_le_bytes()).unwrap();
        }
        let root = (random.next() & 0x3000) | random.next() & 3;
        enable_context(&gpu, Hub::Gfx(0), 1, depth, block, root);
        gpu.gmc.invalidate(Hub::Gfx(0), 2);
        for _ in 0..16 {
            let va = random.odd();
            let access = [Access::Read, Access::Write, Access::Execute, Access::Atomic]
                [random.next() as usize % 4];
            reached += u32::from(gpu.gmc.translate(Hub::Gfx(0), 1, va, access).is_ok());
            let mut buf = [0; 64];
            if let Err(fault) = gpu.gmc.vm_read(Hub::Gfx(0), 1, va, &mut buf) {
                gpu.raise_fault(&fault, round as u16);
            }
            let _ = gpu
                .gmc
                .vm_atomic(Hub::Gfx(0), 1, va, 8, Rmw::Request, &mut |v| v);
            let _ = gpu
                .gmc
                .vm_write(Hub::Gfx(0), 0, FB + va % (2 * VRAM), &buf[..1]);
        }
    }
    assert!(reached > 100, "only {reached} translations succeeded");
}

#[test]
fn random_guest_memory() {
    let gpu = gpu();
    let mut device = Device::new(gpu.clone());
    let mut random = Random(77);
    let file = gpu_model::mem::sparse_file("ram", RAM).unwrap();
    for _ in 0..2000 {
        let (base, size) = (random.odd() & !0xfff, random.odd() % RAM & !0xfff);
        let fd = (random.next() % 2 == 0).then(|| file.try_clone().unwrap());
        let flags = DmaMapFlags::from_bits_truncate(random.next() as u32 % 4);
        // May be refused.
        let _ = device.dma_map(flags, random.odd() % RAM & !0xfff, base, size, fd);
        let mut buf = vec![0; random.next() as usize % 9000];
        let _ = gpu.dma.read(random.odd(), &mut buf);
        let _ = gpu
            .dma
            .read(base.wrapping_add(random.next() % 64), &mut buf);
        if random.next() % 2 == 0 {
            let _ = device.dma_unmap(DmaUnmapFlags::empty(), base, size);
        }
    }
}
