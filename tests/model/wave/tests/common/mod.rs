// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Shared test code: memory, LLVM tools, code objects, launches.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod bench;
pub mod elf;
pub mod flat;
pub mod llvm;
pub mod shared;

use gpu_wave::abi::{KernelDescriptor, Launch};
use gpu_wave::random;
use gpu_wave::{Dispatch, Fault, FaultKind, Host, Isa, Memory, Message, Scratch, Stop, WaveStart};
use llvm::Target;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// All kernel sources.
pub const SOURCES: [(&str, &str); 3] = [
    ("basic", include_str!("../kernels/basic.cl")),
    ("wide", include_str!("../kernels/wide.cl")),
    ("matrix", include_str!("../kernels/matrix.cl")),
];

/// Contiguous memory; readable, writable and executable.
pub struct Ram {
    pub base: u64,
    bytes: Mutex<Vec<u8>>,
}

impl Ram {
    pub fn new(base: u64, size: usize) -> Self {
        Ram {
            base,
            bytes: Mutex::new(vec![0; size]),
        }
    }

    fn at(&self, va: u64, len: usize, total: usize) -> Result<usize, Fault> {
        let start = va.wrapping_sub(self.base);
        if start < total as u64 && start + len as u64 <= total as u64 {
            return Ok(start as usize);
        }
        let first = if start < total as u64 {
            self.base + total as u64
        } else {
            va
        };
        Err(Fault {
            va: first,
            kind: FaultKind::NotPresent,
            retry: false,
        })
    }

    pub fn put(&self, va: u64, data: &[u8]) {
        self.write(va, data).expect("test data in memory");
    }

    pub fn put_u32(&self, va: u64, words: &[u32]) {
        for (n, word) in words.iter().enumerate() {
            self.put(va + 4 * n as u64, &word.to_le_bytes());
        }
    }

    pub fn get_u32(&self, va: u64, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; count * 4];
        self.read(va, &mut bytes).expect("test data in memory");
        bytes
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    pub fn get_u64(&self, va: u64, count: usize) -> Vec<u64> {
        let words = self.get_u32(va, 2 * count);
        words
            .chunks_exact(2)
            .map(|w| u64::from(w[0]) | u64::from(w[1]) << 32)
            .collect()
    }
}

impl Memory for Ram {
    fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        let bytes = self.bytes.lock().unwrap();
        let at = self.at(va, buf.len(), bytes.len())?;
        buf.copy_from_slice(&bytes[at..at + buf.len()]);
        Ok(())
    }

    fn write(&self, va: u64, data: &[u8]) -> Result<(), Fault> {
        let mut bytes = self.bytes.lock().unwrap();
        let at = self.at(va, data.len(), bytes.len())?;
        bytes[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn fetch(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.read(va, buf)
    }

    fn atomic(&self, va: u64, size: u8, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        let mut bytes = self.bytes.lock().unwrap();
        let size = usize::from(size);
        let at = self.at(va, size, bytes.len())?;
        let mut cell = [0; 8];
        cell[..size].copy_from_slice(&bytes[at..at + size]);
        let old = u64::from_le_bytes(cell);
        bytes[at..at + size].copy_from_slice(&f(old).to_le_bytes()[..size]);
        Ok(old)
    }
}

/// Host that records messages and counts time.
#[derive(Default)]
pub struct Recorder {
    pub messages: Mutex<Vec<Message>>,
    ticks: AtomicU64,
    /// Number of polls before it requests an interruption; 0 for never.
    pub patience: AtomicU64,
    /// How waves start.
    pub start: WaveStart,
    /// Results of memory instructions come late, with this seed.
    pub late: Option<u64>,
}

impl Recorder {
    /// Returns a host whose waves start in this way.
    pub fn started(start: WaveStart) -> Self {
        Recorder {
            start,
            ..Recorder::default()
        }
    }

    /// Returns a host on which results of memory instructions come late, with this seed.
    pub fn late(seed: Option<u64>) -> Self {
        Recorder {
            late: seed,
            ..Recorder::default()
        }
    }
}

impl Host for Recorder {
    fn message(&self, message: &Message) -> bool {
        self.messages.lock().unwrap().push(*message);
        true
    }

    fn wave_start(&self) -> WaveStart {
        self.start
    }

    fn late(&self) -> Option<u64> {
        self.late
    }

    fn realtime(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn shader_clock(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed) * 20
    }

    fn poll(&self) -> bool {
        let left = self.patience.load(Ordering::Relaxed);
        if left > 0 {
            self.patience.store(left - 1, Ordering::Relaxed);
        }
        left == 1
    }
}

/// Memory layout of a launch.
pub mod place {
    pub const BASE: u64 = 0x7000_0000_0000;
    pub const CODE: u64 = BASE;
    pub const KERNARG: u64 = BASE + 0x10_0000;
    pub const PACKET: u64 = BASE + 0x11_0000;
    pub const QUEUE: u64 = BASE + 0x12_0000;
    pub const SCRATCH: u64 = BASE + 0x20_0000;
    pub const SCRATCH_BYTES: u64 = 0x40_0000;
    pub const DATA: u64 = BASE + 0x80_0000;
    pub const SIZE: usize = 0x400_0000;
}

/// Loaded code object and its memory.
pub struct Machine {
    pub ram: Ram,
    pub host: Recorder,
    pub isa: Isa,
    object: elf::Object,
}

impl Machine {
    /// Compiles a kernel source for gfx942 and loads it.
    pub fn compile(name: &str, source: &str, flags: &[&str]) -> Self {
        Self::compile_for(Target::Gfx942, name, source, flags)
    }

    /// Compiles a kernel source for a target and loads it.
    pub fn compile_for(target: Target, name: &str, source: &str, flags: &[&str]) -> Self {
        let image = llvm::compile(target, name, source, flags);
        Machine {
            isa: target.isa(),
            ..Self::load(&image)
        }
    }

    /// Loads a gfx942 code object as a runtime does: segments at their addresses plus a base.
    pub fn load(image: &[u8]) -> Self {
        let ram = Ram::new(place::BASE, place::SIZE);
        let object = elf::Object::load(image, place::CODE, &ram);
        Machine {
            ram,
            host: Recorder::default(),
            isa: Isa::Gfx942,
            object,
        }
    }

    /// Returns the dispatch of kernel `name`, set up as by a command processor.
    pub fn dispatch(
        &self,
        name: &str,
        grid: [u32; 3],
        workgroup: [u16; 3],
        kernarg: &[u8],
        dynamic_lds: u32,
    ) -> Dispatch {
        let kernel_object = self.object.symbol(&format!("{name}.kd"));
        let mut bytes = [0; KernelDescriptor::SIZE];
        self.ram.read(kernel_object, &mut bytes).unwrap();
        let kd = KernelDescriptor::parse(&bytes).expect("valid descriptor from clang");
        self.ram.put(place::KERNARG, kernarg);
        let mut private = kd.private_segment_fixed_size;
        if kd.uses_dynamic_stack() {
            private = private.max(2048);
        }
        let stride = kd.scratch_wave_bytes(self.isa, private);
        let slots = place::SCRATCH_BYTES.checked_div(stride).unwrap_or(0);
        // The AQL packet, for kernels that read it.
        self.ram.put(place::PACKET + 4, &workgroup[0].to_le_bytes());
        self.ram.put(place::PACKET + 6, &workgroup[1].to_le_bytes());
        self.ram.put(place::PACKET + 8, &workgroup[2].to_le_bytes());
        self.ram.put_u32(place::PACKET + 12, &grid);
        let launch = Launch {
            isa: self.isa,
            kernel_object,
            grid,
            workgroup,
            group_segment_size: kd.group_segment_fixed_size + dynamic_lds,
            private_segment_size: private,
            kernarg: place::KERNARG,
            packet: place::PACKET,
            queue: place::QUEUE,
            dispatch_id: 7,
            scratch: Scratch {
                base: place::SCRATCH,
                wave_stride: stride,
                slots,
            },
            ..Launch::default()
        };
        launch.dispatch(&kd, &self.ram).expect("valid launch")
    }

    /// Runs a grid.
    pub fn run(&self, d: &Dispatch) -> Result<(), Stop> {
        let [nx, ny, nz] = d.workgroups();
        for z in 0..nz {
            for y in 0..ny {
                for x in 0..nx {
                    gpu_wave::run_workgroup(&self.ram, &self.host, d, [x, y, z])?;
                }
            }
        }
        Ok(())
    }

    /// Launches a kernel; panics if it stops early.
    pub fn launch(&self, name: &str, grid: [u32; 3], workgroup: [u16; 3], kernarg: &Args) {
        let d = self.dispatch(name, grid, workgroup, &kernarg.bytes, 0);
        if let Err(stop) = self.run(&d) {
            panic!("{name}: {stop}");
        }
    }
}

/// Kernel arguments, each at its natural alignment.
#[derive(Default)]
pub struct Args {
    pub bytes: Vec<u8>,
}

impl Args {
    pub fn new() -> Self {
        Args::default()
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(bytes.len()), 0);
        self.bytes.extend(bytes);
        self
    }

    pub fn u32(self, v: u32) -> Self {
        self.put(&v.to_le_bytes())
    }

    pub fn f32(self, v: f32) -> Self {
        self.put(&v.to_le_bytes())
    }

    pub fn u64(self, v: u64) -> Self {
        self.put(&v.to_le_bytes())
    }
}

/// Deterministic random number generator.
pub struct Rng(pub u64);

impl Rng {
    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(random::STEP);
        random::number(self.0)
    }

    pub fn u32(&mut self) -> u32 {
        (self.u64() >> 32) as u32
    }

    /// Returns a float with a moderate exponent.
    pub fn f32(&mut self) -> f32 {
        let bits = self.u32();
        f32::from_bits(bits & 0x807f_ffff | (96 + (bits >> 23 & 0x3f)) << 23)
    }
}

/// Returns a dispatch of one full wave of the code at [`place::CODE`], with a few registers and
/// some LDS. s\[0:1\] is [`place::DATA`].
pub fn one_wave() -> Dispatch {
    Dispatch {
        grid: [64, 1, 1],
        workgroup: [64, 1, 1],
        entry: place::CODE,
        rsrc1: 2 | 2 << 6,
        rsrc3: 5,
        rsrc2: 2 << 1,
        user_sgprs: vec![place::DATA as u32, (place::DATA >> 32) as u32],
        lds_bytes: 512,
        ..Dispatch::default()
    }
}
