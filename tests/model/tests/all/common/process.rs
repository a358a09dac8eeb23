// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A user process with an AQL queue and a kernel, all in VRAM.

use gpu_model::gpu::Gpu;
use rkfd_abi::aql::{self, header, kernel_dispatch as kd, queue as amd_queue, signal};

/// VRAM offset of user memory, which is mapped at `VA`.
pub const USER: u64 = 0x400_0000;

// User addresses.
pub const VA: u64 = 0x1_0000_0000;
pub const RING: u64 = VA;
pub const QUEUE: u64 = VA + 0x1_0000;
pub const SIGNAL: u64 = VA + 0x2_0000;
pub const KERNARG: u64 = VA + 0x3_0000;
pub const CODE: u64 = VA + 0x4_0000;
pub const RPTR: u64 = QUEUE + amd_queue::READ_DISPATCH_ID as u64;
pub const WPTR: u64 = QUEUE + amd_queue::WRITE_DISPATCH_ID as u64;

pub const DOORBELL: u32 = 0x1000;

/// Returns the low and high half.
pub fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// Driver and user process.
pub trait Process {
    /// The card.
    fn gpu(&self) -> &Gpu;

    fn put(&self, offset: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.gpu().vram.write(offset, &bytes).unwrap();
    }

    fn get(&self, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        self.gpu().vram.read(offset, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn user(&self, va: u64, words: &[u32]) {
        self.put(va - VA + USER, words);
    }

    fn user64(&self, va: u64) -> u64 {
        self.get(va - VA + USER)
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        super::until(self.gpu(), what, || done(self));
    }

    fn assert_clean(&self) {
        assert_eq!(self.gpu().strict.lines(), [""; 0]);
    }

    /// Maps user memory by 2 MiB pages; `leaf` is the entry of address 0. Returns the root.
    fn put_tables(&self, tables: u64, size: u64, leaf: u64) -> u64 {
        let entry = |table: u64, index: u64, value| self.put(table + index * 8, &words(value));
        let (pdb1, pdb0) = (tables + 0x1000, tables + 0x2000);
        entry(tables, VA >> 39 & 0x1ff, pdb1 | 1);
        entry(pdb1, VA >> 30 & 0x1ff, pdb0 | 1);
        for n in 0..size >> 21 {
            entry(pdb0, (VA >> 21 & 0x1ff) + n, (USER + (n << 21)) | leaf);
        }
        tables | 1
    }

    /// Writes a ring of 64 invalid packets.
    fn put_ring(&self) {
        for n in 0..64 {
            self.user(RING + n * 64, &[1]);
        }
    }

    /// Writes a kernel with the pointer to its arguments in s[0:1] and the workgroup id in s2.
    fn put_kernel(&self, wave32: bool, code: &[u32]) {
        let mut descriptor = [0u32; 16];
        descriptor[4] = 256;
        // VGPRs; user SGPRs and workgroup id; pointer to the arguments.
        descriptor[12] = 1;
        descriptor[13] = 2 << 1 | 1 << 7;
        descriptor[14] = 1 << 3 | u32::from(wave32) << 10;
        if !wave32 {
            // ACCUM_OFFSET, SGPRs.
            descriptor[11] = 3;
            descriptor[12] |= 2 << 6;
        }
        self.user(CODE, &descriptor);
        self.user(CODE + 256, code);
    }

    /// Dispatches the kernel in packet `index` with a completion signal of value 1.
    fn put_dispatch(&self, index: u64, workgroup: u16, items: u32) {
        self.put_scratch_dispatch(index, workgroup, items, 0);
    }

    /// The same with `private` bytes of scratch for each work-item.
    fn put_scratch_dispatch(&self, index: u64, workgroup: u16, items: u32, private: u32) {
        self.user(SIGNAL + signal::KIND as u64, &[1, 0]);
        self.user(SIGNAL + signal::VALUE as u64, &[1, 0]);
        let mut p = [0u8; aql::PACKET_SIZE];
        let head = header::TYPE_KERNEL_DISPATCH | 1 << 8 | 2 << 9 | 2 << 11;
        p[..2].copy_from_slice(&(head as u16).to_le_bytes());
        p[kd::SETUP] = 1;
        for (n, size) in [workgroup, 1, 1].iter().enumerate() {
            p[kd::WORKGROUP_SIZE_X + 2 * n..][..2].copy_from_slice(&size.to_le_bytes());
        }
        for (n, size) in [items, 1, 1].iter().enumerate() {
            p[kd::GRID_SIZE_X + 4 * n..][..4].copy_from_slice(&size.to_le_bytes());
        }
        p[kd::PRIVATE_SEGMENT_SIZE..][..4].copy_from_slice(&private.to_le_bytes());
        p[kd::KERNEL_OBJECT..][..8].copy_from_slice(&CODE.to_le_bytes());
        p[kd::KERNARG_ADDRESS..][..8].copy_from_slice(&KERNARG.to_le_bytes());
        p[aql::COMPLETION_SIGNAL..][..8].copy_from_slice(&SIGNAL.to_le_bytes());
        let offset = RING - VA + USER + index % 64 * 64;
        self.gpu().vram.write(offset, &p).unwrap();
        self.user(WPTR, &words(index + 1));
        self.gpu().doorbell(u64::from(DOORBELL) * 4, index, 8);
    }

    /// Returns the value of the completion signal.
    fn signal(&self) -> u64 {
        self.user64(SIGNAL + signal::VALUE as u64)
    }

    fn is_signalled(&self) -> bool {
        self.signal() == 0
    }
}
